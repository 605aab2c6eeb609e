// SPDX-License-Identifier: Apache-2.0
// Finds the files that each rank of a ZeRO run has written, checks that they are all there and
// agree, and opens the flat buffers in them. deepspeed.c calls it when the model's file says that
// there are master weights, and then finds each parameter's place.
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/text_util.h"
#include "format/deepspeed/deepspeed.h"
#include "format/deepspeed/deepspeed_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARD_MARK "zero_pp_rank_"
#define SHARD_ENDING "_mp_rank_00_optim_states.pt"

enum berth_status deepspeed_error(const char *path, const char *key, const char *expected,
                                  struct berth_error *error) {
    return error_key(error, BERTH_BAD_DATA, path, key, "expected %s", expected);
}

// --- finding the files --------------------------------------------------------------------------

int64_t deepspeed_rank_of(const char *name) {
    int64_t rank = -1;
    const char *begin = strstr(name, SHARD_MARK);
    if (begin == NULL || !name_has_suffix(name, SHARD_ENDING)) {
        return -1;
    }
    begin += strlen(SHARD_MARK);
    const char *end = name + strlen(name) - strlen(SHARD_ENDING);
    if (end > begin) {
        (void)number_parse_digits(begin, (size_t)(end - begin), &rank);
    }
    return rank;
}

static int compare_ranks(const void *a, const void *b) {
    const struct deepspeed_shard *left = a, *right = b;
    return (left->rank > right->rank) - (left->rank < right->rank);
}

static enum berth_status list_shards(struct deepspeed_checkpoint *checkpoint, const char *folder,
                                     char *const *names, struct berth_error *error) {
    size_t count = 0;
    for (size_t i = 0; names[i] != NULL; i++) {
        count += deepspeed_rank_of(names[i]) >= 0;
    }
    if (count > DEEPSPEED_MAX_RANKS) {
        return error_set(error, BERTH_BAD_DATA, "%s: %zu ZeRO shards; the limit is %d", folder,
                         count, DEEPSPEED_MAX_RANKS);
    }
    checkpoint->shards = memory_array_zeroed(count + 1, sizeof *checkpoint->shards);
    if (checkpoint->shards == NULL) {
        return error_no_memory(error, count * sizeof *checkpoint->shards, folder);
    }
    for (size_t i = 0; names[i] != NULL; i++) {
        if (deepspeed_rank_of(names[i]) >= 0) {
            struct deepspeed_shard *shard = &checkpoint->shards[checkpoint->rank_count++];
            *shard = (struct deepspeed_shard){.path = path_join(folder, names[i]),
                                              .rank = deepspeed_rank_of(names[i]),
                                              .file.archive.file.descriptor = -1};
            if (shard->path == NULL) {
                return error_no_memory(error, 0, "a path");
            }
        }
    }
    if (count > 0) {
        qsort(checkpoint->shards, count, sizeof *checkpoint->shards, compare_ranks);
    }
    return BERTH_OK;
}

enum berth_status deepspeed_find_shards(struct deepspeed_checkpoint *checkpoint, const char *path,
                                        struct berth_error *error) {
    const struct path folder = path_parent(path);
    OWNED char **names = NULL;
    TRY(dir_list(folder.text, &names, error));
    TRY(list_shards(checkpoint, folder.text, names, error));
    // Every rank from 0 has exactly one shard.
    for (size_t i = 0; i < checkpoint->rank_count; i++) {
        int64_t rank = checkpoint->shards[i].rank, expected = (int64_t)i;
        if (rank != expected) {
            return error_set(error, BERTH_BAD_DATA,
                             "%s: %s ZeRO shard of rank %" PRId64
                             ": expected one file \"*" SHARD_MARK "%" PRId64 SHARD_ENDING "\"",
                             folder.text, rank < expected ? "duplicate" : "missing",
                             rank < expected ? rank : expected, rank < expected ? rank : expected);
        }
    }
    return BERTH_OK;
}

// --- the shards ---------------------------------------------------------------------------------

// Reads an integer, or that of an enumeration: the argument of the call that made it.
static int read_number(const struct pickle *pickle, const struct pickle_value *value,
                       int64_t *number) {
    const struct pickle_value *arguments = pickle_arguments(pickle, value);
    return pickle_integer(arguments != NULL ? pickle_item(pickle, arguments, 0) : value, number);
}

// Reads the maximum of a list of integers (one per group), or a single integer.
static int read_maximum(const struct pickle *pickle, const struct pickle_value *value,
                        int64_t *number) {
    int64_t item;
    size_t count = pickle_is(value, PICKLE_LIST) ? pickle_length(value) : 0;
    if (count == 0) {
        return pickle_integer(value, number);
    }
    *number = -1;
    for (size_t i = 0; i < count; i++) {
        if (!pickle_integer(pickle_item(pickle, value, i), &item)) {
            return 0;
        }
        *number = item > *number ? item : *number;
    }
    return 1;
}

