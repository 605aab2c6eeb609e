// SPDX-License-Identifier: Apache-2.0
// Exact match and F1 of a single answer, and the threshold of odds above which "no answer" scores
// best. squad_metrics.c computes them for data sets in memory and for whole files (squad_metrics.h,
// squad_evaluate.c), and reports show them (task/squad_details.c).
#ifndef BERTH_METRICS_SQUAD_MATCH_H
#define BERTH_METRICS_SQUAD_MATCH_H

#include "core/error.h"
#include "data/squad/squad.h"

#include <stddef.h>
#include <stdint.h>

struct squad_match {
    int exact;
    double f1;
    size_t reference_words; // tokens of the normalised reference
};

// version_2 selects the F1 of texts without tokens. On failure *match is zero.
enum berth_status squad_match(const char *prediction, const char *reference, int version_2,
                              struct squad_match *match, struct berth_error *error);

// The best exact match and the best F1 over the references of an example, independently of each
// other. Version 2 ignores references without tokens and uses "" if none is left.
enum berth_status squad_match_example(const struct squad_example *example, const char *prediction,
                                      int version_2, struct squad_match *best,
                                      struct berth_error *error);

// --- the threshold for "no answer" of evaluate-v2.0.py -------------------------------------------

// A question's null odds; `order` breaks ties.
struct squad_odds {
    double odds;
    size_t example, order;
};

// Sorts by odds, ascending; ties by order.
void squad_odds_sort(struct squad_odds *odds, size_t count);

struct squad_best {
    double sum;   // of the scores of all questions at the best threshold
    size_t index; // of that threshold in the sorted odds; SIZE_MAX: answering nothing is best (the
                  // official threshold is then 0)
};

// Tries the thresholds in ascending order. A question whose odds pass the threshold adds its score
// if it has an answer, and -1 if it has none but was given one. scores[i] and predictions[i] belong
// to example i.
struct squad_best squad_best_threshold(const struct squad_dataset *dataset,
                                       const struct squad_match *scores,
                                       const char *const *predictions,
                                       const struct squad_odds *sorted, size_t count, int is_f1);

#endif
