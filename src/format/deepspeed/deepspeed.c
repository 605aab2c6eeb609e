// SPDX-License-Identifier: Apache-2.0
// Reads DeepSpeed checkpoints. The model's file lists the tensors; the data of those in
// "param_shapes" is read from the partitions. Opening a checkpoint copies no data. Opened by
// containers.c like any file of tensors; names are translated by model/names.h.
#include "format/deepspeed/deepspeed.h"

#include "core/memory.h"
#include "core/utf8.h"
#include "format/deepspeed/deepspeed_internal.h"
#include "format/torch/torch_layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MODULE "module."
#define NAME_LIMIT 4096

// The number of elements of a tensor; 0 for a type that cannot be read.
static uint64_t elements_of(const struct tensor_entry *entry) {
    size_t size = tensor_dtype_size(entry->dtype);
    return size > 0 ? (entry->end - entry->begin) / size : 0;
}

// --- the parameters in the shards ---------------------------------------------------------------

static const struct pickle_value *states_member(const struct deepspeed_checkpoint *checkpoint,
                                                const char *key) {
    const struct pickle *pickle = &checkpoint->states.pickle;
    return pickle_member(pickle, pickle->root, key);
}

// The location of the model's tensor of that name, or NULL.
static struct deepspeed_location *find_location(const struct deepspeed_checkpoint *checkpoint,
                                                const struct pickle_value *key) {
    char name[NAME_LIMIT];
    const char *text = pickle_text(&checkpoint->states.pickle, key);
    if (text == NULL || (size_t)snprintf(name, sizeof name, MODULE "%s", text) >= sizeof name) {
        return NULL;
    }
    const struct tensor_entry *entry =
        tensor_index_find(checkpoint->by_name, checkpoint->count, name);
    return entry != NULL ? &checkpoint->locations[entry - checkpoint->entries] : NULL;
}

static void set_location(const struct deepspeed_checkpoint *checkpoint,
                         struct deepspeed_location *location,
                         const struct deepspeed_location *source, uint64_t elements) {
    struct tensor_entry *entry = &checkpoint->entries[location - checkpoint->locations];
    tensor_dtype_parse("F32", entry);
    entry->begin = checkpoint->group_begins[source->group] + source->first * sizeof(float);
    entry->end = entry->begin + elements * sizeof(float);
    *location = *source;
}

static int same_shape(const struct pickle *pickle, const struct pickle_value *shape,
                      const struct tensor_entry *entry) {
    int64_t size;
    int same = pickle_length(shape) == (size_t)entry->rank;
    for (int i = 0; same && i < entry->rank; i++) {
        same =
            pickle_integer(pickle_item(pickle, shape, (size_t)i), &size) && size == entry->shape[i];
    }
    return same;
}

// A position in the flat buffer of a group.
struct flat_group {
    size_t group;
    uint64_t offset, end;                // elements
    const struct pickle_value *paddings; // after each parameter, from the first shard; or NULL
};

static enum berth_status locate_parameter(const struct deepspeed_checkpoint *checkpoint,
                                          struct flat_group *flat,
                                          const struct pickle_value *shapes, size_t index,
                                          struct berth_error *error) {
    const struct pickle *pickle = &checkpoint->states.pickle;
    const char *path = checkpoint->states.archive.file.path;
    const struct pickle_value *key = pickle_key(pickle, shapes, index);
    const char *text = pickle_text(pickle, key);
    struct deepspeed_location *location = find_location(checkpoint, key);
    const struct tensor_entry *entry = location != NULL ? location->model_entry : NULL;
    if (entry == NULL || !same_shape(pickle, pickle_item(pickle, shapes, index), entry) ||
        entry->dtype == TENSOR_OTHER) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: param_shapes: \"%.*s\": expected a tensor of \"module\" and its "
                         "shape, without duplicates",
                         path, UTF8_SHOWN(text != NULL ? text : "(no text)", 200));
    }
    uint64_t elements = elements_of(entry);
    if (elements > flat->end - flat->offset) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: tensor \"%s\" extends beyond the ZeRO shards, which hold %" PRIu64
                         " numbers of its group",
                         path, entry->name, flat->end);
    }
    struct deepspeed_location source = {.group = flat->group, .first = flat->offset};
    set_location(checkpoint, location, &source, elements);
    flat->offset += elements;
    int64_t padding;
    const struct deepspeed_shard *shard = &checkpoint->shards[0];
    if (flat->paddings == NULL) {
        return BERTH_OK;
    }
    if (!pickle_integer(pickle_item(&shard->file.pickle, flat->paddings, index), &padding) ||
        padding < 0 || (uint64_t)padding > flat->end - flat->offset) {
        return deepspeed_error(shard->path, "optimizer_state_dict.param_alignment_paddings",
                               "a padding for each parameter", error);
    }
    flat->offset += (uint64_t)padding;
    return BERTH_OK;
}

