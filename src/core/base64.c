// SPDX-License-Identifier: Apache-2.0
// Base64 in both directions, without tables of the C library. Vectors of the server's OpenAI
// protocol and binary parts of tokenizer files are written so.
#include "core/base64.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_put(struct buffer *text, const void *bytes, size_t length) {
    const unsigned char *from = bytes;
    for (size_t i = 0; i < length; i += 3) {
        const size_t left = length - i;
        const unsigned group = (unsigned)from[i] << 16 |
                               (left > 1 ? (unsigned)from[i + 1] << 8 : 0) |
                               (left > 2 ? (unsigned)from[i + 2] : 0);
        const char four[4] = {digits[group >> 18], digits[group >> 12 & 63],
                              left > 1 ? digits[group >> 6 & 63] : '=',
                              left > 2 ? digits[group & 63] : '='};
        buffer_put(text, four, sizeof four);
    }
}

// The value of a digit; 64: it is none.
static unsigned value_of(char digit) {
    unsigned value = 0;
    while (value < 64 && digits[value] != digit) {
        value++;
    }
    return value;
}

int base64_read(struct buffer *bytes, const char *text, size_t length) {
    const size_t padding = length == 0 || length % 4 != 0 || text[length - 1] != '=' ? 0
                           : text[length - 2] == '='                                 ? 2
                                                                                     : 1;
    length -= padding;
    for (size_t i = 0; i < length; i += 4) {
        unsigned group = 0;
        const size_t left = length - i < 4 ? length - i : 4;
        for (size_t k = 0; k < 4; k++) {
            const unsigned value = k < left ? value_of(text[i + k]) : 0;
            if (value == 64) {
                return 0;
            }
            group = group << 6 | value;
        }
        const char three[3] = {(char)(group >> 16), (char)(group >> 8 & 255), (char)(group & 255)};
        buffer_put(bytes, three, left - 1);
    }
    return length % 4 != 1;
}
