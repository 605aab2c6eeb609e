// SPDX-License-Identifier: Apache-2.0
// The names in an output folder: checkpoints by step, and the temporary folders beside them.
#ifndef BERTH_TRAIN_CHECKPOINT_LIST_H
#define BERTH_TRAIN_CHECKPOINT_LIST_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

#define CHECKPOINT_TEMPORARY ".tmp-checkpoint-" // prefix of folders being written or removed

// Steps of the checkpoint-<step> folders, ascending; memory_free(*steps).
enum berth_status checkpoint_list(const char *output_dir, int64_t **steps, size_t *count,
                                  struct berth_error *error);

// <output_dir>/checkpoint-<step>, newly allocated; NULL when memory is out.
char *checkpoint_path(const char *output_dir, int64_t step);
// <output_dir>/.tmp-checkpoint-<step>-<purpose>, newly allocated; NULL when memory is out.
char *checkpoint_temporary_path(const char *output_dir, int64_t step, const char *purpose);

// 1 when the name is that of something half-written: a temporary folder, or a temporary file of
// core/file.h.
int checkpoint_is_temporary(const char *name);

#endif
