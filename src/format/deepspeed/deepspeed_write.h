// SPDX-License-Identifier: Apache-2.0
// Writes DeepSpeed checkpoints (deepspeed.h describes their files) that its engine loads: the model
// alone, or with the state of an optimizer, whole (stage 0) or as the ZeRO shards of any number of
// ranks (stages 1 and 2, whose files differ only in the number).
//
// Leaves out zero_to_fp32.py, which DeepSpeed puts next to `latest`, and param_slice_mappings, the
// offset of each parameter in each shard, which only universal checkpoints need.
// api/convert_deepspeed.c gives the tensors.
#ifndef BERTH_FORMAT_DEEPSPEED_WRITE_H
#define BERTH_FORMAT_DEEPSPEED_WRITE_H

#include "core/error.h"
#include "format/tensors/tensor.h"

#include <stddef.h>
#include <stdint.h>

#define DEEPSPEED_MAX_GROUPS 2 // with weight decay and without

enum { DEEPSPEED_MASTER, DEEPSPEED_EXP_AVG, DEEPSPEED_EXP_AVG_SQ, DEEPSPEED_STATE_COUNT };

// Parameters that the optimizer treats alike, in the order of the module. The tensors of every
// state are f32 and have the same names and shapes.
struct deepspeed_group {
    const struct tensor_out *states[DEEPSPEED_STATE_COUNT]; // [count] each
    size_t count;
    double weight_decay;
};

struct deepspeed_optimizer {
    int stage; // 0, 1 or 2
    const struct deepspeed_group *groups;
    size_t group_count; // at most DEEPSPEED_MAX_GROUPS
    int64_t updates;    // performed so far
    double rate, beta1, beta2, epsilon, max_grad_norm;
    int bias_correction;
    double max_coeff, min_coeff; // of Lamb
};

// A parameter that the module holds under a second name.
struct deepspeed_tie {
    const char *copy, *source;
};

struct deepspeed_out {
    const struct tensor_out *module; // [count]
    size_t count;
    int is_bf16; // the module's type: the names of shards say so
    const struct deepspeed_tie *ties;
    size_t tie_count;
    int64_t step, skipped, samples;
    int64_t ranks;
    const struct deepspeed_optimizer *optimizer; // NULL: the model alone
};

// Writes DIR/latest and DIR/global_step<step>/ with its files; `folder`, DIR, exists.
enum berth_status deepspeed_write(const char *folder, const struct deepspeed_out *out,
                                  struct berth_error *error);

#endif