static enum berth_status locate_group(const struct deepspeed_checkpoint *checkpoint, size_t group,
                                      const struct pickle_value *shapes,
                                      struct berth_error *error) {
    const struct deepspeed_shard *first = &checkpoint->shards[0];
    const struct pickle_value *paddings =
        pickle_member(&first->file.pickle, first->state, "param_alignment_paddings");
    struct flat_group flat = {.group = group,
                              .paddings = pickle_item(&first->file.pickle, paddings, group)};
    uint64_t ranks = checkpoint->rank_count, alignment = 2 * ranks;
    for (size_t rank = 0; rank < ranks; rank++) {
        flat.end += elements_of(checkpoint->partitions[group * ranks + rank]);
    }
    for (size_t i = 0; i < pickle_length(shapes); i++) {
        TRY(locate_parameter(checkpoint, &flat, shapes, i, error));
    }
    // DeepSpeed rounds up to a multiple of twice the number of ranks, some versions more than once.
    if ((flat.offset + alignment - 1) / alignment != (flat.end + alignment - 1) / alignment) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: param_shapes: group %zu has %" PRIu64
                         " numbers, but the ZeRO shards hold %" PRIu64,
                         checkpoint->states.archive.file.path, group, flat.offset, flat.end);
    }
    return BERTH_OK;
}

// The shards hold tied parameters under one of their names.
static enum berth_status locate_shared(const struct deepspeed_checkpoint *checkpoint,
                                       struct berth_error *error) {
    const struct pickle *pickle = &checkpoint->states.pickle;
    const struct pickle_value *shared = states_member(checkpoint, "shared_params");
    for (size_t i = 0; pickle_is(shared, PICKLE_DICT) && i < pickle_length(shared); i++) {
        struct deepspeed_location *copy = find_location(checkpoint, pickle_key(pickle, shared, i));
        const struct deepspeed_location *source =
            find_location(checkpoint, pickle_item(pickle, shared, i));
        if (copy == NULL || source == NULL || source->model_entry != NULL) {
            continue; // DeepSpeed also lists frozen ones
        }
        const struct tensor_entry *entries = checkpoint->entries;
        uint64_t elements = elements_of(&entries[source - checkpoint->locations]);
        if (copy->model_entry == NULL || elements_of(copy->model_entry) != elements) {
            return deepspeed_error(checkpoint->states.archive.file.path, "shared_params",
                                   "pairs of tensors with the same shape", error);
        }
        set_location(checkpoint, copy, source, elements);
    }
    return BERTH_OK;
}

static enum berth_status use_shards(struct deepspeed_checkpoint *checkpoint,
                                    struct berth_error *error) {
    const struct pickle *pickle = &checkpoint->states.pickle;
    const struct pickle_value *shapes = states_member(checkpoint, "param_shapes");
    if (!pickle_is(shapes, PICKLE_LIST) || pickle_length(shapes) == 0) {
        return deepspeed_error(checkpoint->states.archive.file.path, "param_shapes",
                               "the shapes of the parameters in the ZeRO shards of this checkpoint",
                               error);
    }
    checkpoint->group_count = pickle_length(shapes);
    TRY(deepspeed_open_shards(checkpoint, error));
    for (size_t i = 0; i < checkpoint->group_count; i++) {
        TRY(locate_group(checkpoint, i, pickle_item(pickle, shapes, i), error));
    }
    return locate_shared(checkpoint, error);
}

// --- as one of many containers ------------------------------------------------------------------

static enum berth_status list_entries(struct deepspeed_checkpoint *checkpoint,
                                      struct berth_error *error) {
    const struct torch_file *states = &checkpoint->states;
    checkpoint->entries = memory_array(states->count + 1, sizeof *checkpoint->entries);
    checkpoint->locations = memory_array(states->count + 1, sizeof *checkpoint->locations);
    if (checkpoint->entries == NULL || checkpoint->locations == NULL) {
        return error_no_memory(error, states->count * sizeof *checkpoint->entries,
                               states->archive.file.path);
    }
    for (size_t i = 0; i < states->count; i++) {
        checkpoint->entries[i] = states->entries[i];
        checkpoint->locations[i] = (struct deepspeed_location){.model_entry = &states->entries[i]};
    }
    checkpoint->count = states->count;
    return tensor_index_new(checkpoint->entries, checkpoint->count, states->archive.file.path,
                            &checkpoint->by_name, error);
}

