// SPDX-License-Identifier: Apache-2.0
// Metrics of scores that should be large for examples with the label 1 and small for those with the
// label 0, named and computed as by sentence-transformers' CrossEncoderClassificationEvaluator.
#ifndef BERTH_METRICS_BINARY_METRICS_H
#define BERTH_METRICS_BINARY_METRICS_H

#include <stddef.h>

struct binary_example {
    float score;
    int label; // 1 or 0
};

// Those above a threshold are predicted to be 1: accuracy and F1 at the threshold that is the best
// for it, of equally good ones the highest. A threshold is halfway between two scores, or beyond
// all of them. Precision and recall are those of F1, all three 0 if no label is 1.
struct binary_scores {
    double accuracy, accuracy_threshold;
    double f1, f1_threshold, precision, recall;
    // The sum over the thresholds, from the highest on, of how much recall grows, times precision;
    // 0 if no label is 1.
    double average_precision;
};

// Sorts the examples. count > 0; scores are not NaN.
struct binary_scores binary_score(struct binary_example *examples, size_t count);

#endif
