// SPDX-License-Identifier: Apache-2.0
// The communicator of a job of several processes, over any transport.
//
// A thread of its own exchanges ranges, first among the ranks of each host through shared memory,
// then between hosts by messages: with p ranks on each of H hosts, a host sends (H - 1) / H of a
// range's elements, not p times as many. If the ranks of a host cannot share memory, each is a host
// of its own.
//
// Sums of ranges are added along the tree of core/reduction_tree.h over all ranks, wherever they
// are: a host adds the values of each of its blocks (topology.h) and sends these sums, rounded to
// the wire type; so does a rack, if hosts are in several, with the sums of its hosts.
#ifndef BERTH_COMM_RANKS_H
#define BERTH_COMM_RANKS_H

#include "comm/chunking.h"
#include "comm/comm.h"
#include "comm/topology.h"
#include "comm/transport.h"

#include <stddef.h>

struct comm_settings {
    double timeout_seconds; // of each wait for other ranks
    const char *host;       // identity of this host; NULL: determined by the system
    const char *rack;       // of this host (topology.h); NULL: none is known
    // For the elements that are in the memory that a host's ranks share; 0: 64 MiB. It is more if
    // messages of message_bytes need it (comm_ranks_limits).
    size_t window_bytes;
    size_t message_bytes; // of elements, in messages between many ranks; 0: 64 KiB
    int flat;             // 1: each rank is a host of its own
};

// A communicator over `transport`, which is closed with it, or before an error is returned. All
// processes call this, with the same settings but for `host`.
//
// After an error (comm->status), the memory of exchanges that were begun must stay valid until the
// communicator is closed, because messages may be in flight.
enum berth_status comm_ranks_open(struct transport *transport, const struct comm_settings *settings,
                                  struct comm **comm, struct berth_error *error);

// How much there is room for in a step; the same on all ranks. However many ranks the job has, the
// memory that p ranks of a host share is, without headers and marks, not more than
//     max(window_bytes, WINDOW_SLOTS * p * CHUNK_CELLS * message_bytes)
// which is 64 MiB up to 32 ranks of a host and 256 MiB at 128 (comm_ranks_memory_check).
struct chunk_limits comm_ranks_limits(const struct comm_settings *settings,
                                      const struct topology *topology);

// The bytes that a rank's communicator takes: `own` for itself, and `host` for the memory that the
// ranks of its host share, of which it touches at most `reduce` and `gather` in exchanges in f32.
struct comm_ranks_memory {
    size_t own, host, reduce, gather;
};

struct comm_ranks_memory comm_ranks_memory(const struct comm_settings *settings,
                                           const struct topology *topology);
// NULL, or what is not true of the memory that comm_ranks_memory returns (core/check.h).
const char *comm_ranks_memory_check(const struct comm_settings *settings,
                                    const struct topology *topology);

#endif
