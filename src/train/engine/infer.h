// SPDX-License-Identifier: Apache-2.0
// Prediction over a set of sequences, in batches sorted by length and filled up to a token budget.
// A callback receives the logits of each sequence.
//
// Ranks divide the batches. These are the same for any number of ranks, and so are the results,
// which rank 0 receives.
#ifndef BERTH_TRAIN_INFER_H
#define BERTH_TRAIN_INFER_H

#include "core/error.h"
#include "core/log.h"
#include "core/thread.h"
#include "data/batches/packer.h"
#include "train/engine/engine.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// Batches of a prediction hold predict_batch_size sequences of full length, at most INFER_TOKENS,
// and are filled with as many sequences as fit.
#define INFER_TOKENS 8192

// Computes the largest batch of a prediction over `source`, in batches of `sequences` of at most
// `length` tokens.
enum berth_status infer_find_worst(const struct packer_source *source, int64_t sequences,
                                   int64_t length, struct batch_extent *worst,
                                   struct berth_error *error);

// Bytes of the host's memory that infer_run takes at most on each of `ranks` ranks, without
// extract_words.
size_t infer_bytes(const struct bert *model, const struct packer_source *source,
                   const struct batch_extent *extent, int ranks);

struct infer_result {
    int64_t sequences, tokens; // of all ranks
    double seconds;
    // For rates: of all batches but the first ones, which warm up.
    double timed_seconds;
    int64_t timed_sequences, timed_tokens;
    double timed_flops; // required FLOPs of this rank
    int stopped;        // *stop interrupted one of the ranks: not all sequences were processed
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
    const atomic_int *stop; // may be NULL (stop.h)
    struct fair_lock *lock; // of an engine that threads share: the caller holds it, and other
                            // threads get it between two rounds. NULL: no other thread uses it
    int reads_rows;         // as in struct bert
    // Receives each sequence's logits once, in any order:
    // logits[count], the rows of the sequence (bert_logit_rows in bert.h) one after another, valid
    // during the call. Called on rank 0 only.
    void (*receive)(void *context, size_t index, const float *logits, int64_t count);
    // For heads that decode: receives the losses of the sequence's masked tokens, and whether the
    // model's first choice was correct. NULL: they are not computed.
    void (*receive_masked)(void *context, size_t index, const struct infer_masked *masked);
    // For heads that decode, in place of logits: computes extracted[extracted_count] from a
    // logits over the vocabulary of a masked token of sequence `index`. Called from any thread of
    // the rank that computed them. `receive` gets those of a sequence's masked tokens, one after
    // another. NULL: they are not computed.
    void (*extract_words)(void *context, size_t index, const float *logits, int64_t words,
                          float *extracted);
    int64_t extracted_count;
    void *context;
};
// Called by all ranks with the same sequences, as their jobs have compared (input_facts.h). If one
// rank fails, all do (comm_settle).
enum berth_status infer_run(struct engine *engine, const struct infer_args *args,
                            struct infer_result *result, struct berth_error *error);

#endif
