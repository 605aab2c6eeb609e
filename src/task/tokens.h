// SPDX-License-Identifier: Apache-2.0
// What the task "tokens" shares with tagging texts in memory (tag.c), and its details for
// reports.
#ifndef BERTH_TASK_TOKENS_H
#define BERTH_TASK_TOKENS_H

#include "core/calls.h"
#include "core/log.h"
#include "data/tagging/word_windows.h"

// How sentences are split into windows: windows begin half their length apart, or doc_stride tokens
// if that was given.
struct word_window_rule tokens_window_rule(const struct berth_config *config,
                                           const struct tokenizer *tokenizer);

// The result of an evaluation: each word's class and the model's probability of it, NaN for a word
// without tokens. [dataset->word_count]
struct tokens_result {
    const struct tagged_dataset *dataset; // with tags
    const char *const *names;             // [classes]
    size_t classes;
    const int32_t *predicted;
    const float *probabilities;
};

// Logs the confusion matrix and sample words.
enum berth_status tokens_details_log(const struct tokens_result *found, int64_t step,
                                     const struct berth_log *log, struct berth_error *error);

#endif
