// SPDX-License-Identifier: Apache-2.0
// What a training job resumes from: a checkpoint of Berth, or one of the original programs. The
// first rank looks; the others resume from the same.
#ifndef BERTH_TRAIN_RESUME_H
#define BERTH_TRAIN_RESUME_H

#include "berth.h"
#include "core/comm.h"
#include "core/log.h"

#include <stdint.h>

struct resume {
    char *folder;          // NULL: start from the beginning; a file if original_step is set
    int64_t original_step; // step of an original program's checkpoint; -1: it is Berth's
};

static const struct resume resume_none = {.original_step = -1};

// Finds the checkpoint of --resume_from_checkpoint or --resume_step: that of a name or a step, or
// the newest of the output folder. Without a newest one, *resume remains as it was. BERTH_NO_INPUT:
// no such checkpoint. BERTH_CANT_CREATE: the run would start over and overwrite a finished model.
enum berth_status resume_find(struct resume *resume, const struct berth_config *config,
                              const struct berth_log *log, struct berth_error *error);

// Replaces every rank's *resume by the first rank's. All succeed or all fail.
enum berth_status resume_broadcast(struct resume *resume, struct comm *comm,
                                   struct berth_error *error);

// Sets *saved to `step`, at which the run begins, if the run resumes from the output folder's
// checkpoint of that step, as the first rank sees it; else to -1. All succeed or all fail.
enum berth_status resume_saved_step(const struct resume *resume, struct comm *comm,
                                    const char *output_dir, int64_t step, int64_t *saved,
                                    struct berth_error *error);

void resume_done(struct resume *resume);

#endif
