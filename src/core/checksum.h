// SPDX-License-Identifier: Apache-2.0
// A fast checksum of bytes in memory: of messages between ranks, and of numbers that faulty memory
// might corrupt. It detects every change within one aligned word of 4 bytes and every swap of two
// different words of a lane, and other changes with a probability near 1. It does not protect
// against tampering (format/checksum/digest.h has a digest).
#ifndef BERTH_CORE_CHECKSUM_H
#define BERTH_CORE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

// GPU kernels compute the same sums.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define CHECKSUM_FUNCTION static __host__ __device__ inline
#else
#define CHECKSUM_FUNCTION static inline
#endif

enum { CHECKSUM_LANES = 16 };

// The checksum of up to 2^37 bytes. They are padded with zeros to whole blocks of CHECKSUM_LANES
// words, at least one zero word (a block of zeros if the last block is full), which gives the words
// w[block][lane] of n blocks. Modulo 2^64, in any order of addition,
//   lane_sum[lane] = sum over blocks of w[block][lane] * (n - block + 2^33)
// The checksum is the number of bytes, to which checksum_add adds the lanes' sums one by one.
uint64_t checksum_bytes(const void *data, size_t bytes);

// Adds a number to a checksum. If one of the two changes, so does the result.
CHECKSUM_FUNCTION uint64_t checksum_add(uint64_t sum, uint64_t word) {
    sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15); // odd, so the product is a bijection
    return sum ^ sum >> 32;
}

#endif
