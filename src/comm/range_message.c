// SPDX-License-Identifier: Apache-2.0
// Writes and checks the header of each message that carries elements of a range: what is exchanged,
// how many ranks were added, and a checksum of the elements. A message that does not fit ends the
// communicator with an error that says what both ranks were doing.
#include "comm/range_message.h"

#include "core/checksum.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct range_label range_label_of(const struct comm_range *range, int is_gather, int64_t number,
                                  int size) {
    struct range_label label = {
        .number = number,
        .first = range->first,
        .count = range->count,
        .bucket = range->bucket,
        .starts = checksum_bytes(range->starts, ((size_t)size + 1) * sizeof *range->starts),
        .is_gather = (uint16_t)is_gather,
        .dtype = (uint16_t)range->dtype,
        .wire = (uint16_t)range->wire,
        .native = (uint16_t)range->native};
    snprintf(label.name, sizeof label.name, "%s", range->name);
    return label;
}

void range_label_format(const struct range_label *label, char text[RANGE_TEXT]) {
    snprintf(text, RANGE_TEXT, "the %s of \"%.39s\" (%" PRId64 " elements from %" PRId64 ")",
             label->is_gather ? "gathering" : "sum", label->name, label->count, label->first);
}

enum berth_status range_label_mismatch(const struct courier *courier, int rank,
                                       const struct range_label *own,
                                       const struct range_label *other, struct berth_error *error) {
    char mine[RANGE_TEXT], theirs[RANGE_TEXT];
    range_label_format(own, mine);
    range_label_format(other, theirs);
    return error_set(error, BERTH_INTERNAL,
                     "the ranks call different operations: rank %d (host %s) is at operation "
                     "%" PRId64 ", %s, while rank %d is at operation %" PRId64 ", %s%s",
                     rank, courier->topology->names[rank], other->number, theirs,
                     courier->topology->rank, own->number, mine,
                     strcmp(mine, theirs) == 0 ? "; types, parts or buckets differ" : "");
}

static uint64_t checksum_of(const struct range_header *message, size_t bytes) {
    const uint64_t sums[] = {
        checksum_bytes(message, offsetof(struct range_header, checksum)),
        checksum_bytes(message + 1, bytes),
    };
    return checksum_bytes(sums, sizeof sums);
}

void range_message_seal(struct range_header *message, size_t bytes) {
    message->checksum = checksum_of(message, bytes);
}

int range_message_is_intact(const struct range_header *message, size_t bytes) {
    return message->checksum == checksum_of(message, bytes);
}

enum berth_status range_message_check(const struct courier *courier, int rank,
                                      const struct range_header *message, size_t bytes,
                                      const struct range_header *expected,
                                      struct berth_error *error) {
    if (!range_message_is_intact(message, bytes)) {
        char text[RANGE_TEXT];
        range_label_format(&expected->label, text);
        return error_set(error, BERTH_INTERNAL,
                         "a message from rank %d (host %s) was corrupted in transit, in %s", rank,
                         courier->topology->names[rank], text);
    }
    if (memcmp(&message->label, &expected->label, sizeof message->label) != 0) {
        return range_label_mismatch(courier, rank, &expected->label, &message->label, error);
    }
    if (message->chunk_index != expected->chunk_index || message->owner != expected->owner) {
        return error_set(error, BERTH_INTERNAL,
                         "a message from rank %d (host %s) has chunk %" PRId64 " of rank %" PRId64
                         "'s part; expected chunk %" PRId64 " of rank %" PRId64 "'s",
                         rank, courier->topology->names[rank], message->chunk_index, message->owner,
                         expected->chunk_index, expected->owner);
    }
    return BERTH_OK;
}
