// SPDX-License-Identifier: Apache-2.0
// Products of vectors in host memory, and what follows from them; for task/embed.c. Searches of a
// whole corpus are model/nearest.c's.
#include "metrics/embedding_metrics.h"

#define LANES 16 // partial sums, so that the compiler can use vectors

double embedding_product(const struct embedding_set *set, uint32_t a, uint32_t b) {
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
        const double near = embedding_product(set, t[0], t[1]);
        size_t nearer = 0;
        for (size_t k = 2; k < texts; k++) {
            nearer += !(near > embedding_product(set, t[0], t[k]));
        }
        right += nearer == 0;
    }
    return (double)right / (double)count;
}
