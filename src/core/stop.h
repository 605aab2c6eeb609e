// SPDX-License-Identifier: Apache-2.0
// What a job is asked to do while it runs. A job gets a pointer to the request, `stop`, which may
// become stronger at any time. In the program a signal sets it (cli/signals.c); in the library it
// is the strongest wish of the caller's watch so far (enum berth_wish of berth.h, the same numbers;
// api/watch.c). Training reads it once an update, and its ranks agree on the strongest request of
// all (training_loop.c, update.c); prediction and the jobs of api/ read it between batches or
// files.
#ifndef BERTH_CORE_STOP_H
#define BERTH_CORE_STOP_H

#include <stdatomic.h>
#include <stddef.h>

// The strongest last. Jobs that do not train stop alike for every value but STOP_NONE; prediction
// and evaluation go on to their end with STOP_FINISH.
enum stop_request {
    STOP_NONE,
    STOP_FINISH,   // end as if max_steps had been reached: the last report, evaluation and
                   // checkpoint as the settings say, the model is written, BERTH_OK. Of an
                   // independent worker, only its own training ends, perhaps some updates later
    STOP_AND_SAVE, // save the state and stop: BERTH_INTERRUPTED
    STOP_AT_ONCE   // stop without saving: BERTH_INTERRUPTED
};

// `stop` may be NULL.
static inline enum stop_request stop_request_of(const atomic_int *stop) {
    return stop != NULL ? (enum stop_request) * stop : STOP_NONE;
}

// Whether work that is under way is to be left: not to finish.
static inline int stop_interrupts(const atomic_int *stop) {
    return stop_request_of(stop) > STOP_FINISH;
}

#endif
