// SPDX-License-Identifier: Apache-2.0
// Updates whose computation is replaced by measured seconds: with real ranks by sleeping between
// real exchanges, in a forecast by advancing clocks between predicted exchanges. bench.c runs one
// or the other; the seconds are those of rank_times.h.
#ifndef BERTH_BENCH_RANKS_H
#define BERTH_BENCH_RANKS_H

#include "bench/bench.h"
#include "bench/bench_data.h"
#include "bench/rank_times.h"
#include "train/engine/update.h"

// What both need. The state's buffers are as large as in training.
struct bench_replay {
    const struct rank_times *times;
    const struct bench_data *data;
    struct division *division; // for a whole update
    struct state *state;
    struct all_reduce_rules rules;
};

// BERTH_CONFIG if the times are for another number of ranks, ZeRO stage or geometry.
enum berth_status bench_replay_check(const struct bench_replay *replay, const char *path,
                                     struct berth_error *error);

// One update of this rank of all_reduce->comm: sleeps and exchanges.
enum berth_status bench_replay_step(const struct bench_replay *replay,
                                    struct all_reduce *all_reduce, int64_t step,
                                    struct berth_error *error);

// Predicts all updates on a cluster; those from `first` on count.
enum berth_status bench_forecast(const struct bench_replay *replay,
                                 const struct comm_cluster *cluster, int64_t first,
                                 struct bench_forecast *forecast, struct berth_error *error);

#endif
