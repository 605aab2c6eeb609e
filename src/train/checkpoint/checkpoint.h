// SPDX-License-Identifier: Apache-2.0
// Checkpoints: <output_dir>/checkpoint-<step>/ with config.json, model.safetensors, the tokenizer's
// files, optimizer.safetensors (both moments, a slice per parameter), trainer_state.json
// (progress.h) and manifest.json (checkpoint_manifest.h).
//
// A checkpoint is written to a temporary folder in output_dir, synced and renamed. An old one is
// removed only after a new one is durable and verified. So a run that is killed at any moment
// leaves intact checkpoints and at most one temporary folder, which the next run removes.
#ifndef BERTH_TRAIN_CHECKPOINT_H
#define BERTH_TRAIN_CHECKPOINT_H

#include "comm/comm.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "settings/report.h"
#include "settings/run.h"
#include "train/engine/batching.h"
#include "train/engine/inputs.h"
#include "train/engine/update.h"
#include "train/optimizer/state.h"
#include "train/progress/progress.h"

#include <stddef.h>
#include <stdint.h>

struct settings;

// What a checkpoint is made of and restored to. Everything is borrowed from the job, which fills
// the struct when it has allocated the state, and closes the updater and the state after the last
// checkpoint. On disk, a folder checkpoint-N is complete and verified by its manifest from the
// moment it has this name; nobody writes to it again. Only rank 0 names, renames and removes
// folders, and only while it holds the lock of output_dir.
struct checkpoint_content {
    const struct settings *settings; // all of them, which progress saves
    const struct run_settings *run;
    const struct schedule *schedule;
    struct optimizer optimizer;
    int rewarmup;
    const struct model_files *files;
    const char *tokenizer_folder; // source of the tokenizer's files
    const struct batching *batching;
    struct state *state;
    struct progress *progress;
    struct comm *comm;       // of the ranks that write it together
    struct updater *updater; // checks the state before it is published; NULL: no check
};
// NULL, or what is not true of a content whose state is allocated (core/check.h).
const char *checkpoint_content_check(const struct checkpoint_content *content);

// Writes checkpoint-<progress->step>, replacing an existing one. All ranks call it: rank 0 creates
// and publishes the folder, and each rank writes the weights and moments that it owns.
enum berth_status checkpoint_write(const struct checkpoint_content *content, const char *output_dir,
                                   struct berth_error *error);

// The steps of checkpoint_write, for saver.h: rank 0 creates the files, each rank writes the
// elements that it owns, rank 0 publishes.
struct checkpoint_writer;
// All ranks call it and agree. Rank 0 writes everything but weights and moments. *writer is NULL
// after a failure.
enum berth_status checkpoint_begin(const struct checkpoint_content *content, const char *output_dir,
                                   struct checkpoint_writer **writer, struct berth_error *error);
// Writes this rank's elements of `state`. Calls no other rank and may run in any thread.
enum berth_status checkpoint_fill(const struct checkpoint_writer *writer, const struct state *state,
                                  struct berth_error *error);
// Checks the state. All ranks call it after reading the state, before publishing.
enum berth_status checkpoint_check(const struct checkpoint_content *content,
                                   struct berth_error *error);
// Call after all ranks have written their elements. Only rank 0 does anything. Calls no other rank
// and may run in any thread.
enum berth_status checkpoint_publish(const struct checkpoint_writer *writer,
                                     struct berth_error *error);
// Frees the writer and, unless `status` is BERTH_OK, removes what it created.
void checkpoint_end(struct checkpoint_writer *writer, enum berth_status status);

// Writes only the model (config.json, model.safetensors, tokenizer files) and trainer_state.json
// into an existing folder, each file atomically. All ranks call it.
enum berth_status checkpoint_write_model(const struct checkpoint_content *content,
                                         const char *folder, struct berth_error *error);

// Which checkpoints to keep: the `limit` newest up to step `newest` (0: all). That of step `best`
// (-1: none) is one of them, or is kept in addition if limit is 1.
struct checkpoint_limits {
    int64_t newest, limit, best;
    int64_t phase_start; // > 0: those up to this step are of an earlier phase, and stay
    int originals;       // the same for files of foreign_write.h
};
// Removes the others, but nothing unless checkpoint `newest` verifies (BERTH_BAD_DATA). One that
// cannot be removed does not keep the others; the first such error is returned. Leaves checkpoints
// after `newest` alone: they are damaged, or belong to a run that had gone further (stale_files.h).
// Checkpoints of transformers' Trainer are left alone, too.
enum berth_status checkpoint_rotate(const char *output_dir, const struct checkpoint_limits *limits,
                                    struct berth_error *error);
