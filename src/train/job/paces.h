// SPDX-License-Identifier: Apache-2.0
// How long each rank computes for the same work, to find one that is slow: a processor that is
// throttled or shared, slow memory. What it computes is given by the model, so an uneven division
// of the work does not count, and the waits for other ranks do not either.
#ifndef BERTH_TRAIN_PACES_H
#define BERTH_TRAIN_PACES_H

#include "core/comm.h"

#include <stdint.h>

// The slowest rank: seconds for the same work, divided by the median of all ranks'.
struct slow_rank {
    int rank; // -1: not known yet
    double ratio;
    double seconds;  // of an update that it takes longer than the median
    int64_t updates; // that were looked at
};

struct paces {
    struct comm *comm;
    double *sums; // [2 size] scratch: seconds and work of each rank, then seconds for work
    struct comm_stats before;
    double seconds, work; // since the ranks compared them last
    int64_t updates;
    struct slow_rank slowest; // when they did
    int times;                // in a row that this rank was slow
    int reported;             // rank that was reported last; -1: none
};

// Called by all ranks. paces_done frees, also after an error.
enum berth_status paces_init(struct paces *paces, struct comm *comm, struct berth_error *error);
void paces_done(struct paces *paces);

// After an update of so many seconds in which this rank did so much work, in any unit; called by
// all ranks. 1: a rank has become slow, so that it should be reported.
int paces_add(struct paces *paces, double seconds, double work, struct slow_rank *found);

#endif
