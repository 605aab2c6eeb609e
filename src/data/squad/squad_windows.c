// SPDX-License-Identifier: Apache-2.0
// Fills windows over documents; squad_features.c says where they begin.
//
// A token's best window (max context) is the one with the largest min(tokens to its left, tokens to
// its right) + 0.01 * length; of equals, the first. Called by squad_features.c for each window that
// it has planned.
#include "data/squad/squad_windows.h"

#include <string.h>

int64_t squad_window_length(const struct squad_plan *plan, int64_t window) {
    int64_t rest = plan->document->token_count - window * plan->step;
    return rest < plan->room ? rest : plan->room;
}

int squad_window_is_kept(const struct squad_plan *plan, int64_t window) {
    int64_t first = window * plan->step, last = first + squad_window_length(plan, window) - 1;
    return !plan->by_words || (plan->first_word >= first && plan->last_word <= last);
}

// Whether `window` is the best window of document token `token`.
static int is_best_window(const struct squad_plan *plan, int64_t window, int64_t token) {
    int64_t first = token < plan->room ? 0 : (token - plan->room) / plan->step + 1;
    int64_t last = token / plan->step < plan->windows ? token / plan->step : plan->windows - 1;
    int64_t best = -1;
    double best_score = 0.0;
    for (int64_t w = first; w <= last; w++) {
        int64_t length = squad_window_length(plan, w);
        int64_t left = token - w * plan->step, right = length - 1 - left;
        double score = (double)(left < right ? left : right) + 0.01 * (double)length;
        if (best < 0 || score > best_score) {
            best = w;
            best_score = score;
        }
    }
    return best == window;
}

static void fill_tokens(const struct squad_feature_set *set, const struct squad_plan *plan,
                        int64_t window, struct tokenizer_special special,
                        const struct squad_feature *feature) {
    const struct squad_document *document = plan->document;
    int32_t *ids = set->ids + feature->first, *words = set->words + feature->first;
    int8_t *types = set->type_ids + feature->first;
    uint8_t *best = set->max_context + feature->first;
    int64_t begin = feature->document_begin, length = feature->document_length;

    ids[0] = special.cls;
    memcpy(ids + 1, plan->query, (size_t)plan->query_length * sizeof *ids);
    for (int i = 1; i <= special.separators; i++) {
        ids[begin - i] = special.sep;
    }
    for (int64_t i = 0; i < begin; i++) {
        types[i] = 0;
        words[i] = -1;
        best[i] = 0;
    }
    for (int64_t i = 0; i < length; i++) {
        int64_t token = feature->document_start + i;
        ids[begin + i] = document->ids[token];
        words[begin + i] = document->words[token];
        types[begin + i] = 1;
        best[begin + i] = plan->windows == 1 || is_best_window(plan, window, token);
    }
    ids[begin + length] = special.sep;
    words[begin + length] = -1;
    types[begin + length] = 1;
    best[begin + length] = 0;
}

// The row of document token `token`, clamped to 0 and to the length of the window, which is no
// label.
static int32_t label_of(const struct squad_feature *feature, int64_t token) {
    int64_t row = token - feature->document_start + feature->document_begin;
    row = row > 0 ? row : 0;
    return row < feature->length ? (int32_t)row : feature->length;
}

void squad_windows_fill(const struct squad_feature_set *set, const struct squad_plan *plan,
                        int32_t example, struct tokenizer_special special) {
    size_t token = plan->first_token, number = plan->first_feature;
    for (int64_t w = 0; w < plan->windows; w++) {
        if (!squad_window_is_kept(plan, w)) {
            continue;
        }
        struct squad_feature *feature = &set->features[number];
        int64_t begin = plan->query_length + 1 + special.separators,
                length = squad_window_length(plan, w);
        *feature = (struct squad_feature){.unique_id = SQUAD_FIRST_UNIQUE_ID + (int64_t)number,
                                          .example = example,
                                          .first = (uint32_t)token,
                                          .length = (int32_t)(begin + length + 1),
                                          .document_begin = (int32_t)begin,
                                          .document_length = (int32_t)length,
                                          .document_start = (int32_t)(w * plan->step)};
        if (plan->start >= 0) {
            int64_t first = feature->document_start, past = first + feature->document_length;
            if (plan->by_words || (plan->start >= first && plan->end < past)) {
                feature->start = label_of(feature, plan->start);
                feature->end = label_of(feature, plan->end);
            }
        }
        fill_tokens(set, plan, w, special, feature);
        token += (size_t)feature->length;
        number++;
    }
}