// Removes all checkpoints up to step `newest`; those of transformers' Trainer stay.
enum berth_status checkpoint_remove_all(const char *output_dir, int64_t newest,
                                        struct berth_error *error);

// Reads state and progress from a checkpoint folder that checkpoint_accept or checkpoint_find has
// verified.
enum berth_status checkpoint_read(const struct checkpoint_content *content, const char *folder,
                                  const struct berth_log *log, struct berth_error *error);

// Sets *folder (memory_free) to the newest checkpoint of output_dir that checkpoint_examine finds
// intact; NULL if there are none, for which empty folders do not count. Warns of each damaged one;
// BERTH_BAD_DATA, with the newest one's damage, if all are damaged. A read error is no damage, but
// BERTH_IO.
enum berth_status checkpoint_find(const char *output_dir, const struct berth_log *log,
                                  char **folder, struct berth_error *error);

// Verifies sizes and hashes of a checkpoint folder; BERTH_BAD_DATA names the first difference.
enum berth_status checkpoint_verify(const char *folder, int64_t *files, struct berth_error *error);
// The same for a checkpoint that is to be used: files that do not belong to it and that nothing
// reads are only noted (checkpoint_manifest.h).
enum berth_status checkpoint_accept(const char *folder, const struct berth_log *log,
                                    struct berth_error *error);

// The same for one that may be of transformers' Trainer (trainer_checkpoint.h), which has no
// hashes.
enum berth_status checkpoint_examine(const char *folder, const struct berth_log *log,
                                     struct berth_error *error);

// Whether the folder has a folder checkpoint-N, valid or not.
int checkpoint_is_in(const char *folder);
// Whether output_dir contains anything that would get mixed up with a new run's files. Locks,
// temporary folders, the log of an earlier run and the report files that the settings name (NULL:
// none) do not count. A missing folder contains nothing.
int checkpoint_dir_is_used(const char *output_dir, const struct report_settings *logs);
// Removes the partially written files of a killed run, and warns of those that cannot be removed.
// The caller must hold the lock of output_dir.
enum berth_status checkpoint_clean(const char *output_dir, const struct berth_log *log,
                                   struct berth_error *error);

// Steps of the checkpoint-<step> folders, ascending; memory_free(*steps).
enum berth_status checkpoint_list(const char *output_dir, int64_t **steps, size_t *count,
                                  struct berth_error *error);

// Removes a checkpoint. If it is a symbolic link, only the link is removed.
enum berth_status checkpoint_remove(const char *output_dir, int64_t step,
                                    struct berth_error *error);

// The step in the name "checkpoint-<digits>", without leading zeros; -1: another name.
int64_t checkpoint_step(const char *name);

// The path <output_dir>/checkpoint-<step>.
struct path checkpoint_path(const char *output_dir, int64_t step);

// Sets *folder to that path if rank 0 sees a checkpoint of Berth there, else to "". All ranks call
// it.
enum berth_status checkpoint_locate(struct comm *comm, const char *output_dir, int64_t step,
                                    struct path *folder, struct berth_error *error);

// PATH.SUFFIX, or PATH.SUFFIX-2 and so on where that exists.
struct path checkpoint_unused_name(const char *path, const char *suffix);

// Whether the name is that of a temporary folder, or of a temporary file of core/file.h.
int checkpoint_is_temporary(const char *name);

// --- the output folder --------------------------------------------------------------------------

// BERTH_CANT_CREATE if config->output_dir cannot be created or written to, or contains files and
// overwrite_output_dir is not set. Creates nothing. `advice` ("" or ", or ...") is appended to the
// message about existing files; NULL: the job may continue with them.
enum berth_status output_check(const struct run_settings *settings,
                               const struct report_settings *logs, const char *advice,
                               struct berth_error *error);

// The same for a job that writes only predictions and scores. The folder of a training run,
// recognised by its log, may have files: the original programs predict into the folder that they
// trained in.
enum berth_status output_check_predictions(const struct run_settings *settings,
                                           const struct report_settings *logs,
                                           struct berth_error *error);
// BERTH_CANT_CREATE if config->json_summary names the log of a run, this one or another, whose
// lines look like those of a summary.
enum berth_status output_check_summary(const char *summary, const char *output_dir,
                                       struct berth_error *error);

// Creates the folder with its missing parents and locks it; does nothing if `lock` is already held.
// Warns if the file system has no locks.
enum berth_status output_lock(const struct run_settings *settings, struct file_lock *lock,
                              const struct berth_log *log, struct berth_error *error);

// BERTH_CANT_CREATE unless `output_dir`, which each rank may know by another path, is one folder
// for all ranks: each writes its part of a checkpoint there. All succeed or all fail.
enum berth_status output_compare_ranks(struct comm *comm, const char *output_dir,
                                       struct berth_error *error);

#endif
