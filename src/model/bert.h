// SPDX-License-Identifier: Apache-2.0
// BERT with one of the heads of params.h: forward and backward over a packed batch, as a sequence
// of device operations (layer norms after the sub-layers or before them; the formulas are in
// doc/develop/math.md).
#ifndef BERTH_MODEL_BERT_H
#define BERTH_MODEL_BERT_H

#include "core/arena.h"
#include "core/batch.h"
#include "core/error.h"
#include "device/device.h"
#include "model/config.h"
#include "model/int8.h"
#include "model/params.h"

// The parameter buffers of a model, in device memory and with the layout of the table.
struct bert_weights {
    const float *master; // f32 [total]
    const void *compute; // compute dtype [matrix_count]; in f32 the same memory as master
    float *gradients;    // f32 [total]; NULL for inference
    // The layers' matrices and the word table in int8, which master and compute then lack. NULL:
    // not in int8.
    const struct int8_weights *int8;
    int are_packed; // 1: bert_pack was called
};

struct bert_dropout {
    uint64_t seed;
    uint32_t step;
    double hidden_probability; // 0: no dropout
    double attention_probability;
    double head_probability; // of the pooled output, or of the token head's input
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
    struct bert_source source;  // need NULL: the weights are always there
    int64_t max_masked;         // maximum number of masked or labelled tokens in a batch
    int64_t max_length;         // maximum length of a sequence in training
    double attention_dropout;   // probability in training; 0: its masks need no memory
    struct param_frozen frozen; // the backward pass leaves their gradients 0
    int reads_rows; // inference with a head that pools: 1: the logits are the rows themselves
    // For training on classes; without weights, the plain cross entropy.
    struct class_weighting class_weighting;
    float positive_weight; // for training on several labels: of each label that applies
};

// Activations of one batch, carved from an arena. Holds views only.
struct bert_activations;

// What the forward pass keeps for the backward pass.
enum bert_keep {
    BERT_KEEP_NOTHING, // inference
    BERT_KEEP_ALL,
    BERT_RECOMPUTE_LAYERS // gradient checkpointing: only the input of each layer's last norm; the
                          // rest of the layer is recomputed, with the same numbers
};

// For inference: packs the matrices of the layers that the device can pack (device.h), if any. Then
// the caller sets weights.are_packed to 1.
void bert_pack(const struct bert *model);

// The maximum number of rows of the last layer's output that the head reads (core/batch.h's
// batch_head) of a batch of that extent; 0: it reads all. If a batch has a batch_head, the last
// layer computes only these rows after its attention.
int64_t bert_head_rows(const struct bert *model, int64_t tokens, int64_t sequences, int64_t masked);

// The number of rows of logits in the decoder's buffer for a batch with `masked` masked tokens.
int64_t bert_decoder_rows(int64_t masked);

// Takes the activations of batches of up to `max_rows` rows and `max_sequences` sequences from the
// arena. If the arena only measures, the result can only be freed. The struct itself is on the heap
// (bert_activations_free). NULL: out of memory.
struct bert_activations *bert_activations_new(const struct bert *model, int64_t max_rows,
                                              int64_t max_sequences, enum bert_keep keep,
                                              struct arena *device_arena);
void bert_activations_free(struct bert_activations *activations);

// Computes the logits (f32, in the activations; see bert_logits). dropout NULL: none.
void bert_forward(const struct bert *model, struct bert_activations *activations,
                  const struct batch *batch, const struct bert_dropout *dropout);
// The output: [row_count, 2] for a span model, [row_count, num_labels] for a token classifier;
// [batch_round(S), num_labels] for a classifier; [batch_round(S), 2] for the pre-training head,
// [batch_round(S), 0] for masked tokens alone, whose decoder logits are computed piecewise and not
// kept; [batch_round(S), H] for embeddings. Without a head, the last layer's output, in inference
// only: [row_count, H], or [batch_round(S), H] if only first rows are read.
struct mat bert_logits(const struct bert *model, const struct bert_activations *activations,
                       const struct batch *batch);

// The number of logits of a sequence of that length.
int64_t bert_logit_count(const struct bert *model, int64_t length);

// The rows of the logits that belong to a sequence: one per token, or a single one.
struct bert_rows {
    int64_t first, count;
};
struct bert_rows bert_logit_rows(const struct bert *model, const struct batch *batch,
                                 int64_t sequence);

