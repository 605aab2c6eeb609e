// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's checkpoints: DIR/latest is a text that names a tag,
// DIR/TAG/mp_rank_00_model_states.pt a PyTorch file whose "module" is the model, in the type that
// it was trained in. Of ZeRO's stages 1 and 2 each rank also leaves
// [bf16_]zero_pp_rank_<r>_mp_rank_00_optim_states.pt with its part of the master weights: then
// those, in fp32, are what is read.
//
// The masters of a group of parameters are one row of numbers, cut into as many equal partitions as
// there are ranks; "param_shapes" of the model's file says which parameters follow one another in
// it. Its end may be padded.
//
// Leaves out: ZeRO-3, models cut across devices, universal checkpoints, optimizer states.
#ifndef BERTH_FORMAT_DEEPSPEED_H
#define BERTH_FORMAT_DEEPSPEED_H

#include "core/error.h"
#include "format/tensors/tensor_file.h"

#define DEEPSPEED_STATES "mp_rank_00_model_states.pt"
#define DEEPSPEED_MAX_RANKS 1000 // each keeps a file open

// Recognises files of these names. The model's file has its own tensors ("module.…"), those that
// the shards beside it hold in fp32; shards that are missing, or do not fit, are an error. A shard
// by itself has its tensors as they stand in it.
extern const struct tensor_format deepspeed_format;

// The model's file of the tag that the folder's `latest` names, or of the folder itself when it is
// a tag; as tensor_format's find.
enum berth_status deepspeed_find(const char *folder, char **path, struct berth_error *error);

#endif
