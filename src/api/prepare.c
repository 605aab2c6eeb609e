// SPDX-License-Identifier: Apache-2.0
// The jobs prepare and pack, data for pre-training (doc/pretraining-data.md): which stages run, on
// which input, and where their files are. Each stage (data/stages) reads the output of the one
// before and resumes by itself. The same input and settings give the same bytes, whatever the
// number of threads and processes.
#include "api/job.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json_line.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/utf8.h"
#include "data/corpus/article_lines.h"
#include "data/stages/instance_stage.h"
#include "data/stages/pack_stage.h"
#include "data/stages/shard_stage.h"
#include "data/stages/stage_work.h"
#include "data/wikipedia/wikipedia_state.h"
#include "format/checksum/digest.h"
#include "settings/settings.h"
#include "train/engine/inputs.h"
#include "train/machine/machine.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define TEXT_NAME "wikicorpus_en"
#define TEXT_FOLDER "extracted/" TEXT_NAME

enum { TEXT, SHARDS, INSTANCES, PACK, STAGES };
enum { LENGTHS = 8 }; // eighths of max_seq_length

// A stage and its cost.
struct done_stage {
    const char *name; // NULL: not requested
    double seconds;
    int64_t bytes; // read in this run: of XML, text, text, and ids; 0: the stage was already
                   // complete, or an earlier run had started the dump's text
};

// The sources of articles, which together form one corpus in this order, and what is made of them.
struct input {
    const char *wikipedia, *extracted, *books;
    const char *const *texts; // [text_count]
    size_t text_count;
    int64_t file_size;
    const char *name, *sentences, *output_file;
};

struct preparing {
    struct settings *config;
    struct input input;
    const struct berth_log *log;
    const atomic_int *stop;
    struct comm *comm;
    int wanted[STAGES];
    int threads, all_threads; // all_threads: of all ranks
    const char *name;         // name of the corpus
    struct path text, shards, instances, packs;
    struct tokenizer *tokenizer;
    // What the stages did; 0 and empty without them.
    struct done_stage stages[STAGES];
    struct wikipedia_counts pages;
    struct shard_stage sharded;
    struct pretraining_statistics *made;
    int64_t empty_shards; // yielded no instance and no file
    struct pack_stage packed;
};

// --- settings -----------------------------------------------------------------------------------

static const char *const stage_names[STAGES] = {"text", "shards", "hdf5", "pack"};

static enum berth_status select_stage(struct preparing *own, const char *name, size_t length,
                                      struct berth_error *error) {
    for (int i = 0; i < STAGES; i++) {
        if (strlen(stage_names[i]) == length && memcmp(stage_names[i], name, length) == 0) {
            own->wanted[i] = 1;
            return BERTH_OK;
        }
    }
    return error_set(
        error, BERTH_USAGE,
        "stages: expected text, shards, hdf5 or pack, separated by commas, found \"%.*s\"",
        (int)(length < 80 ? length : 80), name);
}

static enum berth_status find_stages(struct preparing *own, struct berth_error *error) {
    const char *at =
        own->config->features.stages != NULL ? own->config->features.stages : "text,shards,hdf5";
    for (;;) {
        size_t length = strcspn(at, ",");
        TRY(select_stage(own, at, length, error));
        if (at[length] == '\0') {
            break;
        }
        at += length + 1;
    }
    own->wanted[PACK] |= own->config->features.pack;
    if (own->wanted[PACK] && strcmp(own->config->features.format, "hdf5") != 0) {
        return error_set(error, BERTH_USAGE, "stages: pack reads and writes hdf5, but format is %s",
                         own->config->features.format);
    }
    return BERTH_OK;
}

static enum berth_status check_input(struct preparing *own, struct berth_error *error) {
    const struct input *input = &own->input;
    int wiki = input->wikipedia != NULL || input->extracted != NULL, books = input->books != NULL;
    const int is_later = input->name != NULL && !own->wanted[TEXT] && !own->wanted[SHARDS];
    if (!wiki && !books && input->text_count == 0 && !is_later) {
        return error_set(error, BERTH_USAGE,
                         "no input: give wikipedia (a dump), extracted (a folder written by "
                         "WikiExtractor), books (a folder) or text (files)");
    }
    if (input->wikipedia != NULL && input->extracted != NULL) {
        return error_set(
            error, BERTH_USAGE,
            "wikipedia and extracted both provide the articles of a dump; give only one");
    }
    if (own->config->run.output_dir == NULL) {
        return error_set(error, BERTH_USAGE, "output_dir is missing");
    }
    if (input->name != NULL && (*input->name == '\0' || strchr(input->name, '/') != NULL)) {
        return error_set(error, BERTH_USAGE,
                         "name: expected the beginning of files' names, without /, found \"%.*s\"",
                         UTF8_SHOWN(input->name, 80));
    }
    own->name = input->name != NULL     ? input->name
                : input->text_count > 0 ? "corpus"
                : wiki && books         ? "books_wiki_en_corpus"
                : wiki                  ? TEXT_NAME
                                        : "bookscorpus";
    return BERTH_OK;
}

