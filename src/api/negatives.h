// SPDX-License-Identifier: Apache-2.0
// Which of the texts near a query become its negatives: the rules of sentence-transformers'
// mine_hard_negatives, in its order and in floats as there. mine.c asks for each query; where
// candidates come from does not matter here.
#ifndef BERTH_API_NEGATIVES_H
#define BERTH_API_NEGATIVES_H

#include "model/nearest.h"

#include <stddef.h>
#include <stdint.h>

// Rules that remove a candidate by its score and the least score of the query's positives.
enum negative_rule {
    NEGATIVE_ABSOLUTE_MARGIN, // score + limit > positive
    NEGATIVE_RELATIVE_MARGIN, // score > positive - |positive| limit
    NEGATIVE_MAX_SCORE,       // score > limit
    NEGATIVE_MIN_SCORE,       // score < limit
    NEGATIVE_RULES
};
// Their names, which are those of the settings.
extern const char *const negative_rule_names[NEGATIVE_RULES];

struct negative_rules {
    float limits[NEGATIVE_RULES]; // NaN: the rule is not applied
    // Of the candidates that are left, the best first, those in [range_min, range_max) count.
    size_t range_min, range_max;
    size_t count;  // of the negatives of a query
    int is_random; // they are drawn from these, with draws that belong to the query; else the best
    uint64_t seed;
};

// Sorts the candidates, none of which is a positive, and puts up to `count` of them into `chosen`,
// the best first. Returns how many; removed[rule] counts those that each rule removed first.
size_t negatives_choose(const struct negative_rules *rules, uint32_t query, float positive,
                        struct nearest *candidates, size_t count, struct nearest *chosen,
                        uint64_t removed[NEGATIVE_RULES]);

#endif
