// SPDX-License-Identifier: Apache-2.0
// Little-endian numbers in files, at any alignment and on any processor. All readers and writers of
// binary formats use these.
#ifndef BERTH_CORE_LITTLE_ENDIAN_H
#define BERTH_CORE_LITTLE_ENDIAN_H

#include <stddef.h>
#include <stdint.h>

// The unsigned number in `size` bytes, at most 8.
static inline uint64_t little_endian(const void *bytes, size_t size) {
    const unsigned char *from = bytes;
    uint64_t number = 0;
    for (size_t i = size; i-- > 0;) {
        number = number << 8 | from[i];
    }
    return number;
}

static inline uint32_t little_endian_u32(const void *bytes) {
    return (uint32_t)little_endian(bytes, 4);
}

// The lowest `size` bytes of the number, at most 8.
static inline void little_endian_put(void *bytes, uint64_t number, size_t size) {
    unsigned char *to = bytes;
    for (size_t i = 0; i < size; i++) {
        to[i] = (unsigned char)(number >> 8 * i);
    }
}

#endif
