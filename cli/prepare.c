// SPDX-License-Identifier: Apache-2.0
// berth prepare: makes data for pre-training.
#include "cli.h"
#include "core/file.h"
#include "core/json_line.h"
#include "core/number.h"
#include "core/terminal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct option_row options[] = {
    {CLI_TEXT("wikipedia", NULL), .unit = "FILE",
     .help =
         "Wikipedia dump: pages-articles.xml, plain or compressed with bzip2 (also multistream)"},
    {CLI_TEXT("extracted", NULL), .unit = "DIR",
     .help = "folder with the text of a dump, as written by WikiExtractor or the stage text"},
    {CLI_LIST("text"), .unit = "FILE...",
     .help = "text files, or folders of them; an empty line ends an article"},
    {CLI_TEXT("books", NULL), .unit = "DIR", .help = "folder with one file per book"},
    {CLI_INTEGER("file_size", "104857600"), BETWEEN(1, 1e12), .unit = "BYTES",
     .help = "stage text: maximum size of a file in bytes"},
    {CLI_TEXT("name", NULL), .unit = "NAME", .shown = "determined by the input",
     .help = "name of the data in the names of folders and files"},
    {CLI_TEXT("input_file", NULL), .unit = "FILE",
     .help = "text with one sentence per line and an empty line after each document; files, "
             "folders of files *.txt and patterns, separated by commas"},
    {CLI_TEXT("output_file", NULL), .unit = "FILE",
     .help = "file for the instances made from --input_file, or several files, separated by "
             "commas, among which they are distributed; existing files "
             "are replaced; a name *.tfrecord means TFRecord, otherwise --format decides. Without "
             "--input_file: file for the articles of --extracted, --books and --text, one on each "
             "line"},
    {CLI_FLAG("cased"), .help = "the same as --do_lower_case false"},
    {CLI_FLAG("json"), .help = "print the counts as one JSON object"},
};

// --- counts --------------------------------------------------------------------------------------

static void put_counts(struct json_line *line, const struct berth_prepare_result *result) {
    const struct {
        const char *name;
        int64_t value;
    } counts[] = {{"pages", result->pages},
                  {"articles", result->articles},
                  {"redirects", result->redirects},
                  {"other_namespaces", result->other_namespaces},
                  {"empty", result->empty},
                  {"oversize", result->oversize},
                  {"damaged", result->damaged},
                  {"xml_bytes", result->xml_bytes},
                  {"text_bytes", result->text_bytes},
                  {"files", result->files},
                  {"sentences_left_out", result->sentences_left_out},
                  {"training_shards", result->training_shards},
                  {"test_shards", result->test_shards},
                  {"shard_articles", result->shard_articles},
                  {"sentences", result->sentences},
                  {"shard_bytes", result->shard_bytes},
                  {"instances", result->instances},
                  {"tokens", result->tokens},
                  {"predictions", result->predictions},
                  {"masked", result->masked},
                  {"kept", result->kept},
                  {"replaced", result->replaced},
                  {"random_next", result->random_next},
                  {"empty_shards", result->empty_shards}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        json_line_integer(line, counts[i].name, counts[i].value);
    }
}

static enum berth_status print_json(const struct berth_prepare_result *result,
                                    struct berth_error *error) {
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    put_counts(&line, result);
    json_line_real(&line, "fill", result->fill);
    json_line_open(&line, "lengths", '[');
    for (size_t i = 0; i < sizeof result->lengths / sizeof *result->lengths; i++) {
        json_line_integer(&line, NULL, result->lengths[i]);
    }
    json_line_close(&line, ']');
    if (result->pack.rows > 0) {
        cli_put_pack(&line, "pack", &result->pack);
    }
    json_line_open(&line, "stages", '{');
    for (int i = 0; i < BERTH_PREPARE_STAGES; i++) {
        const struct berth_prepare_stage *stage = &result->stages[i];
        if (stage->name != NULL) {
            json_line_open(&line, stage->name, '{');
            json_line_integer(&line, "bytes", stage->bytes);
            json_line_real(&line, "seconds", stage->seconds);
            json_line_close(&line, '}');
        }
    }
    json_line_close(&line, '}');
    json_line_integer(&line, "threads", result->threads);
    json_line_close(&line, '}');
    enum berth_status status = cli_put_json(&line, error);
    json_line_done(&line);
    return status;
}

static void print_pages(const struct berth_prepare_result *result) {
    printf("%" PRId64 " page%s: %" PRId64 " article%s, %" PRId64 " redirect%s, %" PRId64
           " of other namespaces, %" PRId64 " without text, %" PRId64 " too long, %" PRId64
           " damaged\n",
           result->pages, number_plural(result->pages), result->articles,
           number_plural(result->articles), result->redirects, number_plural(result->redirects),
           result->other_namespaces, result->empty, result->oversize, result->damaged);
    printf("%" PRId64 " bytes of XML, %" PRId64 " bytes of text in %" PRId64 " file%s\n",
           result->xml_bytes, result->text_bytes, result->files, number_plural(result->files));
    printf("%d sentence%s left out because of unknown templates\n", result->sentences_left_out,
           number_plural(result->sentences_left_out));
}

