// SPDX-License-Identifier: Apache-2.0
// Applies an optimizer to the buffers of a run: groups elements that are treated alike, and makes
// the update. Leaves out the optimizers themselves (optimizer.h).
#ifndef BERTH_TRAIN_OPTIMIZER_PLAN_H
#define BERTH_TRAIN_OPTIMIZER_PLAN_H

#include "comm/comm.h"
#include "train/optimizer/optimizer.h"
#include "train/optimizer/state.h"

// The ranges of the flat buffers that each operation of the optimizer works on, and the statistics
// that the operations write. In device memory; made once per run.
struct optimizer_plan {
    const struct optimizer *optimizer;
    const struct state *state;
    struct comm *comm; // of the ranks that hold the other parts
    void *block;       // memory of everything below
    size_t bytes;
    struct device_range *all;     // for the norm of the gradient
    struct device_range *plain;   // updated by the moments alone; adjacent tensors of the same kind
                                  // are merged
    struct device_range *scaled;  // tensors with a coefficient of their own
    struct device_range *clipped; // tensors clipped by their own norms
    int64_t all_count, plain_count, scaled_count, clipped_count;
    int scales; // 1: the model has tensors with coefficients, held by any rank
    int64_t *plain_first, *scaled_first; // [ranges + 1] in these lists, of each param_range; on the
                                         // host
    int64_t *all_blocks, *tensor_blocks; // [2], [tensors + 1]: as `norms` wants them
    int64_t tensor_block_count;
    double *host_sums;               // [as sums] on the host; only if parts are exchanged
    double *sums;                    // sums of squares; two for each block of the tensors, or one
                                     // for each block of the buffer
    struct grad_stats *norm, *norms; // of all gradients; [tensors]
    struct lamb_stats *lamb;         // [tensors]
};

// Borrows optimizer, state and comm; the state must have its buffers. Call optimizer_plan_done even
// after a failure.
enum berth_status optimizer_plan_init(struct optimizer_plan *plan,
                                      const struct optimizer *optimizer, const struct state *state,
                                      struct comm *comm, struct berth_error *error);
void optimizer_plan_done(struct optimizer_plan *plan);

// Computes the norm of all gradients, multiplied by `scale`, into plan->norm. If ranks hold parts,
// all of them must call this and optimizer_step.
void optimizer_norm(const struct optimizer_plan *plan, double scale);

struct optimizer_step {
    int64_t number; // of earlier updates that the moments count
    double rate;
    double gradient_scale; // 1 / loss scale
    double grad_norm;      // of all gradients, scaled; plan->norm holds its square
    // Called after the weights of a param_range were updated: for the last range first, then in
    // order. May be NULL.
    void (*updated)(void *context, size_t range);
    void *context;
};

// Updates weights, compute copy and moments once; clears the gradients. The norm must be finite and
// in plan->norm (optimizer_norm). plan->lamb receives the coefficients of the tensors of which this
// rank holds a part, if they have one.
void optimizer_step(const struct optimizer_plan *plan, const struct optimizer_step *step);

// Sets coefficients[tensors] to those of the last step, also of what other ranks hold; 0: the
// tensor has none. If ranks hold parts, all of them must call this. `stats` [tensors] is scratch.
void optimizer_coefficients(const struct optimizer_plan *plan, struct lamb_stats *stats,
                            double *coefficients);

#endif
