// SPDX-License-Identifier: Apache-2.0
// Data for pre-training: which stages run, on which input, and where their files are.
#include "api/arguments.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/options.h"
#include "core/utf8.h"
#include "data/corpus/article_lines.h"
#include "data/stages/instance_stage.h"
#include "data/stages/pack_stage.h"
#include "data/stages/shard_stage.h"
#include "data/stages/stage_work.h"
#include "data/wikipedia/wikipedia_state.h"
#include "format/checksum/digest.h"
#include "train/engine/inputs.h"
#include "train/machine/machine.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define TEXT_NAME "wikicorpus_en"
#define TEXT_FOLDER "extracted/" TEXT_NAME

enum { TEXT, SHARDS, INSTANCES, PACK };
enum { LENGTHS = sizeof((struct berth_prepare_result *)0)->lengths / sizeof(int64_t) };

struct job {
    struct berth_config config;
    const struct berth_prepare_input *input;
    const struct berth_log *log;
    const volatile int *stop;
    struct comm *comm;
    struct berth_prepare_result *result;
    int wanted[BERTH_PREPARE_STAGES];
    int threads;
    const char *name; // name of the corpus
    char *text, *shards, *instances, *packs;
    struct tokenizer *tokenizer;
};

// --- settings -----------------------------------------------------------------------------------

static const char *const stage_names[BERTH_PREPARE_STAGES] = {"text", "shards", "hdf5", "pack"};

static enum berth_status select_stage(struct job *job, const char *name, size_t length,
                                      struct berth_error *error) {
    for (int i = 0; i < BERTH_PREPARE_STAGES; i++) {
        if (strlen(stage_names[i]) == length && memcmp(stage_names[i], name, length) == 0) {
            job->wanted[i] = 1;
            return BERTH_OK;
        }
    }
    return error_set(
        error, BERTH_USAGE,
        "stages: expected text, shards, hdf5 or pack, separated by commas, found \"%.*s\"",
        (int)(length < 80 ? length : 80), name);
}

static enum berth_status find_stages(struct job *job, struct berth_error *error) {
    const char *at = job->config.stages != NULL ? job->config.stages : "text,shards,hdf5";
    for (;;) {
        size_t length = strcspn(at, ",");
        TRY(select_stage(job, at, length, error));
        if (at[length] == '\0') {
            break;
        }
        at += length + 1;
    }
    job->wanted[PACK] |= job->config.pack;
    if (job->wanted[PACK] && strcmp(job->config.format, "hdf5") != 0) {
        return error_set(error, BERTH_USAGE, "stages: pack reads and writes hdf5, but format is %s",
                         job->config.format);
    }
    return BERTH_OK;
}

static enum berth_status check_input(struct job *job, struct berth_error *error) {
    const struct berth_prepare_input *input = job->input;
    int wiki = input->wikipedia != NULL || input->extracted != NULL, books = input->books != NULL;
    const int is_later = input->name != NULL && !job->wanted[TEXT] && !job->wanted[SHARDS];
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
    if (job->config.output_dir == NULL) {
        return error_set(error, BERTH_USAGE, "output_dir is missing");
    }
    if (input->name != NULL && (*input->name == '\0' || strchr(input->name, '/') != NULL)) {
        return error_set(error, BERTH_USAGE,
                         "name: expected the beginning of files' names, without /, found \"%.*s\"",
                         UTF8_SHOWN(input->name, 80));
    }
    job->name = input->name != NULL     ? input->name
                : input->text_count > 0 ? "corpus"
                : wiki && books         ? "books_wiki_en_corpus"
                : wiki                  ? TEXT_NAME
                                        : "bookscorpus";
    return BERTH_OK;
}

static enum berth_status set_defaults(struct job *job, struct berth_error *error) {
    struct berth_config *config = &job->config;
    option_apply_defaults(config, JOB_PREPARE);
    config->test_shards = config->test_shards < 0 ? config->shards : config->test_shards;
    job->threads = machine_threads(config);
    return machine_start_threads(job->threads, error);
}

