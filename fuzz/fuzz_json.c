// SPDX-License-Identifier: Apache-2.0
// The JSON reader: whatever parses is walked, written in every style, and what was written must
// parse again.
#include "core/memory.h"
#include "format/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void get_members(const json *value) {
    int64_t integer = 0;
    double real = 0;
    int truth = 0;
    const char *text = NULL;
    json_get_integer(value, "fuzz", "i", &integer, NULL);
    json_get_real(value, "fuzz", "r", &real, NULL);
    json_get_boolean(value, "fuzz", "b", &truth, NULL);
    json_get_text(value, "fuzz", "t", &text, NULL);
}

static void visit(const json *value) {
    struct json_walk walk = {.object = value};
    while (json_walk_next(&walk)) {
        get_members(walk.value);
    }
    for (size_t i = 0; i < json_length(value); i++) {
        const json *element = json_at(value, i);
        if (json_is_text(element) && json_text(element)[json_text_length(element)] != '\0') {
            abort();
        }
        if (json_is_integer_value(element) && !json_is_number_value(element)) {
            abort();
        }
        json_as_integer(element);
        json_as_real(element);
    }
    get_members(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct berth_error error;
    json *value, *again;
    if (json_read_memory("fuzz", (const char *)data, size, &value, &error) != BERTH_OK) {
        return 0;
    }
    visit(value);
    for (int style = JSON_COMPACT; style <= JSON_INDENT_4_ASCII; style++) {
        char *text = json_write(value, (enum json_style)style);
        // A key may hold an escaped NUL, at which its text ends: two keys may then be one.
        if (text != NULL &&
            json_read_memory("again", text, strlen(text), &again, &error) == BERTH_OK) {
            json_free(again);
        } else if (text == NULL || strstr(error.message, "duplicate") == NULL) {
            abort();
        }
        memory_free(text);
    }
    json_free(value);
    return 0;
}
