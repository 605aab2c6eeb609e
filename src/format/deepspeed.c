// SPDX-License-Identifier: Apache-2.0
// The model's file says which tensors there are; of those in "param_shapes" the numbers come from
// the partitions, read piece by piece. Nothing is copied when a checkpoint is opened.
#include "format/deepspeed.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "format/torch.h"
#include "format/torch_layout.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARD_MARK "zero_pp_rank_"
#define SHARD_ENDING "_mp_rank_00_optim_states.pt"
#define ZERO3_STATES "zero_pp_rank_0_mp_rank_00_model_states.pt"
#define MODULE "module."
#define TAG_LIMIT ((size_t)4096)
#define NAME_LIMIT 4096

// Where a tensor's numbers are: in the model's file, or in a group's row from `first` on.
struct place {
    const struct tensor_entry *own; // NULL: in a group
    size_t group;
    uint64_t first;
};

struct shard {
    char *path;
    int64_t rank;
    struct torch_file file;
    const struct pickle_value *state; // its "optimizer_state_dict"
};

struct checkpoint {
    struct torch_file states;
    struct shard *shards; // by rank
    size_t rank_count, group_count;
    const struct tensor_entry **partitions; // [group_count][rank_count]
    atomic_uchar *checked;                  // of the same: whether its CRC has been compared
    struct tensor_entry *entries;
    struct place *places;
    size_t count;
    const struct tensor_entry **by_name;
};

// 0 of a type that cannot be read.
static uint64_t elements_of(const struct tensor_entry *entry) {
    size_t size = tensor_dtype_size(entry->dtype);
    return size > 0 ? (entry->end - entry->begin) / size : 0;
}

static enum berth_status wrong(const char *path, const char *key, const char *expected,
                               struct berth_error *error) {
    return error_set(error, BERTH_BAD_DATA, "%s: key \"%s\": expected %s", path, key, expected);
}

// --- finding the files --------------------------------------------------------------------------

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

// The rank in "…zero_pp_rank_<r>_mp_rank_00_optim_states.pt", -1 when the name is another.
static int64_t rank_of(const char *name) {
    char digits[12];
    int64_t rank;
    const char *begin = strstr(name, SHARD_MARK);
    if (begin == NULL || !tensor_path_ends(name, SHARD_ENDING)) {
        return -1;
    }
    begin += strlen(SHARD_MARK);
    const char *end = name + strlen(name) - strlen(SHARD_ENDING);
    if (end <= begin || (size_t)(end - begin) >= sizeof digits) {
        return -1;
    }
    memcpy(digits, begin, (size_t)(end - begin));
    digits[end - begin] = '\0';
    int plain = strspn(digits, "0123456789") == strlen(digits);
    return plain && number_parse_integer(digits, &rank) ? rank : -1;
}

static int compare_ranks(const void *a, const void *b) {
    const struct shard *left = a, *right = b;
    return (left->rank > right->rank) - (left->rank < right->rank);
}

static enum berth_status take_shards(struct checkpoint *checkpoint, const char *folder,
                                     char *const *names, struct berth_error *error) {
    size_t count = 0;
    for (size_t i = 0; names[i] != NULL; i++) {
        count += rank_of(names[i]) >= 0;
    }
    if (count > DEEPSPEED_MAX_RANKS) {
        return error_set(error, BERTH_BAD_DATA, "%s: %zu ZeRO shards, the limit is %d", folder,
                         count, DEEPSPEED_MAX_RANKS);
    }
    checkpoint->shards = memory_array_zeroed(count + 1, sizeof *checkpoint->shards);
    if (checkpoint->shards == NULL) {
        return error_no_memory(error, count * sizeof *checkpoint->shards, folder);
    }
    for (size_t i = 0; names[i] != NULL; i++) {
        if (rank_of(names[i]) >= 0) {
            struct shard *shard = &checkpoint->shards[checkpoint->rank_count++];
            *shard = (struct shard){.path = path_join(folder, names[i]),
                                    .rank = rank_of(names[i]),
                                    .file.archive.file.descriptor = -1};
            if (shard->path == NULL) {
                return error_no_memory(error, strlen(folder) + strlen(names[i]), "a path");
            }
        }
    }
    if (count > 0) {
        qsort(checkpoint->shards, count, sizeof *checkpoint->shards, compare_ranks);
    }
    return BERTH_OK;
}