static enum berth_status set_defaults(struct preparing *own, struct berth_error *error) {
    struct settings *config = own->config;
    settings_apply_defaults(config, JOB_PREPARE);
    config->features.test_shards =
        config->features.test_shards < 0 ? config->features.shards : config->features.test_shards;
    own->threads = machine_threads(&config->machine);
    return machine_start_threads(own->threads, error);
}

// --- folders ------------------------------------------------------------------------------------

static struct path make_path(const struct preparing *own, const char *first, const char *second) {
    return path_in(path_in(own->config->run.output_dir, first).text, second);
}

// --- text ---------------------------------------------------------------------------------------

static enum berth_status make_text(struct preparing *own, struct done_stage *done,
                                   struct berth_error *error) {
    const struct wikipedia_settings settings = {.dump = own->input.wikipedia,
                                                .folder = own->text.text,
                                                .file_size = (uint64_t)own->input.file_size,
                                                .threads = own->threads,
                                                .comm = own->comm};
    if (own->input.wikipedia == NULL) {
        done->name = NULL; // the articles are already text
        return BERTH_OK;
    }
    // A text that was begun: then this run reads only a part.
    const int was_begun = file_exists(path_in(own->text.text, TEXT_MANIFEST).text);
    TRY(wikipedia_text(&settings, own->log, own->stop, &own->pages, error));
    done->bytes = was_begun ? 0 : own->pages.xml_bytes;
    return BERTH_OK;
}

// --- shards -------------------------------------------------------------------------------------

// Refuses what an earlier stage has not completed, or what has lost a file since.
static enum berth_status check_complete(const char *folder, const char *manifest, int is_ours,
                                        const char *remedy, struct berth_error *error) {
    const struct path path = path_in(folder, manifest);
    json *state = NULL;
    // What has no manifest was written by another program.
    TRY(is_ours || file_exists(path.text) ? manifest_read_complete(path.text, remedy, &state, error)
                                          : BERTH_OK);
    json_free(state);
    return BERTH_OK;
}

// Accepts the folder that the stage text writes, or its parent.
static enum berth_status check_extracted(const struct preparing *own, const char *folder,
                                         struct berth_error *error) {
    static const char remedy[] = "run the stage \"text\" first, until it is complete";
    TRY(check_complete(folder, TEXT_MANIFEST, own->input.wikipedia != NULL, remedy, error));
    return check_complete(path_in(folder, TEXT_NAME).text, TEXT_MANIFEST, 0, remedy, error);
}

// Which sources of articles are given, in the order of their articles. With a dump, the stage text
// has made `extracted` of it.
static size_t list_sources(const struct input *input, const char *const *extracted,
                           struct corpus_source sources[CORPUS_SOURCES_MAX]) {
    size_t count = 0;
    if (*extracted != NULL) {
        sources[count++] = (struct corpus_source){CORPUS_EXTRACTED, extracted, 1};
    }
    if (input->books != NULL) {
        sources[count++] = (struct corpus_source){CORPUS_BOOKS, &input->books, 1};
    }
    if (input->text_count > 0) {
        sources[count++] = (struct corpus_source){CORPUS_TEXT, input->texts, input->text_count};
    }
    return count;
}

static enum berth_status make_shards(struct preparing *own, struct done_stage *done,
                                     struct berth_error *error) {
    const struct settings *config = own->config;
    const struct input *input = &own->input;
    const char *extracted = input->wikipedia != NULL ? own->text.text : input->extracted;
    struct shard_stage *stage = &own->sharded;
    *stage = (struct shard_stage){.folder = own->shards.text,
                                  .name = own->name,
                                  .plan = {.training = (uint32_t)config->features.shards,
                                           .test = (uint32_t)config->features.test_shards,
                                           .test_fraction = config->features.fraction_test_set,
                                           .seed = (uint64_t)config->run.seed},
                                  .training_is_named = settings_is_given(config, "shards"),
                                  .test_is_named = settings_is_given(config, "test_shards"),
                                  .threads = own->threads,
                                  .comm = own->comm};
    TRY(stage_settle_input(
        own->comm, extracted != NULL ? check_extracted(own, extracted, error) : BERTH_OK, error));
    stage->source_count = list_sources(input, &extracted, stage->sources);
    TRY(shard_stage_run(stage, own->log, own->stop, error));
    done->bytes = stage->written_bytes;
    return BERTH_OK;
}

