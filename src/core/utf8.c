// SPDX-License-Identifier: Apache-2.0
#include "core/utf8.h"

size_t utf8_length(const unsigned char *text) {
    unsigned char lead = text[0];
    size_t bytes = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (lead > 0xF4) {
        return 0;
    }
    for (size_t i = 1; i < bytes; i++) {
        if ((text[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    int bad_second = (lead == 0xE0 && text[1] < 0xA0) || (lead == 0xED && text[1] > 0x9F) ||
                     (lead == 0xF0 && text[1] < 0x90) || (lead == 0xF4 && text[1] > 0x8F);
    return bad_second ? 0 : bytes;
}

const char *utf8_find_ill_formed(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    while (*at != '\0') {
        size_t length = utf8_length(at);
        if (length == 0) {
            return (const char *)at;
        }
        at += length;
    }
    return NULL;
}
