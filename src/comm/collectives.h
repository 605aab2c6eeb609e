// SPDX-License-Identifier: Apache-2.0
// Small collectives, performed by the calling thread: agreements, sums of numbers, broadcasts.
//
// All use binomial trees. Towards rank 0, rank r collects from r + 1, r + 2, r + 4, ..., in this
// order, as far as its subtree reaches. So a sum is added along the tree of core/reduction_tree.h.
#ifndef BERTH_COMM_COLLECTIVES_H
#define BERTH_COMM_COLLECTIVES_H

#include "comm/courier.h"

#include <stddef.h>
#include <stdint.h>

enum { COLLECTIVE_DOUBLES = 4096, MAX_TREE_CHILDREN = 32 };

// The state of one thread's collectives. A message that is still in flight when a deadline passes
// may arrive later, so messages, and the buffer for what is received, live here and not on the
// stack. What is sent, and received data that are larger than the buffer, stay the caller's.
struct collectives {
    struct courier courier;
    struct transport_message sent, received, sends[MAX_TREE_CHILDREN];
    double buffer[COLLECTIVE_DOUBLES];
};

// As in comm/comm.h, but these return the error of a message that failed.
enum berth_status collectives_broadcast(struct collectives *collectives, void *data, size_t bytes,
                                        int root, struct berth_error *error);
enum berth_status collectives_sum(struct collectives *collectives, double *values, size_t count,
                                  struct berth_error *error);

// Where in the job a rank calls: the operations that it has begun, its phase and its update.
struct job_position {
    int64_t begun, phase, update;
};

// What ranks agree on.
struct agreement {
    int rank;     // the lowest rank that failed
    int failures; // ranks that failed
    int stop;     // the largest
    struct job_position position;
    int positions_differ;     // not all ranks call from the same position
    struct berth_error error; // of `rank`
};

// Replaces each rank's own agreement by that of the job.
enum berth_status collectives_agree(struct collectives *collectives, struct agreement *agreement,
                                    struct berth_error *error);

// Every rank receives the blocks of all ranks, of `bytes` each; rank r's is at blocks + r * bytes.
enum berth_status collectives_all_gather(struct collectives *collectives, void *blocks,
                                         size_t bytes, struct berth_error *error);

#endif
