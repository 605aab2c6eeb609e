// SPDX-License-Identifier: Apache-2.0
// The job "fine-tune on SQuAD" from settings to files: read, plan, train, evaluate, write.
#ifndef BERTH_TRAIN_FINETUNE_H
#define BERTH_TRAIN_FINETUNE_H

#include "core/error.h"
#include "core/log.h"

// As berth_finetune_squad.
enum berth_status finetune_squad(const struct berth_config *config, struct berth_log log,
                                 const volatile int *stop, struct berth_run_result *result,
                                 struct berth_error *error);

#endif
