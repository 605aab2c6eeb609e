// SPDX-License-Identifier: Apache-2.0
// Chooses the negatives of one query from its candidates: removes by each rule in turn, sorts, and
// takes a range of ranks. The search before it is mine.c's and model/nearest.c's. Called by mine.c
// for each query of a round.
#include "api/negatives.h"

#include "core/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const negative_rule_names[NEGATIVE_RULES] = {"absolute_margin", "relative_margin",
                                                         "max_score", "min_score"};

static int by_score(const void *a, const void *b) {
    const struct nearest *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score) - (x->score > y->score)
                                : (x->index > y->index) - (x->index < y->index);
}

// No comparison is true of a limit that is NaN.
static int removes(enum negative_rule rule, float limit, float score, float positive) {
    switch (rule) {
    case NEGATIVE_ABSOLUTE_MARGIN:
        return score + limit > positive;
    case NEGATIVE_RELATIVE_MARGIN:
        return score > positive - fabsf(positive) * limit;
    case NEGATIVE_MAX_SCORE:
        return score > limit;
    default:
        return score < limit;
    }
}

// Moves `wanted` of the candidates, drawn without repetition, to the front.
static void draw(const struct negative_rules *rules, uint32_t query, struct nearest *candidates,
                 size_t count, size_t wanted) {
    uint64_t index = 0;
    for (size_t i = 0; i < wanted; i++) {
        const size_t other = i + rng_below(rules->seed, query, &index, (uint32_t)(count - i));
        const struct nearest drawn = candidates[other];
        candidates[other] = candidates[i];
        candidates[i] = drawn;
    }
    qsort(candidates, wanted, sizeof *candidates, by_score);
}

size_t negatives_choose(const struct negative_rules *rules, uint32_t query, float positive,
                        struct nearest *candidates, size_t count, struct nearest *chosen,
                        uint64_t removed[NEGATIVE_RULES]) {
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        int rule = 0;
        while (rule < NEGATIVE_RULES && !removes((enum negative_rule)rule, rules->limits[rule],
                                                 candidates[i].score, positive)) {
            rule++;
        }
        if (rule < NEGATIVE_RULES) {
            removed[rule]++;
        } else {
            candidates[left++] = candidates[i];
        }
    }
    const size_t end = left < rules->range_max ? left : rules->range_max;
    const size_t options = end > rules->range_min ? end - rules->range_min : 0;
    const size_t found = options < rules->count ? options : rules->count;
    if (found == 0) {
        return 0;
    }
    qsort(candidates, left, sizeof *candidates, by_score);
    if (rules->is_random) {
        draw(rules, query, candidates + rules->range_min, options, found);
    }
    memcpy(chosen, candidates + rules->range_min, found * sizeof *chosen);
    return found;
}
