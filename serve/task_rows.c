// SPDX-License-Identifier: Apache-2.0
#include "serve/task_rows.h"

#include "core/memory.h"

#include <string.h>

static void copy_row(const struct text_rows *rows, size_t i) {
    struct item *item = rows->items[i];
    const struct berth_text_status *own = &rows->statuses[i];
    item->tokens_read = own->tokens;
    item->truncated = own->truncated;
    item->number_count = rows->size;
    item->numbers = memory_array(rows->size, sizeof *item->numbers);
    if (own->error.status != BERTH_OK) {
        item_fail(item, own->error.status, own->error.message);
    } else if (item->numbers == NULL) {
        item_fail(item, BERTH_NO_MEMORY, "out of memory");
    } else {
        memcpy(item->numbers, rows->rows + i * rows->size, rows->size * sizeof *item->numbers);
    }
}

// The items that have the setting.
static void gather(const struct text_work *work, struct text_rows *rows, int setting,
                   struct item *const *items, size_t count) {
    rows->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (work->setting(items[i]) == setting) {
            rows->texts[rows->count] =
                (struct berth_text){.text = items[i]->texts[0], .pair = items[i]->texts[1]};
            rows->items[rows->count++] = items[i];
        }
    }
}

static enum berth_status run_setting(const struct text_work *work, const struct instance *instance,
                                     struct text_rows *rows, int setting,
                                     struct berth_error *error) {
    if (rows->count > 0) {
        TRY(work->compute(instance, rows, setting, error));
    }
    for (size_t i = 0; i < rows->count; i++) {
        copy_row(rows, i);
    }
    return BERTH_OK;
}

enum berth_status task_run_texts(const struct text_work *work, const struct instance *instance,
                                 struct item *const *items, size_t count,
                                 struct berth_error *error) {
    struct text_rows rows = {.items = memory_array(count, sizeof *rows.items),
                             .texts = memory_array(count, sizeof *rows.texts),
                             .statuses = memory_array(count, sizeof *rows.statuses),
                             .rows = memory_array(count * work->size, sizeof *rows.rows),
                             .size = work->size};
    enum berth_status status =
        rows.items != NULL && rows.texts != NULL && rows.statuses != NULL && rows.rows != NULL
            ? BERTH_OK
            : error_no_memory(error, count * work->size * sizeof *rows.rows, "results");
    for (int setting = work->first; status == BERTH_OK && setting < work->end; setting++) {
        gather(work, &rows, setting, items, count);
        status = run_setting(work, instance, &rows, setting, error);
    }
    memory_free(rows.items);
    memory_free(rows.texts);
    memory_free(rows.statuses);
    memory_free(rows.rows);
    return status;
}

void task_put_numbers(struct tensor_writer *writer, const struct instance *instance,
                      const struct item *item) {
    for (size_t i = 0; i < item->number_count; i++) {
        tensor_put_float(writer, item->numbers[i]);
    }
}
