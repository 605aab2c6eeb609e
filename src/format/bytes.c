// SPDX-License-Identifier: Apache-2.0
#include "format/bytes.h"

#include "core/memory.h"

#include <string.h>

void bytes_put(struct bytes *bytes, const void *data, size_t length) {
    if (bytes->failed || length == 0) {
        return;
    }
    if (length > bytes->capacity - bytes->length) {
        size_t capacity = 2 * (bytes->length + length) + 256;
        unsigned char *grown = memory_resize(bytes->data, capacity, 1);
        if (grown == NULL) {
            bytes->failed = 1;
            return;
        }
        bytes->data = grown;
        bytes->capacity = capacity;
    }
    memcpy(bytes->data + bytes->length, data, length);
    bytes->length += length;
}

void bytes_put_text(struct bytes *bytes, const char *text) {
    bytes_put(bytes, text, strlen(text));
}

void bytes_put_number(struct bytes *bytes, uint64_t number, size_t size) {
    unsigned char raw[8];
    for (size_t i = 0; i < size; i++) {
        raw[i] = (unsigned char)(number >> (8 * i));
    }
    bytes_put(bytes, raw, size);
}

void bytes_done(struct bytes *bytes) {
    memory_free(bytes->data);
    *bytes = (struct bytes){0};
}
