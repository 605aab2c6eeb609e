// SPDX-License-Identifier: Apache-2.0
// The only file that includes jansson. jansson parses and keeps the values; the text is written
// here, because its "%.17g" prints 0.1 as 0.10000000000000001 and readers of predictions compare
// files with Python's: reals are the shortest text that reads back the same, in Python's spelling.
//
// Leaves out: comments, NaN and Infinity, and everything else that RFC 8259 leaves out.
#include "format/json.h"

#include "core/memory.h"
#include "core/number.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// Macros of jansson's; json.h's own names are meant below.
#undef json_is_boolean
#undef JSON_COMPACT

#define JSON_FILE_LIMIT ((size_t)1 << 32)
#define JSON_DEPTH_LIMIT 512

// --- reading ------------------------------------------------------------------------------------

// jansson parses by recursion; this bounds it beforehand. Brackets inside strings do not count.
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

// jansson passes over some NUL bytes between values. None may stand in JSON.
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

enum berth_status json_read_memory(const char *name, const char *bytes, size_t length, json **value,
                                   struct berth_error *error) {
    *value = NULL;
    TRY(refuse_nul(name, bytes, length, error));
    if (is_too_deep(bytes, length)) {
        return error_set(error, BERTH_BAD_DATA, "%s: JSON nested deeper than %d levels", name,
                         JSON_DEPTH_LIMIT);
    }
    size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_error_t problem;
    *value = json_loadb(bytes, length, flags, &problem);
    if (*value == NULL && json_error_code(&problem) == json_error_numeric_overflow) {
        // Tokenizer settings hold integers such as 1000000000000000019884624838656 for "no limit".
        *value = json_loadb(bytes, length, flags | JSON_DECODE_INT_AS_REAL, &problem);
    }
    if (*value != NULL) {
        return BERTH_OK;
    }
    if (json_error_code(&problem) == json_error_out_of_memory) {
        return error_no_memory(error, length, name);
    }
    return error_set(error, BERTH_BAD_DATA, "%s: line %d, column %d (byte %d): not valid JSON: %s",
                     name, problem.line, problem.column, problem.position, problem.text);
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

int json_walk_next(struct json_walk *walk) {
    json_t *object = (json_t *)walk->object; // iterators may change an object; this one does not
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

// --- typed members ------------------------------------------------------------------------------

static const char *type_name(const json *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "text";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a real number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        return "null";
    }
    return "an unknown type";
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
        return wrong_type(name, key, "text", value, error);
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

json *json_new_integer(int64_t value) {
    return json_integer(value);
}

json *json_new_real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json *json_new_boolean(int value) {
    return value ? json_true() : json_false();
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

// --- writing ------------------------------------------------------------------------------------

struct output {
    char *text;
    size_t length, capacity;
    enum json_style style;
    int failed; // memory ran out, or nested too deep
};

static void put(struct output *out, const char *bytes, size_t length) {
    if (out->failed) {
        return;
    }
    if (out->length + length + 1 > out->capacity) {
        size_t capacity = 2 * (out->length + length) + 256;
        char *text = memory_resize(out->text, capacity, 1);
        if (text == NULL) {
            out->failed = 1;
            return;
        }
        out->text = text;
        out->capacity = capacity;
    }
    memcpy(out->text + out->length, bytes, length);
    out->length += length;
    out->text[out->length] = '\0';
}

static void put_text(struct output *out, const char *text) {
    put(out, text, strlen(text));
}

// The code point at `bytes`, which jansson has checked to be UTF-8; *used gets its bytes.
static uint32_t decode(const unsigned char *bytes, size_t *used) {
    *used = bytes[0] < 0x80 ? 1 : bytes[0] < 0xE0 ? 2 : bytes[0] < 0xF0 ? 3 : 4;
    uint32_t point = *used == 1 ? bytes[0] : bytes[0] & (0xFFu >> (*used + 1));
    for (size_t i = 1; i < *used; i++) {
        point = point << 6 | (bytes[i] & 0x3Fu);
    }
    return point;
}

static void put_unicode_escape(struct output *out, uint32_t point) {
    char text[16];
    if (point >= 0x10000) {
        point -= 0x10000;
        snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xD800 + (point >> 10)),
                 (unsigned)(0xDC00 + (point & 0x3FF)));
    } else {
        snprintf(text, sizeof text, "\\u%04x", (unsigned)point);
    }
    put_text(out, text);
}

static void put_string(struct output *out, const char *text, size_t length) {
    static const char short_escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt"; // pairs: character, letter
    put(out, "\"", 1);
    for (size_t i = 0, used; i < length; i += used) {
        uint32_t point = decode((const unsigned char *)text + i, &used);
        const char *escape = short_escapes;
        while (*escape != '\0' && (uint32_t)*escape != point) {
            escape += 2;
        }
        if (*escape != '\0') {
            put(out, (char[]){'\\', escape[1]}, 2);
        } else if (point < 0x20 || (point >= 0x7F && out->style == JSON_INDENT_4_ASCII)) {
            put_unicode_escape(out, point);
        } else {
            put(out, text + i, used);
        }
    }
    put(out, "\"", 1);
}

// The scientific form with the fewest digits that reads back the same, "1.25e-05", but for zeros at
// the end of the mantissa.
static void print_scientific(char *text, size_t size, double value) {
    double back = NAN;
    int first = fabs(value) < 1e-300 ? 1 : 15; // 15 digits always survive, but for subnormals
    for (int digits = first; digits <= 17 && back != value; digits++) {
        number_format(text, size, "%.*e", digits - 1, value);
        if (!number_parse_real(text, &back)) {
            back = NAN;
        }
    }
}

// Python's repr(): an exponent below 1e-4 and from 1e16 on, else at least one decimal.
static void put_real(struct output *out, double value) {
    char text[64];
    print_scientific(text, sizeof text, value);
    char *e = strchr(text, 'e');
    char *last = e - 1; // last digit of the mantissa that is not a zero
    while (*last == '0' && last > text + 1) {
        last--;
    }
    last -= *last == '.';
    char exponent_text[8];
    snprintf(exponent_text, sizeof exponent_text, "%s", e);
    int64_t exponent = 0;
    number_parse_integer(exponent_text + 1, &exponent);
    if (exponent < -4 || exponent >= 16) {
        snprintf(last + 1, sizeof exponent_text, "%s", exponent_text);
    } else {
        const char *point = strchr(text, '.');
        int digits_behind = last > point && point != NULL ? (int)(last - point) : 0;
        int decimals = digits_behind - (int)exponent;
        number_format(text, sizeof text, "%.*f", decimals > 1 ? decimals : 1, value);
    }
    put_text(out, text);
}

static void put_line_break(struct output *out, int depth) {
    if (out->style == JSON_COMPACT) {
        return;
    }
    put(out, "\n", 1);
    for (int i = 0; i < depth * (out->style == JSON_INDENT_2_SORTED ? 2 : 4); i++) {
        put(out, " ", 1);
    }
}

static void put_value(struct output *out, const json_t *value, int depth);

static void put_array(struct output *out, const json_t *array, int depth) {
    size_t count = json_array_size(array);
    put(out, "[", 1);
    for (size_t i = 0; i < count; i++) {
        put_text(out, i == 0 ? "" : out->style == JSON_COMPACT ? ", " : ",");
        put_line_break(out, depth + 1);
        put_value(out, json_array_get(array, i), depth + 1);
    }
    if (count > 0) {
        put_line_break(out, depth);
    }
    put(out, "]", 1);
}

static int compare_keys(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The object's keys, sorted when the style says so.
static const char **object_keys(const json_t *object, enum json_style style) {
    size_t count = 0;
    const char **keys = memory_array(json_object_size(object), sizeof *keys);
    struct json_walk walk = {.object = object};
    while (keys != NULL && json_walk_next(&walk)) {
        keys[count++] = walk.key;
    }
    if (keys != NULL && style == JSON_INDENT_2_SORTED) {
        qsort(keys, count, sizeof *keys, compare_keys);
    }
    return keys;
}

static void put_object(struct output *out, const json_t *object, int depth) {
    size_t count = json_object_size(object);
    const char **keys = object_keys(object, out->style);
    if (keys == NULL) {
        out->failed = 1;
        return;
    }
    put(out, "{", 1);
    for (size_t i = 0; i < count; i++) {
        put_text(out, i == 0 ? "" : out->style == JSON_COMPACT ? ", " : ",");
        put_line_break(out, depth + 1);
        put_string(out, keys[i], strlen(keys[i]));
        put_text(out, ": ");
        put_value(out, json_object_get(object, keys[i]), depth + 1);
    }
    if (count > 0) {
        put_line_break(out, depth);
    }
    put(out, "}", 1);
    memory_free(keys);
}

static void put_value(struct output *out, const json_t *value, int depth) {
    char text[32];
    if (value == NULL || depth > JSON_DEPTH_LIMIT) {
        out->failed = 1;
        return;
    }
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        put_object(out, value, depth);
        break;
    case JSON_ARRAY:
        put_array(out, value, depth);
        break;
    case JSON_STRING:
        put_string(out, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        snprintf(text, sizeof text, "%" PRId64, (int64_t)json_integer_value(value));
        put_text(out, text);
        break;
    case JSON_REAL:
        put_real(out, json_real_value(value));
        break;
    case JSON_TRUE:
        put_text(out, "true");
        break;
    case JSON_FALSE:
        put_text(out, "false");
        break;
    case JSON_NULL:
        put_text(out, "null");
        break;
    }
}

char *json_write(const json *value, enum json_style style) {
    struct output out = {.style = style};
    put_value(&out, value, 0);
    if (out.failed) {
        memory_free(out.text);
        return NULL;
    }
    return out.text;
}

enum berth_status json_write_file(const json *value, enum json_style style, const char *path,
                                  struct berth_error *error) {
    char *text = json_write(value, style);
    if (text == NULL) {
        return error_set(error, BERTH_NO_MEMORY, "out of memory for the text of %s", path);
    }
    struct file_writer writer;
    enum berth_status status = file_writer_open(&writer, path, error);
    if (status == BERTH_OK) {
        file_writer_put(&writer, text, strlen(text), error);
        file_writer_put(&writer, "\n", 1, error);
        status = file_writer_commit(&writer, error);
        file_writer_abort(&writer);
    }
    memory_free(text);
    return status;
}
