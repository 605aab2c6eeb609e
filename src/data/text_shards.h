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
// Lowers the numbers of shards to what `articles` can fill, each with two articles where there are
// two, since random next sentences come from another one; returns whether that changed them. A plan
// out of range (no training shard, more than SHARDS_LIMIT, a fraction outside [0, 1)) is
// BERTH_CONFIG.
enum berth_status shard_plan_fit(struct shard_plan *plan, uint64_t articles, int *changed,
                                 struct berth_error *error);

// Shards in one row: those for training, then those for testing.
static inline size_t shard_count(const struct shard_plan *plan) {
    return (size_t)plan->training + plan->test;
}
static inline size_t shard_number(const struct shard_plan *plan, struct shard_place place) {
    return (place.is_test ? plan->training : 0) + (size_t)place.shard;
}
// "NAME_training_I.txt" or "NAME_test_I.txt" of shard number `i` of the row; newly allocated, NULL
// when memory is out.
char *shard_file_name(const struct shard_plan *plan, size_t i, const char *name);

// Which shards to write, and where.
struct shard_target {
    const char *folder, *name;
    size_t first, count; // of the row
};

struct shard_counts {
    uint64_t articles, sentences, bytes;
};

// The files of some shards, written at once; articles of others are counted and passed over.
struct shard_writer {
    struct shard_plan plan;
    struct shard_target target;
    struct file_writer *files;   // [target.count]
    struct shard_counts *counts; // [target.count]
    uint64_t articles;           // of all shards, so far
};
// Makes the folder. Each file appears whole at commit or not at all. Close with commit, which
// aborts when it fails, or with abort; the counts stay until shard_writer_done.
enum berth_status shard_writer_open(struct shard_writer *writer, const struct shard_plan *plan,
                                    const struct shard_target *target, struct berth_error *error);
// Splits the text of the next article into sentences and puts it where it belongs. An article
// without a sentence still counts.
enum berth_status shard_writer_put(struct shard_writer *writer, const char *text, size_t length,
                                   struct berth_error *error);
enum berth_status shard_writer_commit(struct shard_writer *writer, struct berth_error *error);
void shard_writer_abort(struct shard_writer *writer);
void shard_writer_done(struct shard_writer *writer);

#endif
