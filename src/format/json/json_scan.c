// SPDX-License-Identifier: Apache-2.0
// The JSON scanner. It is not recursive: open objects and arrays are a stack in the scanner. json.c
// builds values with it, and safetensors.c reads a header.
#include "format/json/json_scan.h"

#include "core/text_util.h"
#include "core/utf8.h"

#include <stdio.h>
#include <string.h>

void json_scan_begin(struct json_scan *scan, const char *name, char *text, size_t length) {
    scan->name = name;
    scan->text = text;
    scan->length = length;
    scan->position = scan->values = 0;
    scan->original = NULL;
    scan->is_python = scan->depth = 0;
    scan->depth_limit = JSON_DEPTH_LIMIT;
    scan->values_limit = SIZE_MAX;
}

static int is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

// The byte `ahead` positions after the current one, '\0' past the end.
static char peek_ahead(const struct json_scan *scan, size_t ahead) {
    return ahead < scan->length - scan->position ? scan->text[scan->position + ahead] : '\0';
}

// --- errors -------------------------------------------------------------------------------------

#define PATH_SIZE 160

// Writes the keys and indices that lead to the current position: " in data[3].context"; "" at the
// outermost level. A path that is too long ends with "...".
static void print_path(const struct json_scan *scan, char path[PATH_SIZE]) {
    size_t length = 0;
    path[0] = '\0';
    for (int i = 0; i < scan->depth && length < PATH_SIZE; i++) {
        const struct json_level *level = &scan->levels[i];
        const char *before = length == 0 ? " in " : level->close == '}' ? "." : "";
        char step[64] = "";
        if (level->close == '}' && level->key != NULL) {
            snprintf(step, sizeof step, "%.*s", UTF8_SHOWN(level->key, 40));
        } else if (level->close == ']' && level->count > 0) {
            snprintf(step, sizeof step, "[%zu]", level->count - 1);
        } else {
            break;
        }
        length += (size_t)snprintf(path + length, PATH_SIZE - length, "%s%s", before, step);
    }
    if (length >= PATH_SIZE) {
        memcpy(path + PATH_SIZE - 4, "...", 4);
    }
}

// Columns are characters.
static enum berth_status error_at_line(const struct json_scan *scan, const char *path,
                                       const char *problem, struct berth_error *error) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < scan->position; i++) {
        const unsigned char c = (unsigned char)scan->original[i];
        line += c == '\n';
        column = c == '\n' ? 1 : column + ((c & 0xC0) != 0x80);
    }
    return error_set(error, BERTH_BAD_DATA,
                     "%s: line %zu, column %zu (byte %zu)%s: not valid JSON: %s", scan->name, line,
                     column, scan->position, path, problem);
}

enum berth_status json_scan_error(const struct json_scan *scan, const char *problem,
                                  struct berth_error *error) {
    char path[PATH_SIZE];
    print_path(scan, path);
    return scan->original != NULL ? error_at_line(scan, path, problem, error)
                                  : error_set(error, BERTH_BAD_DATA, "%s: header byte %zu%s: %s",
                                              scan->name, scan->position, path, problem);
}

// Reports that `expected` was not found at the current position.
static enum berth_status syntax_error(const struct json_scan *scan, const char *expected,
                                      struct berth_error *error) {
    char problem[128], found[32] = "the end";
    if (scan->position < scan->length) {
        unsigned char c = (unsigned char)scan->text[scan->position];
        const char *format = c > 0x20 && c < 0x7F ? "'%c'" : "byte 0x%02x";
        snprintf(found, sizeof found, format, c);
    }
    snprintf(problem, sizeof problem, "expected %s, found %s", expected, found);
    return json_scan_error(scan, problem, error);
}

// --- structure ----------------------------------------------------------------------------------

// The next byte that is not white space, '\0' at the end. Does not move past it.
static char peek(struct json_scan *scan) {
    while (is_blank(peek_ahead(scan, 0))) {
        scan->position++;
    }
    return peek_ahead(scan, 0);
}

static enum berth_status expect(struct json_scan *scan, char c, struct berth_error *error) {
    if (peek(scan) != c) {
        return syntax_error(scan, (char[]){'\'', c, '\'', '\0'}, error);
    }
    scan->position++;
    return BERTH_OK;
}

enum berth_status json_scan_open(struct json_scan *scan, char bracket, struct berth_error *error) {
    if (peek(scan) == bracket && scan->depth == scan->depth_limit) {
        char problem[64];
        snprintf(problem, sizeof problem, "nested deeper than %d levels", scan->depth_limit);
        return json_scan_error(scan, problem, error);
    }
    TRY(expect(scan, bracket, error));
    scan->levels[scan->depth++] = (struct json_level){.close = bracket == '{' ? '}' : ']'};
    return BERTH_OK;
}

