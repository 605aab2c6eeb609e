// SPDX-License-Identifier: Apache-2.0
// Checkpoints: <output_dir>/checkpoint-<step>/ with config.json, model.safetensors, the tokenizer's
// files, optimizer.safetensors (both moments, a slice per parameter), trainer_state.json
// (progress.h) and manifest.json (manifest.h).
//
// A checkpoint is written to a temporary folder in output_dir, synced and renamed. An old one is
// removed only after a new one is durable and verified. So a run that is killed at any moment
// leaves intact checkpoints and at most one temporary folder, which the next run removes.
#ifndef BERTH_TRAIN_CHECKPOINT_H
#define BERTH_TRAIN_CHECKPOINT_H

#include "core/comm.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "train/engine/batching.h"
#include "train/engine/inputs.h"
#include "train/engine/update.h"
#include "train/optimizer/state.h"
#include "train/progress/progress.h"

#include <stddef.h>
#include <stdint.h>

// The contents of a checkpoint and what they are checked against.
struct checkpoint_content {
    const struct berth_config *config;
    const struct model_files *files;
    const char *model_folder; // source of the tokenizer's files
    const struct batching *batching;
    struct state *state;
    struct progress *progress;
    struct comm *comm;       // the ranks that write it together
    struct updater *updater; // checks the state before it is published; NULL: nothing does
};

// Writes checkpoint-<progress->step>, replacing an existing one. All ranks call it: rank 0 creates
// and publishes the folder, and each rank writes the weights and moments that it owns.
enum berth_status checkpoint_write(const struct checkpoint_content *content, const char *output_dir,
                                   struct berth_error *error);

// The steps of checkpoint_write, for saver.h: the first rank creates the files, each rank fills in
// the numbers that it owns, the first rank publishes.
struct checkpoint_writer;
// All ranks call it and agree: the first one writes all but the numbers. *writing is NULL after a
// failure.
enum berth_status checkpoint_begin(const struct checkpoint_content *content, const char *output_dir,
                                   struct checkpoint_writer **writer, struct berth_error *error);
// Writes this rank's numbers, from `state`; needs no other rank, and may run in any thread.
enum berth_status checkpoint_fill(const struct checkpoint_writer *writer, const struct state *state,
                                  struct berth_error *error);
// All ranks call it when they have read the state, before they publish.
enum berth_status checkpoint_check(const struct checkpoint_content *content,
                                   struct berth_error *error);
// After all ranks have filled in theirs: does nothing on other ranks than the first, needs none of
// them, and may run in any thread.
enum berth_status checkpoint_publish(const struct checkpoint_writer *writer,
                                     struct berth_error *error);
// Removes what was created, unless `status` is BERTH_OK, and frees.
void checkpoint_end(struct checkpoint_writer *writer, enum berth_status status);

// Writes only the model (config.json, model.safetensors, tokenizer files) and trainer_state.json
// into an existing folder, each file atomically. All ranks call it.
enum berth_status checkpoint_write_model(const struct checkpoint_content *content,
                                         const char *folder, struct berth_error *error);

// Which checkpoints to keep: the `limit` newest up to step `newest` (0: all), including that of
// step `best` (-1: none). The best one is kept in addition if it would be the only one.
struct checkpoint_limits {
    int64_t newest, limit, best;
    int64_t originals_after; // not -1: the same for files of original_write.h with higher steps
};
// Removes the others. Checkpoints after `newest`, which are damaged or of a run that had gone
// further (leftovers.h), are left alone.
// Removes nothing unless checkpoint `newest` verifies.
enum berth_status checkpoint_rotate(const char *output_dir, const struct checkpoint_limits *limits,
                                    struct berth_error *error);

// Reads state and progress from a checkpoint folder that checkpoint_accept or checkpoint_find has
// verified.
enum berth_status checkpoint_read(const struct checkpoint_content *content, const char *folder,
                                  const struct berth_log *log, struct berth_error *error);

// Sets *folder (memory_free) to the newest checkpoint of output_dir that verifies; NULL if there
// are none. Warns of each damaged one; BERTH_BAD_DATA if all are damaged.
enum berth_status checkpoint_find(const char *output_dir, const struct berth_log *log,
                                  char **folder, struct berth_error *error);

// Verifies sizes and hashes of a checkpoint folder; BERTH_BAD_DATA names the first difference.
enum berth_status checkpoint_verify(const char *folder, int64_t *files, struct berth_error *error);
// The same before the checkpoint is used: files that are not of it and that nothing reads are
// noted (manifest.h).
enum berth_status checkpoint_accept(const char *folder, const struct berth_log *log,
                                    struct berth_error *error);

// Whether output_dir contains anything that a new run would mix with its own files: not locks,
// temporary folders and the log of an earlier run, nor the files for reports that the settings name
// (NULL: none). A missing folder contains nothing.
int checkpoint_dir_is_used(const char *output_dir, const struct berth_config *config);
// Removes the half-written files of a killed run. The caller holds the lock of output_dir.
enum berth_status checkpoint_clean(const char *output_dir, struct berth_error *error);

// Steps of the checkpoint-<step> folders, ascending; memory_free(*steps).
enum berth_status checkpoint_list(const char *output_dir, int64_t **steps, size_t *count,
                                  struct berth_error *error);

// Removes one of them. Of a symbolic link only the link is removed.
enum berth_status checkpoint_remove(const char *output_dir, int64_t step,
                                    struct berth_error *error);

// The step in the name "checkpoint-<digits>", without leading zeros; -1: another name.
int64_t checkpoint_step(const char *name);

// The path <output_dir>/checkpoint-<step>, newly allocated; NULL: out of memory.
char *checkpoint_path(const char *output_dir, int64_t step);

// Sets *folder to that path if the checkpoint is there as the first rank sees it, else to NULL
// (memory_free, also after a failure). All ranks call it.
enum berth_status checkpoint_locate(struct comm *comm, const char *output_dir, int64_t step,
                                    char **folder, struct berth_error *error);

// Whether the name is that of a half-written object: a temporary folder, or a temporary file of
// core/file.h.
int checkpoint_is_temporary(const char *name);

// --- the output folder --------------------------------------------------------------------------

// BERTH_CANT_CREATE if config->output_dir cannot be created or written to, or contains files and
// overwrite_output_dir is not set. Creates nothing. `advice` is appended to the advice about
// those files ("" or ", or ..."); NULL: the job continues with existing files.
enum berth_status output_check(const struct berth_config *config, const char *advice,
                               struct berth_error *error);

// The same for a job that writes only predictions and scores. A training run's folder, which has
// its log, may have files: the original programs predict into the folder that they trained in.
enum berth_status output_check_predictions(const struct berth_config *config,
                                           struct berth_error *error);

// Creates the folder with its missing parents and locks it; does nothing if `lock` is already held.
enum berth_status output_take(const struct berth_config *config, struct file_lock *lock,
                              struct berth_error *error);

#endif
