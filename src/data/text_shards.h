// SPDX-License-Identifier: Apache-2.0
// Articles to shards: text files with a sentence a line and an empty line behind each article, some
// for training and some for testing.
//
// Where an article goes depends on its number, the seed and the numbers of shards only, not on what
// went before: shards can be made again, in parts or in any order. The share of test articles is
// exact to one article at any moment, and so is the number of articles in each shard.
#ifndef BERTH_DATA_TEXT_SHARDS_H
#define BERTH_DATA_TEXT_SHARDS_H

#include "core/error.h"
#include "core/file.h"

#include <stddef.h>
#include <stdint.h>

struct shard_plan {
    uint32_t training, test; // shards of each kind; test may be 0, then all is for training
    double test_fraction;    // of the articles
    uint64_t seed;
};

struct shard_place {
    int is_test;
    uint32_t shard;
};

enum { SHARDS_LIMIT = 4096 }; // of each kind

// Where article number `article`, from 0, goes.
struct shard_place shard_place_of(const struct shard_plan *plan, uint64_t article);
// Lowers the numbers of shards to what `articles` can fill, each with one article at least; returns
// whether that changed them. A plan out of range (no training shard, more than SHARDS_LIMIT, a
// fraction outside [0, 1)) is BERTH_CONFIG.
enum berth_status shard_plan_fit(struct shard_plan *plan, uint64_t articles, int *changed,
                                 struct berth_error *error);

// The files of all shards, written at once: FOLDER/NAME_training_I.txt and FOLDER/NAME_test_I.txt.
struct shard_writer {
    struct shard_plan plan;
    struct file_writer *files; // training, then test
    uint64_t articles;         // put so far
    uint64_t sentences[2];     // of training and test
};
// Makes the folder. Each file appears whole at commit or not at all. Close with commit, which
// aborts when it fails, or with abort.
enum berth_status shard_writer_open(struct shard_writer *writer, const struct shard_plan *plan,
                                    const char *folder, const char *name,
                                    struct berth_error *error);
// Splits an article's text into sentences and puts it where it belongs. An article without a
// sentence still counts.
enum berth_status shard_writer_put(struct shard_writer *writer, const char *text, size_t length,
                                   struct berth_error *error);
enum berth_status shard_writer_commit(struct shard_writer *writer, struct berth_error *error);
void shard_writer_abort(struct shard_writer *writer);

#endif
