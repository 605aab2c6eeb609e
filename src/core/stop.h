// SPDX-License-Identifier: Apache-2.0
// Requests to stop a job: as the caller's numbers (enum berth_stop), and as ranks agree on the
// strongest of them, in the order in which one counts before another.
#ifndef BERTH_CORE_STOP_H
#define BERTH_CORE_STOP_H

#include <stdatomic.h>
#include <stddef.h>

/* What a job is asked to do while it runs. *stop is read once per update and after every STEP and
 * EVAL record, so that a rule that such a record fulfils prevents the next update. Of several
 * requests, also of other processes, BERTH_STOP_AT_ONCE counts first, then BERTH_STOP_AND_SAVE.
 * Prediction and evaluation go on to their end with BERTH_STOP_FINISH. Other jobs stop alike for
 * every value but 0.
 */
enum berth_stop {
    BERTH_STOP_NONE = 0,
    BERTH_STOP_AND_SAVE = 1, /* save the state and stop: BERTH_INTERRUPTED */
    BERTH_STOP_AT_ONCE = 2,  /* stop without saving: BERTH_INTERRUPTED */
    BERTH_STOP_FINISH = 3 /* end as if max_steps had been reached: the last report, evaluation and
                             checkpoint as the settings say, the model is written, BERTH_OK. Of
                             an independent worker, only its own training ends, perhaps some
                             updates later */
};

enum stop_request { STOP_NONE, STOP_FINISH, STOP_AND_SAVE, STOP_AT_ONCE };

// `stop` may be NULL. A number that the interface does not name is an old program's way to say
// "at once".
static inline enum stop_request stop_request_of(const atomic_int *stop) {
    const int request = stop != NULL ? *stop : BERTH_STOP_NONE;
    return request == BERTH_STOP_FINISH     ? STOP_FINISH
           : request == BERTH_STOP_AND_SAVE ? STOP_AND_SAVE
           : request > BERTH_STOP_AND_SAVE  ? STOP_AT_ONCE
                                            : STOP_NONE;
}

// Whether work that is under way is to be left: not to finish.
static inline int stop_interrupts(const atomic_int *stop) {
    return stop_request_of(stop) > STOP_FINISH;
}

#endif
