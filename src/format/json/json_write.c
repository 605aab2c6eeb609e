// SPDX-License-Identifier: Apache-2.0
// Writes JSON values as text. jansson's "%.17g" prints 0.1 as 0.10000000000000001, but predictions
// are compared with Python's: reals are the shortest text that reads back the same, in Python's
// format. Files appear complete or not at all (core/file_writer.c).
#include "core/buffer.h"
#include "core/number.h"
#include "core/utf8.h"
#include "format/json/json.h"
#include "format/json/json_scan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct output {
    struct buffer text; // failed: out of memory, or nested too deeply
    enum json_style style;
};

static void put_unicode_escape(struct output *out, uint32_t point) {
    char text[16];
    if (point >= 0x10000) {
        point -= 0x10000;
        snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xD800 + (point >> 10)),
                 (unsigned)(0xDC00 + (point & 0x3FF)));
    } else {
        snprintf(text, sizeof text, "\\u%04x", (unsigned)point);
    }
    buffer_put_text(&out->text, text);
}

static void put_string(struct output *out, const char *text, size_t length) {
    static const char short_escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt"; // pairs: character, letter
    buffer_put(&out->text, "\"", 1);
    for (size_t i = 0, used; i < length; i += used) {
        uint32_t point;
        used = utf8_decode(text + i, length - i, &point); // jansson has checked the UTF-8
        const char *escape = short_escapes;
        while (*escape != '\0' && (uint32_t)*escape != point) {
            escape += 2;
        }
        if (*escape != '\0') {
            buffer_put(&out->text, (char[]){'\\', escape[1]}, 2);
        } else if (point < 0x20 || (point >= 0x7F && out->style == JSON_INDENT_4_ASCII)) {
            put_unicode_escape(out, point);
        } else {
            buffer_put(&out->text, text + i, used);
        }
    }
    buffer_put(&out->text, "\"", 1);
}

// The scientific form with the fewest digits that reads back the same, "1.25e-05"; the mantissa may
// have trailing zeros.
static void print_scientific(char *text, size_t size, double value) {
    double back = NAN;
    int first = fabs(value) < 1e-300 ? 1 : 15; // 15 digits always survive, except in subnormals
    for (int digits = first; digits <= 17 && back != value; digits++) {
        number_format(text, size, "%.*e", digits - 1, value);
        if (!number_parse_real(text, &back)) {
            back = NAN;
        }
    }
}

// Python's repr(): an exponent below 1e-4 and from 1e16, else at least one decimal.
static void put_real(struct output *out, double value) {
    char text[64];
    print_scientific(text, sizeof text, value);
    char *e = strchr(text, 'e');
    char *last = e - 1; // last nonzero digit of the mantissa
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
    buffer_put_text(&out->text, text);
}

static int is_compact(enum json_style style) {
    return style == JSON_COMPACT || style == JSON_COMPACT_SORTED;
}

static void put_line_break(struct output *out, int depth) {
    if (is_compact(out->style)) {
        return;
    }
    buffer_put(&out->text, "\n", 1);
    for (int i = 0; i < depth * (out->style == JSON_INDENT_2_SORTED ? 2 : 4); i++) {
        buffer_put(&out->text, " ", 1);
    }
}

static void put_value(struct output *out, const json *value, int depth);

static void put_array(struct output *out, const json *array, int depth) {
    size_t count = json_length(array);
    buffer_put(&out->text, "[", 1);
    for (size_t i = 0; i < count; i++) {
        buffer_put_text(&out->text, i == 0 ? "" : is_compact(out->style) ? ", " : ",");
        put_line_break(out, depth + 1);
        put_value(out, json_at(array, i), depth + 1);
    }
    if (count > 0) {
        put_line_break(out, depth);
    }
    buffer_put(&out->text, "]", 1);
}