static void print_instances(const struct berth_prepare_result *result) {
    printf("%" PRId64 " instance%s, rows %.1f %% full, %.1f %% with a random second segment\n",
           result->instances, number_plural(result->instances), 100 * result->fill,
           number_percent(result->random_next, result->instances));
    printf("lengths, from the shortest eighth to the longest:");
    for (size_t i = 0; i < sizeof result->lengths / sizeof *result->lengths; i++) {
        printf(" %.1f", number_percent(result->lengths[i], result->instances));
    }
    puts(" %");
    printf("%" PRId64 " predictions: %.1f %% masked, %.1f %% kept, %.1f %% replaced\n",
           result->predictions, number_percent(result->masked, result->predictions),
           number_percent(result->kept, result->predictions),
           number_percent(result->replaced, result->predictions));
}

// --- speed ---------------------------------------------------------------------------------------

#define WHOLE_XML 100e9 // bytes, about, of the English Wikipedia
#define OTHER_THREADS 32

// MB per second and core; of XML if the stage's text comes from a dump; NaN: unknown.
static double rate(const struct berth_prepare_result *result, int i) {
    const struct berth_prepare_stage *stage = &result->stages[i];
    double xml_to_text = i > 0 && result->text_bytes > 0
                             ? (double)result->xml_bytes / (double)result->text_bytes
                             : 1.0;
    return stage->bytes > 0 && stage->seconds > 0
               ? (double)stage->bytes * xml_to_text / 1e6 / stage->seconds / result->threads
               : NAN;
}

static void put_hours(char *text, size_t size, double seconds) {
    snprintf(text, size, "%d:%02d h", (int)(seconds / 3600), (int)(seconds / 60) % 60);
}

static void print_rates(const struct berth_prepare_result *result) {
    double seconds_a_mb = 0;
    for (int i = 0; i < BERTH_PREPARE_STAGES - 1; i++) {
        double now = rate(result, i);
        seconds_a_mb += 1 / now;
        if (now == now) {
            printf("stage %s: %.1f s, %.1f MB of %s per second and core\n", result->stages[i].name,
                   result->stages[i].seconds, now, result->xml_bytes > 0 ? "XML" : "text");
        }
    }
    if (result->xml_bytes > 0 && seconds_a_mb == seconds_a_mb) {
        char here[32], there[32];
        double core_seconds = seconds_a_mb * WHOLE_XML / 1e6;
        put_hours(here, sizeof here, core_seconds / result->threads);
        put_hours(there, sizeof there, core_seconds / OTHER_THREADS);
        printf("together %.1f MB of XML per second and core: 100 GB, the size of the English "
               "Wikipedia, take %s on %d core%s, %s on %d\n",
               1 / seconds_a_mb, here, result->threads, number_plural(result->threads), there,
               OTHER_THREADS);
    }
}

static enum berth_status print(const struct cli_call *call,
                               const struct berth_prepare_result *result,
                               struct berth_error *error) {
    if (cli_flag(call, "json")) {
        return print_json(result, error);
    }
    if (result->pages > 0) {
        print_pages(result);
    } else if (result->articles > 0) {
        printf("%" PRId64 " article%s, %" PRId64 " bytes of text\n", result->articles,
               number_plural(result->articles), result->text_bytes);
    }
    if (result->shard_articles > 0) {
        printf("%" PRId64 " article%s, %" PRId64 " sentence%s in %" PRId64
               " shard%s for training and %" PRId64 " for testing\n",
               result->shard_articles, number_plural(result->shard_articles), result->sentences,
               number_plural(result->sentences), result->training_shards,
               number_plural(result->training_shards), result->test_shards);
    }
    if (result->instances > 0) {
        print_instances(result);
    }
    if (result->pack.rows > 0) {
        cli_print_pack(&result->pack);
    }
    print_rates(result);
    return BERTH_OK;
}

// The stage text reads only a dump; the others also name their files after the input.
static void note_unused(const struct cli_call *call) {
    const char *stages = call->config.stages;
    const struct {
        const char *name;
        int is_given;
    } inputs[] = {{"extracted", cli_is_given(call, "extracted")},
                  {"books", cli_is_given(call, "books")},
                  {"text", call->list_count > 0}};
    const int is_only_text = stages != NULL && strcmp(stages, "text") == 0 && !call->config.pack;
    for (size_t i = 0; is_only_text && i < sizeof inputs / sizeof *inputs; i++) {
        if (inputs[i].is_given) {
            cli_note(call, "--%s has no effect with --stages text, which reads only a dump",
                     inputs[i].name);
        }
    }
}

