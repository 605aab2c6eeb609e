// SPDX-License-Identifier: Apache-2.0
// optimizer.safetensors: the two moments of every parameter, f32, as "exp_avg.<name>" and
// "exp_avg_sq.<name>" with the parameter's shape. The update's number is in trainer_state.json.
//
// The file is whole whatever part of the moments a process holds (partition.h): one process makes
// it, each writes the elements that it holds, and any number of processes reads it, each what it
// holds then.
#ifndef BERTH_TRAIN_OPTIMIZER_FILE_H
#define BERTH_TRAIN_OPTIMIZER_FILE_H

#include "core/error.h"
#include "train/optimizer/state.h"

// The file without the moments.
enum berth_status optimizer_file_make(const struct param_table *table, const char *folder,
                                      struct berth_error *error);
// The moments that `state` holds, into a file that was made.
enum berth_status optimizer_file_fill(const struct state *state, const char *folder,
                                      struct berth_error *error);
// Missing tensors and other shapes or types are BERTH_BAD_DATA naming file, tensor and shapes.
enum berth_status optimizer_file_read(struct state *state, const char *folder,
                                      struct berth_error *error);

#endif