// --- instances ----------------------------------------------------------------------------------

static enum berth_status describe_tokenizer(const struct preparing *own,
                                            struct manifest_settings *settings,
                                            struct berth_error *error) {
    const struct tokenizer_options *rules = tokenizer_rules_of(own->tokenizer);
    char digest[DIGEST_HEX_SIZE];
    TRY(inputs_digest_vocabulary(own->tokenizer, digest, error));
    manifest_set_text(settings, SHARD_VOCABULARY, digest);
    manifest_set_text(settings, "tokenizer",
                      rules->rules == TOKENIZER_GOOGLE ? "google" : "huggingface");
    manifest_set_text(settings, "do_lower_case", rules->lower_case ? "true" : "false");
    if (rules->accents != TOKENIZER_ACCENTS_AUTO) {
        manifest_set_text(settings, "strip_accents",
                          rules->accents == TOKENIZER_ACCENTS_STRIP ? "true" : "false");
    }
    if (rules->whole_ideographs) {
        manifest_set_text(settings, "tokenize_chinese_chars", "false");
    }
    manifest_set_text(settings, "split_special", rules->split_special ? "true" : "false");
    manifest_set_integer(settings, "max_word_length", (uint64_t)rules->max_word_length);
    return BERTH_OK;
}

static struct instance_stage instance_stage_of(const struct preparing *own) {
    const struct settings *config = own->config;
    return (struct instance_stage){
        .shards = own->shards.text,
        .folder = own->instances.text,
        .tokenizer = own->tokenizer,
        .options = {.max_length = (int)config->features.max_seq_length,
                    .max_predictions = (int)config->features.max_predictions_per_seq,
                    .dupe_factor = (int)config->features.dupe_factor,
                    .masked_lm_prob = config->features.masked_lm_prob,
                    .short_seq_prob = config->features.short_seq_prob,
                    .seed = (uint64_t)config->run.seed,
                    .python = strcmp(config->features.rng, "python") == 0,
                    .whole_word = config->features.whole_word_mask,
                    .stop = own->stop},
        .statistics = own->made,
        .tfrecord = strcmp(config->features.format, "tfrecord") == 0,
        .follows_name = !settings_is_given(config, "format"),
        .threads = own->threads,
        .comm = own->comm};
}

static enum berth_status make_instances(struct preparing *own, struct done_stage *done,
                                        struct berth_error *error) {
    struct instance_stage stage = instance_stage_of(own);
    TRY(comm_settle(own->comm, describe_tokenizer(own, &stage.settings, error), error));
    TRY(instance_stage_run(&stage, own->log, own->stop, error));
    own->empty_shards = stage.empty;
    done->bytes = stage.text_bytes;
    log_note(own->log, "instances: %s", own->instances.text);
    if (stage.empty > 0) {
        log_warning(own->log, "shards without instances, for which no file was written: %lld",
                    (long long)stage.empty);
    }
    instance_texts_warn(&stage.texts, stage.statistics, own->log);
    return BERTH_OK;
}

// --- packs --------------------------------------------------------------------------------------

static enum berth_status make_packs(struct preparing *own, struct done_stage *done,
                                    struct berth_error *error) {
    own->packed = (struct pack_stage){.input = own->instances.text,
                                      .folder = own->packs.text,
                                      .seed = (uint64_t)own->config->run.seed,
                                      .threads = own->threads,
                                      .comm = own->comm};
    TRY(stage_settle_input(own->comm,
                           check_complete(own->instances.text, INSTANCE_MANIFEST, 1,
                                          "run the stage \"hdf5\" first, until it is complete",
                                          error),
                           error));
    TRY(pack_stage_run(&own->packed, own->log, own->stop, error));
    done->bytes = (int64_t)(own->packed.packing.tokens * sizeof(int32_t));
    return BERTH_OK;
}

// --- all ----------------------------------------------------------------------------------------

static enum berth_status run_stages(struct preparing *own, struct berth_error *error) {
    static enum berth_status (*const runners[STAGES])(struct preparing *, struct done_stage *,
                                                      struct berth_error *) = {
        make_text, make_shards, make_instances, make_packs};
    for (int i = 0; i < STAGES; i++) {
        struct done_stage *done = &own->stages[i];
        if (!own->wanted[i]) {
            continue;
        }
        double begin = clock_now();
        done->name = stage_names[i];
        TRY(runners[i](own, done, error));
        done->seconds = clock_now() - begin;
    }
    return BERTH_OK;
}

static enum berth_status open_tokenizer(struct preparing *own, struct berth_error *error) {
    if (!own->wanted[INSTANCES] && !own->wanted[PACK]) {
        return BERTH_OK;
    }
    if (own->config->model.vocab_file == NULL) {
        return error_set(error, BERTH_USAGE, "missing option vocab_file: the stage hdf5 needs it");
    }
    TRY(inputs_find_tokenizer(&own->config->model, &own->tokenizer, error));
    inputs_warn_of_casing(own->tokenizer, own->config->model.vocab_file, own->log);
    return BERTH_OK;
}

