// SPDX-License-Identifier: Apache-2.0
// Fuzzes the JSON reader: a value that parses is walked, and written in every style; the written
// text must parse again, and a value rebuilt from its parts has the same text.
//
// Bit 0 of the settings: read through a file.
#include "format/json/json.h"
#include "input.h"

#include <math.h>

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
    require(!json_is_text(element) || json_text(element)[json_text_length(element)] == '\0');
    require(json_is_number_value(element) || !json_is_integer_value(element));
    require(json_is_null_value(element) + json_is_boolean(element) + json_is_object_value(element) +
                json_is_array_value(element) + json_is_text(element) +
                json_is_number_value(element) ==
            1);
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

// *truncated: whether a string has an escaped NUL, at which the constructor truncates it.
static json *rebuild(const json *value, int *truncated);

static json *rebuild_list(const json *value, int *truncated) {
    json *list = json_is_object_value(value) ? json_new_object() : json_new_array();
    struct json_walk walk = {.object = value};
    while (json_walk_next(&walk)) {
        require(json_set(list, walk.key, rebuild(walk.value, truncated)) == 0);
    }
    for (size_t i = 0; json_is_array_value(value) && i < json_length(value); i++) {
        require(json_append(list, rebuild(json_at(value, i), truncated)) == 0);
    }
    return list;
}

static json *rebuild(const json *value, int *truncated) {
    if (json_is_text(value)) {
        *truncated |= strlen(json_text(value)) != json_text_length(value);
        return json_new_text(json_text(value));
    }
    if (json_is_real_value(value) || json_is_null_value(value)) {
        return json_new_real(json_is_null_value(value) ? NAN : json_as_real(value));
    }
    if (json_is_number_value(value)) {
        return json_new_integer(json_as_integer(value));
    }
    return json_is_boolean(value) ? json_new_boolean(json_truth(value))
                                  : rebuild_list(value, truncated);
}

static void check_rebuilt(const json *value) {
    int truncated = 0;
    json *copy = rebuild(value, &truncated);
    char *text = json_write(value, JSON_COMPACT), *again = json_write(copy, JSON_COMPACT);
    require(text != NULL && again != NULL && (truncated || strcmp(text, again) == 0));
    memory_free(text);
    memory_free(again);
    json_free(copy);
}

static void check_rewrite(const json *value, enum json_style style, unsigned fail_at) {
    json *again;
    fuzz_failing_begin(fail_at);
    char *text = json_write(value, style);
    int failed = fuzz_failing_stop(fail_at);
    require(failed == (text == NULL));
    if (failed) {
        return;
    }
    require(json_read_memory("again", text, strlen(text), &again, NULL) == BERTH_OK);
    json_free(again);
    memory_free(text);
}

static enum berth_status read_input(const struct fuzz_input *input, json **value) {
    struct berth_error error = {0};
    enum berth_status status;
    if ((input->settings & 1) == 0) {
        return json_read_memory("fuzz", (const char *)input->bytes, input->size, value, &error);
    }
    const char *path = fuzz_file(input->bytes, input->size);
    fuzz_failing_begin(input->fail_at);
    status = json_read_file(path, value, &error);
    fuzz_failing_end(input->fail_at, status, &error);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    json *value;
    if (read_input(&input, &value) != BERTH_OK) {
        require(value == NULL);
        return 0;
    }
    visit(value);
    check_rebuilt(value);
    check_rewrite(value, JSON_COMPACT, input.fail_at);
    check_rewrite(value, JSON_INDENT_2_SORTED, input.fail_at);
    json *copy = json_copy_deep(value);
    json_remove(copy, "i");
    check_rewrite(copy, JSON_INDENT_4_ASCII, 0);
    json_free(copy);
    json_free(value);
    return 0;
}
