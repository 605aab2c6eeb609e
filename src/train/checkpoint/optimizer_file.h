// SPDX-License-Identifier: Apache-2.0
// optimizer.safetensors: the two moments of every parameter, f32, as "exp_avg.<name>" and
// "exp_avg_sq.<name>" with the parameter's shape. Leaves out the number of updates
// (trainer_state.json).
//
// The file is complete even if each process holds only a part of the moments (partition.h): one
// process creates it, each writes its own elements, and any number of processes can read it, each
// its own part.
#ifndef BERTH_TRAIN_OPTIMIZER_FILE_H
#define BERTH_TRAIN_OPTIMIZER_FILE_H

#include "core/error.h"
#include "train/optimizer/state.h"

// Creates the file without the moments.
enum berth_status optimizer_file_make(const struct param_table *table, const char *folder,
                                      struct berth_error *error);
// Writes the moments that `state` holds to an existing file.
enum berth_status optimizer_file_fill(const struct state *state, const char *folder,
                                      struct berth_error *error);
// Reads the moments that `state` holds. A missing tensor, or another shape or type, is
// BERTH_BAD_DATA, naming file, tensor and shapes.
enum berth_status optimizer_file_read(struct state *state, const char *folder,
                                      struct berth_error *error);

#endif
