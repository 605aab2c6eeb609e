// SPDX-License-Identifier: Apache-2.0
// The official SQuAD metrics, v1.1 and v2.0, equal to those of the published scripts to the last
// digit. The task answer scores an evaluation, and `berth evaluate squad` a file.
#ifndef BERTH_METRICS_SQUAD_METRICS_H
#define BERTH_METRICS_SQUAD_METRICS_H

#include "core/error.h"
#include "data/squad/squad.h"

#include <stddef.h>

struct squad_score {
    double exact_match, f1; // percent
};
// The v1.1 score of predictions[i] for examples[i].
enum berth_status squad_score_v1(const struct squad_dataset *dataset,
                                 const char *const *predictions, struct squad_score *score,
                                 struct berth_error *error);

// The v2.0 scores in percent: of all questions, of those with and those without an answer, and, if
// there are null odds, at the best thresholds.
struct squad_subset_score {
    double exact, f1;
    size_t total;
};
struct squad_score_v2 {
    struct squad_subset_score all, answered, unanswered;
    double best_exact, best_exact_threshold, best_f1, best_f1_threshold; // NaN without odds
};
// predictions[i] and odds[i] (NULL: no odds) belong to examples[i]; every example has a prediction.
enum berth_status squad_score_v2(const struct squad_dataset *dataset,
                                 const char *const *predictions, const double *odds,
                                 struct squad_score_v2 *score, struct berth_error *error);
size_t squad_score_v2_bytes(size_t questions); // the most memory that it takes

// Evaluates a predictions file as the official script does. The result is the JSON object that the
// script prints: v1.1: exact_match, f1. v2.0: exact, f1, total, HasAns_*, NoAns_* and, with null
// odds, best_exact, best_exact_thresh, best_f1, best_f1_thresh. Free it with memory_free.
struct squad_evaluation_files {
    const char *dataset, *predictions; // paths
    const char *null_odds;             // NULL: none
};
enum berth_status squad_evaluate_files(const struct squad_evaluation_files *files,
                                       double null_threshold, const struct berth_log *log,
                                       char **json_text, struct berth_error *error);

#endif
