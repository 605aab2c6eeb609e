// SPDX-License-Identifier: Apache-2.0
// What the ranks exchange in an update: sums of gradients, range by range, while the backward pass
// is still running, and the weights that their owners have updated, while the next forward pass
// begins. comm/comm.h moves the numbers; update.h decides when.
//
//   stage 0   reduce each range to all: every rank updates everything
//   stage 1   reduce each range; its owners update their parts; gather the weights
//   stage 2   as stage 1, and what a rank does not own of the gradients is dropped
#ifndef BERTH_TRAIN_ALL_REDUCE_H
#define BERTH_TRAIN_ALL_REDUCE_H

#include "comm/comm.h"
#include "core/error.h"
#include "core/log.h"
#include "train/engine/range_exchange.h"
#include "train/optimizer/state.h"

#include <stddef.h>
#include <stdint.h>

// A part of a param_range and its owners. A range is one segment, or two if it has a short tail,
// which belongs to the owner of the elements after it.
struct all_reduce_segment {
    int64_t first, count;
    int64_t *starts; // [size + 1] as in struct comm_range
};

struct all_reduce_rules {
    enum dtype wire;               // of gradients
    int native;                    // 1: the library adds them (comm_range.native)
    int blocking;                  // 1: computation waits for every exchange; 0: they overlap
    enum range_exchange_mode mode; // on GPUs
    // Largest number of elements exchanged at a time; 0: as many as fit in the communicator's
    // memory.
    int64_t gradient_bucket, weight_bucket;
};

struct all_reduce {
    struct comm *comm;
    struct state *state;
    struct range_exchange exchange;
    struct all_reduce_rules rules;
    struct all_reduce_segment *segments;
    size_t *first_segment; // of each range, [ranges + 1]
    int64_t *starts;       // of all segments
    // Ticket of each range's exchange in progress; 0: none.
    int64_t *gradients, *weights;
};

// Bytes of the host's shared memory that a rank uses for its exchanges.
size_t all_reduce_shared_bytes(const struct comm *comm, const struct state_sharding *sharding,
                               enum dtype wire);

// Borrows comm and state. Call all_reduce_done even after a failure. A failed communicator may
// access the buffers it was given until it is closed, so the order is: all_reduce_finish, which
// waits for exchanges in progress; close the communicator; all_reduce_done.
enum berth_status all_reduce_init(struct all_reduce *all_reduce, struct comm *comm,
                                  struct state *state, const struct all_reduce_rules *rules,
                                  struct berth_error *error);
void all_reduce_finish(struct all_reduce *all_reduce); // no effect if zeroed
void all_reduce_done(struct all_reduce *all_reduce);

// 1: there are other ranks.
int all_reduce_has_peers(const struct all_reduce *all_reduce);

// 1: a forward pass reads only the compute copy of the range. It reads the master weights of heads,
// embeddings, biases and norms.
int all_reduce_reads_copy(const struct all_reduce *all_reduce, size_t range);

// Starts summing the gradients of a range over all ranks, in stage 0 for all of them.
void all_reduce_begin(struct all_reduce *all_reduce, size_t range);
// Stages 1 and 2: starts gathering the weights of a range, of which this rank has updated its part.
void all_reduce_gather(struct all_reduce *all_reduce, size_t range);
// Wait for the exchanges of a range.
void all_reduce_wait_gradients(struct all_reduce *all_reduce, size_t range);
void all_reduce_wait_weights(struct all_reduce *all_reduce, size_t range);
// The same for all ranges.
void all_reduce_wait_all_gradients(struct all_reduce *all_reduce);
void all_reduce_wait_all_weights(struct all_reduce *all_reduce);

// Clears the gradients of a range that other ranks own.
void all_reduce_clear(struct all_reduce *all_reduce, size_t range);

#endif
