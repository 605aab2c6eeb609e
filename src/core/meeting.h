// SPDX-License-Identifier: Apache-2.0
// Ranks that work each for itself, and meet while they do: a thread of each rank meets those of the
// others at short intervals, until all have done their work. So a rank with more to do meets no
// deadline of the communicator, and what one rank learns (a failure, a stop request) reaches all.
#ifndef BERTH_CORE_MEETING_H
#define BERTH_CORE_MEETING_H

#include "core/comm.h"
#include "core/error.h"

#include <stddef.h>

#define MEETING_MOST 8

// What the ranks tell each other: `count` numbers, at most MEETING_MOST.
struct meeting_rules {
    struct comm *comm;
    size_t count;
    // Fills in this rank's numbers, before each meeting, and instead of meetings once the
    // communicator has failed. The work may have been done.
    void (*tell)(void *context, int is_done, double *own);
    // Receives the sums over all ranks.
    void (*hear)(void *context, const double *sums);
    // The communicator has failed; called once. The work goes on. NULL: nothing is done then.
    void (*fail)(void *context, enum berth_status status, const struct berth_error *error);
    void *context;
};

// Runs work(context) in the calling thread, the other functions in another one. All ranks call it.
// Returns after the work of all of them; if the communicator fails, its error after that of this
// one. Until then only the meetings may use the communicator. Without memory for the thread nothing
// is done here.
enum berth_status meeting_work(const struct meeting_rules *rules, void (*work)(void *context),
                               struct berth_error *error);

#endif
