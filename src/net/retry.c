// SPDX-License-Identifier: Apache-2.0
// Waiting and counting.
#include "net/retry.h"

#include <time.h>

#define FIRST_WAIT_MS 250
#define LONGEST_WAIT_MS 8000
#define SLICE_MS 50

enum berth_status retry_wait(const struct net *net, int64_t milliseconds,
                             struct berth_error *error) {
    const struct timespec slice = {.tv_nsec = SLICE_MS * 1000000L};
    for (int64_t waited = 0; waited < milliseconds; waited += SLICE_MS) {
        if (net->stop != NULL && *net->stop != 0) {
            return error_set(error, BERTH_INTERRUPTED, "stopped while waiting");
        }
        nanosleep(&slice, NULL);
    }
    return BERTH_OK;
}

enum berth_status retry_after(const struct net *net, struct retry *retry, enum berth_status status,
                              const struct http_answer *answer, struct berth_error *error) {
    if (!answer->worth_a_retry || status == BERTH_INTERRUPTED || retry->failures >= net->retries) {
        return status;
    }
    int64_t wait = FIRST_WAIT_MS;
    for (int64_t i = 0; i < retry->failures && wait < LONGEST_WAIT_MS; i++) {
        wait *= 2;
    }
    retry->failures++;
    if (error != NULL) {
        log_note(&net->log, "%s; trying again", error->message);
    }
    return retry_wait(net, wait, error);
}
