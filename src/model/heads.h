// SPDX-License-Identifier: Apache-2.0
// The heads on top of the encoder: one row for each head of params.h, with its forward and backward
// pass. bert.c calls the row of the model's head after the last layer, and before the backward pass
// of that layer; nothing else knows which head a model has.
#ifndef BERTH_MODEL_HEADS_H
#define BERTH_MODEL_HEADS_H

#include "model/bert.h"

struct pass;

struct bert_head {
    int per_token; // 1: one row of logits per token; 0: one per sequence
    // 1: it reads no rows of the last layer's output but those of core/batch.h's batch_head. An
    // embedding reads these where its pooling reads the first token.
    int reads_some;
    // Computes the logits from the last layer's output.
    void (*forward)(const struct pass *pass);
    // Writes the losses to the activations and adds the gradients of loss_scale * (their sum) to
    // those of the head's weights; dresidual becomes the gradient of the last layer's output. NULL:
    // the head cannot be trained.
    void (*backward)(const struct pass *pass, float loss_scale);
};

// The embedding head (embedding_head.c): the pooled rows of each sequence, and in training the loss
// of examples of texts (config.h's bert_objective). A group's losses need the vectors of all its
// texts, which one batch has, or several ones: its pieces (bert.h).
void embedding_forward(const struct pass *pass);
void embedding_backward(const struct pass *pass, float loss_scale);

const struct bert_head *bert_head_of(enum param_head head);
// Whether the model's head reads only some rows (reads_some).
int bert_head_reads_some(const struct bert *model);

#endif
