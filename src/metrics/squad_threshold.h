// SPDX-License-Identifier: Apache-2.0
// The search for the no-answer threshold of evaluate-v2.0.py.
#ifndef BERTH_METRICS_SQUAD_THRESHOLD_H
#define BERTH_METRICS_SQUAD_THRESHOLD_H

#include "data/squad/squad.h"
#include "metrics/squad_match.h"

#include <stddef.h>
#include <stdint.h>

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
