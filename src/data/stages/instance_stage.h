// SPDX-License-Identifier: Apache-2.0
// The stage that turns text shards into files of pre-training instances, one file per shard. Each
// worker takes one shard; the contents of a file depend on its shard and the settings only.
#ifndef BERTH_DATA_INSTANCE_STAGE_H
#define BERTH_DATA_INSTANCE_STAGE_H

#include "data/pretraining/instances.h"
#include "data/pretraining/pretraining_statistics.h"
#include "data/stages/instance_texts.h"
#include "data/stages/stage.h"
#include "text/tokenizer.h"

#include <stdint.h>

struct instance_stage {
    const char *shards; // folder of the complete text shards; without a manifest they are another
                        // program's
    const char *folder; // of the files: NAME_training_0.hdf5 from NAME_training_0.txt
    const struct tokenizer *tokenizer;
    struct instance_options options; // the stage fills in the vocabulary's ids
    struct stage_settings settings;  // the tokenizer's, by name; the stage adds the others
    int tfrecord;                    // instead of HDF5
    int follows_name;                // also for an output named *.tfrecord
    int threads;
    struct comm *comm; // of the ranks, all of which call it
    // After the run, in the first rank:
    struct pretraining_statistics *statistics; // of all files; owned by the caller
    struct instance_texts texts;               // of all files
    int64_t text_bytes;                        // read by this run
    int64_t files, empty;                      // number of files, and of shards without an instance
};

#define INSTANCE_MANIFEST "instances.json"

// Checks what is known before the earlier stages have run: options out of range, and a vocabulary
// without [CLS], [SEP] or [MASK], are BERTH_BAD_DATA. The stage also checks this.
enum berth_status instance_stage_check(const struct instance_stage *stage,
                                       struct berth_error *error);
// Also writes the manifest and statistics.json to the folder. A shard without an instance gets no
// file. BERTH_NO_INPUT: the shards are not complete. BERTH_BAD_DATA: a vocabulary without [CLS],
// [SEP] or [MASK]; ill-formed UTF-8 or a NUL in a text, which Google's rules drop instead.
enum berth_status instance_stage_run(struct instance_stage *stage, const struct berth_log *log,
                                     const volatile int *stop, struct berth_error *error);

// Makes the instances of all documents of `texts`, which are files, folders of files *.txt and
// patterns, separated by commas, and deals them out to the files `outputs` (to a NULL), which it
// replaces. The end of a text ends a document. BERTH_BAD_DATA if there are fewer instances than
// files, and as above; BERTH_CANT_CREATE if an output is one of the texts.
enum berth_status instance_stage_make_files(struct instance_stage *stage, const char *texts,
                                            char **outputs, struct berth_error *error);

#endif
