// SPDX-License-Identifier: Apache-2.0
#include "pair_comm.h"

#include <stdlib.h>
#include <string.h>

static struct pair_rank *rank_of(struct comm *comm) {
    return comm->state;
}

static void meet(struct comm *comm) {
    pthread_barrier_wait(&rank_of(comm)->pair->barrier);
}

static void pair_close(struct comm *comm) {
}

static enum berth_status pair_status(struct comm *comm, struct berth_error *error) {
    return BERTH_OK;
}

static enum berth_status pair_agree(struct comm *comm, enum berth_status own, int *stop,
                                    struct berth_error *error) {
    struct pair_rank *mine = rank_of(comm), *all = mine->pair->ranks;
    mine->status = own;
    mine->stop = *stop;
    if (own != BERTH_OK && error != NULL) {
        mine->error = *error;
    }
    meet(comm);
    const struct pair_rank *first = &all[all[0].status == BERTH_OK];
    const enum berth_status status = first->status;
    *stop = all[0].stop > all[1].stop ? all[0].stop : all[1].stop;
    if (status != BERTH_OK && error != NULL) {
        *error = first->error;
    }
    meet(comm);
    return status;
}

static void pair_broadcast(struct comm *comm, void *data, size_t bytes, int root) {
    struct pair_rank *mine = rank_of(comm);
    mine->values = data;
    meet(comm);
    if (comm->rank != root) {
        memcpy(data, mine->pair->ranks[root].values, bytes);
    }
    meet(comm);
}

// Rank 0 adds for both, between two meetings.
static void pair_sum(struct comm *comm, double *values, size_t count) {
    struct pair_rank *mine = rank_of(comm), *all = mine->pair->ranks;
    mine->values = values;
    meet(comm);
    double *a = all[0].values, *b = all[1].values;
    for (size_t i = 0; comm->rank == 0 && i < count; i++) {
        a[i] = b[i] = a[i] + b[i];
    }
    meet(comm);
}

static void pair_begin(struct comm *comm, const struct comm_range *range) {
    struct pair_rank *mine = rank_of(comm);
    if (mine->range_count == PAIR_RANGES) {
        abort();
    }
    mine->ranges[mine->range_count++] = *range;
}

static void add_ranges(const struct comm_range *x, const struct comm_range *y) {
    if (strcmp(x->name, y->name) != 0 || x->first != y->first || x->count != y->count) {
        abort(); // the ranks do not do the same
    }
    float *a = x->data, *b = y->data;
    for (int64_t i = 0; i < x->count; i++) {
        a[i] = b[i] = a[i] + b[i];
    }
}

static void pair_reduce_wait(struct comm *comm) {
    struct pair_rank *mine = rank_of(comm), *all = mine->pair->ranks;
    meet(comm);
    for (size_t i = 0; i < mine->range_count; i++) {
        if (comm->rank == 0) {
            add_ranges(&all[0].ranges[i], &all[1].ranges[i]);
        }
        mine->reduced += mine->ranges[i].count;
    }
    meet(comm);
    mine->range_count = 0;
}

// Each rank owns everything, so there is nothing to gather.
static void pair_gather_begin(struct comm *comm, const struct comm_range *range) {
}

static void pair_gather_wait(struct comm *comm) {
}

void pair_init(struct pair *pair) {
    *pair = (struct pair){0};
    pthread_barrier_init(&pair->barrier, NULL, 2);
    for (int rank = 0; rank < 2; rank++) {
        pair->ranks[rank].pair = pair;
        pair->ranks[rank].comm = (struct comm){.name = "pair",
                                               .state = &pair->ranks[rank],
                                               .rank = rank,
                                               .size = 2,
                                               .local_rank = rank,
                                               .local_size = 2,
                                               .close = pair_close,
                                               .status = pair_status,
                                               .agree = pair_agree,
                                               .broadcast = pair_broadcast,
                                               .sum = pair_sum,
                                               .reduce_begin = pair_begin,
                                               .reduce_wait = pair_reduce_wait,
                                               .gather_begin = pair_gather_begin,
                                               .gather_wait = pair_gather_wait};
    }
}

void pair_done(struct pair *pair) {
    pthread_barrier_destroy(&pair->barrier);
}