enum berth_status json_scan_more(struct json_scan *scan, int *more, struct berth_error *error) {
    struct json_level *level = &scan->levels[scan->depth - 1];
    const char next = peek(scan);
    *more = next != level->close;
    if (!*more) {
        scan->position++;
        scan->depth--;
        return BERTH_OK;
    }
    if (level->count > 0 && next != ',') {
        return syntax_error(scan, level->close == '}' ? "',' or '}'" : "',' or ']'", error);
    }
    scan->position += level->count > 0;
    level->count++;
    level->key = NULL;
    return BERTH_OK;
}

enum berth_status json_scan_end(struct json_scan *scan, struct berth_error *error) {
    peek(scan);
    return scan->position == scan->length ? BERTH_OK : syntax_error(scan, "the end", error);
}

// --- strings ------------------------------------------------------------------------------------

// Reads four hexadecimal digits; -1 when they are missing.
static long read_hex_digits(struct json_scan *scan) {
    long value = 0;
    for (size_t i = 0; i < 4; i++) {
        const int digit = hex_digit(peek_ahead(scan, i));
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    scan->position += 4;
    return value;
}

// Decodes what follows "\u" to `to` (never longer than the escape); surrogates must be paired.
static enum berth_status decode_unicode_escape(struct json_scan *scan, char *to, size_t *bytes,
                                               struct berth_error *error) {
    long point = read_hex_digits(scan);
    if (point >= 0xD800 && point < 0xDC00 && peek_ahead(scan, 0) == '\\' &&
        peek_ahead(scan, 1) == 'u') {
        scan->position += 2;
        long low = read_hex_digits(scan);
        point =
            low >= 0xDC00 && low < 0xE000 ? 0x10000 + (point - 0xD800) * 0x400 + low - 0xDC00 : -1;
    }
    if (point < 0 || (point >= 0xD800 && point < 0xE000)) {
        return syntax_error(scan, "a valid code point after \\u", error);
    }
    *bytes = utf8_encode((uint32_t)point, to);
    return BERTH_OK;
}

// Moves the next characters, or one escape, to `to`; *bytes is their number.
static enum berth_status decode(struct json_scan *scan, char *to, size_t *bytes,
                                struct berth_error *error) {
    const char *from = scan->text + scan->position;
    const size_t left = scan->length - scan->position;
    // What can be copied as it is: printable ASCII but for quotes and backslashes.
    size_t end = 0;
    while (end < left && (unsigned char)(from[end] - 0x20) < 0x60 && from[end] != '"' &&
           from[end] != '\\') {
        end++;
    }
    *bytes = end;
    if (*bytes == 0 && left > 0 && *from == '\\') {
        // Decodes one escape; the current byte is the backslash.
        static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
        char letter = peek_ahead(scan, 1);
        const char *found = letter == '\0' ? NULL : strchr(letters, letter);
        scan->position += 1;
        if (letter == 'u') {
            scan->position++;
            return decode_unicode_escape(scan, to, bytes, error);
        }
        if (found == NULL) {
            return syntax_error(scan, "an escape character", error);
        }
        scan->position++;
        *to = values[found - letters];
        *bytes = 1;
        return BERTH_OK;
    }
    if (*bytes == 0 && left > 0 && (unsigned char)*from >= 0x20) {
        *bytes = utf8_character(from, left);
    }
    if (*bytes == 0) {
        return syntax_error(scan, "well-formed UTF-8 up to the closing '\"'", error);
    }
    if (to != from) {
        memmove(to, from, *bytes);
    }
    scan->position += *bytes;
    return BERTH_OK;
}

static enum berth_status read_text(struct json_scan *scan, char **value, size_t *length,
                                   struct berth_error *error) {
    TRY(expect(scan, '"', error));
    char *to = scan->text + scan->position;
    *value = to;
    while (peek_ahead(scan, 0) != '"') {
        size_t bytes;
        TRY(decode(scan, to, &bytes, error));
        to += bytes;
    }
    *to = '\0'; // at the closing quote or before it
    *length = (size_t)(to - *value);
    scan->position++;
    return BERTH_OK;
}

enum berth_status json_scan_text(struct json_scan *scan, char **value, struct berth_error *error) {
    size_t length;
    TRY(read_text(scan, value, &length, error));
    return strlen(*value) == length ? BERTH_OK
                                    : json_scan_error(scan, "a string with \\u0000", error);
}

enum berth_status json_scan_key(struct json_scan *scan, char **key, struct berth_error *error) {
    TRY(json_scan_text(scan, key, error));
    scan->levels[scan->depth - 1].key = *key;
    return expect(scan, ':', error);
}

// --- numbers and the rest -----------------------------------------------------------------------

enum berth_status json_scan_unsigned(struct json_scan *scan, uint64_t *value,
                                     struct berth_error *error) {
    char first = peek(scan);
    if (!is_digit(first) || (first == '0' && is_digit(peek_ahead(scan, 1)))) {
        return syntax_error(scan, "an integer of 0 or more", error);
    }
    *value = 0;
    for (; is_digit(peek_ahead(scan, 0)); scan->position++) {
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(peek_ahead(scan, 0) - '0'), value)) {
            return syntax_error(scan, "an integer below 2^64", error);
        }
    }
    char next = peek_ahead(scan, 0);
    if (next == '.' || next == 'e' || next == 'E') {
        return syntax_error(scan, "an integer, not a fraction", error);
    }
    return BERTH_OK;
}

