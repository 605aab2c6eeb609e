// SPDX-License-Identifier: Apache-2.0
// What a training job resumes from: a checkpoint of Berth, or one of the original programs. Rank 0
// looks for it; the others resume from the same.
#ifndef BERTH_TRAIN_RESUME_H
#define BERTH_TRAIN_RESUME_H

#include "comm/comm.h"
#include "core/log.h"
#include "settings/settings.h"

#include <stdint.h>

struct resume {
    char *folder;         // NULL: start from the beginning; a file if it is that of a script
    int is_in_output;     // it was found in the output folder, not named by its path
    int64_t foreign_step; // step of an original program's checkpoint; -1: it is Berth's
};

static const struct resume resume_none = {.foreign_step = -1};

// Whether the run resumes from a folder with a model, Berth's or the Trainer's. A file of the
// original scripts has only weights.
int resume_has_model(const struct resume *resume);

// Whether --resume_from_checkpoint is "auto", the newest checkpoint of the output folder, or
// "auto,DIR", which is DIR if there is none.
int resume_is_auto(const struct settings *config);

// BERTH_CANT_CREATE if the output folder has a model, which a run that was meant to resume and has
// no checkpoint would overwrite.
enum berth_status resume_check_unfinished(const struct settings *config, struct berth_error *error);

// Finds the checkpoint that --resume_from_checkpoint or --resume_step names, or the newest one of
// the output folder; if there is none, *resume is unchanged. BERTH_NO_INPUT: the named checkpoint
// does not exist. BERTH_CANT_CREATE: the run would overwrite a finished model, or mix with another
// run's checkpoints.
enum berth_status resume_find(struct resume *resume, const struct settings *config,
                              const struct berth_log *log, struct berth_error *error);

// Sends rank 0's *resume to all ranks, of which each may have another path of the output folder.
// All succeed or all fail.
enum berth_status resume_broadcast(struct resume *resume, struct comm *comm, const char *output_dir,
                                   struct berth_error *error);

// Sets *saved to `step`, at which the run begins, if rank 0 sees that the run resumes from the
// output folder's checkpoint of that step; else to -1. All succeed or all fail.
enum berth_status resume_saved_step(const struct resume *resume, struct comm *comm,
                                    const char *output_dir, int64_t step, int64_t *saved,
                                    struct berth_error *error);

void resume_done(struct resume *resume);

#endif
