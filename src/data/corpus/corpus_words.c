// SPDX-License-Identifier: Apache-2.0
// Counts words in batches of articles. Each thread gets a run of lines and counts into a table of
// its own; the tables are merged at the end. Common words are in every table, but no thread waits
// for a lock. Called by the job vocab (api/vocab.c).
#include "data/corpus/corpus_words.h"

#include "core/buffer.h"
#include "core/memory.h"

#include <string.h>

#define BATCH_BYTES ((size_t)4 << 20) // per thread
#define RUN_BYTES ((size_t)1 << 30)   // longer lines are split

struct counting {
    const struct corpus_words_args *args;
    struct word_counts *tables; // [args->threads]
    struct buffer batch;
};

// The end of the run that begins at `begin`: after the first newline that gives it `size` bytes.
static size_t run_end(const struct buffer *batch, size_t begin, size_t size) {
    size = size < RUN_BYTES ? size : RUN_BYTES;
    if (batch->length - begin <= size) {
        return batch->length;
    }
    const char *text = batch->bytes + begin;
    size_t left = batch->length - begin;
    left = left < RUN_BYTES ? left : RUN_BYTES;
    const char *newline = memchr(text + size - 1, '\n', left - (size - 1));
    return begin + (newline != NULL ? (size_t)(newline - text) + 1 : left);
}

static enum berth_status count_run(const struct corpus_words_args *args, struct word_counts *table,
                                   const char *text, size_t length) {
    return args->pipeline != NULL
               ? word_counts_add_lines(table, args->pipeline, text, length, NULL)
               : word_counts_add_text(table, text, length, args->lower_case, NULL);
}

static enum berth_status count_batch(struct counting *counting, struct berth_error *error) {
    int threads = counting->args->threads;
    const struct buffer *batch = &counting->batch;
    size_t size = batch->length / (size_t)threads + 1;
    for (size_t begin = 0; begin < batch->length;) {
        size_t ends[threads + 1];
        ends[0] = begin;
        for (int i = 0; i < threads; i++) {
            ends[i + 1] = ends[i] < batch->length ? run_end(batch, ends[i], size) : ends[i];
        }
        int failed = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(| : failed)
        for (int i = 0; i < threads; i++) {
            failed |= count_run(counting->args, &counting->tables[i], batch->bytes + ends[i],
                                ends[i + 1] - ends[i]) != BERTH_OK;
        }
        if (failed) {
            return error_no_memory(error, 0, "the words of the text");
        }
        begin = ends[threads];
    }
    return BERTH_OK;
}

static enum berth_status count_all(struct counting *counting, struct word_counts *counts,
                                   uint64_t *bytes, struct berth_error *error) {
    const struct corpus_words_args *args = counting->args;
    for (;;) {
        // Fills the batch; it is empty at the end of the corpus.
        size_t wanted = BATCH_BYTES * (size_t)counting->args->threads;
        buffer_clear(&counting->batch);
        while (counting->batch.length < wanted) {
            const char *lines;
            size_t length;
            TRY(corpus_next(counting->args->corpus, &lines, &length, error));
            if (length == 0) {
                break;
            }
            buffer_put(&counting->batch, lines, length);
        }
        if (counting->batch.failed) {
            return error_no_memory(error, wanted, "a batch of text");
        }
        if (counting->batch.length == 0) {
            for (int i = 0; i < counting->args->threads; i++) {
                struct word_counts *table = &counting->tables[i];
                for (size_t w = 0; w < table->words.count; w++) {
                    TRY(word_counts_add(counts, string_index_bytes(&table->words, w),
                                        string_index_length(&table->words, w), table->counts[w],
                                        error));
                }
                word_counts_done(table);
            }
            return BERTH_OK;
        }
        TRY(count_batch(counting, error));
        *bytes += counting->batch.length;
        log_progress_bytes(args->log, "words", (int64_t)corpus_position(args->corpus),
                           (int64_t)corpus_size(args->corpus));
        if (args->stop != NULL && *args->stop != 0) {
            return error_set(error, BERTH_INTERRUPTED, "stopped while counting words");
        }
    }
}

enum berth_status corpus_words(const struct corpus_words_args *args, struct word_counts *counts,
                               uint64_t *bytes, struct berth_error *error) {
    struct counting counting = {.args = args};
    *bytes = 0;
    counting.tables = memory_array_zeroed((size_t)args->threads, sizeof *counting.tables);
    if (counting.tables == NULL) {
        return error_no_memory(error, sizeof *counting.tables, "tables of words");
    }
    enum berth_status status = count_all(&counting, counts, bytes, error);
    for (int i = 0; i < args->threads; i++) {
        word_counts_done(&counting.tables[i]);
    }
    memory_free(counting.tables);
    buffer_done(&counting.batch);
    return status;
}
