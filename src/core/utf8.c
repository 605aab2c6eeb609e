// SPDX-License-Identifier: Apache-2.0
// Decodes, encodes and checks UTF-8. An ill-formed sequence counts as one character of Unicode's
// "maximal subpart", so every text can be walked through to its end; callers replace it or report
// it.
#include "core/utf8.h"

#include <string.h>

size_t utf8_decode(const void *bytes, size_t length, uint32_t *point) {
    const unsigned char *text = bytes;
    unsigned char first = text[0];
    *point = first;
    if (first < 0x80) {
        return 1;
    }
    *point = UTF8_ILL_FORMED;
    if (first < 0xC2 || first > 0xF4) {
        return 1;
    }
    size_t whole = utf8_whole((char)first);
    // The range of the second byte excludes overlong forms, surrogates and points above 0x10FFFF.
    unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    uint32_t value = first & (0x7Fu >> whole);
    for (size_t i = 1; i < whole; i++) {
        if (i >= length || text[i] < low || text[i] > high) {
            return i;
        }
        value = value << 6 | (text[i] & 0x3Fu);
        low = 0x80;
        high = 0xBF;
    }
    *point = value;
    return whole;
}

size_t utf8_decode_before(const void *bytes, size_t at, uint32_t *point) {
    const char *text = bytes;
    for (size_t length = 1; length <= UTF8_BYTES_MAX && length <= at; length++) {
        if (utf8_begins(text[at - length])) {
            if (utf8_decode(text + at - length, length, point) == length) {
                return length;
            }
            break;
        }
    }
    *point = UTF8_ILL_FORMED;
    return 1;
}

size_t utf8_encode(uint32_t point, char *bytes) {
    if (point < 0x80) {
        bytes[0] = (char)point;
        return 1;
    }
    size_t count = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = count - 1; i > 0; i--) {
        bytes[i] = (char)(0x80u | (point & 0x3Fu));
        point >>= 6;
    }
    bytes[0] = (char)((0xF00u >> count & 0xF0u) | point);
    return count;
}

size_t utf8_valid_prefix(const char *text, size_t length) {
    size_t at = 0, bytes;
    for (; at < length; at += bytes) {
        uint64_t eight;
        if (length - at >= sizeof eight) { // mostly ASCII
            memcpy(&eight, text + at, sizeof eight);
            if ((eight & 0x8080808080808080u) == 0) {
                bytes = sizeof eight;
                continue;
            }
        }
        bytes = utf8_character(text + at, length - at);
        if (bytes == 0) {
            break;
        }
    }
    return at;
}

size_t utf8_text_prefix(const char *text, size_t length) {
    const char *nul = memchr(text, '\0', length);
    return utf8_valid_prefix(text, nul != NULL ? (size_t)(nul - text) : length);
}

int64_t utf8_count(const char *text, size_t length) {
    int64_t count = 0;
    for (size_t i = 0; i < length; i++) {
        count += utf8_begins(text[i]);
    }
    return count;
}

size_t utf8_skip(const char *text, size_t length, int64_t count) {
    for (size_t i = 0; i < length; i++) {
        if (utf8_begins(text[i]) && count-- == 0) {
            return i;
        }
    }
    return count == 0 ? length : SIZE_MAX;
}

size_t utf8_cut(const char *text, size_t length, size_t limit) {
    if (length <= limit) {
        return length;
    }
    while (limit > 0 && !utf8_begins(text[limit])) {
        limit--;
    }
    return limit;
}