static enum berth_status check_exists(const char *path, struct berth_error *error) {
    return path == NULL ? BERTH_OK : path_require(path, "a text, or a folder of texts", error);
}

// Refuses an output inside an input folder: every file of that folder is read as text.
static enum berth_status check_is_outside(const char *output, const char *input,
                                          struct berth_error *error) {
    if (output == NULL || input == NULL || !dir_exists(input)) {
        return BERTH_OK;
    }
    const size_t length = dir_existing(output);
    OWNED char *there = length > 0 ? memory_string_of(output, length) : memory_string(".");
    return there == NULL || !path_is_inside(there, input)
               ? BERTH_OK
               : error_set(error, BERTH_CANT_CREATE,
                           "the output %s is in the input folder %s, whose files are all read as "
                           "text; choose an output elsewhere",
                           output, input);
}

// Checks the input of later stages first, before hours of work in earlier ones.
static enum berth_status check_stages(const struct preparing *own, struct berth_error *error) {
    const struct input *input = &own->input;
    if (own->wanted[SHARDS]) {
        TRY(check_exists(input->extracted, error));
        TRY(check_exists(input->books, error));
        for (size_t i = 0; i < input->text_count; i++) {
            TRY(check_exists(input->texts[i], error));
        }
    }
    if (own->wanted[INSTANCES]) {
        const struct instance_stage stage = instance_stage_of(own);
        enum berth_status status = instance_stage_check(&stage, error);
        if (status != BERTH_OK) {
            return error_prefix(error, status, "%s", own->config->model.vocab_file);
        }
    }
    const struct instance_options options = instance_stage_of(own).options;
    const int packs_new_instances = own->wanted[PACK] && own->wanted[INSTANCES];
    return packs_new_instances ? pack_stage_check(&options, error) : BERTH_OK;
}

// What each rank does on its own before the stages.
static enum berth_status begin(struct preparing *own, struct berth_error *error) {
    TRY(find_stages(own, error));
    TRY(check_input(own, error));
    TRY(set_defaults(own, error));
    TRY(open_tokenizer(own, error));
    TRY(check_stages(own, error));
    const struct settings *config = own->config;
    char name[400];
    own->text = path_in(config->run.output_dir, TEXT_FOLDER);
    number_format(name, sizeof name, "sharded_training_shards_%lld_test_shards_%lld_fraction_%g",
                  (long long)config->features.shards, (long long)config->features.test_shards,
                  config->features.fraction_test_set);
    own->shards = make_path(own, name, own->name);
    if (own->tokenizer != NULL) {
        number_format(name, sizeof name,
                      "%s_lower_case_%d_seq_len_%lld_max_pred_%lld_masked_lm_prob_%g_random_seed_"
                      "%lld_dupe_factor_%lld",
                      config->features.format, tokenizer_rules_of(own->tokenizer)->lower_case,
                      (long long)config->features.max_seq_length,
                      (long long)config->features.max_predictions_per_seq,
                      config->features.masked_lm_prob, (long long)config->run.seed,
                      (long long)config->features.dupe_factor);
        own->instances = make_path(own, name, own->name);
        strcat(name, "_packed");
        own->packs = make_path(own, name, own->name);
    }
    const struct input *input = &own->input;
    const int has_instances = own->tokenizer != NULL;
    const char *const outputs[] = {input->wikipedia != NULL ? own->text.text : NULL,
                                   own->shards.text, has_instances ? own->instances.text : NULL,
                                   has_instances ? own->packs.text : NULL};
    for (size_t i = 0; own->wanted[SHARDS] && i < sizeof outputs / sizeof *outputs; i++) {
        TRY(check_is_outside(outputs[i], input->books, error));
        for (size_t j = 0; j < input->text_count; j++) {
            TRY(check_is_outside(outputs[i], input->texts[j], error));
        }
    }
    return BERTH_OK;
}

// Writes the articles to output_file, one on each line.
static enum berth_status write_articles(struct preparing *own, struct berth_error *error) {
    const struct input *input = &own->input;
    struct corpus_source sources[CORPUS_SOURCES_MAX];
    const size_t count = list_sources(input, &input->extracted, sources);
    struct article_lines lines;
    if (count == 0) {
        return error_set(error, BERTH_USAGE,
                         "output_file needs sentences, or articles: extracted, books or text");
    }
    enum berth_status status = article_lines_open(&lines, input->output_file, error);
    for (size_t i = 0; status == BERTH_OK && i < count; i++) {
        status = article_lines_add(&lines, sources[i].form, sources[i].paths, sources[i].count,
                                   own->stop, error);
    }
    if (status == BERTH_OK) {
        status = article_lines_commit(&lines, error);
    }
    article_lines_done(&lines);
    own->pages.articles = lines.articles;
    own->pages.text_bytes = lines.bytes;
    own->pages.files = status == BERTH_OK;
    return status;
}

