// SPDX-License-Identifier: Apache-2.0
// A training job in memory, shared by training_job.c (opening, weights, results), job_settings.c,
// job_plan.c and job_best.c. Nothing else includes it: others see a job through training_job.h.
#ifndef BERTH_TRAIN_TRAINING_JOB_INTERNAL_H
#define BERTH_TRAIN_TRAINING_JOB_INTERNAL_H

#include "core/file.h"
#include "report/run_log.h"
#include "settings/settings.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/saver.h"
#include "train/engine/plan.h"
#include "train/job/reduce_choice.h"
#include "train/job/resume.h"
#include "train/job/training_job.h"
#include "train/job/training_loop.h"

#include <stdatomic.h>

// Everything that a job opens, in the order of opening.
struct training_job {
    const struct training_task *task;
    const struct settings *given; // until the job is open
    struct settings config;       // including the DeepSpeed file's values, and resolved
    struct berth_log log;
    struct run_log *run_log; // on rank 0, else NULL
    const atomic_int *stop;
    struct comm *comm, *all_ranks; // as in struct training_job_args
    struct file_lock lock;
    struct resume resume;
    const char *model_folder; // source of shape, vocabulary and, without a checkpoint, weights
    struct model_files files;
    struct task_set train;
    struct feed feed;
    struct evaluation evaluation;
    int has_evaluation;
    struct device *device;
    struct state_sharding sharding;
    struct batching batching;
    struct schedule schedule;
    struct engine_shape shape;
    int64_t micro_batches; // of this rank, in the largest update
    struct reduce_choice reduce;
    struct state state;
    struct engine engine;
    struct updater updater;
    struct progress progress;
    struct checkpoint_content content;
    struct saver saver; // --async_save
    double begin;
};

static inline int job_is_first(const struct training_job *job) {
    return job->comm->rank == 0;
}

// What lr_scaling multiplies all rates by.
static inline double job_rate_factor(const struct training_job *job) {
    return schedule_factor(job->config.optimizer.lr_scaling, job->all_ranks->size);
}

// Whether this is one of several independent workers.
static inline int job_is_worker(const struct training_job *job) {
    return job->comm != job->all_ranks;
}

// Whether checkpoints are written in the background, from a copy of weights and moments.
static inline int job_saves_in_background(const struct training_job *job) {
    return job->config.run.async_save && save_eval_has_checkpoints(&job->config.run);
}

// job_settings.c: settles job->config, and logs the settings.
enum berth_status job_settle(struct training_job *job, struct berth_error *error);
// BERTH_USAGE or BERTH_CONFIG without a model or, except for a second phase, a shape of random
// weights to start from.
enum berth_status job_require_start(const struct training_job *job, struct berth_error *error);
// Called by all ranks: compares again after settling, because each rank reads DeepSpeed's file on
// its own host.
enum berth_status job_compare_settings(const struct training_job *job, struct berth_error *error);
// Called by the ranks that compute updates together: compares settings that the inputs have
// resolved, model, data and checkpoint; and the weights, once they are loaded. Errors as
// rank_facts_compare.
enum berth_status job_compare_inputs(const struct training_job *job, struct berth_error *error);
enum berth_status job_compare_weights(const struct training_job *job, struct berth_error *error);

// job_plan.c: what the job needs, before anything large is allocated. First the shapes of this
// rank's batches and the compute dtype.
enum berth_status job_measure_plan(struct training_job *job, struct berth_error *error);
// Decides for all ranks whether checkpoints are written in the background.
enum berth_status job_settle_saving(struct training_job *job, struct berth_error *error);
// Reports the plan; errors as plan_memory_admit.
enum berth_status job_make_plan(const struct training_job *job, struct berth_error *error);
struct plan_args job_memory(const struct training_job *job);

// job_best.c: with --load_best_model_at_end, replaces the last weights and scores by those of the
// best model, unless it is the last one or its checkpoint is missing or damaged. BERTH_INTERRUPTED
// after *job->stop was set.
enum berth_status job_use_best(struct training_job *job, struct training_result *done,
                               struct berth_error *error);

#endif
