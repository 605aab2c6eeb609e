// SPDX-License-Identifier: Apache-2.0
// The official SQuAD metrics, v1.1 and v2.0, equal to the published scripts to the last digit.
#ifndef BERTH_METRICS_SQUAD_METRICS_H
#define BERTH_METRICS_SQUAD_METRICS_H

#include "core/error.h"
#include "data/squad/squad.h"

#include <stddef.h>

struct squad_score {
    double exact_match, f1; // percent
    size_t total, missing;  // questions; questions without a prediction (count 0)
};
// v1.1's score of predictions[i] for examples[i]; NULL: missing.
enum berth_status squad_score_v1(const struct squad_dataset *dataset,
                                 const char *const *predictions, struct squad_score *score,
                                 struct berth_error *error);

// v2.0's numbers, in per cent: of all questions, those with and those without an answer, and, with
// null odds, the best thresholds.
struct squad_part {
    double exact, f1;
    size_t total;
};
struct squad_score_v2 {
    struct squad_part all, answered, unanswered;
    double best_exact, best_exact_threshold, best_f1, best_f1_threshold; // NaN without odds
};
// predictions[i] and odds[i] (NULL: none) are those of examples[i]; every one has a prediction.
enum berth_status squad_score_v2(const struct squad_dataset *dataset,
                                 const char *const *predictions, const double *odds,
                                 struct squad_score_v2 *score, struct berth_error *error);

// The whole official evaluation of a predictions file, as the JSON object that the scripts print:
// v1.1: exact_match, f1. v2.0: exact, f1, total, HasAns_*, NoAns_* and, with null odds,
// best_exact, best_exact_thresh, best_f1, best_f1_thresh. Free with memory_free.
enum berth_status squad_evaluate_files(const char *dataset_path, const char *predictions_path,
                                       const char *null_odds_path, double null_threshold,
                                       const struct berth_log *log, char **json_text,
                                       struct berth_error *error);

#endif
