// SPDX-License-Identifier: Apache-2.0
// The work of a stage: independent items, made by threads and by the ranks of a job. Each stage
// gives a function that makes one item; which items are finished already is known to its manifest
// (stage.h).
#ifndef BERTH_DATA_STAGE_WORK_H
#define BERTH_DATA_STAGE_WORK_H

#include "comm/comm.h"
#include "core/error.h"
#include "core/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// comm_settle after reading the files of the previous stage, which ranks on other hosts may not
// see.
enum berth_status stage_settle_input(struct comm *comm, enum berth_status own,
                                     struct berth_error *error);

// The progress of a phase and its first failure. All functions are thread-safe.
struct stage_work {
    const struct berth_log *log;
    const atomic_int *stop; // NULL: never
    struct comm *comm;
    const char *phase;
    int64_t done, total; // done: by this rank
    int in_bytes;
    enum berth_status status;
    struct berth_error error;
    pthread_mutex_t reporting; // guards done and done_elsewhere; initialised by the caller
    int64_t done_elsewhere;    // by the other ranks, as last reported
    atomic_int others_stopped; // a rank has failed or was asked to stop, this one included
};
// Adds to the progress and reports it.
void stage_advance(struct stage_work *work, int64_t more);
// Records the failure if it is the first.
void stage_fail(struct stage_work *work, enum berth_status status, const struct berth_error *error);
// Whether workers should stop, because a rank has failed or was asked to stop; a stop request is
// recorded as BERTH_INTERRUPTED.
int stage_should_stop(struct stage_work *work);
// Becomes 1 once an item should be given up, for code that polls a flag; may be NULL: never.
const atomic_int *stage_stop_flag(const struct stage_work *work);
// The first failure of this rank, or BERTH_OK.
enum berth_status stage_outcome(const struct stage_work *work, struct berth_error *error);

struct stage_items {
    size_t count;
    int threads;
    enum berth_status (*make)(void *context, size_t item, struct berth_error *error);
    void *context;
};
// Makes all items on `threads` threads per rank; rank r of n makes the items i with i mod n = r.
// While they work, the ranks exchange progress, failures and stop requests. All return the same
// status.
enum berth_status stage_make(struct stage_work *work, const struct stage_items *items,
                             struct berth_error *error);

#endif
