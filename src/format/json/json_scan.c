// SPDX-License-Identifier: Apache-2.0
// The JSON scanner. It is not recursive: nested values are skipped with a stack of brackets.
#include "format/json/json_scan.h"

#include "core/utf8.h"
#include "core/words.h"

#include <stdio.h>
#include <string.h>

#define SKIP_DEPTH 64

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

// Reports that `expected` was not found at the current position.
static enum berth_status syntax_error(const struct json_scan *scan, const char *expected,
                                      struct berth_error *error) {
    char found[32] = "the end";
    if (scan->position < scan->length) {
        unsigned char c = (unsigned char)scan->text[scan->position];
        const char *format = c > 0x20 && c < 0x7F ? "'%c'" : "byte 0x%02x";
        snprintf(found, sizeof found, format, c);
    }
    return error_set(error, BERTH_BAD_DATA, "%s: header byte %zu: expected %s, found %s",
                     scan->name, scan->position, expected, found);
}

// The next byte that is not white space, '\0' at the end. Does not move past it.
static char peek(struct json_scan *scan) {
    while (is_blank(peek_ahead(scan, 0))) {
        scan->position++;
    }
    return peek_ahead(scan, 0);
}

enum berth_status json_scan_expect(struct json_scan *scan, char c, struct berth_error *error) {
    if (peek(scan) != c) {
        return syntax_error(scan, (char[]){'\'', c, '\'', '\0'}, error);
    }
    scan->position++;
    return BERTH_OK;
}

enum berth_status json_scan_more(struct json_scan *scan, char close, int *first, int *more,
                                 struct berth_error *error) {
    char next = peek(scan);
    *more = next != close;
    if (*more && !*first) {
        TRY(json_scan_expect(scan, ',', error));
    } else if (!*more) {
        scan->position++;
    }
    *first = 0;
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
    if (point <= 0 || (point >= 0xD800 && point < 0xE000)) {
        return syntax_error(scan, "a valid code point after \\u", error);
    }
    *bytes = utf8_encode((uint32_t)point, to);
    return BERTH_OK;
}

// Decodes one escape; the current byte is the backslash.
static enum berth_status decode_escape(struct json_scan *scan, char *to, size_t *bytes,
                                       struct berth_error *error) {
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

enum berth_status json_scan_text(struct json_scan *scan, char **value, struct berth_error *error) {
    TRY(json_scan_expect(scan, '"', error));
    char *to = scan->text + scan->position;
    *value = to;
    while (peek_ahead(scan, 0) != '"') {
        size_t bytes = 0;
        if (peek_ahead(scan, 0) == '\\') {
            TRY(decode_escape(scan, to, &bytes, error));
            to += bytes;
            continue;
        }
        size_t left = scan->length - scan->position;
        bytes = left > 0 ? utf8_character(scan->text + scan->position, left) : 0;
        if (bytes == 0 || (unsigned char)peek_ahead(scan, 0) < 0x20) {
            return syntax_error(scan, "well-formed UTF-8 up to the closing '\"'", error);
        }
        memmove(to, scan->text + scan->position, bytes);
        to += bytes;
        scan->position += bytes;
    }
    *to = '\0'; // at the closing quote or before it
    scan->position++;
    return BERTH_OK;
}

enum berth_status json_scan_key(struct json_scan *scan, char **key, struct berth_error *error) {
    TRY(json_scan_text(scan, key, error));
    return json_scan_expect(scan, ':', error);
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
    return valid ? BERTH_OK : syntax_error(scan, "a JSON value", error);
}

static enum berth_status skip_scalar(struct json_scan *scan, struct berth_error *error) {
    static const char *const words[] = {"true", "false", "null"};
    char *text;
    if (peek(scan) == '"') {
        return json_scan_text(scan, &text, error);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i]);
        if (length <= scan->length - scan->position &&
            memcmp(scan->text + scan->position, words[i], length) == 0) {
            scan->position += length;
            return BERTH_OK;
        }
    }
    return skip_number(scan, error);
}

// The open brackets, innermost last, and whether the innermost has no element yet.
struct skip_stack {
    char close[SKIP_DEPTH];
    int depth;
    int first;
};

static enum berth_status skip_open(struct json_scan *scan, struct skip_stack *stack,
                                   struct berth_error *error) {
    if (stack->depth == SKIP_DEPTH) {
        return syntax_error(scan, "values nested less deeply", error);
    }
    stack->close[stack->depth++] = peek_ahead(scan, 0) == '{' ? '}' : ']';
    stack->first = 1;
    scan->position++;
    return BERTH_OK;
}

enum berth_status json_scan_skip(struct json_scan *scan, struct berth_error *error) {
    struct skip_stack stack = {.depth = 0};
    do {
        int more = 1;
        if (stack.depth > 0) {
            char close = stack.close[stack.depth - 1];
            TRY(json_scan_more(scan, close, &stack.first, &more, error));
            char *key;
            if (more && close == '}') {
                TRY(json_scan_key(scan, &key, error));
            }
        }
        char next = peek(scan);
        if (!more) {
            stack.depth--;
        } else if (next == '{' || next == '[') {
            TRY(skip_open(scan, &stack, error));
        } else {
            TRY(skip_scalar(scan, error));
        }
    } while (stack.depth > 0);
    return BERTH_OK;
}