// --- folders ------------------------------------------------------------------------------------

static char *make_path(const struct job *job, const char *first, const char *second) {
    char *above = path_join(job->config.output_dir, first);
    char *path = above != NULL ? path_join(above, second) : NULL;
    memory_free(above);
    return path;
}

static enum berth_status make_paths(struct job *job, struct berth_error *error) {
    const struct berth_config *config = &job->config;
    char name[400];
    job->text = path_join(config->output_dir, TEXT_FOLDER);
    number_format(name, sizeof name, "sharded_training_shards_%lld_test_shards_%lld_fraction_%g",
                  (long long)config->shards, (long long)config->test_shards,
                  config->fraction_test_set);
    job->shards = make_path(job, name, job->name);
    if (job->tokenizer != NULL) {
        number_format(name, sizeof name,
                      "%s_lower_case_%d_seq_len_%lld_max_pred_%lld_masked_lm_prob_%g_random_seed_"
                      "%lld_dupe_factor_%lld",
                      config->format, tokenizer_rules_of(job->tokenizer)->lower_case,
                      (long long)config->max_seq_length, (long long)config->max_predictions_per_seq,
                      config->masked_lm_prob, (long long)config->seed,
                      (long long)config->dupe_factor);
        job->instances = make_path(job, name, job->name);
        strcat(name, "_packed");
        job->packs = make_path(job, name, job->name);
    }
    return job->text != NULL && job->shards != NULL &&
                   ((job->instances != NULL && job->packs != NULL) || job->tokenizer == NULL)
               ? BERTH_OK
               : error_no_memory(error, strlen(config->output_dir), "the folders' names");
}

// --- text ---------------------------------------------------------------------------------------

static void set_page_counts(struct berth_prepare_result *result,
                            const struct wikipedia_counts *counts) {
    result->pages = counts->pages;
    result->articles = counts->articles;
    result->redirects = counts->redirects;
    result->other_namespaces = counts->other_namespaces;
    result->empty = counts->empty;
    result->oversize = counts->oversize;
    result->damaged = counts->damaged;
    result->xml_bytes = counts->xml_bytes;
    result->text_bytes = counts->text_bytes;
    result->files = counts->files;
    result->sentences_left_out =
        counts->sentences_left_out < INT_MAX ? (int)counts->sentences_left_out : INT_MAX;
}

static enum berth_status make_text(struct job *job, struct berth_prepare_stage *done,
                                   struct berth_error *error) {
    struct wikipedia_counts counts;
    const struct wikipedia_settings settings = {.dump = job->input->wikipedia,
                                                .folder = job->text,
                                                .file_size = (uint64_t)job->input->file_size,
                                                .threads = job->threads,
                                                .comm = job->comm};
    if (job->input->wikipedia == NULL) {
        done->name = NULL; // the articles are already text
        return BERTH_OK;
    }
    char *state = path_join(job->text, TEXT_MANIFEST);
    int was_begun = state != NULL && file_exists(state); // then this run reads only a part
    memory_free(state);
    enum berth_status status = wikipedia_text(&settings, job->log, job->stop, &counts, error);
    set_page_counts(job->result, &counts);
    done->bytes = was_begun ? 0 : counts.xml_bytes;
    return status;
}

// --- shards -------------------------------------------------------------------------------------

// Refuses text of an earlier run that is incomplete, or that has lost a file since.
static enum berth_status check_text(int is_ours, const char *folder, struct berth_error *error) {
    static const char remedy[] = "run the stage \"text\" first, until it is complete";
    char *path = path_join(folder, TEXT_MANIFEST);
    json *state = NULL;
    enum berth_status status = path != NULL ? BERTH_OK : path_no_memory(error);
    // Text without a manifest was written by another program.
    if (status == BERTH_OK && (is_ours || file_exists(path))) {
        status = manifest_read_complete(path, remedy, &state, error);
    }
    json_free(state);
    memory_free(path);
    return status;
}

