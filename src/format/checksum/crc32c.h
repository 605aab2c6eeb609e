// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli), the checksum of TensorFlow's files, and the masked form in which they store
// it. zip and zlib have the other CRC-32 (archive/deflate.h).
#ifndef BERTH_FORMAT_CRC32C_H
#define BERTH_FORMAT_CRC32C_H

#include <stddef.h>
#include <stdint.h>

// Continues the checksum `crc` (0 at the start) with the bytes. Uses the CPU's instruction if
// available.
uint32_t crc32c(uint32_t crc, const void *bytes, size_t length);
// The same without that instruction.
uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t length);

// The masked form, for data that contains its own checksum: rotated right by 15 bits, plus a
// constant.
static inline uint32_t crc32c_mask(uint32_t crc) {
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static inline uint32_t crc32c_unmask(uint32_t masked) {
    uint32_t rotated = masked - 0xa282ead8u;
    return rotated >> 17 | rotated << 15;
}

#endif
