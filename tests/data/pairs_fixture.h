// SPDX-License-Identifier: Apache-2.0
// Tables of pairs in memory, for the tests of their reading and of their labels.
#ifndef BERTH_TESTS_PAIRS_FIXTURE_H
#define BERTH_TESTS_PAIRS_FIXTURE_H

#include "core/harness.h"
#include "data/pairs/glue_tasks.h"
#include "data/pairs/pairs.h"

#include <string.h>

static const struct pair_settings plain = {.text_column = "a", .label_column = "l"};
static const char three[] = "a\tl\nx\tcat\nx\tdog\nx\tant\n"; // classes ant, cat, dog

static inline void assert_says(const char *message, const char *part) {
    if (strstr(message, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", message, part);
    }
}

static inline struct pair_dataset read_text(const char *text,
                                            const struct pair_settings *settings) {
    struct pair_dataset set;
    struct berth_error error = {0};
    if (pairs_read_memory("t", text, strlen(text), settings, &set, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return set;
}

static inline const struct glue_task *task_of(const char *name) {
    const struct glue_task *task;
    assert_int_equal(glue_task_find(name, &task, NULL), BERTH_OK);
    return task;
}

#endif
