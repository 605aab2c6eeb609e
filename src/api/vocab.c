// SPDX-License-Identifier: Apache-2.0
// The job vocab: counts the words of the files, derives the pieces, writes the file
// (doc/pretraining-data.md). The same text gives the same bytes, regardless of the number of
// threads.
#include "api/job.h"
#include "core/file.h"
#include "core/memory.h"
#include "data/corpus/corpus_words.h"
#include "text/vocabulary_train.h"
#include "train/machine/machine.h"

#include <inttypes.h>

// Text files, or a folder written by WikiExtractor.
struct source {
    enum corpus_form form;
    const char *const *paths; // [count]
    size_t count;
};

// Refuses an output that is one of the files to read, including those in folders.
static enum berth_status check_is_no_input(const struct source *source, const char *output,
                                           struct berth_error *error) {
    struct corpus *corpus;
    size_t files;
    if (source->count == 0) {
        return BERTH_OK;
    }
    TRY(corpus_open(source->form, source->paths, source->count, &corpus, error));
    const char *const *names = corpus_files(corpus, &files);
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; i < files && status == BERTH_OK; i++) {
        status = file_check_output(output, names[i], error);
    }
    corpus_close(corpus);
    return status;
}

static enum berth_status check(const struct job *job, const struct source sources[2],
                               struct berth_error *error) {
    const char *output = job_text(job, "output");
    if (sources[0].count + sources[1].count == 0) {
        return error_set(error, BERTH_USAGE,
                         "no input: give text files, or a folder written by WikiExtractor or "
                         "`berth prepare` (extracted)");
    }
    if (file_exists(output) && !job->config->run.overwrite_output_dir) {
        return error_set(error, BERTH_CANT_CREATE,
                         "%s already exists; overwrite_output_dir replaces it", output);
    }
    struct file_writer writer; // check that the output can be created before hours of counting
    TRY(file_writer_open(&writer, output, error));
    file_writer_abort(&writer);
    TRY(check_is_no_input(&sources[0], output, error));
    return check_is_no_input(&sources[1], output, error);
}

static enum berth_status count(const struct job *job, const struct source *source,
                               struct word_counts *counts, uint64_t *text_bytes,
                               struct berth_error *error) {
    struct corpus *corpus;
    uint64_t bytes;
    if (source->count == 0) {
        return BERTH_OK;
    }
    TRY(corpus_open(source->form, source->paths, source->count, &corpus, error));
    const struct corpus_words_args args = {.corpus = corpus,
                                           .lower_case = job->config->model.do_lower_case != 0,
                                           .threads = machine_threads(&job->config->machine),
                                           .log = &job->log,
                                           .stop = job->stop};
    enum berth_status status = corpus_words(&args, counts, &bytes, error);
    corpus_close(corpus);
    *text_bytes += bytes;
    return status;
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

static enum berth_status run(struct job *job, struct berth_error *error) {
    const char *extracted = job_text(job, "extracted");
    const struct source sources[2] = {{CORPUS_TEXT, job->list, job->list_count},
                                      {CORPUS_EXTRACTED, &extracted, extracted != NULL}};
    const struct vocabulary_rules rules = {
        .size = (size_t)job_integer(job, "size"),
        .limit_alphabet = (size_t)job_integer(job, "limit_alphabet"),
        .min_frequency = (uint64_t)job_integer(job, "min_frequency")};
    struct word_counts counts DONE_BY(word_counts_done) = {0};
    struct string_index pieces DONE_BY(string_index_done) = {0};
    uint64_t bytes = 0;
    TRY(check(job, sources, error));
    TRY(machine_start_threads(machine_threads(&job->config->machine), error));
    TRY(count(job, &sources[0], &counts, &bytes, error));
    TRY(count(job, &sources[1], &counts, &bytes, error));
    const enum berth_status status =
        vocabulary_train(&counts, &rules, &job->log, job->stop, &pieces, error);
    if (status == BERTH_BAD_DATA) { // the files contain no words
        return error_prefix(error, status, "%s", job->list_count > 0 ? job->list[0] : extracted);
    }
    TRY(status);
    if (job->stop != NULL && *job->stop != 0) {
        return error_set(error, BERTH_INTERRUPTED, "interrupted; nothing was written");
    }
    TRY(write(&pieces, job_text(job, "output"), error));
    job_put_integer(job, "pieces", (int64_t)pieces.count);
    job_put_integer(job, "words", (int64_t)counts.total);
    job_put_integer(job, "distinct_words", (int64_t)counts.words.count);
    job_put_integer(job, "text_bytes", (int64_t)bytes);
    job_say(job, "%zu pieces from %" PRIu64 " words, %zu of them different\n", pieces.count,
            counts.total, counts.words.count);
    return BERTH_OK;
}

static const struct option_row settings[] = {
    {JOB_LIST("text"), .unit = "FILE...", .help = "text files (UTF-8)"},
    {JOB_TEXT("extracted", NULL), .unit = "DIR",
     .help = "folder with the text of a Wikipedia dump, as written by `berth prepare` or "
             "WikiExtractor"},
    {JOB_INTEGER("size", "30522"), BETWEEN(6, 1 << 24), .unit = "N", .aliases = "vocab_size",
     .help = "number of pieces in the vocabulary"},
    {JOB_INTEGER("limit_alphabet", "1000"), BETWEEN(1, 0x110000), .unit = "N",
     .help = "maximum number of different characters, the most frequent first; words with other "
             "characters become [UNK]"},
    {JOB_INTEGER("min_frequency", "2"), BETWEEN(1, 1e15), .unit = "N",
     .help = "how often a pair of pieces must occur to be merged"},
    {JOB_TEXT("output", NULL), .unit = "FILE", .help = "file for the vocabulary (vocab.txt)"},
};

const struct job_row job_vocab = {
    .about = {"vocab", "train a WordPiece vocabulary"},
    .jobs = JOB_VOCAB,
    JOB_SETTINGS(settings),
    .required = "output",
    .usage = "--text FILE... | --extracted DIR --output vocab.txt [--size 30522]",
    .example = "berth vocab --text corpus/*.txt --size 30522 --output vocab.txt",
    .notes =
        "The special pieces [PAD] [UNK] [CLS] [SEP] [MASK] come first, then single characters, "
        "then longer pieces, the most useful first. Fewer pieces than requested are written if "
        "nothing else is frequent enough. Use the vocabulary with the casing (do_lower_case) that "
        "it was made with.",
    .json = "print the counts as one JSON object",
    .follows = "nothing will be written",
    .run = run,
};
