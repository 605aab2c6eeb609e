// SPDX-License-Identifier: Apache-2.0
// Trying again after a failure that may pass.
#ifndef BERTH_NET_RETRY_H
#define BERTH_NET_RETRY_H

#include "net/download.h"

// Counts failures without progress; zero-initialise.
struct retry {
    int64_t failures;
};

// After the failed `status` of a request: waits (0.25 s, then twice as long each time, 8 s at most)
// and returns BERTH_OK when it is worth another try, else `status`. A stop while waiting is
// BERTH_INTERRUPTED. `error` holds the failure.
enum berth_status retry_after(const struct net *net, struct retry *retry, enum berth_status status,
                              const struct http_answer *answer, struct berth_error *error);

// Sleeps; BERTH_INTERRUPTED as soon as the stop flag is set.
enum berth_status retry_wait(const struct net *net, int64_t milliseconds,
                             struct berth_error *error);

#endif
