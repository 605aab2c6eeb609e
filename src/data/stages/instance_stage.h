// SPDX-License-Identifier: Apache-2.0
// The stage that makes files of pre-training instances of text shards, a file a shard. Workers take
// one shard each; what a file holds depends on its shard and the settings only.
#ifndef BERTH_DATA_INSTANCE_STAGE_H
#define BERTH_DATA_INSTANCE_STAGE_H

#include "data/pretraining/instances.h"
#include "data/pretraining/pretraining_statistics.h"
#include "data/stages/stage.h"
#include "text/tokenizer.h"

#include <stdint.h>

struct instance_stage {
    const char *shards; // folder of the text shards, complete
    const char *folder; // of the files: NAME_training_0.hdf5 of NAME_training_0.txt
    const struct tokenizer *tokenizer;
    struct instance_options options; // the ids of the vocabulary are filled in
    struct stage_settings settings;  // that of the tokenizer, by name; the others are added
    int tfrecord;                    // in place of HDF5
    int threads;
    // After the run:
    struct pretraining_statistics *statistics; // of all files; the caller's
    int64_t text_bytes;                        // that this run has read
    int64_t files, empty; // shards there are files of, and those that gave no instance
};

#define INSTANCE_MANIFEST "instances.json"

// What can be told before the stages in front have run: options out of range, and a vocabulary
// without [CLS], [SEP] or [MASK], are BERTH_BAD_DATA. The stage checks it too.
enum berth_status instance_stage_check(const struct instance_stage *stage,
                                       struct berth_error *error);
// Beside the files stand the manifest and statistics.json. A shard that gives no instance gets no
// file. BERTH_NO_INPUT: the shards are not complete. BERTH_BAD_DATA: a vocabulary without [CLS],
// [SEP] or [MASK].
enum berth_status instance_stage_run(struct instance_stage *stage, const struct berth_log *log,
                                     const volatile int *stop, struct berth_error *error);

#endif
