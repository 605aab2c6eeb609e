// SPDX-License-Identifier: Apache-2.0
// The buffers of one batch: which values the forward pass stores, which of them the backward pass
// reads, and which buffers share memory. Private to pass.h and activations.c. doc/develop/math.md
// has the formulas and lists what is kept.
#ifndef BERTH_MODEL_ACTIVATIONS_H
#define BERTH_MODEL_ACTIVATIONS_H

#include "model/bert.h"

// The output of a layer norm (or the embedding). In f32 `y_compute` is empty: y serves both
// purposes.
struct norm_buffers {
    struct mat y;         // [R, H] f32
    struct mat y_compute; // [R, H]
    struct mat xhat;      // [R, H]; empty in inference
    float *rstd;          // [R]; NULL in inference
    struct mat sum;       // [R, H] f32: input of the norm; empty if nothing reads it
};

struct layer_buffers {
    struct mat qkv;     // [R, 3H]
    struct mat context; // [R, H]
    float *lse;         // [R * A]; NULL in inference
    uint16_t *masks;    // of attention's dropout (device/device.h); NULL: not kept
    struct norm_buffers attention_norm;
    struct mat u;    // [R, I] input of the GELU; empty in inference
    struct mat gelu; // [R, I] its output
    struct norm_buffers output_norm;
    // Gradients. They reuse the memory of activations that are no longer needed.
    struct mat du;       // [R, I] in the memory of gelu
    struct mat dcontext; // [R, H] in the memory of the attention norm's output
    struct mat dqkv;     // [R, 3H] in the memory of u (and gelu)
};

struct bert_head;

// The outputs of pooler and classifier, one row per sequence; C is S rounded up as in batch.h.
struct class_buffers {
    struct mat first;   // [C, H] f32: the first tokens' rows of the last output
    struct mat u;       // [C, H] f32: input of an activation other than tanh; empty in inference
    struct mat active;  // [C, H] f32: the activation of the dense layer's output
    struct mat pooled;  // [C, H] f32: after dropout
    struct mat dpooled; // [C, H] f32
};

// The outputs of the transform of a head that decodes, one row per masked token (C is M rounded
// up), and of its decoder. The decoder processes DECODER_ROWS rows at a time, because a row of
// logits is as long as the vocabulary.
#define DECODER_ROWS 1536

struct decoder_buffers {
    struct mat masked;        // [C, H] f32: the masked tokens' rows of the last output
    struct mat u, gelu;       // [C, E] f32
    struct mat dmasked;       // [C, H] f32, in the memory of gelu
    struct norm_buffers norm; // of gelu
    struct mat dnorm;         // [C, E] f32: of norm.y, then of gelu, then of u
    struct mat logits;        // [DECODER_ROWS, V] f32
    struct mat dlogits;       // [DECODER_ROWS, V]; in f32 the memory of logits
    float *losses;            // [C]
    unsigned char *hits;      // [C]
};

// What the token head's training needs; C is the number of labelled tokens rounded up.
struct token_buffers {
    struct mat logits; // [C, K] f32: those of the labelled tokens, then their gradients
    float *losses;     // [C]
};

// What the losses of embeddings need: vectors of one length, their gradients, and of a group the
// cosines of its first texts and its other texts, and those of its second and its first texts,
// which become their gradients.
struct embedding_buffers {
    struct mat unit, dunit; // [C, H] f32
    float *lengths;         // [C]
    float *cosines;         // [group * (texts - 1) * group]
    float *reverse_cosines; // [group * group]
};

// bert_activations_new lays all matrices out in one block of memory, and nobody changes where they
// are until bert_activations_free. A forward pass writes the values, and the backward pass of the
// same batch reads them and puts gradients in their place, so nothing of an earlier batch is read.
// What bert_activations_check says is true of every layout in memory.
struct bert_activations {
    const struct bert_head *head;
    enum bert_keep keep;
    int pre_layer_norm;
    int has_first_input;
    int64_t max_rows, max_sequences;
    struct norm_buffers embedding; // [R, E]
    // The first layer's input where it is not the embedding: the first norm of a pre-layer-norm
    // model, or the projection of embeddings with fewer columns, which has no xhat and rstd.
    struct norm_buffers first_input;
    struct layer_buffers *layers; // [L]
    struct mat sublayer;          // [R, H] f32: input of the layer norms
    // Of the last layer, if the head reads only some rows (core/batch.h's batch_head): the context,
    // then its gradient; the residual stream, then its gradient. Otherwise empty.
    struct mat head_context; // [K, H]
    struct mat head_stream;  // [K, H] f32
    struct mat logits;       // [R, outputs] or [C, outputs] f32; see bert_logits
    struct mat dlogits;      // same shape as logits
    // [R, H] f32: the input of a head for each token, after a dropout; empty in inference, and
    // where the head has none.
    struct mat dropped;
    struct class_buffers pooler;             // empty unless the head reads first rows alone
    struct token_buffers tokens;             // empty unless this is the token head
    struct decoder_buffers decoder;          // empty unless the head decodes
    struct embedding_buffers embedding_loss; // empty unless embeddings are trained
    float *losses;                           // [L, S], L: bert_loss_count
    // Of embeddings: the row of the batch's first vector in logits and dlogits, and whether it is a
    // piece of a group, whose gradients are there (bert.h).
    int64_t piece_first;
    int is_piece;
    // Gradients of the current layer. They reuse the memory of the forward pass's temporaries,
    // which the backward pass does not need.
    struct mat dresidual;  // [R, H] f32: of the residual stream
    struct mat dbranch;    // [R, H] f32: the parallel branch's contribution
    struct mat dsublayer;  // [R, H]: of `sublayer`
    struct mat dembedding; // [R, E] f32: of an embedding that a projection reads; else empty
};

// The operand of the matrix products that read a norm's output.
static inline struct mat norm_operand(const struct norm_buffers *norm) {
    return mat_is_empty(norm->y_compute) ? norm->y : norm->y_compute;
}

// The residual stream at a norm: its output, or in a pre-layer-norm model its input.
static inline struct mat norm_stream(const struct bert_activations *activations,
                                     const struct norm_buffers *norm) {
    return activations->pre_layer_norm ? norm->sum : norm->y;
}

// NULL, or what is not true of a layout in memory (core/check.h).
const char *bert_activations_check(const struct bert_activations *activations, int64_t layer_count);

#endif
