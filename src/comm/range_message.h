// SPDX-License-Identifier: Apache-2.0
// The header of a message with elements of a range: which operation it belongs to, so that ranks
// that do not call the same are found out, how many ranks' values were added, so that none is left
// out or counted twice, and a checksum.
#ifndef BERTH_COMM_RANGE_MESSAGE_H
#define BERTH_COMM_RANGE_MESSAGE_H

#include "comm/courier.h"
#include "core/comm.h"

#include <stdint.h>

// An operation as all ranks must call it. Without padding, so that labels compare byte by byte.
struct range_label {
    int64_t number; // of operations on ranges, counted from 1: the ticket
    int64_t first, count, bucket;
    uint64_t starts; // checksum
    uint16_t is_gather, dtype, wire, unused;
    char name[40]; // cut off where it is longer
};

struct range_header {
    struct range_label label;
    int64_t chunk; // of the owner's part
    int64_t owner;
    int64_t ranks; // whose values are added in it
    uint64_t unused;
    uint64_t checksum; // of the header up to here and the elements
};

struct range_label range_label_of(const struct comm_range *range, int is_gather, int64_t number,
                                  int size);

// Writes "the sum of "gradients" (100 elements from 0)".
enum { RANGE_TEXT = 128 };
void range_label_write(const struct range_label *label, char text[RANGE_TEXT]);

// The error of a rank that calls `other` where this one calls `own`.
enum berth_status range_label_mismatch(const struct courier *courier, int rank,
                                       const struct range_label *own,
                                       const struct range_label *other, struct berth_error *error);

// A message: the header, followed by `bytes` of elements. seal fills in the checksum, is_whole
// compares it; check does so, and compares everything else with `expected`, but for the number of
// ranks.
void range_message_seal(struct range_header *message, size_t bytes);
int range_message_is_whole(const struct range_header *message, size_t bytes);
enum berth_status range_message_check(const struct courier *courier, int rank,
                                      const struct range_header *message, size_t bytes,
                                      const struct range_header *expected,
                                      struct berth_error *error);

#endif
