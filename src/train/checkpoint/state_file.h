// SPDX-License-Identifier: Apache-2.0
// The files of a checkpoint with the state, all f32: model.safetensors with the weights, and
// optimizer.safetensors with the two moments of every parameter as "exp_avg.<name>" and
// "exp_avg_sq.<name>" in the parameter's shape; the weights have the architecture's names, the
// moments ours, which are BERT's. Leaves out reading weights (train/engine/inputs.h)
// and the number of updates (trainer_state.json).
//
// A file is complete even if each process holds only a part of the state (partition.h): one process
// creates it, each writes the elements that it owns, and any number of processes can read it.
#ifndef BERTH_TRAIN_STATE_FILE_H
#define BERTH_TRAIN_STATE_FILE_H

#include "core/error.h"
#include "format/tensors/tensor_file.h"
#include "train/optimizer/state.h"

enum state_file { STATE_FILE_WEIGHTS, STATE_FILE_MOMENTS, STATE_FILES };

// "model.safetensors", "optimizer.safetensors"
const char *state_file_name(enum state_file file);

// Creates the file in an existing folder, with zeros for all elements. Filled by all owners, the
// file of weights is identical to that of folder_write_weights.
enum berth_status state_file_make(enum state_file file, const struct param_table *table,
                                  const char *folder, struct berth_error *error);
// Writes the elements that this rank owns to an existing file, and syncs it.
enum berth_status state_file_fill(enum state_file file, const struct state *state,
                                  const char *folder, struct berth_error *error);
// Reads the moments that `state` holds. A missing tensor, or another shape or type, is
// BERTH_BAD_DATA, naming file, tensor and shapes.
enum berth_status state_file_read_moments(struct state *state, const char *folder,
                                          struct berth_error *error);

// The moments in a file of another format: the tensors of all first moments, then of all second
// ones, in the order of the table; NULL: zeros. A tensor may have more elements than its parameter;
// the excess is ignored.
struct moments_source {
    const struct tensor_file *file;
    const struct tensor_entry *const *entries; // [2 * table->count]
};
enum berth_status state_file_import_moments(struct state *state,
                                            const struct moments_source *source,
                                            struct berth_error *error);

#endif
