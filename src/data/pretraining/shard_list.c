// SPDX-License-Identifier: Apache-2.0
// Finds the files of a pre-training set, in a folder, a list or by name, and how many sequences
// each has, from their headers alone. The task pretrain calls it before a run is planned;
// shard_stream.c then reads the files in its order.
#include "data/pretraining/shard_list.h"

#include "core/file.h"
#include "core/memory.h"
#include "data/pretraining/pretraining_file.h"

#include <inttypes.h>
#include <string.h>

static int any_is_for_training(char **names) {
    for (; *names != NULL; names++) {
        if (pretraining_is_file(*names) && pretraining_part_of(*names) == PART_TRAINING) {
            return 1;
        }
    }
    return 0;
}

static int is_for_use(const char *name, enum shard_use use, int training_is_named) {
    const enum pretraining_part part = pretraining_part_of(name);
    if (use == SHARD_TRAIN) {
        return training_is_named ? part == PART_TRAINING : part != PART_TEST;
    }
    return use == SHARD_ANY || part == PART_TEST;
}

// Takes ownership of `path`; shard_list_done frees it.
static enum berth_status add_shard(struct shard_list *list, char *path, int max_length,
                                   struct berth_error *error) {
    struct shard *shard = &list->items[list->count++];
    *shard = (struct shard){.path = path, .name = path_name(path)};
    struct file_reader file;
    TRY(file_reader_open(&file, path, error));
    shard->bytes = (int64_t)file.size;
    file_reader_close(&file);
    struct pretraining_size size;
    TRY(pretraining_measure(path, max_length, &size, error));
    shard->sequences = size.sequences;
    list->sequences += size.sequences;
    list->length = size.length > list->length ? size.length : list->length;
    list->predictions = size.predictions > list->predictions ? size.predictions : list->predictions;
    return BERTH_OK;
}

// Makes room for `count` more shards.
static enum berth_status reserve(struct shard_list *list, size_t count, struct berth_error *error) {
    const size_t all = list->count + count + 1;
    struct shard *items = memory_array_zeroed(all, sizeof *items);
    if (items == NULL) {
        return error_no_memory(error, all * sizeof *items, "the list of shards");
    }
    if (list->count > 0) {
        memcpy(items, list->items, list->count * sizeof *items);
    }
    memory_free(list->items);
    list->items = items;
    return BERTH_OK;
}

static enum berth_status add_folder(struct shard_list *list, const char *folder, char **names,
                                    enum shard_use use, int max_length, struct berth_error *error) {
    size_t count = 0;
    int training_is_named = any_is_for_training(names);
    while (names[count] != NULL) {
        count++;
    }
    TRY(reserve(list, count, error));
    for (size_t i = 0; i < count; i++) {
        if (!pretraining_is_file(names[i])) {
            continue;
        }
        if (is_for_use(names[i], use, training_is_named)) {
            char *path = path_join(folder, names[i]);
            TRY(path != NULL ? add_shard(list, path, max_length, error)
                             : error_no_memory(error, 0, "a path"));
        } else {
            list->set_aside++;
        }
    }
    return BERTH_OK;
}

static enum berth_status add_all(struct shard_list *list, const char *path, enum shard_use use,
                                 int max_length, struct berth_error *error) {
    if (!dir_exists(path) && use == SHARD_TEST) {
        return BERTH_OK;
    }
    if (!dir_exists(path)) {
        TRY(reserve(list, 1, error));
        char *own = memory_string(path);
        return own != NULL ? add_shard(list, own, max_length, error)
                           : error_no_memory(error, 0, "a path");
    }
    char **names;
    TRY(dir_list(path, &names, error));
    enum berth_status status = add_folder(list, path, names, use, max_length, error);
    memory_free(names);
    return status;
}

// Names the folder that `berth prepare` filled within `path`, if there is one.
static enum berth_status no_shards(const char *path, struct berth_error *error) {
    char **folders = NULL;
    (void)path_expand(path_in(path, "hdf5_*/*").text, &folders, NULL);
    const char *folder = folders != NULL ? folders[0] : NULL;
    const enum berth_status status =
        error_set(error, BERTH_NO_INPUT,
                  "%s: no shards found; expected files *.hdf5 or *.tfrecord of pre-training "
                  "instances, as `berth prepare` writes them%s%s",
                  path, folder != NULL ? "; use " : "", folder != NULL ? folder : "");
    memory_free(folders);
    return status;
}

enum berth_status shard_list_open(struct shard_list *list, const char *path, enum shard_use use,
                                  int max_length, struct berth_error *error) {
    *list = (struct shard_list){0};
    // Accepts a list of files and patterns with commas between them, as Google's programs do.
    char **paths;
    TRY(path_expand(path, &paths, error));
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; paths[i] != NULL && status == BERTH_OK; i++) {
        status = add_all(list, paths[i], use, max_length, error);
    }
    memory_free(paths);
    TRY(status);
    if (use == SHARD_TRAIN && list->count == 0 && list->set_aside > 0) {
        return error_set(error, BERTH_NO_INPUT,
                         "%s: no shards for training: all %zu files are held out, because their "
                         "names contain \"test\"",
                         path, list->set_aside);
    }
    if (use != SHARD_TEST && list->count == 0) {
        return no_shards(path, error);
    }
    return use == SHARD_TEST || list->sequences > 0
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA, "%s: its %zu shards contain no sequences", path,
                           list->count);
}

enum berth_status shard_list_read(const struct shard_list *list, size_t file, int32_t vocab_size,
                                  int max_length, struct instances *instances,
                                  struct berth_error *error) {
    const struct shard *shard = &list->items[file];
    size_t first = instances->count;
    TRY(pretraining_read(shard->path, vocab_size, max_length, instances, error));
    if ((int64_t)(instances->count - first) != shard->sequences) {
        return error_set(
            error, BERTH_BAD_DATA,
            "%s: %" PRId64
            " sequences when the run began, %zu now; shards must not change during a run",
            shard->path, shard->sequences, instances->count - first);
    }
    for (size_t i = first; i < instances->count; i++) {
        const struct instance *item = &instances->items[i];
        if (item->length > list->length || item->prediction_count > list->predictions) {
            return error_set(error, BERTH_BAD_DATA,
                             "%s: sequence %zu has %d tokens and %d masked positions; the first "
                             "records of the files have at most %" PRId64 " and %" PRId64,
                             shard->path, i - first, item->length, item->prediction_count,
                             list->length, list->predictions);
        }
    }
    return BERTH_OK;
}

void shard_list_done(struct shard_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        memory_free(list->items[i].path);
    }
    memory_free(list->items);
    *list = (struct shard_list){0};
}
