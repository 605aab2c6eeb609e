// SPDX-License-Identifier: Apache-2.0
// A fast checksum of bytes in memory: of messages between ranks, and of numbers that must not
// change by themselves. Every change within one aligned word of 4 bytes changes it, and so do two
// different words that trade places within a lane; other changes do with a probability near 1. It
// is no protection against intent (format/checksum/digest.h has a digest).
#ifndef BERTH_CORE_CHECKSUM_H
#define BERTH_CORE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

// Kernels compute the same numbers.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define CHECKSUM_FUNCTION static __host__ __device__ inline
#else
#define CHECKSUM_FUNCTION static inline
#endif

enum { CHECKSUM_LANES = 16 };

// Of up to 2^37 bytes. With zeros after them that fill the last block of CHECKSUM_LANES words, or
// are a block of their own where it is full, they are the words w[block][lane] of n blocks. Modulo
// 2^64 and in any order,
//   lane_sum[lane] = sum over blocks of w[block][lane] * (n - block + 2^33)
// and the checksum is the number of bytes, to which checksum_add adds the lanes' sums one by one.
uint64_t checksum_bytes(const void *data, size_t bytes);

// Adds a number to a checksum. Every change of one of both changes the result.
CHECKSUM_FUNCTION uint64_t checksum_add(uint64_t sum, uint64_t word) {
    sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15); // odd: no two numbers give the same
    return sum ^ sum >> 32;
}

#endif
