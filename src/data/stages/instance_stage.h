// SPDX-License-Identifier: Apache-2.0
// The stage that turns text shards into files of pre-training instances, one file per shard. A
// worker processes one shard at a time; a file depends only on its shard and the settings. `berth
// prepare` runs it after the shard stage, and `berth pack` reads its files.
#ifndef BERTH_DATA_INSTANCE_STAGE_H
#define BERTH_DATA_INSTANCE_STAGE_H

#include "data/pretraining/instances.h"
#include "data/pretraining/pretraining_statistics.h"
#include "data/pretraining/shard_origin.h"
#include "data/stages/instance_texts.h"
#include "data/stages/stage.h"
#include "text/tokenizer.h"

#include <stdatomic.h>
#include <stdint.h>

struct instance_stage {
    const char *shards; // folder of the finished text shards; those without a manifest come from
                        // another program
    const char *folder; // of the files: NAME_training_0.hdf5 from NAME_training_0.txt
    const struct tokenizer *tokenizer;
    struct instance_options options;   // the stage fills in the vocabulary's ids
    struct manifest_settings settings; // the tokenizer's; the stage adds the others
    int tfrecord;                      // instead of HDF5
    int follows_name;                  // an output named *.tfrecord becomes TFRecord in any case
    int threads;
    struct comm *comm; // of the ranks, all of which call it
    // After the run, on rank 0:
    struct pretraining_statistics *statistics; // of all files; owned by the caller
    struct instance_texts texts;               // of all files
    int64_t text_bytes;                        // read by this run
    int64_t files, empty;                      // number of files, and of shards without an instance
};

// Checks in advance, before the earlier stages run. BERTH_BAD_DATA: an option is out of range, or
// the vocabulary has no [CLS], [SEP] or [MASK]. The stage checks the same again.
enum berth_status instance_stage_check(const struct instance_stage *stage,
                                       struct berth_error *error);
// Also writes the manifest and statistics.json to the folder. A shard without an instance gets no
// file. BERTH_NO_INPUT: the shards are not complete. BERTH_BAD_DATA: a vocabulary without [CLS],
// [SEP] or [MASK]; ill-formed UTF-8 or a NUL in a text, which Google's rules drop instead.
enum berth_status instance_stage_run(struct instance_stage *stage, const struct berth_log *log,
                                     const atomic_int *stop, struct berth_error *error);

// Makes the instances of all documents of `texts`, a comma-separated list of files, folders of
// *.txt files and patterns, and distributes them over the files `outputs` (NULL-terminated), which
// are replaced. The end of a text ends a document. BERTH_BAD_DATA: there are fewer instances than
// files, or as above. BERTH_CANT_CREATE: an output is one of the texts.
enum berth_status instance_stage_make_files(struct instance_stage *stage, const char *texts,
                                            char **outputs, struct berth_error *error);

#endif