static enum berth_status check_shard(const struct deepspeed_checkpoint *checkpoint,
                                     const struct deepspeed_shard *shard,
                                     struct berth_error *error) {
    const struct pickle *pickle = &shard->file.pickle;
    const struct pickle_value *named = pickle_member(pickle, shard->state, "zero_stage");
    int64_t stage = 1, count; // BF16_Optimizer writes shards as of stage 1, but no stage
    if (named != NULL && (!read_number(pickle, named, &stage) || stage < 0)) {
        return deepspeed_error(shard->path, "optimizer_state_dict.zero_stage", "ZeRO stage 1 or 2",
                               error);
    }
    if (stage > 2) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected ZeRO stage 1 or 2, found stage %" PRId64
                         ": gather the weights with the zero_to_fp32.py next to the checkpoint and "
                         "give its output",
                         shard->path, stage);
    }
    if (!read_maximum(pickle, pickle_member(pickle, shard->state, "partition_count"), &count) ||
        count != (int64_t)checkpoint->rank_count) {
        return error_set(
            error, BERTH_BAD_DATA,
            "%s: key \"optimizer_state_dict.partition_count\": expected %zu, the number of ZeRO "
            "shards in the folder; a shard is missing, or left over from another run",
            shard->path, checkpoint->rank_count);
    }
    return BERTH_OK;
}

static const struct pickle_value *groups_of(const struct deepspeed_shard *shard) {
    return pickle_member(&shard->file.pickle, shard->state, "single_partition_of_fp32_groups");
}

static enum berth_status open_shard(const struct deepspeed_checkpoint *checkpoint,
                                    struct deepspeed_shard *shard, struct berth_error *error) {
    TRY(torch_open(&shard->file, shard->path, PICKLE_CALLS, error));
    shard->state =
        pickle_member(&shard->file.pickle, shard->file.pickle.root, "optimizer_state_dict");
    TRY(check_shard(checkpoint, shard, error));
    const struct pickle_value *groups = groups_of(shard);
    return pickle_is(groups, PICKLE_LIST) && pickle_length(groups) == checkpoint->group_count
               ? BERTH_OK
               : deepspeed_error(shard->path,
                                 "optimizer_state_dict.single_partition_of_fp32_groups",
                                 "as many groups of parameters as param_shapes has", error);
}

// Finds the partition of a group in a shard: a one-dimensional F32 tensor.
static enum berth_status find_partition(const struct deepspeed_checkpoint *checkpoint, size_t group,
                                        size_t rank, struct berth_error *error) {
    const struct deepspeed_shard *shard = &checkpoint->shards[rank];
    const struct tensor_entry *entry =
        torch_tensor(&shard->file, pickle_item(&shard->file.pickle, groups_of(shard), group));
    if (entry == NULL || entry->dtype != TENSOR_F32 || entry->rank != 1) {
        return deepspeed_error(shard->path, "optimizer_state_dict.single_partition_of_fp32_groups",
                               "a one-dimensional F32 tensor for each group of parameters", error);
    }
    checkpoint->partitions[group * checkpoint->rank_count + rank] = entry;
    return BERTH_OK;
}

enum berth_status deepspeed_open_shards(struct deepspeed_checkpoint *checkpoint,
                                        struct berth_error *error) {
    size_t ranks = checkpoint->rank_count, groups = checkpoint->group_count;
    for (size_t i = 0; i < ranks; i++) {
        TRY(open_shard(checkpoint, &checkpoint->shards[i], error));
    }
    checkpoint->partitions = memory_array_zeroed(groups, ranks * sizeof *checkpoint->partitions);
    checkpoint->checked = memory_array_zeroed(groups, ranks * sizeof *checkpoint->checked);
    checkpoint->group_begins = memory_array(groups, sizeof *checkpoint->group_begins);
    if (checkpoint->partitions == NULL || checkpoint->checked == NULL ||
        checkpoint->group_begins == NULL) {
        return error_no_memory(error, groups * ranks * sizeof *checkpoint->partitions,
                               checkpoint->states.archive.file.path);
    }
    uint64_t begin = checkpoint->states.archive.file.size;
    for (size_t group = 0; group < groups; group++) {
        checkpoint->group_begins[group] = begin;
        for (size_t rank = 0; rank < ranks; rank++) {
            TRY(find_partition(checkpoint, group, rank, error));
            const struct tensor_entry *entry = checkpoint->partitions[group * ranks + rank];
            begin += entry->end - entry->begin;
        }
    }
    return BERTH_OK;
}
