// SPDX-License-Identifier: Apache-2.0
// optimizer.safetensors: the two moments of every parameter, f32, as "exp_avg.<name>" and
// "exp_avg_sq.<name>" with the parameter's shape. The update's number is in trainer_state.json.
#ifndef BERTH_TRAIN_OPTIMIZER_FILE_H
#define BERTH_TRAIN_OPTIMIZER_FILE_H

#include "core/error.h"
#include "train/state.h"

enum berth_status optimizer_file_write(const struct state *state, const char *folder,
                                       struct berth_error *error);
// Missing tensors and other shapes or types are BERTH_BAD_DATA naming file, tensor and shapes.
enum berth_status optimizer_file_read(struct state *state, const char *folder,
                                      struct berth_error *error);

#endif
