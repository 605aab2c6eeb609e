// SPDX-License-Identifier: Apache-2.0
// Appends members and values to a JSON text in one line, with the escapes of RFC 8259. Logs, --json
// and the server's replies are written with it, value by value, without building a tree first.
#include "core/json_line.h"

#include "core/memory.h"
#include "core/number.h"
#include "core/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void put(struct json_line *line, const char *bytes, size_t length) {
    if (line->failed) {
        return;
    }
    char *text = memory_grow(line->text, &line->capacity, line->length + length + 1, 1);
    if (text == NULL) {
        line->failed = 1;
        return;
    }
    line->text = text;
    memcpy(line->text + line->length, bytes, length);
    line->length += length;
    line->text[line->length] = '\0';
}

static void put_text(struct json_line *line, const char *text) {
    put(line, text, strlen(text));
}

static void put_escape(struct json_line *line, unsigned char c) {
    static const char *const short_escapes[] = {
        ['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n", ['\f'] = "\\f",
        ['\r'] = "\\r", ['"'] = "\\\"", ['\\'] = "\\\\"};
    if (c < sizeof short_escapes / sizeof *short_escapes && short_escapes[c] != NULL) {
        put_text(line, short_escapes[c]);
    } else {
        char escape[8];
        snprintf(escape, sizeof escape, "\\u%04x", c);
        put_text(line, escape);
    }
}

// U+0080 to U+009F: terminals interpret them like the control characters below U+0020.
static int is_high_control(const unsigned char *text) {
    return text[0] == 0xC2 && text[1] >= 0x80 && text[1] <= 0x9F;
}

static void put_string(struct json_line *line, const char *value) {
    const unsigned char *at = (const unsigned char *)value;
    put(line, "\"", 1);
    while (*at != '\0') {
        const unsigned char *run = at;
        size_t bytes = 1;
        while (*at >= 0x20 && *at != '"' && *at != '\\' && *at != 0x7F && !is_high_control(at) &&
               (bytes = utf8_character((const char *)at, UTF8_BYTES_MAX)) > 0) {
            at += bytes;
        }
        put(line, (const char *)run, (size_t)(at - run));
        if (*at == '\0') {
            break;
        }
        if (bytes == 0) {
            put_text(line, "\xEF\xBF\xBD");
        } else {
            at += is_high_control(at); // the second byte of its UTF-8 is the code point
            put_escape(line, *at);
        }
        at++;
    }
    put(line, "\"", 1);
}

// Writes the comma before the next value, and its key. No comma follows a blank: a prefix of the
// line ends with one.
static void put_key(struct json_line *line, const char *key) {
    char last = line->length > 0 ? line->text[line->length - 1] : '\n';
    if (last != '{' && last != '[' && last != '\n' && last != ' ') {
        put(line, ",", 1);
    }
    if (key != NULL) {
        put_string(line, key);
        put(line, ":", 1);
    }
}

void json_line_open(struct json_line *line, const char *key, char bracket) {
    put_key(line, key);
    put(line, &bracket, 1);
}

void json_line_close(struct json_line *line, char bracket) {
    put(line, &bracket, 1);
}

void json_line_text(struct json_line *line, const char *key, const char *value) {
    put_key(line, key);
    if (value != NULL) {
        put_string(line, value);
    } else {
        put_text(line, "null");
    }
}

void json_line_integer(struct json_line *line, const char *key, int64_t value) {
    char text[NUMBER_TEXT_SIZE];
    snprintf(text, sizeof text, "%" PRId64, value);
    json_line_raw(line, key, text);
}

void json_line_real(struct json_line *line, const char *key, double value) {
    char text[NUMBER_TEXT_SIZE] = "null";
    if (isfinite(value)) {
        number_print_real(text, sizeof text, value);
    }
    json_line_raw(line, key, text);
}

void json_line_float(struct json_line *line, const char *key, float value) {
    char text[NUMBER_TEXT_SIZE] = "null";
    if (isfinite(value)) {
        number_format(text, sizeof text, "%.9g", (double)value);
    }
    json_line_raw(line, key, text);
}

void json_line_boolean(struct json_line *line, const char *key, int value) {
    json_line_raw(line, key, value ? "true" : "false");
}

void json_line_raw(struct json_line *line, const char *key, const char *json) {
    put_key(line, key);
    put_text(line, json);
}

void json_line_bytes(struct json_line *line, const void *bytes, size_t length) {
    put(line, bytes, length);
}

void json_line_end(struct json_line *line) {
    put(line, "\n", 1);
}

void json_line_clear(struct json_line *line) {
    line->length = 0;
    line->failed = 0;
}

void json_line_done(struct json_line *line) {
    memory_free(line->text);
    *line = (struct json_line){0};
}
