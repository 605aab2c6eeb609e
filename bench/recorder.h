// SPDX-License-Identifier: Apache-2.0
// A communicator that exchanges nothing and records what a rank computes between its exchanges, so
// that a cluster can be forecast from one process (bench_ranks.h, comm/forecast.c). The engine
// cannot tell it from a real one.
#ifndef BERTH_RECORDER_H
#define BERTH_RECORDER_H

#include "bench/rank_times.h"
#include "comm/comm.h"
#include "model/params.h"

struct recorder {
    struct comm comm; // to give to the engine
    const struct param_table *table;
    struct rank_times times; // sums over the recorded updates
    int64_t updates;
    int is_recording;
    size_t next;      // index of the next moment of the update
    double last_time; // of the moment before
    // The last ticket for the gradients and weights of each range.
    int64_t *gradients, *weights, tickets;
    struct berth_error error;
};

// Acts as rank 0 of `comm`, whose functions are never called. The recorder must not move.
enum berth_status recorder_init(struct recorder *recorder, const struct comm *comm,
                                const struct param_table *table, struct berth_error *error);
void recorder_done(struct recorder *recorder);

// Call these before and after an update. The first update of a run waits for no weights, so it must
// not be recorded.
void recorder_start(struct recorder *recorder);
enum berth_status recorder_stop(struct recorder *recorder, double load, struct berth_error *error);

// Call after the last update: turns sums into means.
void recorder_average(struct recorder *recorder);

#endif
