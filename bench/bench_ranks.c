// SPDX-License-Identifier: Apache-2.0
// Repeats the updates of a recorded rank, with sleeping in place of computing between real
// exchanges, or on the clocks of a forecast. bench.c calls it for every step of such a run; the
// times are rank_times.h's, predicted exchanges comm/forecast.c's.
#include "bench/bench_ranks.h"

#include "comm/comm_forecast.h"

#include <inttypes.h>
#include <time.h>

enum berth_status bench_replay_check(const struct bench_replay *replay, const char *path,
                                     struct berth_error *error) {
    const struct rank_times *times = replay->times;
    const struct state_sharding *sharding = &replay->state->sharding;
    const int64_t ranges = (int64_t)param_range_count(replay->state->table);
    if (times->ranks == sharding->size && times->zero_stage == sharding->stage &&
        times->ranges == ranges) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_CONFIG,
                     "%s has times for %" PRId64 " ranks, zero_stage %" PRId64 " and %" PRId64
                     " ranges of weights; expected %d, %d and %" PRId64
                     ": measure again with `berth bench ranks --save_times`",
                     path, times->ranks, times->zero_stage, times->ranges, sharding->size,
                     sharding->stage, ranges);
}

// Divides an update as training does.
static void bench_replay_divide(const struct bench_replay *replay, int64_t step) {
    const struct bench_data *data = replay->data;
    const size_t first = data->cuts[step], count = data->cuts[step + 1] - first;
    division_make(replay->division, &data->source, data->order + first, count, &data->files.shape,
                  count);
}

// --- real ranks ---------------------------------------------------------------------------------

struct sleeper {
    double factor; // this rank's load / that of the measured times
};

static void sleep_for(void *context, const struct rank_moment *moment) {
    const struct sleeper *sleeper = context;
    const double seconds =
        moment->seconds * (rank_event_scales_with_load(moment->event) ? sleeper->factor : 1);
    struct timespec left = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0) {
    }
}

enum berth_status bench_replay_step(const struct bench_replay *replay,
                                    struct all_reduce *all_reduce, int64_t step,
                                    struct berth_error *error) {
    const struct comm *comm = all_reduce->comm;
    bench_replay_divide(replay, step);
    struct sleeper sleeper = {rank_load(replay->division, comm->rank, comm->size) /
                              replay->times->load};
    const struct rank_replay rank = {all_reduce, sleep_for, &sleeper};
    return rank_times_replay(replay->times, &rank, error);
}

// --- predicted ranks ----------------------------------------------------------------------------

struct runner {
    struct comm *comm;
    const struct bench_replay *replay;
};

static void advance_clocks(void *context, const struct rank_moment *moment) {
    const struct runner *runner = context;
    const struct rank_times *times = runner->replay->times;
    double *clocks = comm_forecast_clocks(runner->comm);
    const int scales_with_load = rank_event_scales_with_load(moment->event);
    for (int rank = 0; rank < runner->comm->size; rank++) {
        const double load = rank_load(runner->replay->division, rank, runner->comm->size);
        clocks[rank] += moment->seconds * (scales_with_load ? load / times->load : 1);
    }
}

static double mean_seconds(const struct bench_replay *replay, int ranks) {
    double load = 0;
    for (int rank = 0; rank < ranks; rank++) {
        load += rank_load(replay->division, rank, ranks);
    }
    return rank_times_seconds(replay->times, load / ranks);
}

// What rank 0 sees at the end of an update.
struct view {
    double clock;
    struct comm_stats stats;
};

static struct view view_of(struct comm *comm) {
    return (struct view){comm_forecast_clocks(comm)[0], comm->stats(comm)};
}

static enum berth_status run_updates(struct runner *runner, struct all_reduce *all_reduce,
                                     int64_t first, struct bench_forecast *forecast,
                                     struct berth_error *error) {
    const struct bench_data *data = runner->replay->data;
    const struct rank_replay rank = {all_reduce, advance_clocks, runner};
    struct view start = {0};
    double computed = 0;
    for (int64_t step = 0; step < data->updates; step++) {
        if (step == first) {
            start = view_of(runner->comm);
        }
        bench_replay_divide(runner->replay, step);
        TRY(rank_times_replay(runner->replay->times, &rank, error));
        computed += step >= first ? mean_seconds(runner->replay, runner->comm->size) : 0;
    }
    const struct view end = view_of(runner->comm);
    const double sequences = (double)(data->cuts[data->updates] - data->cuts[first]);
    *forecast = (struct bench_forecast){
        .seconds = end.clock - start.clock,
        .samples_per_second = sequences / (end.clock - start.clock),
        .comm_exposed_seconds = end.stats.exposed_seconds - start.stats.exposed_seconds,
        .comm_bytes = (int64_t)(end.stats.bytes - start.stats.bytes),
        .efficiency = computed / (end.clock - start.clock)};
    return BERTH_OK;
}

enum berth_status bench_forecast(const struct bench_replay *replay,
                                 const struct comm_cluster *cluster, int64_t first,
                                 struct bench_forecast *forecast, struct berth_error *error) {
    struct runner runner = {.replay = replay};
    struct all_reduce all_reduce;
    TRY(comm_forecast_open(cluster, &runner.comm, error));
    enum berth_status status =
        all_reduce_init(&all_reduce, runner.comm, replay->state, &replay->rules, error);
    if (status == BERTH_OK) {
        status = run_updates(&runner, &all_reduce, first, forecast, error);
    }
    all_reduce_finish(&all_reduce);
    runner.comm->close(runner.comm);
    all_reduce_done(&all_reduce);
    return status;
}
