// SPDX-License-Identifier: Apache-2.0
// The shards of a pre-training set: which files, and how many sequences each holds, known before
// any of them is read.
//
// Of a folder these are the files that pretraining_is_file tells by their names; where one has
// "training" in its name, those that do. Held-out files are told by "test" in their names.
#ifndef BERTH_DATA_SHARD_LIST_H
#define BERTH_DATA_SHARD_LIST_H

#include "core/error.h"
#include "data/pretraining/instances.h"

#include <stddef.h>
#include <stdint.h>

struct shard {
    char *path;
    const char *name;  // its last part
    int64_t bytes;     // of the file
    int64_t sequences; // packed rows count as what is in them
};

struct shard_list {
    struct shard *items; // in the order of their names
    size_t count;
    int64_t sequences;
    int64_t length, predictions; // the longest row, and the most predictions of one
};

enum shard_use { SHARD_TRAIN, SHARD_TEST, SHARD_ANY };

// Opens the description of every file that is for `use` of the folder `path`, of the file `path`,
// or of the files that the pattern `path` (glob(7)) stands for. No such file, and files without any
// sequence, are BERTH_NO_INPUT and BERTH_BAD_DATA but for SHARD_TEST, where the list is then empty.
// max_seq_length as pretraining_read. shard_list_done frees, also after a failure.
enum berth_status shard_list_open(struct shard_list *list, const char *path, enum shard_use use,
                                  int max_seq_length, struct berth_error *error);
// Appends the instances of file number `file` as pretraining_read does. More or fewer than were
// counted, and longer ones than were found then, are BERTH_BAD_DATA.
enum berth_status shard_list_read(const struct shard_list *list, size_t file, int32_t vocab_size,
                                  int max_seq_length, struct instances *instances,
                                  struct berth_error *error);
void shard_list_done(struct shard_list *list);

#endif