// Does what create_pretraining_data does: makes files of instances from files of sentences.
static enum berth_status run_files(struct preparing *own, struct berth_error *error) {
    OWNED char **outputs = NULL;
    if (own->input.sentences == NULL) {
        return write_articles(own, error);
    }
    own->wanted[INSTANCES] = 1;
    TRY(set_defaults(own, error));
    TRY(open_tokenizer(own, error));
    TRY(check_stages(own, error));
    TRY(path_split(own->input.output_file, &outputs, error));
    // A file named twice would lose half of its instances.
    for (size_t i = 0; outputs[i] != NULL; i++) {
        TRY(file_check_output(outputs[i], own->config->model.vocab_file, error));
        for (size_t k = 0; k < i; k++) {
            if (path_is_same(outputs[k], outputs[i])) {
                return error_set(error, BERTH_USAGE, "output_file: %s is named twice", outputs[i]);
            }
        }
    }
    struct instance_stage stage = instance_stage_of(own);
    TRY(instance_stage_make_files(&stage, own->input.sentences, outputs, error));
    instance_texts_warn(&stage.texts, stage.statistics, own->log);
    return BERTH_OK;
}

static enum berth_status prepare_all(struct preparing *own, struct berth_error *error) {
    double threads;
    if (own->input.output_file != NULL) { // all instances at once, so the first rank alone
        return comm_settle(own->comm, own->comm->rank == 0 ? run_files(own, error) : BERTH_OK,
                           error);
    }
    TRY(comm_settle(own->comm, begin(own, error), error));
    threads = own->threads;
    own->comm->sum(own->comm, &threads, 1);
    own->all_threads = (int)threads;
    return run_stages(own, error);
}

// --- results -------------------------------------------------------------------------------------

static void put_packed(const struct job *job, const struct pack_stage *stage) {
    const struct packing *packing = &stage->packing;
    const int64_t sequences = (int64_t)packing->sequences, rows = (int64_t)packing->count;
    job_put_integer(job, "sequences", sequences);
    job_put_integer(job, "tokens", (int64_t)packing->tokens);
    job_put_integer(job, "rows", rows);
    job_put_integer(job, "files", stage->files);
    job_put_integer(job, "max_seq_length", packing->length);
    job_put_real(job, "efficiency", packing_efficiency(packing));
    job_put_real(job, "speed_up", packing_speed_up(packing));
    job_put_real(job, "speed_up_limit", packing_speed_up_limit(packing));
    job_say(job,
            "%" PRId64 " sequence%s in %" PRId64 " row%s of %d tokens in %" PRId64
            " file%s\nefficiency %.4f (at best 1), %.3f sequences a row (at best %.3f)\n",
            sequences, number_plural(sequences), rows, number_plural(rows), packing->length,
            stage->files, number_plural(stage->files), packing_efficiency(packing),
            packing_speed_up(packing), packing_speed_up_limit(packing));
}

static void put_pages(const struct job *job, const struct wikipedia_counts *pages) {
    job_put_integer(job, "pages", pages->pages);
    job_put_integer(job, "articles", pages->articles);
    job_put_integer(job, "redirects", pages->redirects);
    job_put_integer(job, "other_namespaces", pages->other_namespaces);
    job_put_integer(job, "empty", pages->empty);
    job_put_integer(job, "oversize", pages->oversize);
    job_put_integer(job, "damaged", pages->damaged);
    job_put_integer(job, "xml_bytes", pages->xml_bytes);
    job_put_integer(job, "text_bytes", pages->text_bytes);
    job_put_integer(job, "files", pages->files);
    job_put_integer(job, "sentences_left_out", pages->sentences_left_out);
    if (pages->pages > 0) {
        job_say(job,
                "%" PRId64 " page%s: %" PRId64 " article%s, %" PRId64 " redirect%s, %" PRId64
                " of other namespaces, %" PRId64 " without text, %" PRId64 " too long, %" PRId64
                " damaged\n%" PRId64 " bytes of XML, %" PRId64 " bytes of text in %" PRId64
                " file%s\n%" PRId64 " sentence%s left out because of unknown templates\n",
                pages->pages, number_plural(pages->pages), pages->articles,
                number_plural(pages->articles), pages->redirects, number_plural(pages->redirects),
                pages->other_namespaces, pages->empty, pages->oversize, pages->damaged,
                pages->xml_bytes, pages->text_bytes, pages->files, number_plural(pages->files),
                pages->sentences_left_out, number_plural(pages->sentences_left_out));
    } else if (pages->articles > 0) {
        job_say(job, "%" PRId64 " article%s, %" PRId64 " bytes of text\n", pages->articles,
                number_plural(pages->articles), pages->text_bytes);
    }
}

