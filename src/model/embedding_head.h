// SPDX-License-Identifier: Apache-2.0
// The embedding head: the pooled rows of each sequence, and in training the loss of examples of
// texts (config.h's bert_objective). A group's losses need the vectors of all its texts, which one
// batch has, or several ones: its pieces (bert.h).
#ifndef BERTH_MODEL_EMBEDDING_HEAD_H
#define BERTH_MODEL_EMBEDDING_HEAD_H

#include "model/pass.h"

void embedding_forward(const struct pass *pass);
void embedding_backward(const struct pass *pass, float loss_scale);

#endif
