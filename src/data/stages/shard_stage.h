// SPDX-License-Identifier: Apache-2.0
// The stage that makes text shards (text_shards.h) from corpora.
//
// First it counts the sentences of every article, which determine the article's shard
// (shard_assignment.h). Then it makes groups of shards in parallel: a worker reads all corpora and
// writes the shards of its group. Finished groups are kept. The grouping does not affect the
// contents of the shards. The instance stage reads the shards.
#ifndef BERTH_DATA_SHARD_STAGE_H
#define BERTH_DATA_SHARD_STAGE_H

#include "core/log.h"
#include "data/corpus/corpus.h"
#include "data/corpus/text_shards.h"
#include "data/stages/stage.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct corpus_source {
    enum corpus_form form;
    const char *const *paths;
    size_t count;
};

enum { CORPUS_SOURCES_MAX = 3 };

struct shard_stage {
    struct corpus_source sources[CORPUS_SOURCES_MAX]; // in the order of their articles
    size_t source_count;
    const char *folder, *name;            // FOLDER/NAME_training_0.txt
    struct shard_plan plan;               // as requested
    int training_is_named, test_is_named; // the user gave this number: fewer shards are an error
    int threads;
    struct comm *comm; // of the ranks, all of which call it
    // After the run, on rank 0:
    int64_t articles, sentences, text_bytes; // of all shards
    int64_t written_bytes;                   // bytes of the shards that this run made
    uint32_t training, test;                 // numbers of shards
};

#define SHARD_MANIFEST "shards.json"

// With too few articles it makes fewer shards and says so in a note. BERTH_CONFIG: the user gave
// the number of shards and there are too few articles; no file is made. BERTH_BAD_DATA: there is no
// article. Warns about lines with so many words that they must be a whole corpus.
enum berth_status shard_stage_run(struct shard_stage *stage, const struct berth_log *log,
                                  const atomic_int *stop, struct berth_error *error);

#endif
