// SPDX-License-Identifier: Apache-2.0
// Writes one JSON value as one line of text, for logs and for --json. format/json/json.h reads JSON
// and writes JSON files.
#ifndef BERTH_CORE_JSON_LINE_H
#define BERTH_CORE_JSON_LINE_H

#include <stddef.h>
#include <stdint.h>

// Zero-initialise. The text is NUL-terminated after the first addition.
struct json_line {
    char *text;
    size_t length;
    size_t capacity;
    int failed; // out of memory: the text is incomplete
};

// Every function takes a key, NULL inside arrays and for the outermost value. Text is UTF-8;
// ill-formed bytes become U+FFFD. Reals are printed in their shortest form; non-finite ones as
// null.
void json_line_open(struct json_line *line, const char *key, char bracket);      // '{' or '['
void json_line_close(struct json_line *line, char bracket);                      // '}' or ']'
void json_line_text(struct json_line *line, const char *key, const char *value); // NULL: null
void json_line_integer(struct json_line *line, const char *key, int64_t value);
void json_line_real(struct json_line *line, const char *key, double value);
// Nine digits, which read back as the same float.
void json_line_float(struct json_line *line, const char *key, float value);
void json_line_boolean(struct json_line *line, const char *key, int value);
// Adds `json`, which is already a JSON value.
void json_line_raw(struct json_line *line, const char *key, const char *json);
// Adds bytes as they are, after what is there.
void json_line_bytes(struct json_line *line, const void *bytes, size_t length);
// Adds a newline after the value.
void json_line_end(struct json_line *line);

void json_line_clear(struct json_line *line); // empties the text, keeps the memory
void json_line_done(struct json_line *line);

#endif