// Of every rank from 0 on there must be one.
static enum berth_status check_ranks(const struct checkpoint *checkpoint, const char *folder,
                                     struct berth_error *error) {
    for (size_t i = 0; i < checkpoint->rank_count; i++) {
        int64_t rank = checkpoint->shards[i].rank, expected = (int64_t)i;
        if (rank != expected) {
            return error_set(
                error, BERTH_BAD_DATA,
                "%s: the ZeRO shard of rank %" PRId64 " is %s: expected one file \"*" SHARD_MARK
                "%" PRId64 SHARD_ENDING "\"",
                folder, rank < expected ? rank : expected,
                rank < expected ? "there twice" : "missing", rank < expected ? rank : expected);
        }
    }
    return BERTH_OK;
}

static enum berth_status find_shards(struct checkpoint *checkpoint, const char *path,
                                     struct berth_error *error) {
    char *folder = path == file_name(path)
                       ? memory_string(".")
                       : memory_string_of(path, (size_t)(file_name(path) - path));
    char **names = NULL;
    enum berth_status status;
    if (folder == NULL) {
        return error_no_memory(error, strlen(path), "a path");
    }
    TRY_DONE(dir_list(folder, &names, error));
    TRY_DONE(take_shards(checkpoint, folder, names, error));
    TRY_DONE(check_ranks(checkpoint, folder, error));
done:
    memory_free(names);
    memory_free(folder);
    return status;
}

// --- the shards ---------------------------------------------------------------------------------

// An integer, or an enumeration's: the argument of the call that made it.
static int read_number(const struct pickle *pickle, const struct pickle_value *value,
                       int64_t *number) {
    const struct pickle_value *arguments = pickle_arguments(pickle, value);
    return pickle_integer(arguments != NULL ? pickle_item(pickle, arguments, 0) : value, number);
}

// The greatest of a list of integers (one for each group), or the integer alone.
static int read_greatest(const struct pickle *pickle, const struct pickle_value *value,
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

static enum berth_status check_shard(const struct checkpoint *checkpoint, const struct shard *shard,
                                     struct berth_error *error) {
    const struct pickle *pickle = &shard->file.pickle;
    int64_t stage, count;
    if (!read_number(pickle, pickle_member(pickle, shard->state, "zero_stage"), &stage) ||
        stage < 0) {
        return wrong(shard->path, "optimizer_state_dict.zero_stage", "ZeRO's stage, 1 or 2", error);
    }
    if (stage > 2) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: ZeRO stage %" PRId64
                         "; 1 and 2 can be read: gather the weights with the zero_to_fp32.py that "
                         "lies beside the checkpoint and give its output",
                         shard->path, stage);
    }
    if (!read_greatest(pickle, pickle_member(pickle, shard->state, "partition_count"), &count) ||
        count != (int64_t)checkpoint->rank_count) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: key \"optimizer_state_dict.partition_count\": expected %zu, the "
                         "number of ZeRO shards in the folder: one is missing, or left over from "
                         "another run",
                         shard->path, checkpoint->rank_count);
    }
    return BERTH_OK;
}

static const struct pickle_value *groups_of(const struct shard *shard) {
    return pickle_member(&shard->file.pickle, shard->state, "single_partition_of_fp32_groups");
}

static enum berth_status open_shard(const struct checkpoint *checkpoint, struct shard *shard,
                                    struct berth_error *error) {
    TRY(torch_open(&shard->file, shard->path, PICKLE_CALLS, error));
    shard->state =
        pickle_member(&shard->file.pickle, shard->file.pickle.root, "optimizer_state_dict");
    TRY(check_shard(checkpoint, shard, error));
    const struct pickle_value *groups = groups_of(shard);
    return pickle_is(groups, PICKLE_LIST) && pickle_length(groups) == checkpoint->group_count
               ? BERTH_OK
               : wrong(shard->path, "optimizer_state_dict.single_partition_of_fp32_groups",
                       "as many groups of parameters as param_shapes has", error);
}

