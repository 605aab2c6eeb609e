// SPDX-License-Identifier: Apache-2.0
// Heartbeats of ranks that work independently: while a rank works, one of its threads exchanges a
// few numbers with those of the other ranks at short intervals, until all ranks have finished. So a
// rank with more work than the others does not exceed the communicator's deadline, and what one
// rank learns (a failure, a stop request) reaches all.
#ifndef BERTH_COMM_HEARTBEAT_H
#define BERTH_COMM_HEARTBEAT_H

#include "comm/comm.h"
#include "core/error.h"

#include <stddef.h>

#define HEARTBEAT_VALUES_MAX 8

// A heartbeat sums `count` numbers, at most HEARTBEAT_VALUES_MAX, over all ranks.
struct heartbeat_rules {
    struct comm *comm;
    size_t count;
    // Fills in this rank's numbers before each heartbeat; also at the same intervals once the
    // communicator has failed, and once this rank has finished its work.
    void (*report)(void *context, double *own);
    // Receives the sums over all ranks.
    void (*receive)(void *context, const double *sums);
    // Called once, if the communicator fails; the work goes on. NULL: nothing to do.
    void (*fail)(void *context, enum berth_status status, const struct berth_error *error);
    void *context;
};

// Runs work(context) in the calling thread and the other functions in another thread; a collective
// call. Returns when all ranks have finished; if the communicator fails, when this rank has, with
// the communicator's error. Until then only heartbeats may use the communicator. If the thread
// cannot be started, the work is not done.
enum berth_status heartbeat_run(const struct heartbeat_rules *rules, void (*work)(void *context),
                                struct berth_error *error);

#endif
