// SPDX-License-Identifier: Apache-2.0
// Multiplies blocks of queries with blocks of the corpus on the device and keeps the best rows of
// each query in a sorted list, on the host's threads. Retrieval, mining and evaluation of
// embeddings call it; approximate search is left out.
#include "model/nearest.h"

#include "core/mat.h"
#include "core/memory.h"
#include "core/stop.h"
#include "device/device.h"

#include <string.h>

#define CORPUS_ROWS ((size_t)4096) // of a block
#define CORPUS_STEP ((size_t)64)   // a small corpus has one block, of a multiple of these rows
#define QUERY_STEP ((size_t)16)    // so have few queries, on the host

struct search {
    const struct nearest_args *args;
    struct nearest *found;
    size_t rows;  // of a block of the corpus
    size_t block; // queries
    // In the device's memory.
    float *queries; // [block][size]
    float *corpus;  // [rows][size]
    float *scores;  // [block][rows]
    float *read;    // the same in the host's memory
};

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t rows_of(size_t corpus_count) {
    return least((corpus_count + CORPUS_STEP - 1) / CORPUS_STEP * CORPUS_STEP, CORPUS_ROWS);
}

// The best `held` of a query are sorted. Rows come by ascending index, so a row goes behind those
// of its score.
static void insert(struct nearest *best, size_t held, size_t count, struct nearest row) {
    size_t first = 0, end = held;
    while (first < end) {
        const size_t middle = (first + end) / 2;
        if (best[middle].score < row.score) {
            end = middle;
        } else {
            first = middle + 1;
        }
    }
    const size_t behind = least(held, count - 1) - first;
    memmove(best + first + 1, best + first, behind * sizeof *best);
    best[first] = row;
}

// Takes the scores of a query with the rows [first, first + rows).
static void take_scores(const struct search *search, size_t query, const float *scores,
                        size_t first, size_t rows) {
    const size_t count = search->args->count;
    struct nearest *best = search->found + query * count;
    for (size_t i = 0; i < rows; i++) {
        const size_t held = least(first + i, count);
        if (held < count || scores[i] > best[count - 1].score) {
            insert(best, held, count, (struct nearest){(uint32_t)(first + i), scores[i]});
        }
    }
}

// Copies the rows [first, first + count) to a block of the device. What is behind them is left as
// it is: finite numbers, whose products are not read.
static void upload(const struct search *search, float *to, const float *from, size_t first,
                   size_t count) {
    struct device *device = search->args->device;
    const size_t size = search->args->size;
    device->upload(device, to, from + first * size, count * size * sizeof *to);
}

static enum berth_status search_blocks(const struct search *search, size_t query, size_t first,
                                       struct berth_error *error) {
    const struct nearest_args *args = search->args;
    struct device *device = args->device;
    const size_t queries = least(search->block, args->query_count - query);
    const size_t rows = least(search->rows, args->corpus_count - first);
    const int64_t block = (int64_t)search->block, size = (int64_t)args->size;
    const int64_t width = (int64_t)search->rows;
    upload(search, search->queries, args->queries, query, queries);
    device->linear_forward(device, mat_of(search->scores, block, width, DTYPE_F32),
                           mat_of(search->queries, block, size, DTYPE_F32),
                           mat_of(search->corpus, width, size, DTYPE_F32), NULL);
    if (!device->is_host) {
        device->download(device, search->read, search->scores,
                         queries * search->rows * sizeof *search->read);
    }
    TRY(device->status(device, error));
#pragma omp parallel for num_threads(device->threads) schedule(static)
    for (size_t i = 0; i < queries; i++) {
        take_scores(search, query + i, search->read + i * search->rows, first, rows);
    }
    return BERTH_OK;
}

static enum berth_status search_corpus(const struct search *search, struct berth_error *error) {
    const struct nearest_args *args = search->args;
    for (size_t first = 0; first < args->corpus_count; first += search->rows) {
        const size_t rows = least(search->rows, args->corpus_count - first);
        upload(search, search->corpus, args->corpus, first, rows);
        for (size_t query = 0; query < args->query_count; query += search->block) {
            if (stop_interrupts(args->stop)) {
                return error_set(error, BERTH_INTERRUPTED,
                                 "stopped on request after %zu of %zu "
                                 "rows of the corpus",
                                 first, args->corpus_count);
            }
            TRY(search_blocks(search, query, first, error));
        }
        log_progress(&args->log, "search", (int64_t)(first + rows), (int64_t)args->corpus_count);
    }
    return BERTH_OK;
}

// A block of device memory, zeros.
static enum berth_status allocate(struct device *device, size_t numbers, float **block,
                                  struct berth_error *error) {
    *block = device->memory_new(device, numbers * sizeof **block);
    return *block != NULL
               ? BERTH_OK
               : device_no_memory(device, numbers * sizeof **block, "a block of the search", error);
}

static void release(struct device *device, float *block, size_t numbers) {
    if (block != NULL) {
        device->memory_free(device, block, numbers * sizeof *block);
    }
}

enum berth_status nearest_find(const struct nearest_args *args, struct nearest *found,
                               struct berth_error *error) {
    struct device *device = args->device;
    // The library of a GPU chooses a product's kernel by its shape, and so the last digits of its
    // sums.
    const size_t whole = (args->query_count + QUERY_STEP - 1) / QUERY_STEP * QUERY_STEP;
    struct search search = {.args = args,
                            .found = found,
                            .rows = rows_of(args->corpus_count),
                            .block = args->device->is_host ? least(whole, NEAREST_QUERIES)
                                                           : NEAREST_QUERIES};
    const size_t queries = search.block * args->size, corpus = search.rows * args->size;
    const size_t scores = search.block * search.rows;
    OWNED float *read = NULL;
    enum berth_status status;
    TRY_DONE(allocate(device, queries, &search.queries, error));
    TRY_DONE(allocate(device, corpus, &search.corpus, error));
    TRY_DONE(allocate(device, scores, &search.scores, error));
    if (!device->is_host) {
        read = memory_array(scores, sizeof *read);
        TRY_DONE(read != NULL ? BERTH_OK
                              : error_no_memory(error, scores * sizeof *read, "the scores"));
    }
    search.read = device->is_host ? search.scores : read;
    TRY_DONE(search_corpus(&search, error));
done:
    release(device, search.queries, queries);
    release(device, search.corpus, corpus);
    release(device, search.scores, scores);
    return status;
}

size_t nearest_bytes(size_t corpus_count, size_t size) {
    const size_t rows = rows_of(corpus_count);
    return (NEAREST_QUERIES * size + rows * size + NEAREST_QUERIES * rows) * sizeof(float);
}
