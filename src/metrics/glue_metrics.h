// SPDX-License-Identifier: Apache-2.0
// The metrics of GLUE, named as in its official script. The formulas, and the values where a metric
// is undefined, are those of scikit-learn (accuracy, F1, Matthews) and SciPy (correlations). The
// tasks on classes and embeddings call it after an evaluation; files are written by results.h.
#ifndef BERTH_METRICS_GLUE_METRICS_H
#define BERTH_METRICS_GLUE_METRICS_H

#include "core/error.h"
#include "data/pairs/glue_tasks.h"

#include <stddef.h>
#include <stdint.h>

// The fraction of predictions equal to the label, 0 to 1. count > 0.
double glue_accuracy(const int32_t *predictions, const int32_t *labels, size_t count);

// F1 of the class `positive` against all others, 2 TP / (2 TP + FP + FN); 0 if it is neither
// predicted nor a label.
double glue_f1(const int32_t *predictions, const int32_t *labels, size_t count, int32_t positive);

// Matthews' correlation for `classes` classes, -1 to 1; 0 if all predictions or all labels are of
// one class. BERTH_NO_MEMORY.
enum berth_status glue_matthews(const int32_t *predictions, const int32_t *labels, size_t count,
                                size_t classes, double *result, struct berth_error *error);

// Pearson's correlation; NaN if x or y is constant or contains a NaN, or if count < 2.
double glue_pearson(const double *x, const double *y, size_t count);

// Spearman's correlation: Pearson's of the ranks, where equal values share their mean rank. NaN as
// above. BERTH_NO_MEMORY.
enum berth_status glue_spearman(const double *x, const double *y, size_t count, double *result,
                                struct berth_error *error);
size_t glue_spearman_bytes(size_t count); // the most memory that it takes

// The mean of (x - y)^2. count > 0.
double glue_mse(const double *x, const double *y, size_t count);

#define GLUE_SCORES_MAX 3

// accuracy; accuracy, f1, combined_score; matthews_correlation; pearson, spearmanr, combined_score;
// mse. combined_score is the mean of the two before it.
struct glue_score {
    const char *name;
    double value;
};
struct glue_scores {
    struct glue_score items[GLUE_SCORES_MAX];
    size_t count;
};

// The data to score: classes (values NULL) or real numbers (classes NULL).
struct glue_outcome {
    size_t count;
    size_t class_count;
    const int32_t *predictions, *labels;
    int32_t positive; // class of F1
    const double *predicted_values, *values;
};

// Computes all scores of a metric. BERTH_USAGE: there are no examples, the metric does not fit the
// data, or a class is not below class_count.
enum berth_status glue_score(enum glue_metric metric, const struct glue_outcome *outcome,
                             struct glue_scores *scores, struct berth_error *error);

#endif
