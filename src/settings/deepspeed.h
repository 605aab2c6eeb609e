// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's JSON configuration with its semantics, mapped to the option table: a row's
// `deepspeed` path names the key that sets it.
//
// - A setting on the command line takes precedence; a conflict is logged. With a recipe whose
//   program does the opposite, the file takes precedence (recipe_prefers_file).
// - An unknown key is an error that suggests the nearest known one. So is max_grad_norm among the
//   optimizer's parameters (use gradient_clipping), and fp16 together with bf16.
// - "auto", from transformers' integration, leaves the setting unchanged.
// - Without a scheduler the rate is constant, unless the command line names a schedule or a
//   warm-up. A file with "auto" is for the Trainer, whose schedule then applies.
// - fp16 runs as bf16 unless the settings name a GPU or fp16, which is logged, with the file's loss
//   scaling, dynamic by default. Keys for several processes are type-checked and logged.
// - TensorBoard's folder is not a setting of a job: the reporter reads it (deepspeed_logging_dir).
//   Leaves out, and refuses by name: optimizers other than Adam, AdamW and Lamb, and the schedules
//   OneCycle and LRRangeTest.
#ifndef BERTH_SETTINGS_DEEPSPEED_H
#define BERTH_SETTINGS_DEEPSPEED_H

#include "settings/settings.h"

// Sets *config to the file's values. BERTH_CONFIG (BERTH_BAD_DATA for invalid JSON), naming file
// and key.
enum berth_status deepspeed_apply(struct settings *config, const char *path,
                                  const struct berth_log *log, struct berth_error *error);

// The folder in the file's section "tensorboard" (memory_free); NULL if it is disabled. Types are
// checked by deepspeed_apply.
enum berth_status deepspeed_logging_dir(const char *path, char **folder, struct berth_error *error);

#endif