// --output_file gets the instances of --input_file, or else the articles of the other inputs; no
// stage runs.
static enum berth_status settle(struct cli_call *call, struct berth_error *error) {
    static const char *const others[] = {"wikipedia", "extracted", "text", "books", "name"};
    static const char *const unused[] = {"output_dir", "stages",      "pack",
                                         "shards",     "test_shards", "fraction_test_set",
                                         "file_size",  "name"};
    const int has_articles = cli_is_given(call, "wikipedia") || cli_is_given(call, "extracted") ||
                             cli_is_given(call, "books") || call->list_count > 0;
    if (cli_is_given(call, "input_file") ? !cli_is_given(call, "output_file")
                                         : cli_is_given(call, "output_file") && !has_articles) {
        return error_set(error, BERTH_USAGE,
                         "--input_file needs --output_file, and --output_file needs --input_file, "
                         "or articles: --extracted, --books or --text");
    }
    for (size_t i = 0; cli_is_given(call, "input_file") && i < sizeof others / sizeof *others;
         i++) {
        if (cli_is_given(call, others[i])) {
            return error_set(error, BERTH_USAGE,
                             "option %s: output_file gets the instances of input_file and of no "
                             "other input; leave one of the two out",
                             others[i]);
        }
    }
    if (cli_is_given(call, "output_file") && cli_is_given(call, "wikipedia")) {
        return error_set(error, BERTH_USAGE,
                         "option wikipedia: output_file gets articles that are text already; run "
                         "the stage text first, and name its folder as --extracted");
    }
    for (size_t i = 0; cli_is_given(call, "output_file") && i < sizeof unused / sizeof *unused;
         i++) {
        if (cli_is_given(call, unused[i])) {
            cli_note(call, "--%s has no effect together with --output_file", unused[i]);
        }
    }
    return cli_is_given(call, "output_file") // the verb needs a folder
               ? cli_set_default(call, "output_dir", ".", error)
               : BERTH_OK;
}

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    struct berth_prepare_input input = {.wikipedia = cli_value(call, "wikipedia"),
                                        .extracted = cli_value(call, "extracted"),
                                        .books = cli_value(call, "books"),
                                        .texts = call->list,
                                        .text_count = call->list_count,
                                        .sentences = cli_value(call, "input_file"),
                                        .output_file = cli_value(call, "output_file"),
                                        .name = cli_value(call, "name"),
                                        .file_size = cli_integer(call, "file_size")};
    struct berth_reporter *reporter;
    struct berth_prepare_result result;
    note_unused(call);
    if (cli_is_given(call, "file_size") && input.wikipedia == NULL) {
        cli_note(call, "--file_size has no effect without a dump: it is for the stage text, which "
                       "reads nothing else");
    }
    call->config.no_progress |= !terminal_is(STDERR_FILENO);
    TRY(cli_apply_cased(call, error));
    file_limit_raise(); // for shards that are written at the same time
    TRY(berth_reporter_open(&call->config, STDERR_FILENO, &reporter, error));
    enum berth_status status =
        berth_prepare(&call->config, &input, berth_reporter_log(reporter),
                      cli_stop_on_signals("finished files are kept"), &result, error);
    berth_reporter_close(reporter);
    return status == BERTH_OK && cli_reports() ? print(call, &result, error) : status;
}

const struct cli_verb cli_prepare = {
    .name = "prepare",
    .summary = "make pre-training data from a Wikipedia dump or other text",
    .usage = "--wikipedia DUMP.xml[.bz2] | --extracted DIR | --text FILE... | --books DIR "
             "--vocab FILE --output DIR [--max_seq_length 128 --max_predictions_per_seq 20]\n"
             "--input_file FILE --output_file FILE --vocab FILE\n"
             "--extracted DIR | --text FILE... | --books DIR --output_file FILE",
    .example = "berth prepare --wikipedia enwiki-latest-pages-articles.xml.bz2 --vocab vocab.txt "
               "--output data",
    .notes =
        "Stage text: articles of the main namespace as WikiExtractor writes them, "
        "extracted/wikicorpus_en/AA/wiki_00 and so on. Stage shards: text files with one sentence "
        "per line, sharded_.../NAME_training_0.txt and NAME_test_0.txt. Stage hdf5: instances of "
        "pairs of sentences with masked words, one file per shard, hdf5_.../NAME_training_0.hdf5. "
        "Stage pack: rows of up to three instances, as `berth pack` makes them. Files appear "
        "complete or not at all. A run that was stopped or killed continues after the files that "
        "it finished; other settings for the same folder are refused. The same input and settings "
        "give the same bytes, whatever the number of threads and processes.",
    .jobs = JOB_PREPARE,
    CLI_OWN_OPTIONS(options),
    .required = "output_dir",
    .settle = settle,
    .processes = CLI_DIVIDED,
    .run = run,
};
