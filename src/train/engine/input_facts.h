// SPDX-License-Identifier: Apache-2.0
// What a job reads, as facts that its ranks compare (train/machine/rank_facts.h): each reads its
// own files, which may differ from host to host.
#ifndef BERTH_TRAIN_INPUT_FACTS_H
#define BERTH_TRAIN_INPUT_FACTS_H

#include "train/engine/feed.h"
#include "train/engine/inputs.h"
#include "train/machine/rank_facts.h"

// The configuration, the vocabulary and the tokenizer's rules; of a model of embeddings also these.
// `source` is the model's folder or configuration, or NULL.
void input_facts_add_model(struct rank_facts *facts, const struct model_files *files,
                           const char *source);
// The weights as they were loaded from `source`.
void input_facts_add_weights(struct rank_facts *facts, const struct state *state,
                             const char *source);
// A set of sequences of the file `path`. `name` is what they are for: "training"; `checksum` is
// that of packer_checksum.
void input_facts_add_sequences(struct rank_facts *facts, const char *name, const char *path,
                               size_t count, uint64_t checksum);
// What an update is made of: sequences, or the list of shards, whose contents are read later.
void input_facts_add_feed(struct rank_facts *facts, const struct feed *feed, const char *path);

#endif
