// SPDX-License-Identifier: Apache-2.0
// Prediction over a set of sequences: length-sorted batches filled to a token budget; the logits of
// each sequence go to whoever asked.
#ifndef BERTH_TRAIN_INFER_H
#define BERTH_TRAIN_INFER_H

#include "core/error.h"
#include "core/log.h"
#include "data/batches/packer.h"
#include "train/engine/engine.h"

#include <stddef.h>
#include <stdint.h>

// The batches of a prediction: predict_batch_size sequences of full length, at most
// INFER_TOKENS, filled with as many sequences as fit.
#define INFER_TOKENS 8192

// The largest batch that a prediction over `source` will meet.
enum berth_status infer_find_worst(const struct packer_source *source,
                                   const struct berth_config *config, struct batch_extent *worst,
                                   struct berth_error *error);

struct infer_result {
    int64_t sequences, tokens;
    double seconds; // of the batches after the first, which warms up; their counts:
    int64_t timed_sequences, timed_tokens;
    double timed_flops; // needed ones
    int stopped;        // *stop was set: not all sequences were seen
};

struct infer_masked {
    const float *losses; // [count]
    const unsigned char *hits;
    int64_t count;
};

struct infer_args {
    const struct packer_source *source;
    const struct batch_extent *extent; // of infer_find_worst
    const struct berth_log *log;       // progress, as the phase `phase`
    const char *phase;
    const volatile int *stop; // may be NULL
    // Gets each sequence's logits once, in no order: logits[count], rows of the sequence (bert.h's
    // bert_logit_rows) one behind the other, borrowed for the call.
    void (*take)(void *context, size_t index, const float *logits, int64_t count);
    // Of the pre-training head: the losses of the sequence's masked tokens, and whether the model's
    // first word was the right one. NULL: they are not computed.
    void (*take_masked)(void *context, size_t index, const struct infer_masked *masked);
    void *context;
};
enum berth_status infer_run(struct engine *engine, const struct infer_args *args,
                            struct infer_result *result, struct berth_error *error);

#endif
