// SPDX-License-Identifier: Apache-2.0
// The communicator of a job of several processes, over any transport.
//
// Exchanges of ranges are done by a thread of its own, first among the ranks of each host through
// memory that they share, then between hosts by messages: with p ranks on each of H hosts, a host
// sends (H - 1) / H of a range's elements, not p times as many. Where the ranks of a host cannot
// share memory, each is a host of its own.
//
// Sums of ranges are added along the tree of comm/numbers.h: over the ranks of each host, then over
// hosts. What a host adds is rounded to the wire's type before it travels.
#ifndef BERTH_COMM_RANKS_H
#define BERTH_COMM_RANKS_H

#include "comm/transport.h"
#include "core/comm.h"

#include <stddef.h>

struct comm_settings {
    double timeout_seconds; // of each wait for other ranks
    const char *host;       // replaces what identifies this host; NULL: none does
    size_t window_bytes;    // aim of the memory that a host's ranks share; 0: 64 MiB
    int flat;               // 1: each rank is a host of its own
};

// A communicator over `transport`, which it closes with itself, or before an error is returned.
// Called by all processes, with the same settings but for `host`.
//
// After an error (comm->status), memory that exchanges were begun with must stay until the
// communicator is closed: messages may be under way.
enum berth_status comm_ranks_open(struct transport *transport, const struct comm_settings *settings,
                                  struct comm **comm, struct berth_error *error);

// Elements of a rank's part in a step, with so many ranks of which `local_size` share a host.
int64_t comm_ranks_chunk(const struct comm_settings *settings, int size, int local_size);

// What a communicator of so many ranks will take: `own` for each, and `host` for the memory that
// the ranks of a host share. Of that, a rank uses at most `reduce` and `gather` for exchanges in
// f32. At most `local_size` ranks share a host.
struct comm_ranks_memory {
    size_t own, host, reduce, gather;
};

struct comm_ranks_memory comm_ranks_memory(const struct comm_settings *settings, int size,
                                           int local_size, int host_count);

#endif
