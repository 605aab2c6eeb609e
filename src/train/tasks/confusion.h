// SPDX-License-Identifier: Apache-2.0
// The confusion matrix of an evaluation for reports (BERTH_RECORD_DETAIL, "confusion"). It takes
// memory for the examples, not for the cells, most of which are empty if there are many classes.
#ifndef BERTH_TRAIN_CONFUSION_H
#define BERTH_TRAIN_CONFUSION_H

#include "core/error.h"
#include "core/log.h"

#include <stddef.h>
#include <stdint.h>

struct confusion_cell {
    int32_t expected, predicted;
    int64_t count;
};

struct confusion {
    const char *const *names;     // [classes]
    struct confusion_cell *cells; // a cell for each example, until confusion_log combines them
    size_t count;
};

// For up to `examples` calls of confusion_count.
enum berth_status confusion_init(struct confusion *confusion, const char *const *names,
                                 size_t examples, struct berth_error *error);
static inline void confusion_count(struct confusion *confusion, int32_t expected,
                                   int32_t predicted) {
    confusion->cells[confusion->count++] = (struct confusion_cell){expected, predicted, 1};
}
// Logs the cells that are not empty, the most frequent first, and frees them.
void confusion_log(struct confusion *confusion, int64_t step, const struct berth_log *log);

#endif
