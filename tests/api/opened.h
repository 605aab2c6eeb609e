// SPDX-License-Identifier: Apache-2.0
// Calls of berth.h that must succeed, and comparison of what they found, for tests.
#ifndef BERTH_TESTS_API_OPENED_H
#define BERTH_TESTS_API_OPENED_H

#include "berth.h"
#include "core/harness.h"

#include <math.h>
#include <string.h>

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static inline struct berth_model *open_model(const char *path, const char *const *settings) {
    struct berth_error error;
    struct berth_model *model = berth_open(path, settings, NULL, &error);
    if (model == NULL) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(error.status, BERTH_OK);
    return model;
}

static inline struct berth_result *run_all(const struct berth_model *model, const char *task,
                                           const struct berth_text *texts, size_t count,
                                           const char *const *settings) {
    struct berth_error error;
    struct berth_result *result = berth_run(model, task, texts, count, settings, NULL, &error);
    if (result == NULL || error.status != BERTH_OK) {
        fail_msg("%s: %s", task, error.message);
    }
    return result;
}

static inline struct berth_result *run_one(const struct berth_model *model, const char *task,
                                           const char *text, const char *pair,
                                           const char *const *settings) {
    const struct berth_text one = {.text = text, .pair = pair};
    return run_all(model, task, &one, 1, settings);
}

// That the call refuses is in `error`; parts of its message.
static inline void expect_refusal(const struct berth_error *error, enum berth_status status,
                                  const char *part) {
    if (error->status != status || strstr(error->message, part) == NULL) {
        fail_msg("%s: %s; expected %s: ...%s...", berth_status_name(error->status), error->message,
                 berth_status_name(status), part);
    }
}

static inline int same_item(const struct berth_item *a, const struct berth_item *b) {
    return strcmp(a->text, b->text) == 0 && memcmp(&a->score, &b->score, sizeof a->score) == 0 &&
           a->start == b->start && a->end == b->end && a->id == b->id && a->group == b->group;
}

// Whether text i of one result and text k of another have the same bits.
static inline int same_found(const struct berth_result *a, size_t i, const struct berth_result *b,
                             size_t k) {
    const struct berth_outcome *x = berth_result_outcome(a, i), *y = berth_result_outcome(b, k);
    size_t counts[2], rows[2], widths[2];
    const struct berth_item *items[] = {berth_result_items(a, i, &counts[0]),
                                        berth_result_items(b, k, &counts[1])};
    const float *numbers[] = {berth_result_rows(a, i, &rows[0], &widths[0]),
                              berth_result_rows(b, k, &rows[1], &widths[1])};
    int same = x->status == y->status && strcmp(x->message, y->message) == 0 &&
               x->tokens == y->tokens && x->truncated == y->truncated && counts[0] == counts[1] &&
               rows[0] == rows[1] && widths[0] == widths[1];
    for (size_t item = 0; same && item < counts[0]; item++) {
        same = same_item(&items[0][item], &items[1][item]);
    }
    return same && (rows[0] == 0 ||
                    memcmp(numbers[0], numbers[1], rows[0] * widths[0] * sizeof *numbers[0]) == 0);
}

#endif