static void put_shards(const struct job *job, const struct shard_stage *stage) {
    job_put_integer(job, "training_shards", stage->training);
    job_put_integer(job, "test_shards", stage->test);
    job_put_integer(job, "shard_articles", stage->articles);
    job_put_integer(job, "sentences", stage->sentences);
    job_put_integer(job, "shard_bytes", stage->text_bytes);
    if (stage->articles > 0) {
        job_say(job,
                "%" PRId64 " article%s, %" PRId64
                " sentence%s in %u shard%s for training and %u for testing\n",
                stage->articles, number_plural(stage->articles), stage->sentences,
                number_plural(stage->sentences), stage->training, number_plural(stage->training),
                stage->test);
    }
}

static void put_instances(const struct job *job, const struct preparing *own) {
    const struct pretraining_statistics *made = own->made;
    const int64_t longest = own->config->features.max_seq_length;
    int64_t lengths[LENGTHS] = {0};
    const double fill = made->instances > 0
                            ? (double)made->tokens / ((double)made->instances * (double)longest)
                            : 0;
    job_put_integer(job, "instances", made->instances);
    job_put_integer(job, "tokens", made->tokens);
    job_put_integer(job, "predictions", made->predictions);
    job_put_integer(job, "masked", made->masked);
    job_put_integer(job, "kept", made->kept);
    job_put_integer(job, "replaced", made->replaced);
    job_put_integer(job, "random_next", made->random_next);
    job_put_integer(job, "empty_shards", own->empty_shards);
    job_put_real(job, "fill", fill);
    if (made->instances > 0) {
        job_say(job,
                "%" PRId64 " instance%s, rows %.1f %% full, %.1f %% with a random second segment\n"
                "lengths, from the shortest eighth to the longest:",
                made->instances, number_plural(made->instances), 100 * fill,
                number_percent(made->random_next, made->instances));
    }
    json_line_open(job_line(job), "lengths", '[');
    for (int64_t i = 1; i <= longest && i <= INSTANCE_LENGTH_MAX; i++) {
        lengths[(i - 1) * LENGTHS / longest] += made->lengths[i];
    }
    for (size_t i = 0; i < LENGTHS; i++) {
        json_line_integer(job_line(job), NULL, lengths[i]);
        if (made->instances > 0) {
            job_say(job, " %.1f", number_percent(lengths[i], made->instances));
        }
    }
    json_line_close(job_line(job), ']');
    if (made->instances > 0) {
        job_say(job,
                " %%\n%" PRId64 " predictions: %.1f %% masked, %.1f %% kept, %.1f %% replaced\n",
                made->predictions, number_percent(made->masked, made->predictions),
                number_percent(made->kept, made->predictions),
                number_percent(made->replaced, made->predictions));
    }
}

#define WHOLE_XML 100e9 // bytes, about, of the English Wikipedia
#define OTHER_THREADS 32

static void say_rates(const struct job *job, const struct preparing *own) {
    const int is_xml = own->pages.xml_bytes > 0, threads = own->all_threads;
    double seconds_a_mb = 0;
    for (int i = 0; i < PACK; i++) {
        // MB per second and core; of XML if the stage's text comes from a dump; NaN: unknown.
        const struct done_stage *stage = &own->stages[i];
        const double xml_to_text =
            i > 0 && own->pages.text_bytes > 0
                ? (double)own->pages.xml_bytes / (double)own->pages.text_bytes
                : 1.0;
        double now =
            stage->bytes > 0 && stage->seconds > 0
                ? (double)stage->bytes * xml_to_text / 1e6 / stage->seconds / own->all_threads
                : NAN;
        seconds_a_mb += 1 / now;
        if (now == now) {
            job_say(job, "stage %s: %.1f s, %.1f MB of %s per second and core\n",
                    own->stages[i].name, own->stages[i].seconds, now, is_xml ? "XML" : "text");
        }
    }
    if (is_xml && seconds_a_mb == seconds_a_mb) {
        const double minutes = seconds_a_mb * WHOLE_XML / 1e6 / 60;
        const int here = (int)(minutes / threads), there = (int)(minutes / OTHER_THREADS);
        job_say(job,
                "together %.1f MB of XML per second and core: 100 GB, the size of the English "
                "Wikipedia, take %d:%02d h on %d core%s, %d:%02d h on %d\n",
                1 / seconds_a_mb, here / 60, here % 60, threads, number_plural(threads), there / 60,
                there % 60, OTHER_THREADS);
    }
}

