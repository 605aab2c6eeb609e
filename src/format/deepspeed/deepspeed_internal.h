// SPDX-License-Identifier: Apache-2.0
// A DeepSpeed checkpoint while it is open: its files, the groups of parameters and the partitions
// in which their master weights lie. Only deepspeed.c, which reads tensors, and deepspeed_shards.c,
// which opens the partitions, include it.
#ifndef BERTH_FORMAT_DEEPSPEED_INTERNAL_H
#define BERTH_FORMAT_DEEPSPEED_INTERNAL_H

#include "core/error.h"
#include "format/torch/torch.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// Where the data of a tensor is: in the model's file, or in a group's flat buffer from `first`.
struct deepspeed_location {
    const struct tensor_entry *model_entry; // NULL: in a group
    size_t group;
    uint64_t first;
};

struct deepspeed_shard {
    char *path;
    int64_t rank;
    struct torch_file file;
    const struct pickle_value *state; // its "optimizer_state_dict"
};

struct deepspeed_checkpoint {
    struct torch_file states;
    struct deepspeed_shard *shards; // sorted by rank
    size_t rank_count, group_count;
    const struct tensor_entry **partitions; // [group_count][rank_count]
    uint64_t *group_begins; // offsets of the groups' flat buffers, after those of the model's file
    atomic_uchar *checked;  // [group_count][rank_count] whether its CRC has been checked
    struct tensor_entry *entries;
    struct deepspeed_location *locations;
    size_t count;
    const struct tensor_entry **by_name;
};

enum berth_status deepspeed_error(const char *path, const char *key, const char *expected,
                                  struct berth_error *error);

// The rank in "…zero_pp_rank_<r>_mp_rank_00_optim_states.pt", -1 for any other name.
int64_t deepspeed_rank_of(const char *name);
// Finds the shards in the folder of the model's file `path`, sorted by rank. The ranks must be 0,
// 1, ... without gaps or duplicates; no shards at all are allowed.
enum berth_status deepspeed_find_shards(struct deepspeed_checkpoint *checkpoint, const char *path,
                                        struct berth_error *error);
// Opens the shards: group_count partitions of each.
enum berth_status deepspeed_open_shards(struct deepspeed_checkpoint *checkpoint,
                                        struct berth_error *error);

#endif
