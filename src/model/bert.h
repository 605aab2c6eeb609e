// SPDX-License-Identifier: Apache-2.0
// BERT with one of the heads of params.h: forward and backward over a packed batch, written once as
// a plain sequence of device operations (layer norms after the sub-layers or before; formulas in
// doc/math.md).
#ifndef BERTH_MODEL_BERT_H
#define BERTH_MODEL_BERT_H

#include "core/arena.h"
#include "core/batch.h"
#include "core/device.h"
#include "core/error.h"
#include "model/config.h"
#include "model/params.h"

// The buffers a model computes with; all in device memory, all of the table's layout.
struct bert_weights {
    const float *master; // f32 [total]
    const void *compute; // compute dtype [matrix_count]; the same memory as master in f32
    float *gradients;    // f32 [total]; NULL for inference
};

struct bert_dropout {
    uint64_t seed;
    uint32_t step;
    double hidden_probability; // 0: no dropout
    double attention_probability;
    double head_probability; // of the pooled output
};

// Called before a forward pass reads the weights of a range (the index of param_range).
struct bert_source {
    void (*need)(void *context, size_t range);
    void *context;
};

struct bert {
    const struct bert_config *config;
    const struct param_table *table;
    struct device *device;
    enum dtype compute;
    struct bert_weights weights;
    struct bert_source source; // need NULL: the weights are always there
    int64_t max_masked;        // masked tokens of a batch at most; of the pre-training head
};

// Activations of one batch, carved from an arena. Views only.
struct bert_activations;

// What the forward pass leaves for the backward pass.
enum bert_keep {
    BERT_KEEP_NOTHING, // inference
    BERT_KEEP_ALL,
    BERT_KEEP_SUMS // gradient checkpointing: of each layer the input of its last norm; the rest of
                   // the layer is computed again, with the same numbers
};

// The rows of logits that the pre-training head's decoder has at a time, of a batch with so many
// masked tokens.
int64_t bert_decoder_rows(int64_t masked);

// Takes the activations of batches of up to `max_rows` rows and `max_sequences` sequences from the
// arena, which may be measuring only (such activations are good for nothing but freeing). The
// struct itself comes from the heap (bert_activations_free). NULL: out of memory.
struct bert_activations *bert_activations_new(const struct bert *model, int64_t max_rows,
                                              int64_t max_sequences, enum bert_keep keep,
                                              struct arena *device_arena);
void bert_activations_free(struct bert_activations *activations);

// Fills the logits (f32, in the activations; see bert_logits). dropout NULL: none.
void bert_forward(const struct bert *model, struct bert_activations *activations,
                  const struct batch *batch, const struct bert_dropout *dropout);
// What came out: [row_count, 2] of a span model; [batch_round(S), num_labels] of a classifier;
// [batch_round(S), 2] of the pre-training head, whose decoder's are taken piece by piece and not
// kept; without a head the last layer's output [row_count, H], in inference only.
struct mat bert_logits(const struct bert_activations *activations, const struct batch *batch);

// The rows of the logits that belong to a sequence: those of its tokens, or one.
struct bert_rows {
    int64_t first, count;
};
struct bert_rows bert_logit_rows(const struct bert_activations *activations,
                                 const struct batch *batch, int64_t sequence);

// Losses of each sequence into losses[S] (device memory, in the activations; see bert_losses) and
// the gradient of loss_scale * (their sum), added to weights.gradients. After bert_forward on the
// same batch with the same dropout; the activations are used up by it. A span model reads the
// batch's start_positions and end_positions; a classifier its labels, or with one output, which is
// a regression, its targets. The pre-training head reads the labels as the next-sentence
// prediction's (0: it is the next, 1: another) and the batch's masked tokens.
//
// `sink`, unless it is NULL, is called for each range of the flat gradient (the index of
// param_range) once nothing more will be added to it: the head's, those of the layers from the last
// to the first, then the rest.
struct bert_sink {
    void (*ready)(void *context, size_t range);
    void *context;
};
void bert_backward(const struct bert *model, struct bert_activations *activations,
                   const struct batch *batch, const struct bert_dropout *dropout, float loss_scale,
                   const struct bert_sink *sink);
const float *bert_losses(const struct bert_activations *activations);
// The pre-training head's losses of the masked tokens, [M] in device memory; bert_losses are those
// of the next-sentence prediction. Their gradient is that of loss_scale * masked_weight * (their
// sum).
const float *bert_masked_losses(const struct bert_activations *activations);

// In inference, after bert_forward of the pre-training head: the losses of the batch's masked
// tokens (bert_masked_losses), and for each 1 where its word is the first of those with the largest
// logit (bert_masked_hits, [M] in device memory).
void bert_decode(const struct bert *model, struct bert_activations *activations,
                 const struct batch *batch);
const unsigned char *bert_masked_hits(const struct bert_activations *activations);

// Where a number that is not finite first appears in the forward pass on `batch`: 0 the embeddings,
// 1 to L the layers, L + 1 the logits; -1 nowhere. For training activations, after bert_forward and
// also after bert_backward; they are used up by it. Slow: for a message about a run that has
// failed.
int64_t bert_first_nonfinite(const struct bert *model, struct bert_activations *activations,
                             const struct batch *batch);

// Needed floating-point operations of the encoder for one sequence of length S, forward only:
// L * (2 S (4 H^2 + 2 H I) + 4 S^2 H); training needs three times that.
double bert_forward_flops(const struct bert_config *config, int64_t length);
// The same of the pre-training head for M masked tokens: 2 M (H^2 + H V); 0 of other heads.
double bert_masked_flops(const struct bert *model, int64_t masked);

#endif
