// SPDX-License-Identifier: Apache-2.0
// Finds a rank that is slow, because its processor is throttled or shared or its memory is slow,
// from the time that each rank computes. The time is compared with what the others need for the
// same amount of work, so an uneven division does not count, nor does waiting for other ranks. A
// rank is slow only if it delays the run in each of several consecutive stretches of time, which
// are long enough for scheduling noise to even out.
#ifndef BERTH_TRAIN_STRAGGLERS_H
#define BERTH_TRAIN_STRAGGLERS_H

#include "comm/comm.h"

#include <stdint.h>

// The rank that computed longest, for which the others wait.
struct slow_rank {
    int rank;        // -1: not known yet
    double ratio;    // its seconds per work / the median of the other ranks
    double delay;    // 0.1: an update takes 10 % longer because of it
    int64_t updates; // over which this was measured
};

// What a rank has computed.
struct pace {
    double seconds, work;
};

struct stragglers {
    struct comm *comm;
    struct pace *sums;        // [size] scratch for the exchange
    struct pace *stretch;     // [size] of each rank in the current stretch
    double *sorted;           // [size] scratch
    struct comm_stats before; // when the update began
    struct pace own;          // of this rank since the last exchange
    int64_t updates;          // since the last exchange
    int64_t compared;         // updates in the current stretch
    int64_t slow_updates;     // in the consecutive stretches in which `slowest` was slow
    struct slow_rank slowest; // in the last stretch
    int times;                // number of these stretches
    int reported;             // the rank that was last reported; -1: none
};

// Called by all ranks. Call stragglers_done even after an error.
enum berth_status stragglers_init(struct stragglers *stragglers, struct comm *comm,
                                  struct berth_error *error);
void stragglers_done(struct stragglers *stragglers);

void stragglers_begin(struct stragglers *stragglers); // before an update
// After an update: its seconds, and the work that this rank did, in any unit. Called by all ranks.
// Returns 1 and sets *found if a rank has become slow and should be reported.
int stragglers_add(struct stragglers *stragglers, double seconds, double work,
                   struct slow_rank *found);

#endif
