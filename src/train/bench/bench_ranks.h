// SPDX-License-Identifier: Apache-2.0
// Updates whose computing is replaced by the seconds that it took: by sleeping, between exchanges
// of real ranks; by a forecast's clocks, between exchanges that are predicted.
#ifndef BERTH_TRAIN_BENCH_RANKS_H
#define BERTH_TRAIN_BENCH_RANKS_H

#include "train/bench/bench.h"
#include "train/bench/bench_data.h"
#include "train/bench/rank_times.h"
#include "train/engine/update.h"

// What both work with; the state's buffers are as large as training's.
struct bench_replay {
    const struct rank_times *times;
    const struct bench_data *data;
    struct division *division; // for a whole update
    struct state *state;
    struct all_reduce_rules rules;
};

// BERTH_CONFIG: the times are of another number of ranks, ZeRO stage or geometry.
enum berth_status bench_replay_check(const struct bench_replay *replay, const char *path,
                                     struct berth_error *error);

// One update of this rank of all_reduce->comm: sleeps, exchanges.
enum berth_status bench_replay_step(const struct bench_replay *replay,
                                    struct all_reduce *all_reduce, int64_t step,
                                    struct berth_error *error);

// All updates on a cluster; those from `first` on count.
enum berth_status bench_forecast(const struct bench_replay *replay,
                                 const struct comm_cluster *cluster, int64_t first,
                                 struct bench_forecast *forecast, struct berth_error *error);

#endif
