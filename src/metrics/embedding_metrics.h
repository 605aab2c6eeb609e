// SPDX-License-Identifier: Apache-2.0
// Metrics of sentence embeddings, named as in sentence-transformers but without "cosine_". The
// correlation of cosines with scores is in glue_metrics.h, retrieval in retrieval_metrics.h. The
// task embed computes the vectors.
#ifndef BERTH_METRICS_EMBEDDING_METRICS_H
#define BERTH_METRICS_EMBEDDING_METRICS_H

#include <stddef.h>
#include <stdint.h>

// vectors[count][size]; for cosines each of norm 1 or zero.
struct embedding_set {
    const float *vectors;
    size_t count, size;
};

// The inner product of two vectors, which is their cosine if their norms are 1.
double embedding_product(const struct embedding_set *set, uint32_t a, uint32_t b);

// The fraction of examples, `texts` indices of vectors each, in which the first vector has a larger
// cosine with the second than with each further one. count > 0.
double embedding_triplet_accuracy(const struct embedding_set *set, const uint32_t *examples,
                                  size_t texts, size_t count);

#endif
