// SPDX-License-Identifier: Apache-2.0
// A communicator of two ranks that are threads of one process, for tests of code that uses
// core/comm.h. They meet at barriers and read each other's memory. Each rank owns all elements.
#ifndef BERTH_TESTS_TRAIN_PAIR_COMM_H
#define BERTH_TESTS_TRAIN_PAIR_COMM_H

#include "core/comm.h"

#include <pthread.h>

enum { PAIR_RANGES = 64 };

struct pair_rank {
    struct comm comm;
    struct pair *pair;
    // The rank's argument to the current operation.
    void *values;
    size_t count;
    enum berth_status status;
    struct berth_error error;
    int stop;
    struct comm_range ranges[PAIR_RANGES]; // begun and not waited for
    size_t range_count;
    int64_t reduced; // elements, so far
};

struct pair {
    pthread_barrier_t barrier;
    struct pair_rank ranks[2];
};

void pair_init(struct pair *pair);
void pair_done(struct pair *pair);

#endif