static void put_result(const struct job *job, const struct preparing *own) {
    struct json_line *line = job_line(job);
    put_pages(job, &own->pages);
    put_shards(job, &own->sharded);
    put_instances(job, own);
    if (own->packed.packing.count > 0) {
        json_line_open(line, "pack", '{');
        put_packed(job, &own->packed);
        json_line_close(line, '}');
    }
    say_rates(job, own);
    json_line_open(line, "stages", '{');
    for (int i = 0; i < STAGES; i++) {
        if (own->stages[i].name != NULL) {
            json_line_open(line, own->stages[i].name, '{');
            json_line_integer(line, "bytes", own->stages[i].bytes);
            json_line_real(line, "seconds", own->stages[i].seconds);
            json_line_close(line, '}');
        }
    }
    json_line_close(line, '}');
    job_put_integer(job, "threads", own->all_threads);
}

// --- the job prepare -----------------------------------------------------------------------------

// The stage text reads only a dump; the others also name their files after the input.
static void note_unused(const struct job *job) {
    static const char *const inputs[] = {"extracted", "books", "text"};
    const char *stages = job->config->features.stages;
    const int is_only_text =
        stages != NULL && strcmp(stages, "text") == 0 && !job->config->features.pack;
    for (size_t i = 0; is_only_text && i < sizeof inputs / sizeof *inputs; i++) {
        if (job_is_given(job, inputs[i])) {
            log_note(&job->log, "%s has no effect with stages text, which reads only a dump",
                     inputs[i]);
        }
    }
    if (job_is_given(job, "file_size") && !job_is_given(job, "wikipedia")) {
        log_note(&job->log, "file_size has no effect without a dump: it is for the stage text, "
                            "which reads nothing else");
    }
}

// output_file gets the instances of input_file, or else the articles of the other inputs; no stage
// runs.
static enum berth_status check_settings(struct job *job, struct berth_error *error) {
    static const char *const others[] = {"wikipedia", "extracted", "text", "books", "name"};
    static const char *const ignored_options[] = {"output_dir", "stages",      "pack",
                                                  "shards",     "test_shards", "fraction_test_set",
                                                  "file_size",  "name"};
    const int has_sentences = job_is_given(job, "input_file");
    const int has_output = job_is_given(job, "output_file");
    const int has_articles = job_is_given(job, "wikipedia") || job_is_given(job, "extracted") ||
                             job_is_given(job, "books") || job_is_given(job, "text");
    if (has_sentences ? !has_output : has_output && !has_articles) {
        return error_set(error, BERTH_USAGE,
                         "input_file needs output_file, and output_file needs input_file, or "
                         "articles: extracted, books or text");
    }
    for (size_t i = 0; has_sentences && i < sizeof others / sizeof *others; i++) {
        if (job_is_given(job, others[i])) {
            return error_set(error, BERTH_USAGE,
                             "option %s: output_file takes the instances of input_file alone; "
                             "leave out %s or input_file",
                             others[i], others[i]);
        }
    }
    if (has_output && job_is_given(job, "wikipedia")) {
        return error_set(error, BERTH_USAGE,
                         "option wikipedia: output_file takes articles of extracted text; run the "
                         "stage text first, and give its folder as extracted");
    }
    for (size_t i = 0; has_output && i < sizeof ignored_options / sizeof *ignored_options; i++) {
        if (job_is_given(job, ignored_options[i])) {
            log_note(&job->log, "%s has no effect together with output_file", ignored_options[i]);
        }
    }
    note_unused(job);
    return has_output && !job_is_given(job, "output_dir") // the job needs a folder
               ? settings_set_row(job->config, option_find("output_dir"), ".", error)
               : BERTH_OK;
}

static enum berth_status run_prepare(struct job *job, struct berth_error *error) {
    OWNED struct pretraining_statistics *made = memory_array_zeroed(1, sizeof *made);
    struct preparing own = {.config = job->config,
                            .input = {.wikipedia = job_text(job, "wikipedia"),
                                      .extracted = job_text(job, "extracted"),
                                      .books = job_text(job, "books"),
                                      .texts = job->list,
                                      .text_count = job->list_count,
                                      .sentences = job_text(job, "input_file"),
                                      .output_file = job_text(job, "output_file"),
                                      .name = job_text(job, "name"),
                                      .file_size = job_integer(job, "file_size")},
                            .log = &job->log,
                            .stop = job->stop,
                            .comm = comm_self(),
                            .made = made};
    TRY(machine_comm_open("prepare", own.config, &job->log, &own.comm, error));
    enum berth_status status =
        made != NULL ? BERTH_OK : error_no_memory(error, sizeof *made, "statistics");
    status = comm_settle(own.comm, status, error);
    status = status == BERTH_OK ? prepare_all(&own, error) : status;
    own.comm->close(own.comm);
    if (status == BERTH_OK) {
        put_result(job, &own);
    }
    packing_done(&own.packed.packing);
    tokenizer_close(own.tokenizer);
    return status;
}

