// SPDX-License-Identifier: Apache-2.0
// A DeepSpeed checkpoint in memory. For deepspeed*.c alone.
#ifndef BERTH_FORMAT_DEEPSPEED_PARTS_H
#define BERTH_FORMAT_DEEPSPEED_PARTS_H

#include "core/error.h"
#include "format/torch/torch.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// Where a tensor's numbers are: in the model's file, or in a group's row from `first` on.
struct deepspeed_place {
    const struct tensor_entry *own; // NULL: in a group
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
    struct deepspeed_shard *shards; // by rank
    size_t rank_count, group_count;
    const struct tensor_entry **partitions; // [group_count][rank_count]
    atomic_uchar *checked;                  // of the same: whether its CRC has been compared
    struct tensor_entry *entries;
    struct deepspeed_place *places;
    size_t count;
    const struct tensor_entry **by_name;
};

// A tensor's elements; 0 of a type that cannot be read.
uint64_t deepspeed_elements(const struct tensor_entry *entry);
enum berth_status deepspeed_wrong(const char *path, const char *key, const char *expected,
                                  struct berth_error *error);

// The last part of a path.
const char *deepspeed_file_name(const char *path);
// The rank in "…zero_pp_rank_<r>_mp_rank_00_optim_states.pt", -1 when the name is another.
int64_t deepspeed_rank_of(const char *name);
// Finds the shards beside the model's file `path`, sorted by rank; of every rank from 0 on there
// must be one, or none at all.
enum berth_status deepspeed_find_shards(struct deepspeed_checkpoint *checkpoint, const char *path,
                                        struct berth_error *error);
// Opens them: group_count partitions of each.
enum berth_status deepspeed_open_shards(struct deepspeed_checkpoint *checkpoint,
                                        struct berth_error *error);

#endif
