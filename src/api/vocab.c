// SPDX-License-Identifier: Apache-2.0
// Trains a vocabulary: counts the words of the files, derives the pieces, writes the file.
#include "api/arguments.h"
#include "core/file.h"
#include "data/corpus/corpus_words.h"
#include "text/vocabulary_train.h"
#include "train/machine/machine.h"

#define DEFAULT_SIZE 30522
#define DEFAULT_ALPHABET 1000
#define DEFAULT_FREQUENCY 2

struct job {
    const struct berth_config *config;
    const struct berth_vocab_settings *settings;
    const struct berth_log *log;
    const volatile int *stop;
    struct word_counts counts;
    struct string_index pieces;
};

// Refuses an output that is one of the files to read, including those in folders.
static enum berth_status check_is_no_input(const struct job *job, enum corpus_form form,
                                           const char *const *paths, size_t path_count,
                                           struct berth_error *error) {
    struct corpus *corpus;
    size_t files;
    if (path_count == 0) {
        return BERTH_OK;
    }
    TRY(corpus_open(form, paths, path_count, &corpus, error));
    const char *const *names = corpus_files(corpus, &files);
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; i < files && status == BERTH_OK; i++) {
        status = file_check_output(job->settings->output, names[i], error);
    }
    corpus_close(corpus);
    return status;
}

static enum berth_status check(const struct job *job, struct berth_error *error) {
    const struct berth_vocab_settings *settings = job->settings;
    if (settings->text_count == 0 && settings->extracted == NULL) {
        return error_set(error, BERTH_USAGE,
                         "no input: give text files, or a folder written by WikiExtractor or "
                         "`berth prepare` (extracted)");
    }
    if (settings->output == NULL) {
        return error_set(error, BERTH_USAGE, "output is missing");
    }
    TRY(argument_at_least_0("size", settings->size, error));
    TRY(argument_at_least_0("limit_alphabet", settings->limit_alphabet, error));
    TRY(argument_at_least_0("min_frequency", settings->min_frequency, error));
    if (file_exists(settings->output) && !job->config->overwrite_output_dir) {
        return error_set(error, BERTH_CANT_CREATE,
                         "%s already exists; overwrite_output_dir replaces it", settings->output);
    }
    struct file_writer writer; // check that the output can be created before hours of counting
    TRY(file_writer_open(&writer, settings->output, error));
    file_writer_abort(&writer);
    TRY(check_is_no_input(job, CORPUS_TEXT, settings->texts, settings->text_count, error));
    return check_is_no_input(job, CORPUS_EXTRACTED, &settings->extracted,
                             settings->extracted != NULL, error);
}

static enum berth_status count(struct job *job, enum corpus_form form, const char *const *paths,
                               size_t path_count, struct berth_vocab_result *result,
                               struct berth_error *error) {
    struct corpus *corpus;
    uint64_t bytes;
    TRY(corpus_open(form, paths, path_count, &corpus, error));
    const struct corpus_words_args args = {.corpus = corpus,
                                           .lower_case = job->config->do_lower_case != 0,
                                           .threads = machine_threads(job->config),
                                           .log = job->log,
                                           .stop = job->stop};
    enum berth_status status = corpus_words(&args, &job->counts, &bytes, error);
    corpus_close(corpus);
    result->text_bytes += (int64_t)bytes;
    return status;
}

static int64_t or_default(int64_t value, int64_t fallback) {
    return value > 0 ? value : fallback;
}

static enum berth_status write(const struct string_index *pieces, const char *path,
                               struct berth_error *error) {
    struct file_writer writer;
    TRY(file_writer_open(&writer, path, error));
    for (size_t i = 0; i < pieces->count; i++) {
        // The writer records failures, and its commit reports them.
        (void)file_writer_put(&writer, string_index_bytes(pieces, i),
                              string_index_length(pieces, i), NULL);
        (void)file_writer_put(&writer, "\n", 1, NULL);
    }
    return file_writer_commit(&writer, error);
}

static enum berth_status run(struct job *job, struct berth_vocab_result *result,
                             struct berth_error *error) {
    const struct berth_vocab_settings *settings = job->settings;
    TRY(check(job, error));
    TRY(machine_start_threads(machine_threads(job->config), error));
    if (settings->text_count > 0) {
        TRY(count(job, CORPUS_TEXT, settings->texts, settings->text_count, result, error));
    }
    if (settings->extracted != NULL) {
        TRY(count(job, CORPUS_EXTRACTED, &settings->extracted, 1, result, error));
    }
    const struct vocabulary_rules rules = {
        .size = (size_t)or_default(settings->size, DEFAULT_SIZE),
        .limit_alphabet = (size_t)or_default(settings->limit_alphabet, DEFAULT_ALPHABET),
        .min_frequency = (uint64_t)or_default(settings->min_frequency, DEFAULT_FREQUENCY)};
    result->words = (int64_t)job->counts.total;
    result->distinct_words = (int64_t)job->counts.words.count;
    enum berth_status status =
        vocabulary_train(&job->counts, &rules, job->log, job->stop, &job->pieces, error);
    if (status == BERTH_BAD_DATA) { // the files contain no words
        return error_prefix(error, status, "%s",
                            settings->text_count > 0 ? settings->texts[0] : settings->extracted);
    }
    TRY(status);
    result->pieces = (int64_t)job->pieces.count;
    if (job->stop != NULL && *job->stop != 0) {
        return error_set(error, BERTH_INTERRUPTED, "interrupted; nothing was written");
    }
    return write(&job->pieces, settings->output, error);
}

enum berth_status berth_vocab_train(const struct berth_config *config,
                                    const struct berth_vocab_settings *settings,
                                    struct berth_log log, const volatile int *stop,
                                    struct berth_vocab_result *result, struct berth_error *error) {
    struct berth_vocab_result unwanted;
    result = result != NULL ? result : &unwanted;
    *result = (struct berth_vocab_result){0};
    REQUIRE_CONFIG(config, error);
    REQUIRE(settings, error);
    TRY(argument_texts(settings->texts, settings->text_count, "text", error));
    struct job job = {.config = config, .settings = settings, .log = &log, .stop = stop};
    enum berth_status status = run(&job, result, error);
    word_counts_done(&job.counts);
    string_index_done(&job.pieces);
    return status;
}
