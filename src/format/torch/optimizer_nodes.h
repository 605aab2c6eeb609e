// SPDX-License-Identifier: Apache-2.0
// torch's state_dict of an optimizer as nodes for torch_write: `state`, with the moments of each
// parameter by its number, and `params`, the numbers of each group. The groups' settings differ
// from optimizer to optimizer and are the caller's. Conversions to DeepSpeed and the Trainer use
// it.
#ifndef BERTH_FORMAT_OPTIMIZER_NODES_H
#define BERTH_FORMAT_OPTIMIZER_NODES_H

#include "core/error.h"
#include "format/tensors/tensor.h"
#include "format/torch/torch.h"

#include <stddef.h>

#define OPTIMIZER_NODES_GROUPS 2 // with weight decay and without

struct optimizer_nodes_group {
    const struct tensor_out *exp_avg, *exp_avg_sq; // [count]
    size_t count;
    size_t stateless; // parameters after these that have a number, but were never updated
};

struct optimizer_nodes {
    struct torch_node state;                          // "state"
    struct torch_node params[OPTIMIZER_NODES_GROUPS]; // "params" of each group
    struct torch_node *memory;
};

// `step` is the number of updates, under the key "step". The nodes refer to the groups' tensors.
// optimizer_nodes_done frees, also after a failure.
enum berth_status optimizer_nodes_init(struct optimizer_nodes *nodes,
                                       const struct optimizer_nodes_group *groups, size_t count,
                                       struct torch_node step, struct berth_error *error);
void optimizer_nodes_done(struct optimizer_nodes *nodes);

#endif
