// SPDX-License-Identifier: Apache-2.0
// JSON values, which jansson stores; no other file includes it. json_scan.c reads their text,
// json_write.c writes them.
//
// Leaves out comments and everything else outside RFC 8259, but for Python's NaN and Infinity.
#include "format/json/json.h"

#include "core/encoding.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "format/json/json_scan.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// Removes jansson's macro: json.h declares a function of this name.
#undef json_is_boolean

// --- reading ------------------------------------------------------------------------------------

// What a text may have besides RFC 8259, and how much of it.
struct rules {
    int is_python;
    int depth_limit;
    size_t values_limit;
};

// Values that are being built: open[i] is the object or array of the scanner's level i.
struct builder {
    struct json_scan scan;
    json_t *open[JSON_DEPTH_LIMIT];
};

// Integers beyond 64 bits become reals: tokenizer settings use 1000000000000000019884624838656 for
// "no limit". NULL when out of memory; *is_huge: beyond every real.
static json_t *new_number(const struct json_scan_value *value, int *is_huge) {
    int64_t integer;
    double real = 0;
    const char after = value->text[value->length];
    value->text[value->length] = '\0';
    const int is_integer =
        value->kind == SCAN_INTEGER && number_parse_integer(value->text, &integer);
    *is_huge = !is_integer && !number_parse_real(value->text, &real);
    value->text[value->length] = after;
    return is_integer ? json_integer(integer) : json_real(real);
}

static json_t *new_value(const struct json_scan_value *value) {
    switch (value->kind) {
    case SCAN_OBJECT:
        return json_object();
    case SCAN_ARRAY:
        return json_array();
    case SCAN_TEXT:
        return json_stringn_nocheck(value->text, value->length);
    case SCAN_TRUE:
        return json_true();
    case SCAN_FALSE:
        return json_false();
    default:
        return json_null();
    }
}

// Adds the value to the innermost object or array; *root: there is none. Takes ownership.
static enum berth_status add_value(struct builder *builder, int depth, json_t *value, json_t **root,
                                   struct berth_error *error) {
    if (value == NULL) {
        return error_no_memory(error, builder->scan.length, builder->scan.name);
    }
    if (depth == 0) {
        *root = value;
        return BERTH_OK;
    }
    json_t *parent = builder->open[depth - 1];
    const struct json_level *level = &builder->scan.levels[depth - 1];
    if (level->close == '}' && json_object_get(parent, level->key) != NULL) {
        json_decref(value);
        return json_scan_error(&builder->scan, "duplicate key", error);
    }
    const int failed = level->close == '}' ? json_object_set_new_nocheck(parent, level->key, value)
                                           : json_array_append_new(parent, value);
    return failed == 0 ? BERTH_OK
                       : error_no_memory(error, builder->scan.length, builder->scan.name);
}

static enum berth_status build(struct builder *builder, json_t **root, struct berth_error *error) {
    struct json_scan *scan = &builder->scan;
    do {
        const int depth = scan->depth;
        struct json_scan_value found;
        int is_huge = 0;
        TRY(json_scan_next(scan, &found, error));
        if (found.kind == SCAN_END) {
            continue;
        }
        json_t *value = found.kind == SCAN_INTEGER || found.kind == SCAN_REAL
                            ? new_number(&found, &is_huge)
                            : new_value(&found);
        if (is_huge) {
            json_decref(value);
            return json_scan_error(scan, "a number beyond the range of 64-bit reals", error);
        }
        TRY(add_value(builder, depth, value, root, error));
        if (scan->depth > depth) {
            builder->open[depth] = value;
        }
    } while (scan->depth > 0);
    return json_scan_end(scan, error);
}

// The scanner decodes a copy, so that errors count lines in the text itself.
static enum berth_status parse(const char *name, const char *bytes, size_t length,
                               const struct rules *rules, json **value, struct berth_error *error) {
    struct builder builder;
    char *copy = memory_string_of(bytes, length);
    if (copy == NULL) {
        return error_no_memory(error, length, name);
    }
    json_scan_begin(&builder.scan, name, copy, length);
    builder.scan.original = bytes;
    builder.scan.is_python = rules->is_python;
    builder.scan.depth_limit = rules->depth_limit;
    builder.scan.values_limit = rules->values_limit;
    const enum berth_status status = build(&builder, value, error);
    if (status != BERTH_OK) {
        json_free(*value);
        *value = NULL;
    }
    memory_free(copy);
    return status;
}

