// SPDX-License-Identifier: Apache-2.0
// Prediction over a set of sequences: batches sorted by length and filled up to a token budget; a
// callback receives the logits of each sequence.
//
// Ranks divide the batches, which are the same for any number of ranks, so results are too. The
// first rank receives them.
#ifndef BERTH_TRAIN_INFER_H
#define BERTH_TRAIN_INFER_H

#include "core/error.h"
#include "core/log.h"
#include "data/batches/packer.h"
#include "train/engine/engine.h"

#include <stddef.h>
#include <stdint.h>

// Batches of a prediction hold predict_batch_size sequences of full length, at most INFER_TOKENS,
// and are filled with as many sequences as fit.
#define INFER_TOKENS 8192

// Computes the largest batch of a prediction over `source`.
enum berth_status infer_find_worst(const struct packer_source *source,
                                   const struct berth_config *config, struct batch_extent *worst,
                                   struct berth_error *error);

struct infer_result {
    int64_t sequences, tokens; // of all ranks
    double seconds; // time of the batches after the first ones, which warm up; their counts:
    int64_t timed_sequences, timed_tokens;
    double timed_flops; // required ones, of this rank
    int stopped;        // *stop was set in one of the ranks; not all sequences were processed
};

struct infer_masked {
    const float *losses, *hits; // [count]; hits: 1 or 0
    int64_t count;
};

struct infer_args {
    const struct packer_source *source;
    const struct batch_extent *extent; // from infer_find_worst; a batch has at most its tokens,
                                       // sequences and masked tokens
    const struct berth_log *log;       // reports progress as the phase `phase`
    const char *phase;
    const volatile int *stop; // may be NULL
    size_t group;    // batches have sequences of one group of so many neighbours; 0: of all
    int reads_first; // of an encoder: 1 if a sequence's logits are its first row alone; then no
                     // token is masked
    // Makes kept[extracted_count] of a sequence's logits, which `receive` then receives in place of
    // them; called by the rank that computed them. NULL: the logits are kept.
    void (*extract)(void *context, const float *logits, int64_t count, float *extracted);
    int64_t extracted_count;
    // Receives each sequence's logits once, by groups, in any order: logits[count], the rows of the
    // sequence (bert.h's bert_logit_rows) one after the other, valid during the call. Called by the
    // first rank only.
    void (*receive)(void *context, size_t index, const float *logits, int64_t count);
    // For a head that decodes: receives the losses of the sequence's masked tokens, and whether
    // the model's first choice was correct. NULL: they are not computed.
    void (*receive_masked)(void *context, size_t index, const struct infer_masked *masked);
    // For a head that decodes, in place of `extract`: makes kept[extracted_count] of a masked
    // token's logits over the vocabulary; called by any thread of the rank that computed them.
    // `receive` receives those of a sequence's masked tokens, one after the other. NULL: they are
    // not computed.
    void (*extract_words)(void *context, const float *logits, int64_t words, float *extracted);
    void *context;
};
// Called by all ranks with the same sequences; if they differ, it is BERTH_BAD_DATA. An error of
// one rank is that of all (comm_settle).
enum berth_status infer_run(struct engine *engine, const struct infer_args *args,
                            struct infer_result *result, struct berth_error *error);

#endif