// Writes the loss of each sequence to losses[S] (device memory, in the activations; see
// bert_losses) and adds the gradient of loss_scale * (sum of the losses) to weights.gradients. Call
// it after bert_forward on the same batch with the same dropout; it overwrites the activations. A
// span model reads the batch's start_positions and end_positions. A classifier reads its labels or,
// as a regression with one output, its targets. The pre-training head reads the labels as those of
// the next-sentence prediction (0: the next sentence, 1: another one) and the batch's masked
// tokens; a token classifier reads the labels of those. For it, and for masked tokens alone, the
// losses of the sequences are 0.
//
// `listener`, unless it is NULL, is called for each range of the flat gradient (the index of
// param_range) once nothing more will be added to it: the head's, those of the layers from the last
// to the first, then the rest.
struct gradient_listener {
    void (*ready)(void *context, size_t range);
    void *context;
};
void bert_backward(const struct bert *model, struct bert_activations *activations,
                   const struct batch *batch, const struct bert_dropout *dropout, float loss_scale,
                   const struct gradient_listener *listener);
const float *bert_losses(const struct bert_activations *activations, int64_t index);

// Embeddings may have several losses, from index 0 on: the loss of a batch is the sum over them of
// bert_loss_weight times the losses of all sequences. Other heads have one loss with the weight 1.
int64_t bert_loss_count(const struct bert *model);
double bert_loss_weight(const struct bert *model, const struct batch *batch, int64_t index);

// A group of texts may be larger than a batch: it is trained in pieces, with an objective of
// BERT_NEGATIVES. First each piece has a forward pass; the rows of its vectors begin at `first`.
// Then bert_group_losses computes the losses of all `sequences` texts and the gradients of their
// vectors. Last, each piece has a forward pass again and a backward pass, which reads these
// gradients. first -1: batches are whole groups again.
void bert_set_piece(struct bert_activations *activations, int64_t first);
void bert_group_losses(const struct bert *model, struct bert_activations *activations,
                       int64_t objective, int64_t sequences, float loss_scale);
// The losses of the masked tokens of a head that decodes, or of the labelled ones of a token
// classifier, [M] in device memory; bert_losses of the pre-training head are those of the
// next-sentence prediction. Their gradient is that of loss_scale * masked_weight * (their sum).
const float *bert_masked_losses(const struct bert_activations *activations);

// For inference, after bert_forward of a head that decodes: computes the losses of the batch's
// masked tokens (bert_masked_losses) and whether each was predicted correctly: its word is the
// first one with the largest logit (bert_masked_hits, [M] in device memory, 0 or 1).
void bert_decode(const struct bert *model, struct bert_activations *activations,
                 const struct batch *batch);
const unsigned char *bert_masked_hits(const struct bert_activations *activations);

// Likewise: computes the logits [count, V] (f32, device memory) of the masked tokens [first, first
// + count) over the vocabulary. `first` is a multiple of BATCH_ROUNDING, and `count` at most
// bert_decoder_rows. They are valid until the next call or pass. The rows' stride is V, on a GPU
// rounded up to BERT_LOGITS_UNIT.
#define BERT_LOGITS_UNIT 8
struct mat bert_decode_logits(const struct bert *model, struct bert_activations *activations,
                              const struct batch *batch, int64_t first, int64_t count);

// Finds where the forward pass on `batch` first yields a number that is not finite: 0: the
// embeddings, 1 to L: the layers, L + 1: the logits, -1: nowhere. Works on training activations,
// after bert_forward or bert_backward, and overwrites them. Slow; for the error message of a failed
// run.
int64_t bert_first_nonfinite(const struct bert *model, struct bert_activations *activations,
                             const struct batch *batch);

// The floating-point operations that the encoder needs for one sequence of length S, forward only:
// L * (2 S (4 H^2 + 2 H I) + 4 S^2 H). Training needs three times as many.
double bert_forward_flops(const struct bert_config *config, int64_t length);
// What the head adds to that for a batch with M masked tokens: 2 M (H E + E V) if it decodes, minus
// 2 (H^2 + 2 H I) for each row of the last layer's output that it does not read.
double bert_head_flops(const struct bert *model, int64_t tokens, int64_t sequences, int64_t masked);

#endif
