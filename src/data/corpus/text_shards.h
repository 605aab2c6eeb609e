// SPDX-License-Identifier: Apache-2.0
// Writes articles to shards: text files with one sentence per line and an empty line after each
// article, some for training and some for testing. The shard stage writes through it; the instance
// stage reads the files.
#ifndef BERTH_DATA_TEXT_SHARDS_H
#define BERTH_DATA_TEXT_SHARDS_H

#include "core/error.h"
#include "core/file.h"
#include "data/corpus/shard_assignment.h"

#include <stddef.h>
#include <stdint.h>

// "NAME_training_I.txt" or "NAME_test_I.txt" for the shard with index `i`; newly allocated, NULL
// when out of memory.
struct path shard_file_name(const struct shard_plan *plan, size_t i, const char *name);

// Which shards to write, and where.
struct shard_target {
    const char *folder, *name;
    size_t first, count; // indices of shards
};

struct shard_counts {
    uint64_t articles, sentences, bytes;
};

// Writes the files of some shards at the same time; articles of other shards are counted and
// skipped.
struct shard_writer {
    struct shard_plan plan;
    const struct shard_assignment *assignment;
    struct shard_target target;
    struct file_writer *files;   // [target.count]
    struct shard_counts *counts; // [target.count]
    uint64_t articles;           // of all shards so far
};
// Creates the folder; borrows `assignment`, which is for the plan's shards. A file appears
// complete, at commit, or not at all. End with commit, which aborts on failure, or with abort; the
// counts stay until shard_writer_done. Commit with fewer articles than were assigned is
// BERTH_BAD_DATA.
enum berth_status shard_writer_open(struct shard_writer *writer, const struct shard_plan *plan,
                                    const struct shard_assignment *assignment,
                                    const struct shard_target *target, struct berth_error *error);
// Splits the text of the next article into sentences and writes it to its shard. BERTH_BAD_DATA:
// there are more articles than were assigned.
enum berth_status shard_writer_put(struct shard_writer *writer, const char *text, size_t length,
                                   struct berth_error *error);
enum berth_status shard_writer_commit(struct shard_writer *writer, struct berth_error *error);
void shard_writer_abort(struct shard_writer *writer);
void shard_writer_done(struct shard_writer *writer);

#endif