// Accepts the folder that the stage text writes, or its parent.
static enum berth_status check_extracted(const struct job *job, const char *folder,
                                         struct berth_error *error) {
    TRY(check_text(job->input->wikipedia != NULL, folder, error));
    char *inside = path_join(folder, TEXT_NAME);
    enum berth_status status =
        inside != NULL ? check_text(0, inside, error) : path_no_memory(error);
    memory_free(inside);
    return status;
}

// Which sources of articles are given, in the order of their articles. With a dump, the stage text
// has made `extracted` of it.
static size_t list_sources(const struct berth_prepare_input *input, const char *const *extracted,
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

static enum berth_status make_shards(struct job *job, struct berth_prepare_stage *done,
                                     struct berth_error *error) {
    const struct berth_config *config = &job->config;
    const struct berth_prepare_input *input = job->input;
    const char *extracted = input->wikipedia != NULL ? job->text : input->extracted;
    struct shard_stage stage = {.folder = job->shards,
                                .name = job->name,
                                .plan = {.training = (uint32_t)config->shards,
                                         .test = (uint32_t)config->test_shards,
                                         .test_fraction = config->fraction_test_set,
                                         .seed = (uint64_t)config->seed},
                                .training_is_named = option_name_is_given(config, "shards"),
                                .test_is_named = option_name_is_given(config, "test_shards"),
                                .threads = job->threads,
                                .comm = job->comm};
    TRY(stage_settle_input(
        job->comm, extracted != NULL ? check_extracted(job, extracted, error) : BERTH_OK, error));
    stage.source_count = list_sources(input, &extracted, stage.sources);
    TRY(shard_stage_run(&stage, job->log, job->stop, error));
    job->result->training_shards = stage.training;
    job->result->test_shards = stage.test;
    job->result->shard_articles = stage.articles;
    job->result->sentences = stage.sentences;
    job->result->shard_bytes = stage.text_bytes;
    done->bytes = stage.written_bytes;
    return BERTH_OK;
}

// --- instances ----------------------------------------------------------------------------------

static void set_instance_counts(struct job *job, const struct pretraining_statistics *statistics) {
    struct berth_prepare_result *result = job->result;
    result->instances = statistics->instances;
    result->tokens = statistics->tokens;
    result->predictions = statistics->predictions;
    result->masked = statistics->masked;
    result->kept = statistics->kept;
    result->replaced = statistics->replaced;
    result->random_next = statistics->random_next;
    for (int64_t i = 1; i <= job->config.max_seq_length && i <= INSTANCE_LENGTH_MAX; i++) {
        result->lengths[(i - 1) * LENGTHS / job->config.max_seq_length] += statistics->lengths[i];
    }
    result->fill = (double)statistics->tokens /
                   ((double)statistics->instances * (double)job->config.max_seq_length);
}

static enum berth_status describe_tokenizer(const struct job *job,
                                            struct manifest_settings *settings,
                                            struct berth_error *error) {
    const struct tokenizer_options *rules = tokenizer_rules_of(job->tokenizer);
    char digest[DIGEST_HEX_SIZE];
    TRY(inputs_digest_vocabulary(job->tokenizer, digest, error));
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

static struct instance_stage instance_stage_of(const struct job *job) {
    const struct berth_config *config = &job->config;
    return (struct instance_stage){
        .shards = job->shards,
        .folder = job->instances,
        .tokenizer = job->tokenizer,
        .options = {.max_seq_length = (int)config->max_seq_length,
                    .max_predictions = (int)config->max_predictions_per_seq,
                    .dupe_factor = (int)config->dupe_factor,
                    .masked_lm_prob = config->masked_lm_prob,
                    .short_seq_prob = config->short_seq_prob,
                    .seed = (uint64_t)config->seed,
                    .python = strcmp(config->rng, "python") == 0,
                    .whole_word = config->whole_word_mask,
                    .stop = job->stop},
        .tfrecord = strcmp(config->format, "tfrecord") == 0,
        .follows_name = !option_name_is_given(config, "format"),
        .threads = job->threads,
        .comm = job->comm};
}

static enum berth_status make_instances(struct job *job, struct berth_prepare_stage *done,
                                        struct berth_error *error) {
    struct instance_stage stage = instance_stage_of(job);
    stage.statistics = memory_array_zeroed(1, sizeof *stage.statistics);
    enum berth_status status = stage.statistics != NULL
                                   ? describe_tokenizer(job, &stage.settings, error)
                                   : error_no_memory(error, sizeof *stage.statistics, "statistics");
    status = comm_settle(job->comm, status, error);
    if (status == BERTH_OK) {
        status = instance_stage_run(&stage, job->log, job->stop, error);
    }
    if (status == BERTH_OK) {
        set_instance_counts(job, stage.statistics);
        job->result->empty_shards = stage.empty;
        done->bytes = stage.text_bytes;
        log_note(job->log, "instances: %s", job->instances);
    }
    if (status == BERTH_OK && stage.empty > 0) {
        log_warning(job->log, "shards without instances, for which no file was written: %lld",
                    (long long)stage.empty);
    }
    if (status == BERTH_OK) {
        instance_texts_warn(&stage.texts, stage.statistics, job->log);
    }
    memory_free(stage.statistics);
    return status;
}

// Does what create_pretraining_data does: makes files of instances from files of sentences.
static enum berth_status make_files(struct job *job, char **outputs, struct berth_error *error) {
    struct instance_stage stage = instance_stage_of(job);
    stage.statistics = memory_array_zeroed(1, sizeof *stage.statistics);
    enum berth_status status =
        stage.statistics != NULL
            ? instance_stage_make_files(&stage, job->input->sentences, outputs, error)
            : error_no_memory(error, sizeof *stage.statistics, "statistics");
    if (status == BERTH_OK) {
        set_instance_counts(job, stage.statistics);
        instance_texts_warn(&stage.texts, stage.statistics, job->log);
    }
    memory_free(stage.statistics);
    return status;
}

// --- packs --------------------------------------------------------------------------------------

static enum berth_status run_pack_stage(struct pack_stage *stage, const struct berth_log *log,
                                        const volatile int *stop, struct berth_pack_result *result,
                                        struct berth_error *error) {
    enum berth_status status = pack_stage_run(stage, log, stop, error);
    const struct packing *packing = &stage->packing;
    if (status == BERTH_OK) {
        *result = (struct berth_pack_result){.sequences = (int64_t)packing->sequences,
                                             .tokens = (int64_t)packing->tokens,
                                             .rows = (int64_t)packing->count,
                                             .files = stage->files,
                                             .max_seq_length = packing->length,
                                             .efficiency = packing_efficiency(packing),
                                             .speed_up = packing_speed_up(packing),
                                             .speed_up_limit = packing_speed_up_limit(packing)};
    }
    packing_done(&stage->packing);
    return status;
}

static enum berth_status check_instances(const struct job *job, struct berth_error *error) {
    char *path = path_join(job->instances, INSTANCE_MANIFEST);
    json *state = NULL;
    const enum berth_status status =
        path != NULL
            ? manifest_read_complete(path, "run the stage \"hdf5\" first, until it is complete",
                                     &state, error)
            : path_no_memory(error);
    json_free(state);
    memory_free(path);
    return status;
}

static enum berth_status make_packs(struct job *job, struct berth_prepare_stage *done,
                                    struct berth_error *error) {
    struct pack_stage stage = {.input = job->instances,
                               .folder = job->packs,
                               .seed = (uint64_t)job->config.seed,
                               .threads = job->threads,
                               .comm = job->comm};
    TRY(stage_settle_input(job->comm, check_instances(job, error), error));
    TRY(run_pack_stage(&stage, job->log, job->stop, &job->result->pack, error));
    done->bytes = job->result->pack.tokens * (int64_t)sizeof(int32_t);
    return BERTH_OK;
}

// --- all ----------------------------------------------------------------------------------------

static enum berth_status run_stages(struct job *job, struct berth_error *error) {
    static enum berth_status (*const runners[BERTH_PREPARE_STAGES])(
        struct job *, struct berth_prepare_stage *,
        struct berth_error *) = {make_text, make_shards, make_instances, make_packs};
    for (int i = 0; i < BERTH_PREPARE_STAGES; i++) {
        struct berth_prepare_stage *done = &job->result->stages[i];
        if (!job->wanted[i]) {
            continue;
        }
        double begin = clock_now();
        done->name = stage_names[i];
        TRY(runners[i](job, done, error));
        done->seconds = clock_now() - begin;
    }
    return BERTH_OK;
}

static enum berth_status open_tokenizer(struct job *job, struct berth_error *error) {
    if (!job->wanted[INSTANCES] && !job->wanted[PACK]) {
        return BERTH_OK;
    }
    if (job->config.vocab_file == NULL) {
        return error_set(error, BERTH_USAGE, "missing option vocab_file: the stage hdf5 needs it");
    }
    TRY(inputs_find_tokenizer(&job->config, &job->tokenizer, error));
    inputs_warn_of_casing(job->tokenizer, job->config.vocab_file, job->log);
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
    char *there = length > 0 ? memory_string_of(output, length) : memory_string(".");
    const int is_inside = there != NULL && path_is_inside(there, input);
    memory_free(there);
    return !is_inside ? BERTH_OK
                      : error_set(error, BERTH_CANT_CREATE,
                                  "the output %s is in the input folder %s, whose files are all "
                                  "read as text; choose an output elsewhere",
                                  output, input);
}

static enum berth_status check_folders(const struct job *job, struct berth_error *error) {
    const struct berth_prepare_input *input = job->input;
    const char *const outputs[] = {input->wikipedia != NULL ? job->text : NULL, job->shards,
                                   job->instances, job->packs};
    for (size_t i = 0; job->wanted[SHARDS] && i < sizeof outputs / sizeof *outputs; i++) {
        TRY(check_is_outside(outputs[i], input->books, error));
        for (size_t j = 0; j < input->text_count; j++) {
            TRY(check_is_outside(outputs[i], input->texts[j], error));
        }
    }
    return BERTH_OK;
}

// Checks the input of later stages first, before hours of work in earlier ones.
static enum berth_status check_stages(const struct job *job, struct berth_error *error) {
    const struct berth_prepare_input *input = job->input;
    if (job->wanted[SHARDS]) {
        TRY(check_exists(input->extracted, error));
        TRY(check_exists(input->books, error));
        for (size_t i = 0; i < input->text_count; i++) {
            TRY(check_exists(input->texts[i], error));
        }
    }
    if (job->wanted[INSTANCES]) {
        const struct instance_stage stage = instance_stage_of(job);
        enum berth_status status = instance_stage_check(&stage, error);
        if (status != BERTH_OK) {
            return error_prefix(error, status, "%s", job->config.vocab_file);
        }
    }
    const struct instance_options options = instance_stage_of(job).options;
    const int packs_new_instances = job->wanted[PACK] && job->wanted[INSTANCES];
    return packs_new_instances ? pack_stage_check(&options, error) : BERTH_OK;
}

// What each rank does on its own before the stages.
static enum berth_status begin(struct job *job, struct berth_error *error) {
    TRY(find_stages(job, error));
    TRY(check_input(job, error));
    TRY(set_defaults(job, error));
    TRY(open_tokenizer(job, error));
    TRY(check_stages(job, error));
    TRY(make_paths(job, error));
    return check_folders(job, error);
}

// A file named twice would lose half of its instances.
static enum berth_status check_outputs(const struct job *job, char **outputs,
                                       struct berth_error *error) {
    for (size_t i = 0; outputs[i] != NULL; i++) {
        TRY(file_check_output(outputs[i], job->config.vocab_file, error));
        for (size_t k = 0; k < i; k++) {
            if (path_is_same(outputs[k], outputs[i])) {
                return error_set(error, BERTH_USAGE, "output_file: %s is named twice", outputs[i]);
            }
        }
    }
    return BERTH_OK;
}

// Writes the articles to output_file, one on each line.
static enum berth_status write_articles(struct job *job, struct berth_error *error) {
    const struct berth_prepare_input *input = job->input;
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
                                   job->stop, error);
    }
    if (status == BERTH_OK) {
        status = article_lines_commit(&lines, error);
    }
    article_lines_done(&lines);
    job->result->articles = lines.articles;
    job->result->text_bytes = lines.bytes;
    job->result->files = status == BERTH_OK;
    return status;
}

