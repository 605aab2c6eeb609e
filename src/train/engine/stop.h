// SPDX-License-Identifier: Apache-2.0
// Requests to stop a job (enum berth_stop), as ranks agree on the strongest of them: in the order
// in which one counts before another, which is not that of the public numbers.
#ifndef BERTH_TRAIN_STOP_H
#define BERTH_TRAIN_STOP_H

#include "core/config.h"

#include <stdatomic.h>
#include <stddef.h>

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
