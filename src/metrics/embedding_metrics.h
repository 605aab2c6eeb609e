// SPDX-License-Identifier: Apache-2.0
// Metrics of sentence embeddings, named as in sentence-transformers but without "cosine_". The
// correlation of cosines with scores is in glue_metrics.h.
#ifndef BERTH_METRICS_EMBEDDING_METRICS_H
#define BERTH_METRICS_EMBEDDING_METRICS_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

// vectors[count][size], each of norm 1 or zero.
struct embedding_set {
    const float *vectors;
    size_t count, size;
};

// The cosine of two vectors.
double embedding_cosine(const struct embedding_set *set, uint32_t a, uint32_t b);

// The fraction of examples, `texts` indices of vectors each, in which the first vector has a larger
// cosine with the second than with each further one. count > 0.
double embedding_triplet_accuracy(const struct embedding_set *set, const uint32_t *examples,
                                  size_t texts, size_t count);

// Retrieval: pairs[count][2] of a query and a text that answers it. The nearest texts of each query
// are found among all second texts. A pair may occur more than once.
#define EMBEDDING_RECALLS 4
extern const size_t embedding_recall_depths[EMBEDDING_RECALLS]; // 1, 3, 5, 10

struct embedding_retrieval {
    double recalls[EMBEDDING_RECALLS]; // mean over the queries of the fraction of their texts that
                                       // are among the nearest 1, 3, 5, 10
    double reciprocal_rank;            // mean of 1 / rank of the nearest correct text, 0 beyond 10
};

// Of texts with equal cosines, the one with the lower index is nearer. Computed with `threads`
// threads. The only error is BERTH_NO_MEMORY.
enum berth_status embedding_retrieve(const struct embedding_set *set, const uint32_t *pairs,
                                     size_t count, int threads, struct embedding_retrieval *result,
                                     struct berth_error *error);
// The most memory that embedding_retrieve takes.
size_t embedding_retrieve_bytes(size_t count, int threads);

#endif
