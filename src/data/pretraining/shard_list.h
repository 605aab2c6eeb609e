// SPDX-License-Identifier: Apache-2.0
// The shards of a pre-training set: the files and their numbers of sequences, found before any of
// them is read.
//
// In a folder these are the files that pretraining_is_file accepts; if any of their names says that
// it is for training (pretraining_part_of), only those. Held-out files have "test" in their names.
// The task pretrain lists its shards when it opens a set; shard_stream.h reads them.
#ifndef BERTH_DATA_SHARD_LIST_H
#define BERTH_DATA_SHARD_LIST_H

#include "core/error.h"
#include "data/pretraining/instances.h"

#include <stddef.h>
#include <stdint.h>

struct shard {
    char *path;
    const char *name;  // last component of the path
    int64_t bytes;     // of the file
    int64_t sequences; // all sequences of packed rows
};

struct shard_list {
    struct shard *items; // sorted by name
    size_t count;
    size_t set_aside; // files of folders that are not for this use
    int64_t sequences;
    int64_t length, predictions; // maxima of any row
};

enum shard_use { SHARD_TRAIN, SHARD_TEST, SHARD_ANY };

// Reads the metadata of the files for `use`: those in the folder `path`, the file `path`, or those
// that match the pattern `path` (glob(7)). No such file is BERTH_NO_INPUT, files without any
// sequence are BERTH_BAD_DATA; for SHARD_TEST the list is empty instead. max_length as in
// pretraining_read. shard_list_done frees, also after a failure.
enum berth_status shard_list_open(struct shard_list *list, const char *path, enum shard_use use,
                                  int max_length, struct berth_error *error);
// Appends the instances of file `file`, as pretraining_read does. BERTH_BAD_DATA: the number of
// sequences differs from the list's, or one is longer than the list says.
enum berth_status shard_list_read(const struct shard_list *list, size_t file, int32_t vocab_size,
                                  int max_length, struct instances *instances,
                                  struct berth_error *error);
void shard_list_done(struct shard_list *list);

#endif
