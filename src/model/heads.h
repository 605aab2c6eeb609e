// SPDX-License-Identifier: Apache-2.0
// What stands on the encoder: one row for each head of params.h.
#ifndef BERTH_MODEL_HEADS_H
#define BERTH_MODEL_HEADS_H

#include "model/params.h"

struct pass;

struct bert_head {
    int per_token; // 1: a row of logits for each token, 0: one for each sequence
    // From the last layer's output to the logits.
    void (*forward)(const struct pass *pass);
    // Losses into the activations, gradients of loss_scale * (their sum) into the head's weights
    // and, for the last layer's output, into dresidual. NULL: not to be trained.
    void (*backward)(const struct pass *pass, float loss_scale);
};

const struct bert_head *bert_head_of(enum param_head head);

#endif
