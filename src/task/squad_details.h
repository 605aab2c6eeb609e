// SPDX-License-Identifier: Apache-2.0
// What reports show about an evaluation on SQuAD besides its scores.
#ifndef BERTH_TRAIN_SQUAD_DETAILS_H
#define BERTH_TRAIN_SQUAD_DETAILS_H

#include "core/error.h"
#include "core/log.h"
#include "metrics/squad_answers.h"

#include <stdint.h>

// Logs sample answers, and with `has_odds` the scores by the threshold for "no answer".
// results[dataset->count].
enum berth_status squad_details_log(const struct squad_dataset *dataset,
                                    const struct squad_result *results, int has_odds, int64_t step,
                                    const struct berth_log *log, struct berth_error *error);

#endif
