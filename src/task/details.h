// SPDX-License-Identifier: Apache-2.0
// What an HTML report shows about an evaluation besides its scores: sample answers and scores by
// threshold for questions, confusions and sample words for tags. The tasks log these as records;
// page/html_results.c draws them.
#ifndef BERTH_TASK_DETAILS_H
#define BERTH_TASK_DETAILS_H

#include "core/error.h"
#include "core/log.h"
#include "data/tagging/tagged.h"
#include "metrics/squad_answers.h"

#include <stdint.h>

// Logs sample answers, and with `has_odds` the scores by the threshold for "no answer".
// results[dataset->count].
enum berth_status squad_details_log(const struct squad_dataset *dataset,
                                    const struct squad_result *results, int has_odds, int64_t step,
                                    const struct berth_log *log, struct berth_error *error);

// --- tags (tokens_details.c)
// ----------------------------------------------------------------------

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
