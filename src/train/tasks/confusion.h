// SPDX-License-Identifier: Apache-2.0
// The confusion matrix of an evaluation for reports (BERTH_RECORD_DETAIL, "confusion").
#ifndef BERTH_TRAIN_CONFUSION_H
#define BERTH_TRAIN_CONFUSION_H

#include "core/error.h"
#include "core/log.h"

#include <stddef.h>
#include <stdint.h>

struct confusion {
    const char *const *names; // [classes]
    size_t classes;
    int64_t *counts; // [classes * classes]: a row for each expected class
};

enum berth_status confusion_init(struct confusion *confusion, const char *const *names,
                                 size_t classes, struct berth_error *error);
static inline void confusion_count(struct confusion *confusion, int32_t expected,
                                   int32_t predicted) {
    confusion->counts[(size_t)expected * confusion->classes + (size_t)predicted]++;
}
// Logs the cells that are not empty, the most frequent first, and frees the counts.
enum berth_status confusion_log(struct confusion *confusion, int64_t step,
                                const struct berth_log *log, struct berth_error *error);

#endif