static size_t skip_digits(struct json_scan *scan) {
    size_t start = scan->position;
    while (is_digit(peek_ahead(scan, 0))) {
        scan->position++;
    }
    return scan->position - start;
}

static enum berth_status skip_number(struct json_scan *scan, struct berth_error *error) {
    const size_t begin = scan->position;
    scan->position += peek_ahead(scan, 0) == '-';
    char first = peek_ahead(scan, 0);
    size_t digits = skip_digits(scan);
    int valid = digits > 0 && (first != '0' || digits == 1);
    if (valid && peek_ahead(scan, 0) == '.') {
        scan->position++;
        valid = skip_digits(scan) > 0;
    }
    if (valid && (peek_ahead(scan, 0) == 'e' || peek_ahead(scan, 0) == 'E')) {
        scan->position++;
        scan->position += peek_ahead(scan, 0) == '-' || peek_ahead(scan, 0) == '+';
        valid = skip_digits(scan) > 0;
    }
    if (valid) {
        return BERTH_OK;
    }
    const int is_number = scan->position > begin;
    scan->position = begin;
    return syntax_error(scan, is_number ? "a valid number" : "a JSON value", error);
}

// Moves past `word` if it comes next.
static int skip_word(struct json_scan *scan, const char *word) {
    const size_t length = strlen(word);
    const int found = length <= scan->length - scan->position &&
                      memcmp(scan->text + scan->position, word, length) == 0;
    scan->position += found ? length : 0;
    return found;
}

static enum berth_status read_scalar(struct json_scan *scan, struct json_scan_value *value,
                                     struct berth_error *error) {
    static const struct {
        const char *word;
        int kind, is_python;
    } words[] = {{"true", SCAN_TRUE, 0}, {"false", SCAN_FALSE, 0},   {"null", SCAN_NULL, 0},
                 {"NaN", SCAN_NULL, 1},  {"Infinity", SCAN_NULL, 1}, {"-Infinity", SCAN_NULL, 1}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (words[i].is_python <= scan->is_python && skip_word(scan, words[i].word)) {
            value->kind = words[i].kind;
            return BERTH_OK;
        }
    }
    value->text = scan->text + scan->position;
    TRY(skip_number(scan, error));
    value->length = (size_t)(scan->text + scan->position - value->text);
    value->kind = SCAN_INTEGER;
    for (size_t i = 0; i < value->length; i++) {
        if (strchr(".eE", value->text[i]) != NULL) {
            value->kind = SCAN_REAL;
        }
    }
    return BERTH_OK;
}

static enum berth_status read_value(struct json_scan *scan, struct json_scan_value *value,
                                    struct berth_error *error) {
    const char next = peek(scan);
    if (scan->values++ == scan->values_limit) {
        char problem[64];
        snprintf(problem, sizeof problem, "more than %zu values", scan->values_limit);
        return json_scan_error(scan, problem, error);
    }
    if (next == '{' || next == '[') {
        value->kind = next == '{' ? SCAN_OBJECT : SCAN_ARRAY;
        return json_scan_open(scan, next, error);
    }
    if (next == '"') {
        value->kind = SCAN_TEXT;
        return read_text(scan, &value->text, &value->length, error);
    }
    return read_scalar(scan, value, error);
}

enum berth_status json_scan_next(struct json_scan *scan, struct json_scan_value *value,
                                 struct berth_error *error) {
    if (scan->depth > 0) {
        const char close = scan->levels[scan->depth - 1].close;
        int more;
        char *key;
        TRY(json_scan_more(scan, &more, error));
        if (!more) {
            value->kind = SCAN_END;
            return BERTH_OK;
        }
        if (close == '}') {
            TRY(json_scan_key(scan, &key, error));
        }
    }
    return read_value(scan, value, error);
}

enum berth_status json_scan_skip(struct json_scan *scan, struct berth_error *error) {
    const int depth = scan->depth;
    struct json_scan_value value;
    TRY(read_value(scan, &value, error));
    while (scan->depth > depth) {
        TRY(json_scan_next(scan, &value, error));
    }
    return BERTH_OK;
}
