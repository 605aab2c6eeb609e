// SPDX-License-Identifier: Apache-2.0
// The stage that makes shards of text (text_shards.h) of corpora.
//
// First the sentences of every article are counted, which says where it goes (shard_places.h). Then
// groups of shards are made side by side: each worker reads all corpora and writes the shards of
// its group. A group that is finished is kept. Which shards are in a group does not show in them.
#ifndef BERTH_DATA_SHARD_STAGE_H
#define BERTH_DATA_SHARD_STAGE_H

#include "data/corpus/corpus.h"
#include "data/corpus/text_shards.h"
#include "data/stages/stage.h"

#include <stddef.h>
#include <stdint.h>

struct corpus_source {
    enum corpus_form form;
    const char *const *paths;
    size_t count;
};

enum { CORPUS_SOURCES_MAX = 3 };

struct shard_stage {
    struct corpus_source sources[CORPUS_SOURCES_MAX]; // articles in this order
    size_t source_count;
    const char *folder, *name;            // FOLDER/NAME_training_0.txt
    struct shard_plan plan;               // as asked for
    int training_is_named, test_is_named; // the number was given: fewer are an error
    int threads;
    // After the run:
    int64_t articles, sentences, text_bytes; // of all shards
    int64_t made_bytes;                      // of those that this run made
    uint32_t training, test;                 // shards there are
};

#define SHARD_MANIFEST "shards.json"

// Fewer articles than shards make fewer shards, with a note, or are BERTH_CONFIG where the number
// is named; no file is made then. BERTH_BAD_DATA: no article at all. A line of so many words that
// it must be a whole corpus is a warning.
enum berth_status shard_stage_run(struct shard_stage *stage, const struct berth_log *log,
                                  const volatile int *stop, struct berth_error *error);

#endif