static void close_file(void *container) {
    struct deepspeed_checkpoint *checkpoint = container;
    torch_close(&checkpoint->states);
    for (size_t i = 0; i < checkpoint->rank_count; i++) {
        torch_close(&checkpoint->shards[i].file);
        memory_free(checkpoint->shards[i].path);
    }
    memory_free(checkpoint->shards);
    memory_free(checkpoint->partitions);
    memory_free(checkpoint->group_begins);
    memory_free(checkpoint->checked);
    memory_free(checkpoint->by_name);
    memory_free(checkpoint->entries);
    memory_free(checkpoint->locations);
}

static int recognise(const char *path, const unsigned char *head, size_t length) {
    return (torch_is_zip(head, length) || torch_is_legacy(head, length)) &&
           (strcmp(path_name(path), DEEPSPEED_MODEL_FILE) == 0 ||
            deepspeed_rank_of(path_name(path)) >= 0);
}

static enum berth_status open_file(struct tensor_file *file, struct berth_error *error) {
    struct deepspeed_checkpoint *checkpoint = file->container;
    TRY(torch_open(&checkpoint->states, file->path, PICKLE_CALLS, error));
    TRY(list_entries(checkpoint, error));
    if (strcmp(path_name(file->path), DEEPSPEED_MODEL_FILE) == 0) {
        int64_t devices = 1;
        pickle_integer(states_member(checkpoint, "mp_world_size"), &devices);
        if (devices != 1) {
            return error_set(
                error, BERTH_BAD_DATA,
                "%s: the model is split across %" PRId64
                " devices (mp_world_size); expected 1: save it with one model-parallel rank",
                checkpoint->states.archive.file.path, devices);
        }
        TRY(deepspeed_find_shards(checkpoint, file->path, error));
        if (checkpoint->rank_count > 0) {
            TRY(use_shards(checkpoint, error));
        }
    }
    file->entries = checkpoint->entries;
    file->count = checkpoint->count;
    return BERTH_OK;
}

// The CRC of a partition is checked before the first read of any part of it.
static enum berth_status check_partition(const struct deepspeed_checkpoint *checkpoint,
                                         size_t index, struct berth_error *error) {
    float first;
    const struct deepspeed_shard *shard = &checkpoint->shards[index % checkpoint->rank_count];
    if (atomic_load(&checkpoint->checked[index]) == 0) {
        TRY(torch_read(&shard->file, checkpoint->partitions[index], 0, sizeof first, &first,
                       error));
        atomic_store(&checkpoint->checked[index], 1);
    }
    return BERTH_OK;
}

// Reads numbers [first, first + count) of a group's flat buffer.
static enum berth_status read_flat_group(const struct deepspeed_checkpoint *checkpoint,
                                         size_t group, uint64_t first, uint64_t count, char *to,
                                         struct berth_error *error) {
    const struct tensor_entry **partitions =
        checkpoint->partitions + group * checkpoint->rank_count;
    uint64_t begin = 0;
    for (size_t rank = 0; rank < checkpoint->rank_count && count > 0; rank++) {
        uint64_t end = begin + elements_of(partitions[rank]);
        if (first < end) {
            uint64_t now = end - first < count ? end - first : count;
            TRY(check_partition(checkpoint, group * checkpoint->rank_count + rank, error));
            TRY(torch_read(&checkpoint->shards[rank].file, partitions[rank],
                           (first - begin) * sizeof(float), (size_t)now * sizeof(float), to,
                           error));
            first += now;
            count -= now;
            to += now * sizeof(float);
        }
        begin = end;
    }
    return BERTH_OK;
}

static enum berth_status read_file(const struct tensor_file *file, const struct tensor_entry *entry,
                                   uint64_t first, size_t bytes, void *to,
                                   struct berth_error *error) {
    const struct deepspeed_checkpoint *checkpoint = file->container;
    const struct deepspeed_location *location = &checkpoint->locations[entry - checkpoint->entries];
    if (location->model_entry != NULL) {
        return torch_read(&checkpoint->states, location->model_entry, first, bytes, to, error);
    }
    TRY(tensor_check_range(file->path, entry, first, bytes, error));
    return read_flat_group(checkpoint, location->group, location->first + first / sizeof(float),
                           bytes / sizeof(float), to, error);
}

const struct tensor_format deepspeed_format = {.name = "DeepSpeed",
                                               .recognise = recognise,
                                               .container_size =
                                                   sizeof(struct deepspeed_checkpoint),
                                               .open = open_file,
                                               .read = read_file,
                                               .close = close_file,
                                               .find = deepspeed_find};
