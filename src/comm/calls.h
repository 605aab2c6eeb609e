// SPDX-License-Identifier: Apache-2.0
// Small operations, done by the thread that calls them: agreements, sums of numbers, broadcasts.
//
// All go along binomial trees. Towards rank 0, rank r gathers r + 1, r + 2, r + 4, ... in this
// order, as long as these are beyond r in its own subtree: then a sum is added along the tree of
// numbers.h.
#ifndef BERTH_COMM_CALLS_H
#define BERTH_COMM_CALLS_H

#include "comm/courier.h"

#include <stddef.h>
#include <stdint.h>

enum { CALL_NUMBERS = 4096, CALL_CHILDREN = 32 };

// What a thread calls with. Messages that a deadline leaves under way may still arrive, so they are
// here and not on the stack.
struct caller {
    struct courier courier;
    struct transport_message sent, received, sends[CALL_CHILDREN];
    double letter[CALL_NUMBERS]; // that is received
};

// As in core/comm.h, but the status that is returned by all but calls_agree is that of the
// pipeline, which fails when a message does.
enum berth_status calls_broadcast(struct caller *caller, void *data, size_t bytes, int root,
                                  struct berth_error *error);
enum berth_status calls_sum(struct caller *caller, double *values, size_t count,
                            struct berth_error *error);

// Where in the job a rank calls: operations that it has begun, and what it has entered.
struct call_place {
    int64_t begun, phase, update;
};

// What ranks agree on.
struct agreement {
    int rank;     // the lowest that did not pass, and its error
    int failures; // ranks that did not pass
    int stop;     // the largest
    struct call_place place;
    int is_apart; // some are at another place
    struct berth_error error;
};

// Every rank gives its own and gets the job's.
enum berth_status calls_agree(struct caller *caller, struct agreement *agreement,
                              struct berth_error *error);

// Every rank gets all ranks' blocks of `bytes`, which it owns at blocks + rank * bytes.
enum berth_status calls_collect(struct caller *caller, void *blocks, size_t bytes,
                                struct berth_error *error);

#endif
