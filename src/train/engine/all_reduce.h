// SPDX-License-Identifier: Apache-2.0
// What the ranks exchange in an update: sums of gradients, range by range while the backward pass
// still computes, and the weights that their owners have updated, while the next forward pass
// begins. core/comm.h moves the numbers; update.h says when.
//
//   stage 0   reduce each range, then gather the sums: every rank updates everything
//   stage 1   reduce each range; its owners update their parts; gather the weights
//   stage 2   as stage 1, and what a rank does not own of the gradients is dropped
#ifndef BERTH_TRAIN_ALL_REDUCE_H
#define BERTH_TRAIN_ALL_REDUCE_H

#include "core/comm.h"
#include "core/error.h"
#include "core/log.h"
#include "train/engine/range_exchange.h"
#include "train/optimizer/state.h"

#include <stddef.h>
#include <stdint.h>

// A part of a param_range with its owners. All of a range but a short end, which belongs to the
// owner of what follows it, is one piece.
struct all_reduce_segment {
    int64_t first, count;
    int64_t *starts; // [size + 1] as in struct comm_range
};

struct all_reduce_rules {
    enum dtype wire;               // of gradients
    int blocking;                  // 1: computing waits for every exchange; 0: it goes on
    enum range_exchange_mode mode; // on GPUs
    // Most elements to exchange at a time; 0: as many as the communicator's memory holds.
    int64_t gradient_bucket, weight_bucket;
};

struct all_reduce {
    struct comm *comm;
    struct state *state;
    struct range_exchange exchange;
    struct all_reduce_rules rules;
    struct all_reduce_segment *segments;
    size_t *first_segment; // of each range, [ranges + 1]
    int64_t *starts;       // of all pieces
    // Tickets of each range's exchange under way; 0: there is none.
    int64_t *gradients, *weights;
};

// How the ranks divide the state, as config->zero_stage and the optimizer say, which
// optimizer_settle has settled; stage 3 is BERTH_CONFIG. One process divides nothing: settings for
// several are noted.
enum berth_status all_reduce_sharding(const struct berth_config *config, const struct comm *comm,
                                      const struct berth_log *log, struct state_sharding *sharding,
                                      struct berth_error *error);

// Bytes that a rank uses, for its exchanges, of the memory that the ranks of its host share.
size_t all_reduce_shared_bytes(const struct comm *comm, const struct state_sharding *sharding,
                               enum dtype wire);

// Borrows comm and state. all_reduce_done frees, also after a failure. A communicator that failed
// may read and write what it was given until it is closed: all_reduce_finish waits for exchanges
// that were begun, then it is closed, then comes all_reduce_done.
enum berth_status all_reduce_init(struct all_reduce *all_reduce, struct comm *comm,
                                  struct state *state, const struct all_reduce_rules *rules,
                                  struct berth_error *error);
void all_reduce_finish(struct all_reduce *all_reduce); // zeroed: nothing
void all_reduce_done(struct all_reduce *all_reduce);

// 1: there are other ranks.
int all_reduce_has_peers(const struct all_reduce *all_reduce);

// 1: a forward pass reads the compute copy of the range alone, where there is one. The heads read
// master weights, as the embeddings, biases and norms do.
int all_reduce_reads_copy(const struct all_reduce *all_reduce, size_t range);

// Begins to add the gradients of a range over all ranks; stage 0 gathers the sums, too.
void all_reduce_begin(struct all_reduce *all_reduce, size_t range);
// Stages 1 and 2: begins to gather the weights of a range that this rank's part was updated of.
void all_reduce_gather(struct all_reduce *all_reduce, size_t range);
// Wait for what was begun of a range.
void all_reduce_wait_gradients(struct all_reduce *all_reduce, size_t range);
void all_reduce_wait_weights(struct all_reduce *all_reduce, size_t range);
// The same for all ranges.
void all_reduce_wait_all_gradients(struct all_reduce *all_reduce);
void all_reduce_wait_all_weights(struct all_reduce *all_reduce);

// Clears the gradients of a range that other ranks own.
void all_reduce_clear(struct all_reduce *all_reduce, size_t range);

#endif
