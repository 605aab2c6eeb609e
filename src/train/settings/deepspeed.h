// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's JSON configuration with its semantics, mapped onto the option
// table: a row's `deepspeed` path says which key sets it.
//
// - A setting given on the command line wins; a conflict is logged.
// - An unknown key is an error that names the nearest known one; so is max_grad_norm among the
//   optimizer's parameters (gradient_clipping is meant) and fp16 together with bf16.
// - "auto", of transformers' integration, leaves the setting as it is: the run's own.
// - Without a scheduler the rate is constant, unless the command line names a schedule or a
// warm-up;
//   a file with "auto" is the Trainer's, and so is its schedule then.
// - fp16 runs as bf16 on the CPU and says so, with the file's loss scaling, which is dynamic by
// default.
//   Keys that need several processes are checked for their types and noted.
// - TensorBoard's folder is no setting of a job: the reporter asks for it (deepspeed_logging_dir).
// Leaves out, and refuses by name: optimizers other than Adam, AdamW and Lamb, and the schedules
// OneCycle and LRRangeTest.
#ifndef BERTH_TRAIN_DEEPSPEED_H
#define BERTH_TRAIN_DEEPSPEED_H

#include "core/error.h"
#include "core/log.h"

// Changes *config by the file's values. Errors are BERTH_CONFIG (BERTH_BAD_DATA for invalid JSON),
// naming file and key.
enum berth_status deepspeed_apply(struct berth_config *config, const char *path,
                                  const struct berth_log *log, struct berth_error *error);

// The folder that the file's section "tensorboard" asks for (memory_free); NULL where it is off.
// Types are deepspeed_apply's to check.
enum berth_status deepspeed_logging_dir(const char *path, char **folder, struct berth_error *error);

#endif
