// SPDX-License-Identifier: Apache-2.0
// How long each rank computes, to find one that is slow: a processor that is throttled or shared,
// slow memory. It is compared with what the others need for as much work, so an uneven division of
// the work does not count, and the waits for other ranks do not either. A rank is slow only if the
// run would be faster without it, in each of several stretches of time that are long enough for the
// scheduler's chances to even out.
#ifndef BERTH_TRAIN_STRAGGLERS_H
#define BERTH_TRAIN_STRAGGLERS_H

#include "core/comm.h"

#include <stdint.h>

// The rank that computed longest, which the others wait for.
struct slow_rank {
    int rank;        // -1: not known yet
    double ratio;    // its seconds for as much work, divided by the median of the others'
    double delay;    // by which an update takes longer than if it were as fast; 0.1: 10 %
    int64_t updates; // that were looked at
};

// Of each rank, since the last comparison.
struct pace {
    double seconds, work;
};

struct stragglers {
    struct comm *comm;
    struct pace *sums;        // [size] scratch, for the exchange
    struct pace *stretch;     // [size]
    double *sorted;           // [size] scratch
    struct comm_stats before; // the update
    struct pace own;          // since the last exchange
    int64_t updates;          // likewise
    int64_t compared;         // updates in the stretch
    int64_t slow_updates;     // in the stretches in a row in which this rank was slow
    struct slow_rank slowest; // of the last stretch
    int times;                // stretches in a row
    int reported;             // rank that was reported last; -1: none
};

// Called by all ranks. stragglers_done frees, also after an error.
enum berth_status stragglers_init(struct stragglers *stragglers, struct comm *comm,
                                  struct berth_error *error);
void stragglers_done(struct stragglers *stragglers);

void stragglers_begin(struct stragglers *stragglers); // an update
// After an update of so many seconds in which this rank did so much work, in any unit; called by
// all ranks. 1: a rank has become slow, so that it should be reported.
int stragglers_add(struct stragglers *stragglers, double seconds, double work,
                   struct slow_rank *found);

#endif
