// SPDX-License-Identifier: Apache-2.0
#include "train/tasks/confusion.h"

#include "core/memory.h"

#include <stdlib.h>

struct cell {
    int64_t count;
    size_t expected, predicted;
};

// The most frequent first; among equals by the classes' order.
static int compare(const void *a, const void *b) {
    const struct cell *left = a, *right = b;
    if (left->count != right->count) {
        return left->count > right->count ? -1 : 1;
    }
    return left->expected != right->expected ? (left->expected < right->expected ? -1 : 1)
                                             : (left->predicted < right->predicted ? -1 : 1);
}

enum berth_status confusion_init(struct confusion *confusion, const char *const *names,
                                 size_t classes, struct berth_error *error) {
    const size_t count = classes * classes;
    *confusion = (struct confusion){
        .names = names, .classes = classes, .counts = memory_array_zeroed(count, sizeof(int64_t))};
    return confusion->counts != NULL
               ? BERTH_OK
               : error_no_memory(error, count * sizeof(int64_t), "the confusion matrix");
}

static void log_cell(const struct confusion *confusion, const struct cell *cell, int64_t step,
                     const struct berth_log *log) {
    const struct berth_field fields[] = {log_integer("step", step),
                                         log_text("expected", confusion->names[cell->expected]),
                                         log_text("predicted", confusion->names[cell->predicted]),
                                         log_integer("count", cell->count)};
    log_fields(log, BERTH_RECORD_DETAIL, "confusion", fields, sizeof fields / sizeof *fields);
}

enum berth_status confusion_log(struct confusion *confusion, int64_t step,
                                const struct berth_log *log, struct berth_error *error) {
    const size_t count = confusion->classes * confusion->classes;
    struct cell *cells = memory_array(count, sizeof *cells);
    for (size_t i = 0; i < count && cells != NULL; i++) {
        cells[i] =
            (struct cell){confusion->counts[i], i / confusion->classes, i % confusion->classes};
    }
    memory_free(confusion->counts);
    confusion->counts = NULL;
    if (cells == NULL) {
        return error_no_memory(error, count * sizeof *cells, "the confusion matrix");
    }
    qsort(cells, count, sizeof *cells, compare);
    for (size_t i = 0; i < count && cells[i].count > 0; i++) {
        log_cell(confusion, &cells[i], step, log);
    }
    memory_free(cells);
    return BERTH_OK;
}