static int compare_keys(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The object's keys, sorted when the style says so.
static const char **object_keys(const json *object, enum json_style style) {
    size_t count = 0;
    const char **keys = memory_array(json_length(object), sizeof *keys);
    struct json_walk walk = {.object = object};
    while (keys != NULL && json_walk_next(&walk)) {
        keys[count++] = walk.key;
    }
    if (keys != NULL && (style == JSON_INDENT_2_SORTED || style == JSON_COMPACT_SORTED)) {
        qsort(keys, count, sizeof *keys, compare_keys);
    }
    return keys;
}

// Member number `index` of an object at `depth`, and what separates it from the one before.
static void put_member(struct output *out, size_t index, const char *key, const json *value,
                       int depth) {
    buffer_put_text(&out->text, index == 0 ? "" : is_compact(out->style) ? ", " : ",");
    put_line_break(out, depth + 1);
    put_string(out, key, strlen(key));
    buffer_put_text(&out->text, ": ");
    put_value(out, value, depth + 1);
}

static void put_object_end(struct output *out, size_t count, int depth) {
    if (count > 0) {
        put_line_break(out, depth);
    }
    buffer_put(&out->text, "}", 1);
}

static void put_object(struct output *out, const json *object, int depth) {
    size_t count = json_length(object);
    const char **keys = object_keys(object, out->style);
    if (keys == NULL) {
        out->text.failed = 1;
        return;
    }
    buffer_put(&out->text, "{", 1);
    for (size_t i = 0; i < count; i++) {
        put_member(out, i, keys[i], json_member(object, keys[i]), depth);
    }
    put_object_end(out, count, depth);
    memory_free(keys);
}

static void put_value(struct output *out, const json *value, int depth) {
    char text[32];
    if (value == NULL || depth > JSON_DEPTH_LIMIT) {
        out->text.failed = 1;
    } else if (json_is_object_value(value)) {
        put_object(out, value, depth);
    } else if (json_is_array_value(value)) {
        put_array(out, value, depth);
    } else if (json_is_text(value)) {
        put_string(out, json_text(value), json_text_length(value));
    } else if (json_is_real_value(value)) {
        put_real(out, json_as_real(value));
    } else if (json_is_number_value(value)) {
        snprintf(text, sizeof text, "%" PRId64, json_as_integer(value));
        buffer_put_text(&out->text, text);
    } else if (json_is_boolean(value)) {
        buffer_put_text(&out->text, json_truth(value) ? "true" : "false");
    } else {
        buffer_put_text(&out->text, "null");
    }
}

char *json_write(const json *value, enum json_style style) {
    struct output out = {.style = style};
    put_value(&out, value, 0);
    buffer_put_byte(&out.text, '\0');
    if (out.text.failed) {
        buffer_done(&out.text);
    }
    return out.text.bytes;
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
        (void)file_writer_put(&writer, text, strlen(text), error);
        (void)file_writer_put(&writer, "\n", 1, error);
        status = file_writer_commit(&writer, error);
    }
    memory_free(text);
    return status;
}

// --- objects that are never whole in memory ------------------------------------------------------

static enum berth_status put_output(struct json_members *members, struct output *out,
                                    struct berth_error *error) {
    const enum berth_status status =
        out->text.failed
            ? error_no_memory(error, out->text.length, members->writer->path)
            : file_writer_put(members->writer, out->text.bytes, out->text.length, error);
    buffer_done(&out->text);
    return status;
}

enum berth_status json_members_put(struct json_members *members, const char *key, json *value,
                                   struct berth_error *error) {
    struct output out = {.style = members->style};
    buffer_put_text(&out.text, members->count == 0 ? "{" : "");
    put_member(&out, members->count, key, value, 0);
    json_free(value);
    const enum berth_status status = put_output(members, &out, error);
    members->count += status == BERTH_OK;
    return status;
}

enum berth_status json_members_end(struct json_members *members, struct berth_error *error) {
    struct output out = {.style = members->style};
    buffer_put_text(&out.text, members->count == 0 ? "{" : "");
    put_object_end(&out, members->count, 0);
    buffer_put(&out.text, "\n", 1);
    return put_output(members, &out, error);
}
