// SPDX-License-Identifier: Apache-2.0
// A fast checksum of bytes in memory: of messages between ranks, and of numbers that must not
// change by themselves. Every change within one aligned word of 4 bytes changes it, and so do two
// different words that trade places within a lane; other changes do with a probability near 1. It
// is no protection against intent (format/checksum/digest.h has a digest).
#ifndef BERTH_CORE_CHECKSUM_H
#define BERTH_CORE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

// Of up to 2^37 bytes.
uint64_t checksum_bytes(const void *data, size_t bytes);

// Adds a number to a checksum. Every change of one of both changes the result.
uint64_t checksum_add(uint64_t sum, uint64_t word);

#endif
