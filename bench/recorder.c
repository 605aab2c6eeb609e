// SPDX-License-Identifier: Apache-2.0
// A communicator that exchanges nothing: each call notes which exchange it is and how long the rank
// has computed since the last one. bench.c runs a few updates with it on one process, and
// rank_times.c writes what it noted.
#include "bench/recorder.h"

#include "core/clock.h"
#include "core/memory.h"

#include <string.h>

static struct recorder *recorder_of(struct comm *comm) {
    return comm->state;
}

// --- moments ------------------------------------------------------------------------------------

// The events of every recorded update must be those of the first.
static void count(struct recorder *recorder, enum rank_event event, int64_t index, double seconds) {
    struct rank_times *times = &recorder->times;
    if (recorder->updates == 0) {
        (void)rank_times_add(times, event, index, seconds, &recorder->error);
    } else if (recorder->next < times->count && times->moments[recorder->next].event == event &&
               times->moments[recorder->next].index == index) {
        times->moments[recorder->next].seconds += seconds;
    } else {
        (void)error_set(&recorder->error, BERTH_INTERNAL,
                        "the exchanges of an update differ from those of the previous one");
    }
    recorder->next++;
}

// The segments of a range are one event.
static int is_again(const struct recorder *recorder, enum rank_event event, int64_t index) {
    const struct rank_moment *moments = recorder->times.moments;
    const size_t next = recorder->next;
    return event != RANK_SUMS && next > 0 && moments[next - 1].event == event &&
           moments[next - 1].index == index;
}

static void record(struct recorder *recorder, enum rank_event event, int64_t index) {
    if (!recorder->is_recording || recorder->error.status != BERTH_OK ||
        is_again(recorder, event, index)) {
        return;
    }
    count(recorder, event, index, clock_now() - recorder->last_time);
    recorder->last_time = clock_now();
}

// --- the communicator's functions ---------------------------------------------------------------

static size_t range_at(const struct recorder *recorder, int64_t element) {
    size_t range = 0;
    while (range + 1 < param_range_count(recorder->table) &&
           param_range(recorder->table, range + 1).first <= element) {
        range++;
    }
    return range;
}

static int64_t recorder_reduce_begin(struct comm *comm, const struct comm_range *range) {
    struct recorder *recorder = recorder_of(comm);
    const size_t index = range_at(recorder, range->first);
    record(recorder, RANK_ANNOUNCES, (int64_t)index);
    return recorder->gradients[index] = ++recorder->tickets;
}

static int64_t recorder_gather_begin(struct comm *comm, const struct comm_range *range) {
    struct recorder *recorder = recorder_of(comm);
    const size_t index = range_at(recorder, range->first);
    record(recorder, RANK_UPDATED, (int64_t)index);
    return recorder->weights[index] = ++recorder->tickets;
}

static void recorder_wait(struct comm *comm, int64_t ticket) {
    struct recorder *recorder = recorder_of(comm);
    for (size_t i = 0; i < param_range_count(recorder->table); i++) {
        if (recorder->gradients[i] == ticket) {
            record(recorder, RANK_NEEDS_GRADIENTS, (int64_t)i);
        } else if (recorder->weights[i] == ticket) {
            record(recorder, RANK_NEEDS_WEIGHTS, (int64_t)i);
        }
    }
}

static void recorder_sum(struct comm *comm, double *values, size_t count) {
    (void)values;
    record(recorder_of(comm), RANK_SUMS, (int64_t)count);
}

static enum berth_status recorder_agree(struct comm *comm, enum berth_status own, int *stop,
                                        struct berth_error *error) {
    (void)stop, (void)error;
    record(recorder_of(comm), RANK_AGREES, 0);
    return own;
}

static void recorder_broadcast(struct comm *comm, void *data, size_t bytes, int root) {
    (void)comm, (void)data, (void)bytes, (void)root;
}

static enum berth_status recorder_status(struct comm *comm, struct berth_error *error) {
    return error_copy(error, &recorder_of(comm)->error);
}

static struct comm_stats recorder_stats(struct comm *comm) {
    (void)comm;
    return (struct comm_stats){0};
}

static void recorder_close(struct comm *comm) {
    (void)comm;
}

// --- updates ------------------------------------------------------------------------------------

enum berth_status recorder_init(struct recorder *recorder, const struct comm *comm,
                                const struct param_table *table, struct berth_error *error) {
    const size_t ranges = param_range_count(table);
    *recorder = (struct recorder){.comm = *comm, .table = table};
    recorder->comm.state = recorder;
    recorder->comm.close = recorder_close;
    recorder->comm.status = recorder_status;
    recorder->comm.agree = recorder_agree;
    recorder->comm.broadcast = recorder_broadcast;
    recorder->comm.sum = recorder_sum;
    recorder->comm.reduce_begin = recorder_reduce_begin;
    recorder->comm.gather_begin = recorder_gather_begin;
    recorder->comm.wait = recorder_wait;
    recorder->comm.stats = recorder_stats;
    recorder->times.ranks = comm->size;
    recorder->times.ranges = (int64_t)ranges;
    recorder->gradients = memory_array_zeroed(ranges, sizeof *recorder->gradients);
    recorder->weights = memory_array_zeroed(ranges, sizeof *recorder->weights);
    return recorder->gradients != NULL && recorder->weights != NULL
               ? BERTH_OK
               : error_no_memory(error, 2 * ranges * sizeof(int64_t), "the record of exchanges");
}

void recorder_done(struct recorder *recorder) {
    rank_times_done(&recorder->times);
    memory_free(recorder->gradients);
    memory_free(recorder->weights);
}

void recorder_start(struct recorder *recorder) {
    recorder->is_recording = 1;
    recorder->next = 0;
    recorder->last_time = clock_now();
}

enum berth_status recorder_stop(struct recorder *recorder, double load, struct berth_error *error) {
    record(recorder, RANK_ENDS, 0);
    recorder->is_recording = 0;
    recorder->updates++;
    recorder->times.load += load;
    return recorder_status(&recorder->comm, error);
}

void recorder_average(struct recorder *recorder) {
    struct rank_times *times = &recorder->times;
    for (size_t i = 0; i < times->count; i++) {
        times->moments[i].seconds /= (double)recorder->updates;
    }
    times->load /= (double)recorder->updates;
}
