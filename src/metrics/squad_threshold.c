// SPDX-License-Identifier: Apache-2.0
#include "metrics/squad_threshold.h"

#include <stdlib.h>

static int by_odds(const void *a, const void *b) {
    const struct squad_odds *x = a, *y = b;
    if (x->odds != y->odds) {
        return x->odds < y->odds ? -1 : 1;
    }
    return (x->order > y->order) - (x->order < y->order);
}

void squad_odds_sort(struct squad_odds *odds, size_t count) {
    if (count > 1) {
        qsort(odds, count, sizeof *odds, by_odds);
    }
}

struct squad_best squad_best_threshold(const struct squad_dataset *dataset,
                                       const struct squad_match *scores,
                                       const char *const *predictions,
                                       const struct squad_odds *sorted, size_t count, int is_f1) {
    double current = 0.0;
    for (size_t i = 0; i < dataset->count; i++) {
        current += dataset->examples[i].answer_count == 0;
    }
    struct squad_best best = {current, SIZE_MAX};
    for (size_t i = 0; i < count; i++) {
        size_t example = sorted[i].example;
        if (dataset->examples[example].answer_count > 0) {
            current += is_f1 ? scores[example].f1 : scores[example].exact;
        } else if (*predictions[example] != '\0') {
            current -= 1.0;
        }
        if (current > best.sum) {
            best = (struct squad_best){current, i};
        }
    }
    return best;
}