static enum berth_status read_text(const char *name, const char *bytes, size_t length,
                                   const struct rules *rules, json **value,
                                   struct berth_error *error) {
    struct buffer own = {0};
    *value = NULL;
    enum berth_status status = encoding_normalise(name, &bytes, &length, &own, error);
    if (status == BERTH_OK) {
        status = parse(name, bytes, length, rules, value, error);
    }
    buffer_done(&own);
    return status;
}

static enum berth_status read_file(const char *path, const struct rules *rules, json **value,
                                   struct berth_error *error) {
    char *bytes;
    size_t length;
    *value = NULL;
    TRY(file_read(path, JSON_FILE_LIMIT, &bytes, &length, error));
    const enum berth_status status = read_text(path, bytes, length, rules, value, error);
    memory_free(bytes);
    return status;
}

static const struct rules strict = {0, JSON_DEPTH_LIMIT, SIZE_MAX};
static const struct rules python = {1, JSON_DEPTH_LIMIT, SIZE_MAX};

enum berth_status json_read_memory(const char *name, const char *bytes, size_t length, json **value,
                                   struct berth_error *error) {
    return read_text(name, bytes, length, &strict, value, error);
}

enum berth_status json_read_limited(const char *name, const char *bytes, size_t length, int depth,
                                    size_t values, json **value, struct berth_error *error) {
    const struct rules rules = {0, depth, values};
    return read_text(name, bytes, length, &rules, value, error);
}

enum berth_status json_read_file(const char *path, json **value, struct berth_error *error) {
    return read_file(path, &strict, value, error);
}

enum berth_status json_read_python_file(const char *path, json **value, struct berth_error *error) {
    return read_file(path, &python, value, error);
}

// Counts brackets outside strings.
size_t json_first_end(const char *bytes, size_t length) {
    size_t depth = 0;
    int in_string = 0;
    for (size_t i = 0; i < length; i++) {
        char c = bytes[i];
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
        } else if (c == '"') {
            in_string = 1;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && (depth == 0 || --depth == 0)) {
            return i + 1;
        }
    }
    return length;
}

void json_free(json *value) {
    json_decref(value);
}

// --- types and children -------------------------------------------------------------------------

int json_is_object_value(const json *value) {
    return json_is_object(value);
}

int json_is_array_value(const json *value) {
    return json_is_array(value);
}

int json_is_text(const json *value) {
    return json_is_string(value);
}

int json_is_number_value(const json *value) {
    return json_is_number(value);
}

int json_is_integer_value(const json *value) {
    if (json_is_integer(value)) {
        return 1;
    }
    double real = json_real_value(value);
    return json_is_real(value) && fabs(real) <= 0x1p53 && floor(real) == real;
}

int json_is_real_value(const json *value) {
    return json_is_real(value);
}

int json_is_null_value(const json *value) {
    return json_is_null(value);
}

int json_is_boolean(const json *value) {
    return json_is_true(value) || json_is_false(value);
}

const json *json_member(const json *object, const char *key) {
    return json_object_get(object, key);
}

size_t json_length(const json *value) {
    return json_is_object(value) ? json_object_size(value) : json_array_size(value);
}

const json *json_at(const json *array, size_t index) {
    return json_array_get(array, index);
}

const char *json_text(const json *value) {
    return json_string_value(value);
}

size_t json_text_length(const json *value) {
    return json_string_length(value);
}

int64_t json_as_integer(const json *value) {
    if (json_is_integer(value)) {
        return json_integer_value(value);
    }
    return json_is_integer_value(value) ? (int64_t)json_real_value(value) : 0;
}

double json_as_real(const json *value) {
    return json_number_value(value);
}

int json_truth(const json *value) {
    return json_is_true(value);
}

void json_print_number(const json *value, char text[NUMBER_TEXT_SIZE]) {
    if (json_is_integer_value(value)) {
        snprintf(text, NUMBER_TEXT_SIZE, "%" PRId64, json_as_integer(value));
    } else {
        number_print_real(text, NUMBER_TEXT_SIZE, json_as_real(value));
    }
}

