// SPDX-License-Identifier: Apache-2.0
// The checkpoints of the original programs that a run may go on from: ckpt_<step>.pt of NVIDIA's
// and Habana's scripts, model.ckpt-<step> of Google's and Intel's.
//
// Their weights and their step are taken. Their moments are left, since they lie in the order of
// another optimizer's groups (ckpt) or in slots of another optimizer (model.ckpt): they begin at
// zero, and their bias corrections with them. So do dropout, the order of the data within the
// step's epoch and the loss scale, which are Berth's own.
#ifndef BERTH_TRAIN_ORIGINAL_H
#define BERTH_TRAIN_ORIGINAL_H

#include "core/error.h"
#include "core/log.h"
#include "train/checkpoint/checkpoint.h"

#include <stdint.h>

// The file of weights that `path` names, in *file (memory_free), and its step; "model.ckpt-5"
// stands for model.ckpt-5.index. NULL and -1 where it is no such checkpoint or not there.
enum berth_status original_at(const char *path, char **file, int64_t *step,
                              struct berth_error *error);
// The one of the highest step in a folder, or of the step `wanted` (-1: any); *file is NULL without
// one.
enum berth_status original_find(const char *folder, int64_t wanted, char **file, int64_t *step,
                                struct berth_error *error);

// Fills state and progress from such a file, and warns of what is not carried over.
enum berth_status original_read(const struct checkpoint_content *content, const char *file,
                                int64_t step, const struct berth_log *log,
                                struct berth_error *error);

#endif
