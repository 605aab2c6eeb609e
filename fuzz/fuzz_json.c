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

static void visit_element(const json *element) {
    if (json_is_text(element) && json_text(element)[json_text_length(element)] != '\0') {
        abort();
    }
    if (json_is_integer_value(element) && !json_is_number_value(element)) {
        abort();
    }
    if (json_is_null_value(element) + json_is_boolean(element) + json_is_object_value(element) +
            json_is_array_value(element) + json_is_text(element) + json_is_number_value(element) !=
        1) {
        abort();
    }
    json_as_integer(element);
    json_as_real(element);
    json_truth(element);
}

static void visit(const json *value) {
    struct json_walk walk = {.object = value};
    while (json_walk_next(&walk)) {
        get_members(walk.value);
        visit_element(walk.value);
    }
    for (size_t i = 0; i < json_length(value); i++) {
        if (json_is_array_value(value)) {
            visit_element(json_at(value, i));
        }
    }
    get_members(value);
}

// What was written must parse again.
// A new value of the same kind, made by the constructors.
static json *rebuild(const json *value) {
    if (json_is_text(value)) {
        return json_new_text(json_text(value));
    }
    if (json_is_integer_value(value)) {
        return json_new_integer(json_as_integer(value));
    }
    if (json_is_number_value(value)) {
        return json_new_real(json_as_real(value));
    }
    return json_is_array_value(value) ? json_new_array() : json_new_boolean(json_truth(value));
}

static void check_rewrite(const json *value, enum json_style style);

static void check_constructors(const json *value) {
    json *object = json_new_object();
    json *array = json_new_array();
    struct json_walk walk = {.object = value};
    while (json_walk_next(&walk)) {
        json_append(array, rebuild(walk.value));
    }
    for (size_t i = 0; json_is_array_value(value) && i < json_length(value); i++) {
        json_append(array, rebuild(json_at(value, i)));
    }
    if (json_set(object, "values", array) != 0) {
        abort();
    }
    check_rewrite(object, JSON_COMPACT);
    json_free(object);
}

static void check_missing_file(void) {
    static int checked;
    json *value;
    struct berth_error error;
    if (checked) {
        return;
    }
    checked = 1;
    if (json_read_file("fuzz/no/such/folder/a.json", &value, &error) == BERTH_OK || value != NULL) {
        abort();
    }
}

static void check_rewrite(const json *value, enum json_style style) {
    struct berth_error error;
    json *again;
    char *text = json_write(value, style);
    // A key may hold an escaped NUL, at which its text ends: two keys may then be one.
    if (text != NULL && json_read_memory("again", text, strlen(text), &again, &error) == BERTH_OK) {
        json_free(again);
    } else if (text == NULL || strstr(error.message, "duplicate") == NULL) {
        abort();
    }
    memory_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json *value;
    if (json_read_memory("fuzz", (const char *)data, size, &value, NULL) != BERTH_OK) {
        return 0;
    }
    visit(value);
    check_missing_file();
    check_constructors(value);
    check_rewrite(value, JSON_COMPACT);
    check_rewrite(value, JSON_INDENT_2_SORTED);
    json *copy = json_copy_deep(value);
    json_remove(copy, "i");
    check_rewrite(copy, JSON_INDENT_4_ASCII);
    json_free(copy);
    json_free(value);
    return 0;
}
