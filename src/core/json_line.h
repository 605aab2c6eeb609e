// SPDX-License-Identifier: Apache-2.0
// Writing one JSON value as one line of text, for logs and for --json. Reading JSON, and files that
// others must parse byte for byte, belong to format/json/json.h.
#ifndef BERTH_CORE_JSON_LINE_H
#define BERTH_CORE_JSON_LINE_H

#include <stddef.h>
#include <stdint.h>

// Zero-initialise. The text is NUL-terminated once something was added.
struct json_line {
    char *text;
    size_t length;
    size_t capacity;
    int failed; // memory ran out: the text is incomplete
};

// Every function takes a key, NULL inside arrays and for the outermost value. Text is UTF-8;
// ill-formed bytes become U+FFFD. Reals are printed shortest; those that are not finite as null.
void json_line_open(struct json_line *line, const char *key, char bracket);      // '{' or '['
void json_line_close(struct json_line *line, char bracket);                      // '}' or ']'
void json_line_text(struct json_line *line, const char *key, const char *value); // NULL: null
void json_line_integer(struct json_line *line, const char *key, int64_t value);
void json_line_real(struct json_line *line, const char *key, double value);
void json_line_truth(struct json_line *line, const char *key, int value);
// `json` is a JSON value already.
void json_line_raw(struct json_line *line, const char *key, const char *json);
// A newline after the value.
void json_line_end(struct json_line *line);

void json_line_clear(struct json_line *line); // empties the text, keeps the memory
void json_line_done(struct json_line *line);

#endif