// The partition of a group in a shard: a row of F32.
static enum berth_status take_partition(const struct checkpoint *checkpoint, size_t group,
                                        size_t rank, struct berth_error *error) {
    const struct shard *shard = &checkpoint->shards[rank];
    const struct tensor_entry *entry =
        torch_tensor(&shard->file, pickle_item(&shard->file.pickle, groups_of(shard), group));
    if (entry == NULL || entry->dtype != TENSOR_F32 || entry->rank != 1) {
        return wrong(shard->path, "optimizer_state_dict.single_partition_of_fp32_groups",
                     "a row of F32 for each group of parameters", error);
    }
    checkpoint->partitions[group * checkpoint->rank_count + rank] = entry;
    return BERTH_OK;
}

static enum berth_status open_shards(struct checkpoint *checkpoint, struct berth_error *error) {
    size_t ranks = checkpoint->rank_count, groups = checkpoint->group_count;
    for (size_t i = 0; i < ranks; i++) {
        TRY(open_shard(checkpoint, &checkpoint->shards[i], error));
    }
    checkpoint->partitions = memory_array_zeroed(groups, ranks * sizeof *checkpoint->partitions);
    checkpoint->checked = memory_array_zeroed(groups, ranks * sizeof *checkpoint->checked);
    if (checkpoint->partitions == NULL || checkpoint->checked == NULL) {
        return error_no_memory(error, groups * ranks * sizeof *checkpoint->partitions,
                               checkpoint->states.archive.file.path);
    }
    for (size_t i = 0; i < groups * ranks; i++) {
        TRY(take_partition(checkpoint, i / ranks, i % ranks, error));
    }
    return BERTH_OK;
}

// --- the parameters in the shards ---------------------------------------------------------------

static const struct pickle_value *states_member(const struct checkpoint *checkpoint,
                                                const char *key) {
    const struct pickle *pickle = &checkpoint->states.pickle;
    return pickle_member(pickle, pickle->root, key);
}

// The place of the model's tensor of that name, NULL when there is none.
static struct place *find_place(const struct checkpoint *checkpoint,
                                const struct pickle_value *key) {
    char name[NAME_LIMIT];
    const char *text = pickle_text(&checkpoint->states.pickle, key);
    if (text == NULL || (size_t)snprintf(name, sizeof name, MODULE "%s", text) >= sizeof name) {
        return NULL;
    }
    const struct tensor_entry *entry =
        tensor_index_find(checkpoint->by_name, checkpoint->count, name);
    return entry != NULL ? &checkpoint->places[entry - checkpoint->entries] : NULL;
}

// Tensors of the shards get offsets behind those of the model's file: that two are one can be told
// by them, as in any container.
static void put_place(const struct checkpoint *checkpoint, struct place *place,
                      const struct place *source, uint64_t elements) {
    struct tensor_entry *entry = &checkpoint->entries[place - checkpoint->places];
    uint64_t before = checkpoint->states.archive.file.size;
    for (size_t i = 0; i < source->group * checkpoint->rank_count; i++) {
        before += checkpoint->partitions[i]->end - checkpoint->partitions[i]->begin;
    }
    tensor_dtype_of("F32", entry);
    entry->begin = before + source->first * sizeof(float);
    entry->end = entry->begin + elements * sizeof(float);
    *place = *source;
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

// A walk along the row of a group.
struct row {
    size_t group;
    uint64_t at, end;                    // elements
    const struct pickle_value *paddings; // behind each parameter, or NULL; of the first shard
};

static enum berth_status skip_padding(const struct checkpoint *checkpoint, struct row *row,
                                      size_t index, struct berth_error *error) {
    int64_t padding;
    const struct shard *shard = &checkpoint->shards[0];
    if (row->paddings == NULL) {
        return BERTH_OK;
    }
    if (!pickle_integer(pickle_item(&shard->file.pickle, row->paddings, index), &padding) ||
        padding < 0 || (uint64_t)padding > row->end - row->at) {
        return wrong(shard->path, "optimizer_state_dict.param_alignment_paddings",
                     "a number of elements for each parameter", error);
    }
    row->at += (uint64_t)padding;
    return BERTH_OK;
}

static enum berth_status place_parameter(const struct checkpoint *checkpoint, struct row *row,
                                         const struct pickle_value *shapes, size_t index,
                                         struct berth_error *error) {
    const struct pickle *pickle = &checkpoint->states.pickle;
    const char *path = checkpoint->states.archive.file.path;
    const struct pickle_value *key = pickle_key(pickle, shapes, index);
    const char *text = pickle_text(pickle, key);
    struct place *place = find_place(checkpoint, key);
    const struct tensor_entry *own = place != NULL ? place->own : NULL;
    if (own == NULL || !same_shape(pickle, pickle_item(pickle, shapes, index), own) ||
        own->dtype == TENSOR_OTHER) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: param_shapes: \"%.200s\": expected a tensor of \"module\" and its "
                         "shape, each once",
                         path, text != NULL ? text : "(no text)");
    }
    uint64_t elements = elements_of(own);
    if (elements > row->end - row->at) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: tensor \"%s\" reaches beyond the ZeRO shards, which hold %" PRIu64
                         " numbers of its group",
                         path, own->name, row->end);
    }
    struct place source = {.group = row->group, .first = row->at};
    put_place(checkpoint, place, &source, elements);
    row->at += elements;
    return skip_padding(checkpoint, row, index, error);
}

