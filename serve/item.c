// SPDX-License-Identifier: Apache-2.0
// What the tasks have in common: freeing items, positions in their texts, results as one text.
#include "core/memory.h"
#include "serve/task.h"

// --- items ---------------------------------------------------------------------------------------

void item_fail(struct item *item, enum berth_status status, const char *message) {
    item->status = status;
    memory_free(item->message);
    item->message = memory_string(message);
}

void item_done(struct item *item) {
    berth_answers_free(item->answers, item->answer_count);
    memory_free(item->answers);
    berth_tags_done(&item->tags);
    berth_filled_free(&item->filled, 1);
    memory_free(item->numbers);
    memory_free(item->message);
}

// --- positions -----------------------------------------------------------------------------------

void text_position_advance(struct text_position *position, const char *text, int64_t character) {
    while (text[position->bytes] != '\0' && position->characters < character) {
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

// --- outputs -------------------------------------------------------------------------------------

size_t task_one(const struct instance *instance) {
    return 1;
}

void task_put_text(struct tensor_writer *writer, const struct instance *instance,
                   const struct item *item) {
    struct json_line own = {0};
    instance->task->write(&own, instance, item);
    writer->line->failed |= own.failed;
    tensor_put_text(writer, own.text);
    json_line_done(&own);
}