static const struct option_row prepare_settings[] = {
    {JOB_TEXT("wikipedia", NULL), .unit = "FILE",
     .help =
         "Wikipedia dump: pages-articles.xml, plain or compressed with bzip2 (also multistream)"},
    {JOB_TEXT("extracted", NULL), .unit = "DIR",
     .help = "folder with the text of a dump, as written by WikiExtractor or the stage text"},
    {JOB_LIST("text"), .unit = "FILE...",
     .help = "text files, or folders of them; an empty line ends an article"},
    {JOB_TEXT("books", NULL), .unit = "DIR", .help = "folder with one file per book"},
    {JOB_INTEGER("file_size", "104857600"), BETWEEN(1, 1e12), .unit = "BYTES",
     .help = "stage text: maximum size of a file in bytes"},
    {JOB_TEXT("name", NULL), .unit = "NAME", .shown = "determined by the input",
     .help = "name of the data in the names of folders and files"},
    {JOB_TEXT("input_file", NULL), .unit = "FILE",
     .help = "text with one sentence per line and an empty line after each document; files, "
             "folders of files *.txt and patterns, separated by commas"},
    {JOB_TEXT("output_file", NULL), .unit = "FILE",
     .help = "file for the instances made from --input_file, or several files, separated by "
             "commas, among which they are distributed; existing files "
             "are replaced; a name *.tfrecord means TFRecord, otherwise --format decides. Without "
             "--input_file: file for the articles of --extracted, --books and --text, one on each "
             "line"},
};

const struct job_row job_prepare = {
    .about = {"prepare", "make pre-training data from a Wikipedia dump or other text"},
    .jobs = JOB_PREPARE,
    JOB_SETTINGS(prepare_settings),
    .required = "output_dir",
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
    .json = "print the counts as one JSON object",
    .follows = "finished files are kept",
    .settle = check_settings,
    .run = run_prepare,
};

// --- the job pack --------------------------------------------------------------------------------

// Packs the instances of a folder's HDF5 and TFRecord files with "training" in their names:
// output_dir/mixed_strategies_part_0.hdf5 and so on, 4,480 rows each, and output_dir_metadata.json
// next to output_dir.
static enum berth_status run_pack(struct job *job, struct berth_error *error) {
    struct settings *config = job->config;
    settings_apply_defaults(config, JOB_PACK);
    struct pack_stage stage = {.input = job_text(job, "input_dir"),
                               .folder = job_text(job, "output_dir"),
                               .length = (int)job_integer(job, "max_seq_length"),
                               .seed = (uint64_t)config->run.seed,
                               .threads = 1};
    TRY(machine_comm_open("pack", config, &job->log, &stage.comm, error));
    stage.threads =
        machine_threads(&config->machine); // the ranks of a host have divided its processors
    enum berth_status status =
        comm_settle(stage.comm, machine_start_threads(stage.threads, error), error);
    status = status == BERTH_OK ? pack_stage_run(&stage, &job->log, job->stop, error) : status;
    stage.comm->close(stage.comm);
    if (status == BERTH_OK) {
        put_packed(job, &stage);
    }
    packing_done(&stage.packing);
    return status;
}

static const struct option_row pack_settings[] = {
    {JOB_TEXT("input_dir", NULL), .unit = "DIR", .help = "folder with files of instances"},
    {JOB_TEXT("output_dir", NULL), .unit = "OUT", .help = "folder for the rows"},
    {JOB_INTEGER("max_seq_length", "0"), BETWEEN(0, 65536), .unit = "N", .shown = "as in the files",
     .help = "check that rows have N tokens, as those of the files"},
};

const struct job_row job_pack = {
    .about = {"pack", "pack pre-training data, up to three instances per row"},
    .usage = "DIR OUT",
    .example = "berth pack data/hdf5_lower_case_1_.../wikicorpus_en packed",
    .notes = "Reads the HDF5 and TFRecord files of DIR with \"training\" in their names and writes "
             "OUT/mixed_strategies_part_0.hdf5 and so on, 4,480 rows each, and OUT_metadata.json "
             "next to OUT, for Habana's trainer. Berth's own trainer packs tokens itself and does "
             "not need this. An interrupted run resumes when started again.",
    .jobs = JOB_PACK,
    JOB_SETTINGS(pack_settings),
    .arguments = 2,
    .json = "print the counts as one JSON object",
    .follows = "finished files are kept",
    .run = run_pack,
};
