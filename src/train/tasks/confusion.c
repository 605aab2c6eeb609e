// SPDX-License-Identifier: Apache-2.0
// Counts pairs of true and predicted classes after an evaluation and logs each cell that is not
// empty, for the report page to draw. With many classes and few examples it sorts the examples
// instead of keeping all cells.
#include "train/tasks/confusion.h"

#include "core/memory.h"

#include <stdlib.h>

static int compare_classes(const void *a, const void *b) {
    const struct confusion_cell *left = a, *right = b;
    if (left->expected != right->expected) {
        return left->expected < right->expected ? -1 : 1;
    }
    return left->predicted < right->predicted ? -1 : left->predicted > right->predicted;
}

// The most frequent first; among equals by the classes' order.
static int compare_counts(const void *a, const void *b) {
    const struct confusion_cell *left = a, *right = b;
    if (left->count != right->count) {
        return left->count > right->count ? -1 : 1;
    }
    return compare_classes(a, b);
}

static size_t cells_of(size_t classes, size_t examples) {
    return classes * classes <= examples ? classes * classes : examples;
}

size_t confusion_bytes(size_t classes, size_t examples) {
    return 2 * cells_of(classes, examples) * sizeof(struct confusion_cell);
}

enum berth_status confusion_init(struct confusion *confusion, const char *const *names,
                                 size_t classes, size_t examples, struct berth_error *error) {
    const size_t cells = cells_of(classes, examples);
    const int is_whole = cells == classes * classes;
    *confusion = (struct confusion){.names = names,
                                    .cells = memory_array_zeroed(cells, sizeof *confusion->cells),
                                    .count = is_whole ? cells : 0,
                                    .classes = is_whole ? classes : 0};
    return confusion->cells != NULL
               ? BERTH_OK
               : error_no_memory(error, cells * sizeof *confusion->cells, "the confusion matrix");
}

void confusion_log(struct confusion *confusion, int64_t step, const struct berth_log *log) {
    // Adds up the cells of the same classes and leaves out the empty ones.
    struct confusion_cell *cells = confusion->cells;
    size_t count = 0;
    if (confusion->classes == 0) {
        qsort(cells, confusion->count, sizeof *cells, compare_classes);
    }
    for (size_t i = 0; i < confusion->count; i++) {
        if (cells[i].count == 0) {
            continue;
        }
        if (count > 0 && compare_classes(&cells[count - 1], &cells[i]) == 0) {
            cells[count - 1].count += cells[i].count;
        } else {
            cells[count++] = cells[i];
        }
    }
    confusion->count = count;
    qsort(confusion->cells, confusion->count, sizeof *confusion->cells, compare_counts);
    for (size_t i = 0; i < confusion->count; i++) {
        const struct confusion_cell *cell = &confusion->cells[i];
        LOG_RECORD(log, BERTH_DETAIL, "confusion", log_integer("step", step),
                   log_text("expected", confusion->names[cell->expected]),
                   log_text("predicted", confusion->names[cell->predicted]),
                   log_integer("count", cell->count));
    }
    memory_free(confusion->cells);
    *confusion = (struct confusion){.names = NULL};
}
