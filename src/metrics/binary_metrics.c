// SPDX-License-Identifier: Apache-2.0
// Scores of a yes-or-no question with real-valued predictions, from one walk over them in the order
// of their scores; for the evaluation of cross-encoders (task/rerank.c).
#include "metrics/binary_metrics.h"

#include <math.h>
#include <stdlib.h>

// In descending order; those with equal scores count as one.
static int compare(const void *left, const void *right) {
    const struct binary_example *a = left, *b = right;
    return (a->score < b->score) - (a->score > b->score);
}

static double halfway(const struct binary_example *examples, size_t above, size_t count) {
    const double last = (double)examples[above - 1].score;
    return above == count ? last : (last + (double)examples[above].score) / 2;
}

struct binary_scores binary_score(struct binary_example *examples, size_t count) {
    size_t positives = 0, hits = 0;
    double recall_before = 0;
    qsort(examples, count, sizeof *examples, compare);
    for (size_t i = 0; i < count; i++) {
        positives += examples[i].label == 1;
    }
    struct binary_scores scores = {.accuracy = (double)(count - positives) / (double)count,
                                   .accuracy_threshold =
                                       (double)nextafterf(examples[0].score, INFINITY)};
    for (size_t above = 1; above <= count; above++) {
        hits += examples[above - 1].label == 1;
        if (above < count && examples[above - 1].score == examples[above].score) {
            continue;
        }
        const size_t misses = above - hits;
        const double accuracy = (double)(hits + count - positives - misses) / (double)count;
        if (accuracy > scores.accuracy) {
            scores.accuracy = accuracy;
            scores.accuracy_threshold = halfway(examples, above, count);
        }
        if (hits == 0) {
            continue;
        }
        const double precision = (double)hits / (double)above;
        const double recall = (double)hits / (double)positives;
        const double f1 = 2 * precision * recall / (precision + recall);
        scores.average_precision += (recall - recall_before) * precision;
        recall_before = recall;
        if (f1 > scores.f1) {
            scores.f1 = f1;
            scores.precision = precision;
            scores.recall = recall;
            scores.f1_threshold = halfway(examples, above, count);
        }
    }
    return scores;
}
