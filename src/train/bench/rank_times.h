// SPDX-License-Identifier: Apache-2.0
// What a rank computes in an update between its exchanges, as it was measured: a list of what
// happens in an update and of the seconds before each. The same list serves two purposes: with the
// real ranks, computing is replaced by sleeping; with a forecast's communicator, by advancing its
// clocks.
#ifndef BERTH_TRAIN_RANK_TIMES_H
#define BERTH_TRAIN_RANK_TIMES_H

#include "core/error.h"
#include "train/engine/all_reduce.h"
#include "train/engine/division.h"

#include <stddef.h>
#include <stdint.h>

enum rank_event {
    RANK_NEEDS_WEIGHTS,   // of range `index`: the forward pass goes on when they are there
    RANK_ANNOUNCES,       // gradients of range `index`: final
    RANK_NEEDS_GRADIENTS, // of range `index`: their sums
    RANK_SUMS,            // `index` numbers, with all ranks
    RANK_AGREES,          // with all ranks
    RANK_UPDATED,         // range `index`: this rank's part has new weights
    RANK_ENDS,            // the update
    RANK_EVENTS
};

struct rank_moment {
    enum rank_event event;
    int64_t index;
    double seconds; // of computing since the event before
};

struct rank_times {
    struct rank_moment *moments;
    size_t count, capacity;
    int64_t ranks, zero_stage, ranges;
    double load; // predicted time of the part (division.h) that the forward and backward pass took
                 // these seconds for
};

// 1: seconds before such an event grow with the rank's load; 0: those of the optimizer's step.
int rank_event_scales_with_load(enum rank_event event);
// Appends a moment. BERTH_NO_MEMORY.
enum berth_status rank_times_add(struct rank_times *times, enum rank_event event, int64_t index,
                                 double seconds, struct berth_error *error);
void rank_times_done(struct rank_times *times);
// Seconds in which a rank with this load computes.
double rank_times_seconds(const struct rank_times *times, double load);

// The load of a rank: that of its parts.
double rank_load(const struct division *division, int rank, int ranks);

// One update's exchanges. `compute` takes the place of what is computed before each.
struct rank_replay {
    struct all_reduce *all_reduce;
    void (*compute)(void *context, const struct rank_moment *moment);
    void *context;
};
enum berth_status rank_times_replay(const struct rank_times *times,
                                    const struct rank_replay *replay, struct berth_error *error);

// A JSON file. Reading refuses (BERTH_BAD_DATA) what write does not write; rank_times_done frees,
// also after an error.
enum berth_status rank_times_write(const struct rank_times *times, const char *path,
                                   struct berth_error *error);
enum berth_status rank_times_read(struct rank_times *times, const char *path,
                                  struct berth_error *error);

#endif
