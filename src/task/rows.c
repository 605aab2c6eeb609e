// SPDX-License-Identifier: Apache-2.0
#include "task/rows.h"

#include "core/memory.h"

#include <string.h>

static void copy_row(const struct text_rows *rows, size_t i) {
    struct task_text *item = rows->items[i];
    const struct berth_text_status *own = &rows->statuses[i];
    item->tokens_read = own->tokens;
    item->truncated = own->truncated;
    item->width = rows->size;
    item->row_count = 1;
    item->rows = memory_array(rows->size, sizeof *item->rows);
    if (own->error.status != BERTH_OK) {
        task_text_fail(item, own->error.status, own->error.message);
    } else if (item->rows == NULL) {
        task_text_fail(item, BERTH_NO_MEMORY, "out of memory");
    } else {
        memcpy(item->rows, rows->rows + i * rows->size, rows->size * sizeof *item->rows);
    }
}

// The items that have the setting.
static void gather(const struct text_work *work, struct text_rows *rows, int setting,
                   struct task_text *const *items, size_t count) {
    rows->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (work->setting(items[i]) == setting) {
            rows->texts[rows->count] =
                (struct berth_text){.text = items[i]->texts[0], .pair = items[i]->texts[1]};
            rows->items[rows->count++] = items[i];
        }
    }
}

static enum berth_status run_setting(const struct text_work *work, const struct task_model *model,
                                     struct text_rows *rows, int setting,
                                     struct berth_error *error) {
    if (rows->count > 0) {
        TRY(work->compute(model, rows, setting, error));
    }
    for (size_t i = 0; i < rows->count; i++) {
        copy_row(rows, i);
    }
    return BERTH_OK;
}

enum berth_status task_run_texts(const struct text_work *work, const struct task_model *model,
                                 struct task_text *const *items, size_t count,
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
        status = run_setting(work, model, &rows, setting, error);
    }
    memory_free(rows.items);
    memory_free(rows.texts);
    memory_free(rows.statuses);
    memory_free(rows.rows);
    return status;
}

void task_write_numbers(struct json_line *line, const struct task_model *model,
                        const struct task_text *text) {
    (void)model;
    json_line_open(line, NULL, '[');
    for (size_t i = 0; i < text->row_count * text->width; i++) {
        json_line_float(line, NULL, text->rows[i]);
    }
    json_line_close(line, ']');
}
