// SPDX-License-Identifier: Apache-2.0
// The header of a message with elements of a range. It holds the operation that the message belongs
// to, so that ranks that call different operations are detected; the number of ranks whose values
// were added, so that none is left out or counted twice; and a checksum.
#ifndef BERTH_COMM_RANGE_MESSAGE_H
#define BERTH_COMM_RANGE_MESSAGE_H

#include "comm/comm.h"
#include "comm/courier.h"

#include <stdint.h>

// An operation as all ranks must call it. There is no padding, so labels compare byte by byte.
struct range_label {
    int64_t number; // of the operation, counted from 1: its ticket
    int64_t first, count, bucket;
    uint64_t starts; // checksum
    uint16_t is_gather, dtype, wire, native;
    char name[40]; // truncated if it is longer
};

struct range_header {
    struct range_label label;
    int64_t chunk_index; // of the owner's part
    int64_t owner;
    int64_t ranks; // whose values it is the sum of
    uint64_t unused;
    uint64_t checksum; // of the header up to here and the elements
};

struct range_label range_label_of(const struct comm_range *range, int is_gather, int64_t number,
                                  int size);

// Writes "the sum of "gradients" (100 elements from 0)".
enum { RANGE_TEXT = 128 };
void range_label_format(const struct range_label *label, char text[RANGE_TEXT]);

// The error for a rank that calls `other` while this one calls `own`.
enum berth_status range_label_mismatch(const struct courier *courier, int rank,
                                       const struct range_label *own,
                                       const struct range_label *other, struct berth_error *error);

// A message is the header followed by `bytes` of elements. range_message_seal fills in the checksum
// and range_message_is_intact verifies it. range_message_check does that too, and compares all the
// rest but the number of ranks with `expected`.
void range_message_seal(struct range_header *message, size_t bytes);
int range_message_is_intact(const struct range_header *message, size_t bytes);
enum berth_status range_message_check(const struct courier *courier, int rank,
                                      const struct range_header *message, size_t bytes,
                                      const struct range_header *expected,
                                      struct berth_error *error);

#endif
