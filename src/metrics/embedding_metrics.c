// SPDX-License-Identifier: Apache-2.0
#include "metrics/embedding_metrics.h"

#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

const size_t embedding_recall_depths[EMBEDDING_RECALLS] = {1, 3, 5, 10};

#define RANK_LIMIT 10 // reciprocal ranks beyond it are 0
#define LANES 16      // partial sums, so that the compiler can use vectors

double embedding_cosine(const struct embedding_set *set, uint32_t a, uint32_t b) {
    const float *x = set->vectors + a * set->size, *y = set->vectors + b * set->size;
    float sums[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= set->size; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            sums[k] += x[i + k] * y[i + k];
        }
    }
    double sum = 0;
    for (; i < set->size; i++) {
        sum += (double)x[i] * (double)y[i];
    }
    for (size_t k = 0; k < LANES; k++) {
        sum += (double)sums[k];
    }
    return sum;
}

double embedding_triplet_accuracy(const struct embedding_set *set, const uint32_t *examples,
                                  size_t texts, size_t count) {
    size_t right = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t *t = examples + texts * i;
        const double near = embedding_cosine(set, t[0], t[1]);
        size_t nearer = 0;
        for (size_t k = 2; k < texts; k++) {
            nearer += !(near > embedding_cosine(set, t[0], t[k]));
        }
        right += nearer == 0;
    }
    return (double)right / (double)count;
}

// --- retrieval ----------------------------------------------------------------------------------

struct retrieval {
    const struct embedding_set *set;
    uint32_t (*pairs)[2]; // sorted, each once
    size_t count;
    uint32_t *texts; // distinct second texts, ascending
    size_t text_count;
    size_t *starts; // [queries + 1] first pair of each query
    size_t queries;
    double (*scores)[EMBEDDING_RECALLS + 1]; // [queries] recalls, then the reciprocal rank
};

static int by_numbers(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return x[0] != y[0] ? (x[0] > y[0]) - (x[0] < y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

static int by_number(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void sort_pairs(struct retrieval *r, const uint32_t *pairs, size_t count) {
    memcpy(r->pairs, pairs, count * sizeof *r->pairs);
    qsort(r->pairs, count, sizeof *r->pairs, by_numbers);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || by_numbers(r->pairs[r->count - 1], r->pairs[i]) != 0) {
            memmove(r->pairs[r->count++], r->pairs[i], sizeof *r->pairs);
        }
    }
    for (size_t i = 0; i < r->count; i++) {
        if (i == 0 || r->pairs[i][0] != r->pairs[i - 1][0]) {
            r->starts[r->queries++] = i;
        }
        r->texts[i] = r->pairs[i][1];
    }
    r->starts[r->queries] = r->count;
    qsort(r->texts, r->count, sizeof *r->texts, by_number);
    for (size_t i = 0; i < r->count; i++) {
        if (i == 0 || r->texts[i] != r->texts[r->text_count - 1]) {
            r->texts[r->text_count++] = r->texts[i];
        }
    }
}

// The rank of a text: how many texts are nearer to the query.
static size_t rank_of(const struct retrieval *r, const double *cosines, size_t text) {
    size_t nearer = 0;
    for (size_t i = 0; i < r->text_count; i++) {
        nearer += cosines[i] > cosines[text] || (cosines[i] == cosines[text] && i < text);
    }
    return nearer;
}

static void score_query(const struct retrieval *r, size_t query, double *cosines) {
    const size_t first = r->starts[query], count = r->starts[query + 1] - first;
    double *scores = r->scores[query];
    size_t best = r->text_count;
    memset(scores, 0, sizeof *r->scores);
    for (size_t i = 0; i < r->text_count; i++) {
        cosines[i] = embedding_cosine(r->set, r->pairs[first][0], r->texts[i]);
    }
    for (size_t i = first; i < first + count; i++) {
        const uint32_t *text =
            bsearch(&r->pairs[i][1], r->texts, r->text_count, sizeof *r->texts, by_number);
        const size_t rank = rank_of(r, cosines, (size_t)(text - r->texts));
        best = rank < best ? rank : best;
        for (size_t k = 0; k < EMBEDDING_RECALLS; k++) {
            scores[k] += rank < embedding_recall_depths[k] ? 1 / (double)count : 0;
        }
    }
    scores[EMBEDDING_RECALLS] = best < RANK_LIMIT ? 1 / (double)(best + 1) : 0;
}

// Returns 0 when out of memory.
static int score_queries(const struct retrieval *r, int threads) {
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(| : failed)
    {
        double *cosines = memory_array(r->text_count, sizeof *cosines);
        failed = cosines == NULL;
#pragma omp for schedule(static)
        for (size_t query = 0; query < r->queries; query++) {
            if (cosines != NULL) {
                score_query(r, query, cosines);
            }
        }
        memory_free(cosines);
    }
    return !failed;
}

static void add_queries(const struct retrieval *r, struct embedding_retrieval *result) {
    const double queries = (double)r->queries;
    *result = (struct embedding_retrieval){.reciprocal_rank = 0};
    for (size_t query = 0; query < r->queries; query++) {
        for (size_t k = 0; k < EMBEDDING_RECALLS; k++) {
            result->recalls[k] += r->scores[query][k];
        }
        result->reciprocal_rank += r->scores[query][EMBEDDING_RECALLS];
    }
    for (size_t k = 0; k < EMBEDDING_RECALLS; k++) {
        result->recalls[k] /= queries;
    }
    result->reciprocal_rank /= queries;
}

enum berth_status embedding_retrieve(const struct embedding_set *set, const uint32_t *pairs,
                                     size_t count, int threads, struct embedding_retrieval *result,
                                     struct berth_error *error) {
    struct retrieval r = {.set = set};
    r.pairs = memory_array(count, sizeof *r.pairs);
    r.texts = memory_array(count, sizeof *r.texts);
    r.starts = memory_array(count + 1, sizeof *r.starts);
    r.scores = memory_array(count, sizeof *r.scores);
    int complete = r.pairs != NULL && r.texts != NULL && r.starts != NULL && r.scores != NULL;
    if (complete) {
        sort_pairs(&r, pairs, count);
        complete = score_queries(&r, threads);
    }
    if (complete) {
        add_queries(&r, result);
    }
    memory_free(r.pairs);
    memory_free(r.texts);
    memory_free(r.starts);
    memory_free(r.scores);
    return complete ? BERTH_OK
                    : error_no_memory(error, count * sizeof *r.scores, "the scores of a retrieval");
}

size_t embedding_retrieve_bytes(size_t count, int threads) {
    const struct retrieval *r = NULL;
    return count * (2 * sizeof *r->pairs + sizeof *r->texts + sizeof *r->starts +
                    sizeof *r->scores + (size_t)threads * sizeof(double)); // sorting copies pairs
}