int json_walk_next(struct json_walk *walk) {
    // jansson's iterators take a mutable object; this code does not change it.
    json_t *object = (json_t *)walk->object;
    walk->iterator = walk->key == NULL ? json_object_iter(object)
                                       : json_object_iter_next(object, walk->iterator);
    if (walk->iterator == NULL) {
        return 0;
    }
    walk->key = json_object_iter_key(walk->iterator);
    walk->value = json_object_iter_value(walk->iterator);
    return 1;
}

void json_remove(json *object, const char *key) {
    json_object_del(object, key);
}

void json_remove_nulls(json *value) {
    const char *key;
    json_t *child;
    void *next;
    size_t i;
    json_object_foreach_safe(value, next, key, child) {
        if (json_is_null(child)) {
            json_object_del(value, key);
        } else {
            json_remove_nulls(child);
        }
    }
    json_array_foreach(value, i, child) {
        json_remove_nulls(child);
    }
}

// --- typed members ------------------------------------------------------------------------------

static enum berth_status wrong_type(const char *name, const char *key, const char *expected,
                                    const json *found, struct berth_error *error) {
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",    [JSON_ARRAY] = "an array",
        [JSON_STRING] = "a string",     [JSON_INTEGER] = "an integer",
        [JSON_REAL] = "a real number",  [JSON_TRUE] = "true or false",
        [JSON_FALSE] = "true or false", [JSON_NULL] = "null"};
    return error_key(error, BERTH_CONFIG, name, key, "expected %s, found %s", expected,
                     names[json_typeof(found)]);
}

enum berth_status json_get_integer(const json *object, const char *name, const char *key,
                                   int64_t *result, struct berth_error *error) {
    const json *value = json_member(object, key);
    if (value == NULL) {
        return BERTH_OK;
    }
    if (!json_is_integer_value(value)) {
        return wrong_type(name, key, "an integer", value, error);
    }
    *result = json_as_integer(value);
    return BERTH_OK;
}

enum berth_status json_get_real(const json *object, const char *name, const char *key,
                                double *result, struct berth_error *error) {
    const json *value = json_member(object, key);
    if (value == NULL) {
        return BERTH_OK;
    }
    if (!json_is_number(value)) {
        return wrong_type(name, key, "a number", value, error);
    }
    *result = json_number_value(value);
    return BERTH_OK;
}

enum berth_status json_get_boolean(const json *object, const char *name, const char *key,
                                   int *result, struct berth_error *error) {
    const json *value = json_member(object, key);
    if (value == NULL) {
        return BERTH_OK;
    }
    if (!json_is_boolean(value)) {
        return wrong_type(name, key, "true or false", value, error);
    }
    *result = json_is_true(value);
    return BERTH_OK;
}

enum berth_status json_get_text(const json *object, const char *name, const char *key,
                                const char **result, struct berth_error *error) {
    const json *value = json_member(object, key);
    if (value == NULL) {
        return BERTH_OK;
    }
    if (!json_is_string(value)) {
        return wrong_type(name, key, "a string", value, error);
    }
    *result = json_string_value(value);
    return BERTH_OK;
}

// --- building -----------------------------------------------------------------------------------

json *json_new_object(void) {
    return json_object();
}

json *json_new_array(void) {
    return json_array();
}

json *json_new_text(const char *text) {
    return json_string(text);
}

json *json_new_path(const char *path) {
    return utf8_is_valid(path, strlen(path)) ? json_string(path) : json_null();
}

json *json_new_integer(int64_t value) {
    return json_integer(value);
}

json *json_new_real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json *json_new_boolean(int value) {
    return value ? json_true() : json_false();
}

json *json_new_null(void) {
    return json_null();
}

json *json_copy_deep(const json *value) {
    return json_deep_copy(value);
}

int json_set(json *object, const char *key, json *value) {
    return json_object_set_new(object, key, value);
}

int json_append(json *array, json *value) {
    return json_array_append_new(array, value);
}

json *json_object_of(const struct json_pair *pairs, size_t count) {
    json *object = json_object();
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        if (pairs[i].key == NULL) {
            json_free(pairs[i].value);
        } else {
            failed |= json_set(object, pairs[i].key, pairs[i].value);
        }
    }
    return json_unless_failed(object, failed);
}

json *json_unless_failed(json *value, int failed) {
    if (failed) {
        json_free(value);
        return NULL;
    }
    return value;
}
