// SPDX-License-Identifier: Apache-2.0
// Texts of a call on their way through a task, and their results: an error of one text alone, what
// a text owns, the order of a ranking, and positions in bytes, characters or UTF-16 units. Used by
// every row; api/run.c and the server turn what is left in a text into the reply.
#include "core/memory.h"
#include "task/network.h"

#include <stdio.h>
#include <stdlib.h>

void task_text_fail(struct task_text *text, enum berth_status status, const char *message) {
    text->status = status;
    memory_free(text->message);
    text->message = memory_string(message);
}

void task_text_done(struct task_text *text) {
    for (size_t i = 0; i < text->owned_count; i++) {
        memory_free(text->owned[i]);
    }
    memory_free(text->owned);
    memory_free(text->items);
    memory_free(text->rows);
    memory_free(text->message);
}

void task_text_check_fit(const struct task_model *model, struct task_text *text) {
    char message[160];
    if (text->status == BERTH_OK && text->truncated && text->settings.overflow == TEXT_FAILS) {
        snprintf(message, sizeof message,
                 "the text has more than the %lld tokens that the model reads; with overflow "
                 "\"cut\" its end is left out",
                 (long long)model->max_tokens);
        task_text_fail(text, BERTH_USAGE, message);
        text->item_count = 0;
    }
}

struct berth_item *task_text_items(struct task_text *text, size_t count) {
    text->items = memory_array(count, sizeof *text->items);
    if (text->items == NULL) {
        task_text_fail(text, BERTH_NO_MEMORY, "out of memory");
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        text->items[i] = (struct berth_item){.text = "", .start = -1, .end = -1, .id = -1};
    }
    text->item_count = count;
    return text->items;
}

float *task_text_rows(struct task_text *text, size_t count, size_t width) {
    memory_free(text->rows);
    text->rows = memory_array_zeroed(count * width, sizeof *text->rows);
    text->row_count = text->rows != NULL ? count : 0;
    text->width = width;
    if (text->rows == NULL) {
        task_text_fail(text, BERTH_NO_MEMORY, "out of memory");
    }
    return text->rows;
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

static int compare_ranked(const void *left, const void *right) {
    const struct task_ranked *a = left, *b = right;
    return a->query != b->query   ? (a->query > b->query ? 1 : -1)
           : a->score != b->score ? (a->score < b->score ? 1 : -1)
                                  : (a->index > b->index) - (a->index < b->index);
}

void task_rank(struct task_ranked *ranked, size_t count) {
    qsort(ranked, count, sizeof *ranked, compare_ranked);
}

enum berth_status task_write_example(struct json_line *line, const struct berth_text *example,
                                     size_t index, int is_trained, struct berth_error *error) {
    const struct {
        const char *key, *text;
    } members[] = {{"text", example->text},
                   {"text_pair", example->pair},
                   {"label", example->label},
                   {"negative", example->more_count > 0 ? example->more[0] : NULL}};
    if (example->more_count > 1) {
        return error_set(error, BERTH_USAGE, "%zu negatives; expected at most one",
                         example->more_count);
    }
    json_line_open(line, NULL, '{');
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (members[i].text != NULL) {
            json_line_text(line, members[i].key, members[i].text);
        }
    }
    json_line_close(line, '}');
    json_line_end(line);
    return BERTH_OK;
}

const char *task_text_own(struct task_text *text, char *string) {
    char **owned =
        memory_grow(text->owned, &text->owned_capacity, text->owned_count + 1, sizeof *owned);
    if (owned != NULL) {
        text->owned = owned;
    }
    if (owned == NULL || string == NULL) {
        memory_free(string);
        task_text_fail(text, BERTH_NO_MEMORY, "out of memory");
        return "";
    }
    text->owned[text->owned_count++] = string;
    return string;
}

// --- positions -----------------------------------------------------------------------------------

void text_position_advance(struct text_position *position, const char *text, int64_t character) {
    text_position_seek(position, text, character, OFFSET_CODE_POINTS);
}

void text_position_seek(struct text_position *position, const char *text, int64_t offset,
                        enum offset_unit unit) {
    while (text[position->bytes] != '\0' && text_position_in(position, unit) < offset) {
        position->utf16_units += 1 + ((unsigned char)text[position->bytes] >= 0xF0);
        position->characters++;
        do {
            position->bytes++;
        } while (((unsigned char)text[position->bytes] & 0xC0) == 0x80);
    }
}

int64_t text_position_in(const struct text_position *position, enum offset_unit unit) {
    return unit == OFFSET_BYTES   ? (int64_t)position->bytes
           : unit == OFFSET_UTF16 ? position->utf16_units
                                  : position->characters;
}
