// SPDX-License-Identifier: Apache-2.0
#include "train/bench/bench_shards.h"

#include "core/file.h"
#include "core/memory.h"
#include "data/pretraining/pretraining_file.h"

#include <string.h>

static enum berth_status read_file(const struct bench_shards *shards, const char *path,
                                   struct instances *instances, struct berth_error *error) {
    return pretraining_read(path, shards->vocab_size, (int)shards->max_seq_length, instances,
                            error);
}

static enum berth_status read_files(const struct bench_shards *shards, char *const *names,
                                    struct instances *instances, struct berth_error *error) {
    for (size_t i = 0; names[i] != NULL && (int64_t)instances->token_count < shards->tokens; i++) {
        if (!pretraining_is_file(names[i])) {
            continue;
        }
        char *path = path_join(shards->path, names[i]);
        enum berth_status status =
            path != NULL ? read_file(shards, path, instances, error) : file_no_path(error);
        memory_free(path);
        TRY(status);
    }
    return BERTH_OK;
}

enum berth_status bench_shards_read(const struct bench_shards *shards, struct instances *instances,
                                    struct berth_error *error) {
    char **names;
    if (!dir_exists(shards->path)) {
        return read_file(shards, shards->path, instances, error);
    }
    TRY(dir_list(shards->path, &names, error));
    enum berth_status status = read_files(shards, names, instances, error);
    memory_free(names);
    if (status == BERTH_OK && instances->count == 0) {
        return error_set(
            error, BERTH_NO_INPUT,
            "%s: no instances in this folder; expected *.hdf5 or *.tfrecord of `berth prepare`",
            shards->path);
    }
    return status;
}
