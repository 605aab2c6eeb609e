// SPDX-License-Identifier: Apache-2.0
// The end of a training job with load_best_model_at_end: finds the checkpoint of the best update,
// in the output folder or beside the checkpoint that the run was resumed from, reads its weights
// into the engine and evaluates them again. training_job.c then writes them as the result. If the
// checkpoint is missing or damaged, the last model is the result, with a warning.
#include "core/file.h"
#include "core/memory.h"
#include "train/job/training_job_internal.h"

#include <inttypes.h>
#include <math.h>

// Replaces the last weights and scores by those of the best model.
static enum berth_status load_best(struct training_job *job, const char *folder,
                                   struct training_result *done, struct berth_error *error) {
    all_reduce_wait_all_weights(&job->updater.all_reduce);
    TRY(comm_settle(job->comm,
                    model_files_load(&job->files, folder, (uint64_t)job->config.run.seed, &job->log,
                                     &job->state, error),
                    error));
    job->content.updater = NULL; // its checksums are those of the last model
    struct evaluation_run how = {.engine = &job->engine,
                                 .files = &job->files,
                                 .log = &job->log,
                                 .stop = job->stop,
                                 .step = job->progress.best_step};
    struct infer_result timing;
    TRY(evaluation_predict(&job->evaluation, &how, &timing, &done->score, error));
    if (timing.stopped) {
        return error_set(error, BERTH_INTERRUPTED,
                         "stopped on request while evaluating the best model; everything is saved: "
                         "resume with resume_from_checkpoint auto");
    }
    done->prediction_seconds = timing.seconds;
    done->model_step = done->evaluated_step = job->progress.best_step;
    return BERTH_OK;
}

// Sets *folder to the best model's checkpoint in `parent`, or to "" if there is none or it is of
// another run: after going back, a step may have been reached twice.
static enum berth_status locate_best(struct training_job *job, const char *parent,
                                     struct path *folder, struct berth_error *error) {
    struct comm *comm = job->comm;
    TRY(checkpoint_locate(comm, parent, job->progress.best_step, folder, error));
    if (folder->text[0] == '\0') {
        return BERTH_OK;
    }
    int is_own = 0;
    const struct path path = path_in(folder->text, "trainer_state.json");
    const enum berth_status status = progress_follows(&job->progress, path.text, &is_own, error);
    TRY(comm_settle(comm, status, error));
    comm->broadcast(comm, &is_own, sizeof is_own, 0);
    if (!is_own) {
        log_note(&job->log, "%s belongs to another run", folder->text);
        folder->text[0] = '\0';
    }
    return comm->status(comm, error);
}

// The folders beside the checkpoint that the run was resumed from, whose path may be a link: that
// of its path, then the one that it is really in.
static void find_parents(const char *checkpoint, struct path parents[2]) {
    OWNED char *real = file_resolve(checkpoint); // NULL if the run has removed it
    parents[0] = path_parent(checkpoint);
    parents[1] = path_parent(real != NULL ? real : checkpoint);
}

// Looks in the output folder, then next to the checkpoint that the run was resumed from.
static enum berth_status locate_best_anywhere(struct training_job *job, struct path *folder,
                                              struct berth_error *error) {
    struct path parents[2];
    TRY(locate_best(job, job->config.run.output_dir, folder, error));
    if (folder->text[0] != '\0' || job->resume.folder == NULL) {
        return BERTH_OK;
    }
    find_parents(job->resume.folder, parents);
    for (int i = 0; i < 2 && folder->text[0] == '\0'; i++) {
        int is_searched = path_is_same(parents[i].text, job->config.run.output_dir) ||
                          (i > 0 && path_is_same(parents[i].text, parents[0].text));
        job->comm->broadcast(job->comm, &is_searched, sizeof is_searched, 0);
        TRY(job->comm->status(job->comm, error));
        if (!is_searched) {
            TRY(locate_best(job, parents[i].text, folder, error));
        }
    }
    return BERTH_OK;
}

// Sets *folder to the best model's checkpoint, or to "" if any rank finds it missing or damaged:
// then the last model is the result.
static enum berth_status find_best(struct training_job *job, struct path *folder,
                                   struct berth_error *error) {
    struct berth_error damage = {.message = "found by another process"};
    TRY(locate_best_anywhere(job, folder, error));
    if (folder->text[0] == '\0') {
        log_warning(&job->log,
                    "%s has no checkpoint-%" PRId64
                    " of this run: the result is the last model, not the best",
                    job->config.run.output_dir, job->progress.best_step);
        return BERTH_OK;
    }
    enum berth_status status = checkpoint_accept(folder->text, &job->log, &damage);
    int is_damaged = status != BERTH_OK;
    status = file_probe(status, &damage, error);
    TRY(comm_settle_stop(job->comm, status, &is_damaged, error));
    if (is_damaged) {
        log_warning(&job->log, "%s is damaged: the result is the last model, not the best: %s",
                    folder->text, damage.message);
        folder->text[0] = '\0';
    }
    return BERTH_OK;
}

enum berth_status job_use_best(struct training_job *job, struct training_result *done,
                               struct berth_error *error) {
    const struct progress *progress = &job->progress;
    if (!job->config.run.load_best_model_at_end) {
        return BERTH_OK;
    }
    if (isnan(progress->best.value) && done->score.count > 0) {
        log_warning(&job->log, "the score by which models are compared was not a number in any "
                               "evaluation: the result is the last model, not the best");
    }
    if (isnan(progress->best.value) || progress->best_step == progress->step) {
        return BERTH_OK;
    }
    struct path folder;
    TRY(find_best(job, &folder, error));
    if (folder.text[0] == '\0') {
        return BERTH_OK;
    }
    log_note(&job->log, "the result is the best model, that of update %" PRId64,
             progress->best_step);
    return load_best(job, folder.text, done, error);
}