static enum berth_status place_group(const struct checkpoint *checkpoint, size_t group,
                                     const struct pickle_value *shapes, struct berth_error *error) {
    const struct shard *first = &checkpoint->shards[0];
    const struct pickle_value *paddings =
        pickle_member(&first->file.pickle, first->state, "param_alignment_paddings");
    struct row row = {.group = group,
                      .paddings = pickle_item(&first->file.pickle, paddings, group)};
    uint64_t ranks = checkpoint->rank_count, together = 2 * ranks;
    for (size_t rank = 0; rank < ranks; rank++) {
        row.end += elements_of(checkpoint->partitions[group * ranks + rank]);
    }
    for (size_t i = 0; i < pickle_length(shapes); i++) {
        TRY(place_parameter(checkpoint, &row, shapes, i, error));
    }
    // DeepSpeed rounds up to a multiple of twice the ranks, how often is its own affair.
    if ((row.at + together - 1) / together != (row.end + together - 1) / together) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: param_shapes: group %zu has %" PRIu64
                         " numbers, the ZeRO shards hold %" PRIu64,
                         checkpoint->states.archive.file.path, group, row.at, row.end);
    }
    return BERTH_OK;
}

// Tied parameters stand in the shards under one of their names.
static enum berth_status place_shared(const struct checkpoint *checkpoint,
                                      struct berth_error *error) {
    const struct pickle *pickle = &checkpoint->states.pickle;
    const struct pickle_value *shared = states_member(checkpoint, "shared_params");
    for (size_t i = 0; pickle_is(shared, PICKLE_DICT) && i < pickle_length(shared); i++) {
        struct place *copy = find_place(checkpoint, pickle_key(pickle, shared, i));
        const struct place *source = find_place(checkpoint, pickle_item(pickle, shared, i));
        if (copy == NULL || source == NULL || source->own != NULL) {
            continue; // DeepSpeed lists frozen ones, too
        }
        const struct tensor_entry *entries = checkpoint->entries;
        uint64_t elements = elements_of(&entries[source - checkpoint->places]);
        if (copy->own == NULL || elements_of(copy->own) != elements) {
            return wrong(checkpoint->states.archive.file.path, "shared_params",
                         "pairs of tensors of one shape", error);
        }
        put_place(checkpoint, copy, source, elements);
    }
    return BERTH_OK;
}

static enum berth_status use_shards(struct checkpoint *checkpoint, struct berth_error *error) {
    const struct pickle *pickle = &checkpoint->states.pickle;
    const struct pickle_value *shapes = states_member(checkpoint, "param_shapes");
    if (!pickle_is(shapes, PICKLE_LIST) || pickle_length(shapes) == 0) {
        return wrong(checkpoint->states.archive.file.path, "param_shapes",
                     "the shapes of the parameters in the ZeRO shards beside this file", error);
    }
    checkpoint->group_count = pickle_length(shapes);
    TRY(open_shards(checkpoint, error));
    for (size_t i = 0; i < checkpoint->group_count; i++) {
        TRY(place_group(checkpoint, i, pickle_item(pickle, shapes, i), error));
    }
    return place_shared(checkpoint, error);
}

