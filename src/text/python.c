// SPDX-License-Identifier: Apache-2.0
// Python's text functions. The tables of str.lower() and \w come from Python itself
// (data/unicode.txt).
//
// A final sigma is one that meets Unicode's Final_Sigma condition: a cased character before it and
// none after it, case-ignorable characters not counted.
#include "text/python.h"

#include "core/utf8.h"
#include "text/python_tables.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

static int in_ranges(uint32_t character, const struct python_range *ranges, size_t count) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].last < character) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && ranges[low].first <= character;
}

int python_is_word(uint32_t character) {
    if (character < 0x80) {
        return (character >= '0' && character <= '9') || (character >= 'A' && character <= 'Z') ||
               (character >= 'a' && character <= 'z') || character == '_';
    }
    return in_ranges(character, python_words, COUNT(python_words));
}

size_t python_rstrip_length(const char *text, size_t length) {
    while (length > 0) {
        size_t begin = length - 1;
        while (begin > 0 && length - begin < UTF8_BYTES_MAX && !utf8_begins(text[begin])) {
            begin--;
        }
        uint32_t last;
        if (utf8_decode(text + begin, length - begin, &last) != length - begin ||
            !python_is_space(last)) {
            break;
        }
        length = begin;
    }
    return length;
}

size_t python_line_length(const char *text, size_t length, size_t *end) {
    size_t line = 0;
    while (line < length && text[line] != '\n' && text[line] != '\r') {
        line++;
    }
    const size_t left = length - line;
    *end = left > 1 && text[line] == '\r' && text[line + 1] == '\n' ? 2 : left > 0;
    return line;
}

static uint32_t lower_one(uint32_t character) {
    if (character < 0x80) {
        return character >= 'A' && character <= 'Z' ? character + 32 : character;
    }
    size_t low = 0, high = COUNT(python_lower_runs);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (python_lower_runs[middle].last < character) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == COUNT(python_lower_runs)) {
        return character;
    }
    const struct python_run *run = &python_lower_runs[low];
    if (character < run->first || (character - run->first) % run->step != 0) {
        return character;
    }
    return (uint32_t)((int64_t)character + run->delta);
}

static int is_ignorable(uint32_t character) {
    return in_ranges(character, python_ignorable, COUNT(python_ignorable));
}

static int is_cased(uint32_t character) {
    return in_ranges(character, python_cased, COUNT(python_cased));
}

static int is_final_sigma(const uint32_t *text, size_t count, size_t index) {
    size_t before = index, after = index + 1;
    while (before > 0 && is_ignorable(text[before - 1])) {
        before--;
    }
    while (after < count && is_ignorable(text[after])) {
        after++;
    }
    return before > 0 && is_cased(text[before - 1]) && !(after < count && is_cased(text[after]));
}

size_t python_lower(const uint32_t *text, size_t count, uint32_t *lower) {
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        if (text[i] == 0x3A3) {
            lower[length++] = is_final_sigma(text, count, i) ? 0x3C2 : 0x3C3;
        } else if (text[i] == 0x130) {
            lower[length++] = 'i';
            lower[length++] = 0x307;
        } else {
            lower[length++] = lower_one(text[i]);
        }
    }
    return length;
}
