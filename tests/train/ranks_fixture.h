// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of updates by several ranks, which are threads here: ranks with a model each,
// runs of a few updates, and what they leave.
#ifndef BERTH_TESTS_TRAIN_RANKS_FIXTURE_H
#define BERTH_TESTS_TRAIN_RANKS_FIXTURE_H

#include "comm/job.h"
#include "train/engine/update.h"

#include <pthread.h>

enum { SEQUENCES = 24, UPDATES = 3 };

// Of the model, from ranks_set_up on.
extern const struct bert_config ranks_shape;
extern struct param_table ranks_table;

// Of a group of tests, whose models classify.
int ranks_set_up(void **state);
int ranks_tear_down(void **state);
// Gives the models another head.
void ranks_set_head(enum param_head head);

struct setting {
    const char *layout; // of the ranks (comm/job.h)
    int stage, parts;
    enum dtype compute, wire;
    const char *optimizer, *average;
    int64_t micro; // sequences
    int blocking;
    int64_t bucket; // of gradients and weights
    int divided;    // every update has all sequences, and each rank knows its own alone
    int64_t checks; // replica_check_steps
};

// --- one rank -----------------------------------------------------------------------------------

struct rank {
    struct device *device;
    struct state state;
    struct engine engine;
    struct updater updater;
};

void rank_open(struct rank *rank, const struct setting *setting, struct comm *comm);
void rank_close(struct rank *rank);

// An update's data, for one rank.
struct update_data {
    uint32_t order[SEQUENCES];
    struct packer_source source;
    struct batching batching;
};

struct update_args rank_args(struct update_data *data, const struct setting *setting,
                             const struct comm *comm, int64_t step);
struct update_result rank_update(struct rank *rank, const struct setting *setting, int64_t step);

// --- runs ---------------------------------------------------------------------------------------

// What a run leaves: every element from its owner.
struct outcome {
    struct setting setting;
    pthread_mutex_t mutex;
    float *numbers[3]; // [total] each: weights, both moments
    void *compute;     // rank 0's compute copy, [matrix_count]
    size_t compute_bytes;
    double losses[UPDATES], norms[UPDATES];
    struct comm_stats stats;
    int overlapping; // exchanges that began while another range's had not been waited for
    int different;   // ranks whose compute copy is not rank 0's
};

// UPDATES updates by the ranks of the setting's layout.
struct outcome outcome_of(const struct setting *setting);
void outcome_done(struct outcome *outcome);

// |a - b| / |b|
double relative_distance(const float *a, const float *b, int64_t count);
// To the bit: weights and moments.
void assert_same_outcome(const struct outcome *a, const struct outcome *b);

#endif
