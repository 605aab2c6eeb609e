// SPDX-License-Identifier: Apache-2.0
// The job "fine-tune on SQuAD" from settings to files: read, plan, train, evaluate, write.
#ifndef BERTH_TRAIN_FINETUNE_H
#define BERTH_TRAIN_FINETUNE_H

#include "core/device.h"
#include "core/error.h"
#include "core/log.h"

// Gives the machine's peak in FLOP/s for matrix products of that dtype, or NaN. Passed in because
// the training room knows no device's insides. May be NULL.
struct peak_probe {
    double (*measure)(struct device *device, enum dtype dtype);
};

// As berth_finetune_squad.
enum berth_status finetune_squad(const struct berth_config *config, struct berth_log log,
                                 const volatile int *stop, const struct peak_probe *peak,
                                 struct berth_run_result *result, struct berth_error *error);

#endif