// --- as one of many containers ------------------------------------------------------------------

static enum berth_status list_own(struct checkpoint *checkpoint, struct berth_error *error) {
    const struct torch_file *states = &checkpoint->states;
    checkpoint->entries = memory_array(states->count + 1, sizeof *checkpoint->entries);
    checkpoint->places = memory_array(states->count + 1, sizeof *checkpoint->places);
    if (checkpoint->entries == NULL || checkpoint->places == NULL) {
        return error_no_memory(error, states->count * sizeof *checkpoint->entries,
                               states->archive.file.path);
    }
    for (size_t i = 0; i < states->count; i++) {
        checkpoint->entries[i] = states->entries[i];
        checkpoint->places[i] = (struct place){.own = &states->entries[i]};
    }
    checkpoint->count = states->count;
    return tensor_index_new(checkpoint->entries, checkpoint->count, states->archive.file.path,
                            &checkpoint->by_name, error);
}

static enum berth_status check_parallel(const struct checkpoint *checkpoint,
                                        struct berth_error *error) {
    int64_t parts = 1;
    pickle_integer(states_member(checkpoint, "mp_world_size"), &parts);
    return parts == 1 ? BERTH_OK
                      : error_set(error, BERTH_BAD_DATA,
                                  "%s: a model cut across %" PRId64
                                  " devices (mp_world_size); only whole models can be read: save "
                                  "it with one model-parallel rank",
                                  checkpoint->states.archive.file.path, parts);
}

static enum berth_status open_all(struct checkpoint *checkpoint, const char *path,
                                  struct berth_error *error) {
    TRY(torch_open(&checkpoint->states, path, PICKLE_CALLS, error));
    TRY(list_own(checkpoint, error));
    if (strcmp(file_name(path), DEEPSPEED_STATES) != 0) {
        return BERTH_OK; // a shard by itself
    }
    TRY(check_parallel(checkpoint, error));
    TRY(find_shards(checkpoint, path, error));
    return checkpoint->rank_count > 0 ? use_shards(checkpoint, error) : BERTH_OK;
}

static void free_checkpoint(struct checkpoint *checkpoint) {
    torch_close(&checkpoint->states);
    for (size_t i = 0; i < checkpoint->rank_count; i++) {
        torch_close(&checkpoint->shards[i].file);
        memory_free(checkpoint->shards[i].path);
    }
    memory_free(checkpoint->shards);
    memory_free(checkpoint->partitions);
    memory_free(checkpoint->checked);
    memory_free(checkpoint->by_name);
    memory_free(checkpoint->entries);
    memory_free(checkpoint->places);
    memory_free(checkpoint);
}

static int recognise(const char *path, const unsigned char *head, size_t length) {
    return (torch_is_zip(head, length) || torch_is_legacy(head, length)) &&
           (strcmp(file_name(path), DEEPSPEED_STATES) == 0 || rank_of(file_name(path)) >= 0);
}

static enum berth_status open_file(struct tensor_file *file, struct berth_error *error) {
    struct checkpoint *checkpoint = memory_array_zeroed(1, sizeof *checkpoint);
    if (checkpoint == NULL) {
        return error_no_memory(error, sizeof *checkpoint, file->path);
    }
    checkpoint->states.archive.file.descriptor = -1;
    enum berth_status status = open_all(checkpoint, file->path, error);
    if (status != BERTH_OK) {
        free_checkpoint(checkpoint);
        return status;
    }
    file->container = checkpoint;
    file->entries = checkpoint->entries;
    file->count = checkpoint->count;
    return BERTH_OK;
}

// A partition is compared with its CRC when its first byte is read: whatever is wanted of it, that
// comes first.
static enum berth_status check_partition(const struct checkpoint *checkpoint, size_t index,
                                         struct berth_error *error) {
    float first;
    const struct shard *shard = &checkpoint->shards[index % checkpoint->rank_count];
    if (atomic_load(&checkpoint->checked[index]) == 0) {
        TRY(torch_read(&shard->file, checkpoint->partitions[index], 0, sizeof first, &first,
                       error));
        atomic_store(&checkpoint->checked[index], 1);
    }
    return BERTH_OK;
}

