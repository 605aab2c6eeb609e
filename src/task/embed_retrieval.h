// SPDX-License-Identifier: Apache-2.0
// How embeddings are scored by retrieval: of files of queries, documents and judgements, or of
// pairs. embed.c computes the vectors, and this scores them with a device's search.
#ifndef BERTH_TASK_EMBED_RETRIEVAL_H
#define BERTH_TASK_EMBED_RETRIEVAL_H

#include "data/pairs/pairs.h"
#include "data/pairs/retrieval_set.h"
#include "device/device.h"
#include "train/tasks/training_task.h"

struct embed_retrieval {
    struct retrieval_set set;
    struct device *device; // searches
};

// Whether the settings name files of a set.
int embed_retrieval_is_named(const struct settings *config);
// BERTH_USAGE: not all three are named, or other data to evaluate on is, too.
enum berth_status embed_retrieval_settle(const struct settings *config, enum task_use use,
                                         struct berth_error *error);
// BERTH_OK if all three can be read.
enum berth_status embed_retrieval_require(const struct settings *config, struct berth_error *error);

// Reads the set of the files, or of pairs: the vectors to score are those of *texts, queries before
// documents. *texts is filled; its prompts are the model's for queries and for documents, or with
// pairs all `prompt`. Call embed_retrieval_done even on failure.
enum berth_status embed_retrieval_read(struct embed_retrieval *retrieval,
                                       const struct task_open *args, struct pair_dataset *texts,
                                       struct berth_error *error);
enum berth_status embed_retrieval_of_pairs(struct embed_retrieval *retrieval,
                                           const struct task_open *args,
                                           const struct text_examples *pairs, const char *prompt,
                                           struct pair_dataset *texts, struct berth_error *error);
void embed_retrieval_done(struct embed_retrieval *retrieval);

// Adds the means of all metrics over the queries; vectors[texts][size] of length 1.
enum berth_status embed_retrieval_score(const struct embed_retrieval *retrieval,
                                        const float *vectors, size_t size, struct task_score *score,
                                        struct berth_error *error);
// The most memory that embed_retrieval_score takes.
size_t embed_retrieval_bytes(const struct embed_retrieval *retrieval, size_t size);

#endif