static enum berth_status run_files(struct job *job, struct berth_error *error) {
    if (job->input->sentences == NULL) {
        return write_articles(job, error);
    }
    job->wanted[INSTANCES] = 1;
    TRY(set_defaults(job, error));
    TRY(open_tokenizer(job, error));
    TRY(check_stages(job, error));
    char **outputs;
    TRY(path_split(job->input->output_file, &outputs, error));
    enum berth_status status = check_outputs(job, outputs, error);
    if (status == BERTH_OK) {
        status = make_files(job, outputs, error);
    }
    memory_free(outputs);
    return status;
}

static enum berth_status run(struct job *job, struct berth_error *error) {
    double threads;
    if (job->input->output_file != NULL) { // all instances at once, so the first rank alone
        return comm_settle(job->comm, job->comm->rank == 0 ? run_files(job, error) : BERTH_OK,
                           error);
    }
    TRY(comm_settle(job->comm, begin(job, error), error));
    threads = job->threads;
    job->comm->sum(job->comm, &threads, 1);
    job->result->threads = (int64_t)threads;
    return run_stages(job, error);
}

enum berth_status berth_prepare(const struct berth_config *config,
                                const struct berth_prepare_input *input, struct berth_log log,
                                const volatile int *stop, struct berth_prepare_result *result,
                                struct berth_error *error) {
    struct berth_prepare_result unwanted;
    result = result != NULL ? result : &unwanted;
    *result = (struct berth_prepare_result){0};
    REQUIRE_CONFIG(config, error);
    REQUIRE(input, error);
    TRY(argument_texts(input->texts, input->text_count, "text", error));
    TRY(argument_at_least_0("file_size", input->file_size, error));
    struct job job = {.config = *config,
                      .input = input,
                      .log = &log,
                      .stop = stop,
                      .comm = comm_self(),
                      .result = result};
    enum berth_status status = machine_comm_open("prepare", config, &log, &job.comm, error);
    if (status == BERTH_OK) {
        status = run(&job, error);
        job.comm->close(job.comm);
    }
    tokenizer_close(job.tokenizer);
    memory_free(job.text);
    memory_free(job.shards);
    memory_free(job.instances);
    memory_free(job.packs);
    return status;
}

enum berth_status berth_pack(const struct berth_config *config, const char *input_dir,
                             const char *output_dir, struct berth_log log, const volatile int *stop,
                             struct berth_pack_result *result, struct berth_error *error) {
    struct berth_pack_result unwanted;
    result = result != NULL ? result : &unwanted;
    *result = (struct berth_pack_result){0};
    REQUIRE_CONFIG(config, error);
    REQUIRE(input_dir, error);
    REQUIRE(output_dir, error);
    struct berth_config own = *config;
    option_apply_defaults(&own, JOB_PACK);
    struct pack_stage stage = {
        .input = input_dir,
        .folder = output_dir,
        .length = option_name_is_given(config, "max_seq_length") ? (int)config->max_seq_length : 0,
        .seed = (uint64_t)own.seed,
        .threads = 1};
    TRY(machine_comm_open("pack", config, &log, &stage.comm, error));
    stage.threads = machine_threads(config); // the ranks of a host have divided its processors
    enum berth_status status =
        comm_settle(stage.comm, machine_start_threads(stage.threads, error), error);
    if (status == BERTH_OK) {
        status = run_pack_stage(&stage, &log, stop, result, error);
    }
    stage.comm->close(stage.comm);
    return status;
}