// Numbers [first, first + count) of a group's row.
static enum berth_status read_row(const struct checkpoint *checkpoint, size_t group, uint64_t first,
                                  uint64_t count, char *to, struct berth_error *error) {
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
    const struct checkpoint *checkpoint = file->container;
    const struct place *place = &checkpoint->places[entry - checkpoint->entries];
    if (place->own != NULL) {
        return torch_read(&checkpoint->states, place->own, first, bytes, to, error);
    }
    uint64_t size = entry->end - entry->begin;
    if (first > size || bytes > size - first) {
        return error_set(error, BERTH_INTERNAL, "%s: tensor \"%s\": no bytes %" PRIu64 " to %zu",
                         file->path, entry->name, first, bytes);
    }
    return read_row(checkpoint, place->group, place->first + first / sizeof(float),
                    bytes / sizeof(float), to, error);
}

static void close_file(struct tensor_file *file) {
    free_checkpoint((struct checkpoint *)file->container);
}

// --- the newest tag -----------------------------------------------------------------------------

// FOLDER/NAME if it is there, newly allocated; else *path stays NULL.
static enum berth_status take(const char *folder, const char *name, char **path,
                              struct berth_error *error) {
    char *found = path_join(folder, name);
    if (found == NULL) {
        return error_no_memory(error, strlen(folder) + strlen(name), "a path");
    }
    if (file_exists(found)) {
        *path = found;
    } else {
        memory_free(found);
    }
    return BERTH_OK;
}

static int is_plain(const char *tag) {
    return tag[0] != '\0' && strchr(tag, '/') == NULL && strcmp(tag, ".") != 0 &&
           strcmp(tag, "..") != 0;
}

// The tag in the text of `latest`, in place.
static char *tag_of(char *text) {
    static const char blanks[] = " \t\r\n";
    text += strspn(text, blanks);
    text[strcspn(text, blanks)] = '\0';
    return text;
}

static enum berth_status refuse_tag(const char *folder, const char *tag,
                                    struct berth_error *error) {
    char *gathered = NULL;
    enum berth_status status = take(folder, ZERO3_STATES, &gathered, error);
    int is_zero3 = gathered != NULL;
    memory_free(gathered);
    TRY(status);
    return is_zero3
               ? error_set(error, BERTH_BAD_DATA,
                           "%s: a checkpoint of ZeRO stage 3; 1 and 2 can be read: gather the "
                           "weights with the zero_to_fp32.py beside `latest` and give its output",
                           folder)
               : error_set(error, BERTH_NO_INPUT,
                           "%s: no " DEEPSPEED_STATES " in this folder, though `latest` names the "
                           "tag \"%s\"; copy that file into it, or give another tag's folder",
                           folder, tag);
}

static enum berth_status find_tag(const char *folder, const char *tag, char **path,
                                  struct berth_error *error) {
    if (!is_plain(tag)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s/latest: expected the name of a folder beside it, found \"%.200s\"",
                         folder, tag);
    }
    char *inner = path_join(folder, tag);
    if (inner == NULL) {
        return error_no_memory(error, strlen(folder) + strlen(tag), "a path");
    }
    enum berth_status status = take(inner, DEEPSPEED_STATES, path, error);
    if (status == BERTH_OK && *path == NULL) {
        status = refuse_tag(inner, tag, error);
    }
    memory_free(inner);
    return status;
}

enum berth_status deepspeed_find(const char *folder, char **path, struct berth_error *error) {
    char *latest = NULL, *text = NULL;
    size_t length;
    *path = NULL;
    TRY(take(folder, DEEPSPEED_STATES, path, error));
    if (*path != NULL) {
        return BERTH_OK;
    }
    enum berth_status status;
    TRY(take(folder, "latest", &latest, error));
    if (latest == NULL) {
        return BERTH_OK;
    }
    TRY_DONE(file_read(latest, TAG_LIMIT, &text, &length, error));
    TRY_DONE(find_tag(folder, tag_of(text), path, error));
done:
    memory_free(text);
    memory_free(latest);
    return status;
}

const struct tensor_format deepspeed_format = {.name = "DeepSpeed",
                                               .recognise = recognise,
                                               .open = open_file,
                                               .read = read_file,
                                               .close = close_file,
                                               .find = deepspeed_find};
