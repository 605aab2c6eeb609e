// SPDX-License-Identifier: Apache-2.0
// A communicator that exchanges nothing and records what a rank computes between its exchanges.
#ifndef BERTH_TRAIN_RECORDER_H
#define BERTH_TRAIN_RECORDER_H

#include "core/comm.h"
#include "model/params.h"
#include "train/bench/rank_times.h"

struct recorder {
    struct comm comm; // for the engine
    const struct param_table *table;
    struct rank_times times; // sums over the updates that were recorded
    int64_t updates;
    int is_recording;
    size_t next;      // index of the next moment of the update
    double last_time; // of the moment before
    // The last ticket of each range's gradients and weights.
    int64_t *gradients, *weights, tickets;
    struct berth_error error;
};

// As rank 0 of the ranks of `comm`, whose operations are not called. The recorder must not move.
enum berth_status recorder_init(struct recorder *recorder, const struct comm *comm,
                                const struct param_table *table, struct berth_error *error);
void recorder_done(struct recorder *recorder);

// Around an update. The first update of a run, which waits for no weights, cannot be recorded.
void recorder_start(struct recorder *recorder);
enum berth_status recorder_stop(struct recorder *recorder, double load, struct berth_error *error);

// After the last update: turns sums into means.
void recorder_average(struct recorder *recorder);

#endif
