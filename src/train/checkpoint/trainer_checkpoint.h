// SPDX-License-Identifier: Apache-2.0
// Checkpoints of transformers' Trainer, from which a run can resume: folders with the model,
// trainer_state.json and optimizer.pt. foreign_checkpoint.h reads weights and moments.
//
// Leaves out the Trainer's random numbers and loss scale (rng_state.pth, scaler.pt), which mean
// nothing here, its schedule (scheduler.pt), which this run's settings say again, and its best
// score, whose metric it does not name.
#ifndef BERTH_TRAIN_TRAINER_CHECKPOINT_H
#define BERTH_TRAIN_TRAINER_CHECKPOINT_H

#include "core/error.h"
#include "core/log.h"
#include "format/json/json.h"
#include "format/tensors/tensor_file.h"
#include "model/weights.h"
#include "train/checkpoint/checkpoint.h"

#include <stdint.h>

// Sets *step to the number of updates of such a checkpoint; -1: the folder is none. Berth's own,
// which have a manifest.json, or keys of their own and no optimizer.pt, are none. A read error is
// BERTH_IO.
enum berth_status trainer_find_step(const char *folder, int64_t *step, struct berth_error *error);

struct trainer_checkpoint {
    const char *folder; // borrowed
    json *state;        // trainer_state.json
    struct tensor_file optimizer;
    int has_optimizer; // else there is no optimizer.pt
};
enum berth_status trainer_open(struct trainer_checkpoint *checkpoint, const char *folder,
                               struct berth_error *error);
void trainer_close(struct trainer_checkpoint *checkpoint);

// Restores the log and the work done so far. BERTH_CONFIG if the weights are not those of a model
// of this run's kind, or if the epoch after `step` updates was another one, so that this run's
// updates have another size. Warns of another learning rate of the next update, and notes other
// settings of the optimizer.
enum berth_status trainer_restore(const struct trainer_checkpoint *checkpoint,
                                  const struct checkpoint_content *content,
                                  const struct weights *weights, int64_t step,
                                  const struct berth_log *log, struct berth_error *error);

#endif
