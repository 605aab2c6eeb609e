// SPDX-License-Identifier: Apache-2.0
// Checkpoints of the original programs from which a run can resume: ckpt_<step>.pt of NVIDIA's and
// Habana's scripts, model.ckpt-<step> of Google's and Intel's, and the folders of transformers'
// Trainer (trainer_checkpoint.h).
//
// A ckpt_<step>.pt that Berth wrote (foreign_write.h) restores everything. From one of another
// program, weights and step are read and, of NVIDIA's, Habana's and the Trainer's, the optimizer's
// moments. model.ckpt has slots of another optimizer, so moments and bias correction start from
// zero. Dropout, the order of data within the epoch, and the loss scale are Berth's own and start
// over.
#ifndef BERTH_TRAIN_FOREIGN_CHECKPOINT_H
#define BERTH_TRAIN_FOREIGN_CHECKPOINT_H

#include "core/error.h"
#include "core/log.h"
#include "train/checkpoint/checkpoint.h"

#include <stdint.h>

// Sets *file (memory_free) to the file of weights that `path` denotes, and *step to its step;
// "model.ckpt-5" means model.ckpt-5.index. NULL and -1 if there is no such checkpoint.
enum berth_status foreign_locate(const char *path, char **file, int64_t *step,
                                 struct berth_error *error);
// Finds the one with the highest step in a folder, or the one of step `wanted` (-1: any); *file is
// NULL if there is none.
enum berth_status foreign_find(const char *folder, int64_t wanted, char **file, int64_t *step,
                               struct berth_error *error);

// Whether a file with this name is such a checkpoint or a part of one.
int foreign_is_name(const char *name);

// Reads state and progress from such a file or folder, and warns of what is not restored.
// BERTH_CONFIG as progress_restore.
enum berth_status foreign_read(const struct checkpoint_content *content, const char *file,
                               int64_t step, const struct berth_log *log,
                               struct berth_error *error);

#endif
