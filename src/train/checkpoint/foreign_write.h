// SPDX-License-Identifier: Apache-2.0
// Writes ckpt_<step>.pt, a checkpoint in the format of NVIDIA's and Habana's run_pretraining, next
// to each of Berth's own (--save_format nvidia). It is a dictionary:
//
//   model        the weights in fp32, in the order and under the names of NVIDIA's module; rows of
//                zeros pad the vocabulary to a multiple of 8
//   optimizer    FusedLAMB's state: `state`, the moments of each parameter by its number, and
//                `param_groups`, of which the first decays
//   files        which of the shards the next update begins with, and their paths in the order of
//                the epoch
//   epoch        the epoch, from 0
//   data_loader  None
//   berth        trainer_state.json as bytes, with which Berth resumes exactly; others ignore it
//
// It is made from the files of Berth's checkpoint, one tensor at a time. foreign_checkpoint.h
// resumes from it.
#ifndef BERTH_TRAIN_FOREIGN_WRITE_H
#define BERTH_TRAIN_FOREIGN_WRITE_H

#include "core/error.h"
#include "model/params.h"
#include "settings/run.h"
#include "train/engine/feed.h"

#include <stddef.h>
#include <stdint.h>

// The name of trainer_state.json among the tensors of the file.
#define FOREIGN_STATE_NAME "berth.trainer_state"

// Whether a run with these settings writes such files.
int foreign_is_written(const struct run_settings *settings);

// Upper bound of the bytes of a model that foreign_write has in memory: its largest parameter.
size_t foreign_write_bytes(const struct param_table *table);

// Writes the file for the complete checkpoint in `folder`; `files` are the shards at its step.
enum berth_status foreign_write(const char *folder, const char *output_dir,
                                const struct feed_files *files, struct berth_error *error);

// Of the files with steps above `after` and up to `newest`, keeps the `limit` newest and removes
// the others. As with checkpoints (checkpoint_rotate), that of step `best` (-1: none) is one of
// those kept, or is kept in addition if limit is 1.
struct foreign_limits {
    int64_t after, newest, limit, best;
};
enum berth_status foreign_rotate(const char *output_dir, const struct foreign_limits *limits,
                                 struct berth_error *error);

#endif
