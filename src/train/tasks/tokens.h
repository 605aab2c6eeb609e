// SPDX-License-Identifier: Apache-2.0
// What the task "tokens" has in common with tagging in memory.
#ifndef BERTH_TRAIN_TASKS_TOKENS_H
#define BERTH_TRAIN_TASKS_TOKENS_H

#include "berth.h"
#include "data/tagging/word_windows.h"

// How sentences are cut into windows: they begin half of their length apart, or as far as
// doc_stride says if it was given.
struct word_window_rule tokens_window_rule(const struct berth_config *config,
                                           const struct tokenizer *tokenizer);

// The class with the largest logit; of equal ones the first.
int32_t tokens_best_class(const float *logits, size_t classes);

#endif
