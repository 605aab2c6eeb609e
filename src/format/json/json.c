// SPDX-License-Identifier: Apache-2.0
// JSON values through jansson, which parses and stores them; no other file includes it.
// json_write.c writes them.
//
// Leaves out comments and everything else outside RFC 8259, but for Python's NaN and Infinity.
#include "format/json/json.h"

#include "core/encoding.h"
#include "core/memory.h"
#include "core/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// Removes jansson's macro: json.h declares a function of this name.
#undef json_is_boolean

// --- reading ------------------------------------------------------------------------------------

// Limits the depth before jansson, which is recursive, parses the text. Ignores brackets in
// strings.
static int is_too_deep(const char *bytes, size_t length) {
    size_t depth = 0;
    int in_string = 0;
    for (size_t i = 0; i < length; i++) {
        char c = bytes[i];
        if (in_string && c == '\\') {
            i++;
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string && (c == '{' || c == '[') && ++depth > JSON_DEPTH_LIMIT) {
            return 1;
        } else if (!in_string && (c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return 0;
}

// Refuses NUL bytes, which jansson ignores in some places between values.
static enum berth_status refuse_nul(const char *name, const char *bytes, size_t length,
                                    struct berth_error *error) {
    const char *nul = length > 0 ? memchr(bytes, '\0', length) : NULL;
    if (nul == NULL) {
        return BERTH_OK;
    }
    int line = 1, column = 0;
    for (const char *at = bytes; at < nul; at++) {
        line += *at == '\n';
        column = *at == '\n' ? 0 : column + 1;
    }
    return error_set(error, BERTH_BAD_DATA,
                     "%s: line %d, column %d (byte %zu): not valid JSON: a NUL byte", name, line,
                     column + 1, (size_t)(nul - bytes));
}

// Whether there is memory for the longest possible string. If jansson's buffer cannot grow, jansson
// drops a byte without an error.
static int can_allocate_text(size_t length) {
    void *buffer = memory_array(2, length + 1); // it doubles
    memory_free(buffer);
    return buffer != NULL;
}

// The length of the character, or of the escape up to its letter, that the text begins with.
static size_t unit_length(const char *bytes, size_t length) {
    return bytes[0] == '\\' && length > 1 ? 2 : 1;
}

// The length of the number that the text begins with; 0: none.
static size_t number_length(const char *bytes, size_t length) {
    size_t end = 0;
    while (end < length && bytes[end] != '\0' &&
           strchr(end == 0 ? "-0123456789" : "-+.0123456789eE", bytes[end]) != NULL) {
        end++;
    }
    return end;
}

static int is_integer_beyond_64_bits(const char *number, size_t length) {
    const size_t sign = number[0] == '-', digits = length - sign;
    const char *limit = sign ? "9223372036854775808" : "9223372036854775807";
    for (size_t i = sign; i < length; i++) {
        if (number[i] < '0' || number[i] > '9') {
            return 0;
        }
    }
    return digits > strlen(limit) ||
           (digits == strlen(limit) && memcmp(number + sign, limit, digits) > 0);
}

// Copies the text and makes integers beyond 64 bits reals, by ".0".
static void mark_long_integers(struct buffer *to, const char *bytes, size_t length) {
    int in_string = 0;
    for (size_t i = 0, taken; i < length; i += taken) {
        const size_t number = in_string ? 0 : number_length(bytes + i, length - i);
        taken = number > 0 ? number : unit_length(bytes + i, length - i);
        in_string ^= bytes[i] == '"';
        buffer_put(to, bytes + i, taken);
        if (number > 0 && is_integer_beyond_64_bits(bytes + i, number)) {
            buffer_put_text(to, ".0");
        }
    }
}

// Parses a text in which jansson found a number out of range.
static json *parse_long_integers(const char *bytes, size_t length, size_t flags,
                                 json_error_t *problem) {
    struct buffer text = {0};
    mark_long_integers(&text, bytes, length);
    json *value = text.failed ? NULL : json_loadb(text.bytes, text.length, flags, problem);
    problem->text[0] = text.failed ? '\0' : problem->text[0];
    buffer_done(&text);
    if (value == NULL && problem->text[0] != '\0') { // the error's position, without the ".0"
        value = json_loadb(bytes, length, flags | JSON_DECODE_INT_AS_REAL, problem);
    }
    return value;
}

static enum berth_status parse(const char *name, const char *bytes, size_t length, json **value,
                               struct berth_error *error) {
    TRY(refuse_nul(name, bytes, length, error));
    if (is_too_deep(bytes, length)) {
        return error_set(error, BERTH_BAD_DATA, "%s: JSON nested deeper than %d levels", name,
                         JSON_DEPTH_LIMIT);
    }
    if (!can_allocate_text(length)) {
        return error_no_memory(error, length, name);
    }
    size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_error_t problem = {0};
    errno = 0;
    *value = json_loadb(bytes, length, flags, &problem);
    if (*value == NULL && json_error_code(&problem) == json_error_numeric_overflow) {
        // Tokenizer settings use integers such as 1000000000000000019884624838656 for "no limit".
        *value = parse_long_integers(bytes, length, flags, &problem);
    }
    if (*value != NULL) {
        return BERTH_OK;
    }
    // When an allocation fails, jansson gives no reason, or calls the text invalid.
    if (problem.text[0] == '\0' || errno == ENOMEM) {
        return error_no_memory(error, length, name);
    }
    return error_set(error, BERTH_BAD_DATA, "%s: line %d, column %d (byte %d): not valid JSON: %s",
                     name, problem.line, problem.column, problem.position, problem.text);
}

enum berth_status json_read_memory(const char *name, const char *bytes, size_t length, json **value,
                                   struct berth_error *error) {
    struct buffer own = {0};
    *value = NULL;
    enum berth_status status = encoding_normalise(name, &bytes, &length, &own, error);
    if (status == BERTH_OK) {
        status = parse(name, bytes, length, value, error);
    }
    buffer_done(&own);
    return status;
}

enum berth_status json_read_file(const char *path, json **value, struct berth_error *error) {
    char *bytes;
    size_t length;
    *value = NULL;
    TRY(file_read(path, JSON_FILE_LIMIT, &bytes, &length, error));
    enum berth_status status = json_read_memory(path, bytes, length, value, error);
    memory_free(bytes);
    return status;
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

// Python's word for a number that is not finite, if the text begins with one; else NULL.
static const char *python_word(const char *bytes, size_t length) {
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t size = strlen(words[i]);
        if (size <= length && memcmp(bytes, words[i], size) == 0) {
            return words[i];
        }
    }
    return NULL;
}

// Copies the text and replaces these words by null, except in strings.
static void replace_python_words(struct buffer *to, const char *bytes, size_t length) {
    int in_string = 0;
    for (size_t i = 0; i < length;) {
        const char *word = in_string ? NULL : python_word(bytes + i, length - i);
        const size_t taken = word != NULL ? strlen(word) : unit_length(bytes + i, length - i);
        in_string ^= bytes[i] == '"';
        buffer_put(to, word != NULL ? "null" : bytes + i, word != NULL ? 4 : taken);
        i += taken;
    }
}

enum berth_status json_read_python_file(const char *path, json **value, struct berth_error *error) {
    struct buffer text = {0};
    char *bytes;
    size_t length;
    *value = NULL;
    TRY(file_read(path, JSON_FILE_LIMIT, &bytes, &length, error));
    replace_python_words(&text, bytes, length);
    memory_free(bytes);
    const enum berth_status status =
        text.failed ? error_no_memory(error, length, path)
                    : json_read_memory(path, text.bytes, text.length, value, error);
    buffer_done(&text);
    return status;
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

static const char *type_name(const json *value) {
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",    [JSON_ARRAY] = "an array",
        [JSON_STRING] = "a string",     [JSON_INTEGER] = "an integer",
        [JSON_REAL] = "a real number",  [JSON_TRUE] = "true or false",
        [JSON_FALSE] = "true or false", [JSON_NULL] = "null"};
    return names[json_typeof(value)];
}

static enum berth_status wrong_type(const char *name, const char *key, const char *expected,
                                    const json *found, struct berth_error *error) {
    return error_set(error, BERTH_CONFIG, "%s: key \"%s\": expected %s, found %s", name, key,
                     expected, type_name(found));
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
