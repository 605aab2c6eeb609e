// SPDX-License-Identifier: Apache-2.0
// The measured seconds that a rank computes between the exchanges of an update: a list of the
// events of an update and the seconds before each. It serves two purposes: with real ranks,
// computation is replaced by sleeping; with a forecast's communicator, by advancing its clocks.
// recorder.h measures them.
#ifndef BERTH_RANK_TIMES_H
#define BERTH_RANK_TIMES_H

#include "core/error.h"
#include "train/engine/all_reduce.h"
#include "train/engine/division.h"

#include <stddef.h>
#include <stdint.h>

enum rank_event {
    RANK_NEEDS_WEIGHTS,   // of range `index`: the forward pass waits for them
    RANK_ANNOUNCES,       // gradients of range `index` are final
    RANK_NEEDS_GRADIENTS, // of range `index`: waits for their sums
    RANK_SUMS,            // sums `index` numbers over all ranks
    RANK_AGREES,          // with all ranks
    RANK_UPDATED,         // this rank's part of range `index` has new weights
    RANK_ENDS,            // end of the update
    RANK_EVENTS
};

struct rank_moment {
    enum rank_event event;
    int64_t index;
    double seconds; // of computation since the previous event
};

struct rank_times {
    struct rank_moment *moments;
    size_t count, capacity;
    int64_t ranks, zero_stage, ranges;
    double load; // predicted time (division.h) of the part that was measured
};

// 1: the seconds before such an event are proportional to the rank's load; 0: those of the
// optimizer's step are not.
int rank_event_scales_with_load(enum rank_event event);
// Appends a moment. BERTH_NO_MEMORY.
enum berth_status rank_times_add(struct rank_times *times, enum rank_event event, int64_t index,
                                 double seconds, struct berth_error *error);
void rank_times_done(struct rank_times *times);
// Seconds that a rank with this load computes in an update.
double rank_times_seconds(const struct rank_times *times, double load);

// The load of a rank: the sum over its parts.
double rank_load(const struct division *division, int rank, int ranks);

// Replays the exchanges of one update. `compute` replaces the computation before each.
struct rank_replay {
    struct all_reduce *all_reduce;
    void (*compute)(void *context, const struct rank_moment *moment);
    void *context;
};
enum berth_status rank_times_replay(const struct rank_times *times,
                                    const struct rank_replay *replay, struct berth_error *error);

// BERTH_CANT_CREATE if `path` is a file without such times.
enum berth_status rank_times_check_output(const char *path, struct berth_error *error);
// As a JSON file. Reading refuses (BERTH_BAD_DATA) what write would not write; call rank_times_done
// even after an error.
enum berth_status rank_times_write(const struct rank_times *times, const char *path,
                                   struct berth_error *error);
enum berth_status rank_times_read(struct rank_times *times, const char *path,
                                  struct berth_error *error);

#endif
