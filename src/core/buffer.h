// SPDX-License-Identifier: Apache-2.0
// A growing byte buffer. Appending reports no failure: running out of memory sets `failed`, which
// is sticky, and later bytes are dropped. So a series of puts needs only one check at its end.
#ifndef BERTH_CORE_BUFFER_H
#define BERTH_CORE_BUFFER_H

#include "core/little_endian.h"
#include "core/memory.h"

#include <stdint.h>
#include <string.h>

struct buffer {
    char *bytes; // not NUL-terminated
    size_t length, capacity;
    int failed;
};

// Makes room for `more` bytes after `length`; 0 when out of memory.
static inline int buffer_reserve(struct buffer *buffer, size_t more) {
    if (buffer->capacity - buffer->length >= more) {
        return !buffer->failed;
    }
    char *grown = buffer->failed
                      ? NULL
                      : memory_grow(buffer->bytes, &buffer->capacity, buffer->length + more, 1);
    if (grown == NULL) {
        buffer->failed = 1;
        return 0;
    }
    buffer->bytes = grown;
    return 1;
}

static inline void buffer_put(struct buffer *buffer, const void *bytes, size_t length) {
    if (length > 0 && buffer_reserve(buffer, length)) {
        memcpy(buffer->bytes + buffer->length, bytes, length);
        buffer->length += length;
    }
}

static inline void buffer_put_text(struct buffer *buffer, const char *text) {
    buffer_put(buffer, text, strlen(text));
}

// printf to the buffer, in the "C" locale.
void buffer_print(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline void buffer_put_byte(struct buffer *buffer, char byte) {
    buffer_put(buffer, &byte, 1);
}

// The lowest `size` (at most 8) bytes of a number, little-endian.
static inline void buffer_put_number(struct buffer *buffer, uint64_t number, size_t size) {
    char bytes[8];
    little_endian_put(bytes, number, size);
    buffer_put(buffer, bytes, size);
}

// Empties the buffer and keeps its memory; `failed` is not reset.
static inline void buffer_clear(struct buffer *buffer) {
    buffer->length = 0;
}

static inline void buffer_done(struct buffer *buffer) {
    memory_free(buffer->bytes);
    *buffer = (struct buffer){.bytes = NULL};
}

#endif
