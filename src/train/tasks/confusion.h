// SPDX-License-Identifier: Apache-2.0
// The confusion matrix of an evaluation for reports (BERTH_DETAIL, "confusion"). It takes
// memory for its cells or for the examples, whichever are fewer.
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
    struct confusion_cell *cells; // [classes][classes], or one for each example so far
    size_t count;                 // of cells
    size_t classes;               // 0: a cell for each example
};

// For up to `examples` calls of confusion_count.
enum berth_status confusion_init(struct confusion *confusion, const char *const *names,
                                 size_t classes, size_t examples, struct berth_error *error);
// The most memory that it takes, with a copy for sorting.
size_t confusion_bytes(size_t classes, size_t examples);
static inline void confusion_count(struct confusion *confusion, int32_t expected,
                                   int32_t predicted) {
    struct confusion_cell *cell =
        &confusion->cells[confusion->classes > 0
                              ? (size_t)expected * confusion->classes + (size_t)predicted
                              : confusion->count++];
    cell->expected = expected;
    cell->predicted = predicted;
    cell->count++;
}
// Logs the cells that are not empty, the most frequent first, and frees them.
void confusion_log(struct confusion *confusion, int64_t step, const struct berth_log *log);

#endif
