// SPDX-License-Identifier: Apache-2.0
// Reads DeepSpeed checkpoints: the text file DIR/latest names a tag;
// DIR/TAG/mp_rank_00_model_states.pt is a PyTorch file whose "module" is the model in its training
// precision. With ZeRO stages 1 and 2, and with its BF16_Optimizer, each rank also writes
// [bf16_]zero_pp_rank_<r>_mp_rank_00_optim_states.pt with its partition of the fp32 master
// weights; these are then read instead.
//
// The master weights of a group of parameters form one flat buffer, split into one equal partition
// per rank; "param_shapes" in the model's file lists the parameters in order. The end may be
// padded.
//
// Leaves out ZeRO-3, models split across devices, universal checkpoints and optimizer states. Names
// are translated by model/names.h; optimizer states are read by train/checkpoint.
#ifndef BERTH_FORMAT_DEEPSPEED_H
#define BERTH_FORMAT_DEEPSPEED_H

#include "core/error.h"
#include "format/tensors/tensor_file.h"

#define DEEPSPEED_MODEL_FILE "mp_rank_00_model_states.pt"
#define DEEPSPEED_MAX_RANKS 1000 // each shard stays open

// Recognises files by these names. The model's file gives its tensors ("module.…"), in fp32 where
// the shards next to it have them; missing or inconsistent shards are an error. A single shard
// gives the tensors in it.
extern const struct tensor_format deepspeed_format;

// Finds the model's file of the tag that the folder's `latest` names, or of the folder itself if it
// is a tag. Otherwise as find of tensor_format.
enum berth_status deepspeed_find(const char *folder, char **path, struct berth_error *error);

#endif
