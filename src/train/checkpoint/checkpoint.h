// SPDX-License-Identifier: Apache-2.0
// Checkpoints: <output_dir>/checkpoint-<step>/ with config.json, model.safetensors, the tokenizer's
// files, optimizer.safetensors (both moments, a slice per parameter), trainer_state.json
// (progress.h) and manifest.json (manifest.h).
//
// A checkpoint is written into a temporary folder of output_dir, synced and renamed; an old one is
// removed only after a new one is durable and verifies. So a run killed at any moment leaves
// verified checkpoints and at most one temporary folder, which the next run removes.
#ifndef BERTH_TRAIN_CHECKPOINT_H
#define BERTH_TRAIN_CHECKPOINT_H

#include "core/comm.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "train/engine/batching.h"
#include "train/engine/inputs.h"
#include "train/optimizer/state.h"
#include "train/progress/progress.h"

#include <stddef.h>
#include <stdint.h>

// Everything that a checkpoint holds or is checked against.
struct checkpoint_content {
    const struct berth_config *config;
    const struct model_files *files;
    const char *model_folder; // where the tokenizer's files come from
    const struct batching *batching;
    struct state *state;
    struct progress *progress;
    struct comm *comm; // the ranks that write it together
};

// Writes checkpoint-<progress->step>, replacing one of that name. All ranks call it: rank 0 makes
// and publishes the folder, each rank writes the moments that it holds.
enum berth_status checkpoint_write(const struct checkpoint_content *content, const char *output_dir,
                                   struct berth_error *error);

// Writes the model alone (config.json, model.safetensors, tokenizer files) and trainer_state.json
// into an existing folder, each file atomically.
enum berth_status checkpoint_write_model(const struct checkpoint_content *content,
                                         const char *folder, struct berth_error *error);

// Which checkpoints stay: the `limit` newest up to step `newest` (0: all) and that of step `best`
// (-1: none), which is one of the `limit` unless it would be the only one.
struct checkpoint_limits {
    int64_t newest, limit, best;
};
// Removes the others; later ones, of a run that went further, are left alone. Removes nothing
// unless checkpoint `newest` verifies.
enum berth_status checkpoint_rotate(const char *output_dir, const struct checkpoint_limits *limits,
                                    struct berth_error *error);

// Fills state and progress from a checkpoint folder that has been verified.
enum berth_status checkpoint_read(const struct checkpoint_content *content, const char *folder,
                                  const struct berth_log *log, struct berth_error *error);

// The newest checkpoint of output_dir that verifies, in *folder (memory_free); NULL when there is
// no checkpoint at all. Each damaged one is a warning; only damaged ones: BERTH_BAD_DATA.
enum berth_status checkpoint_find(const char *output_dir, const struct berth_log *log,
                                  char **folder, struct berth_error *error);

// Sizes and hashes of a checkpoint folder; BERTH_BAD_DATA names the first difference.
enum berth_status checkpoint_verify(const char *folder, int64_t *files, struct berth_error *error);

// Whether output_dir holds anything that a run would mix with: entries other than locks and
// temporary folders of earlier runs. A missing folder holds nothing.
int checkpoint_dir_is_used(const char *output_dir);
// Removes what a killed run left half-written. The caller holds the lock of output_dir.
enum berth_status checkpoint_clean(const char *output_dir, struct berth_error *error);
// Removes every checkpoint of output_dir (--overwrite_output_dir).
enum berth_status checkpoint_remove_all(const char *output_dir, struct berth_error *error);

// Steps of the checkpoint-<step> folders, ascending; memory_free(*steps).
enum berth_status checkpoint_list(const char *output_dir, int64_t **steps, size_t *count,
                                  struct berth_error *error);

// <output_dir>/checkpoint-<step>, newly allocated; NULL when memory is out.
char *checkpoint_path(const char *output_dir, int64_t step);

// 1 when the name is that of something half-written: a temporary folder, or a temporary file of
// core/file.h.
int checkpoint_is_temporary(const char *name);

// --- the output folder --------------------------------------------------------------------------

// BERTH_CANT_CREATE when config->output_dir is no folder that could be made and written into, or
// holds files that overwrite_output_dir does not give up. Makes nothing. `otherwise` ends the
// advice about those files ("" or ", or ..."); NULL: the job goes on with what it finds.
enum berth_status output_check(const struct berth_config *config, const char *otherwise,
                               struct berth_error *error);

// Makes the folder and its missing parents and locks it; fine when `lock` is held already.
enum berth_status output_take(const struct berth_config *config, struct file_lock *lock,
                              struct berth_error *error);

#endif
