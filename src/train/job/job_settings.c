// SPDX-License-Identifier: Apache-2.0
// The settings of a training job, before anything is read: completes them by DeepSpeed's file, the
// recipe and each other, and checks and notes what does not fit together. Settings that depend on
// the data are resolved by the task, when it opens its sets.
#include "core/number.h"
#include "settings/deepspeed.h"
#include "settings/recipes.h"
#include "settings/settings.h"
#include "train/checkpoint/checkpoint_manifest.h"
#include "train/engine/input_facts.h"
#include "train/engine/profile.h"
#include "train/job/job_save_eval.h"
#include "train/job/rules.h"
#include "train/job/training_job_internal.h"
#include "train/machine/machine.h"

#include <inttypes.h>
#include <string.h>

enum berth_status job_require_start(const struct training_job *job, struct berth_error *error) {
    const struct settings *config = &job->config;
    const int pretrains = (job->task->jobs & JOB_FROM_SCRATCH) != 0;
    if (config->run.phase2 && config->model.model_name_or_path == NULL) {
        return error_set(
            error, BERTH_CONFIG,
            "phase2 continues from a checkpoint of the first phase: name its folder with "
            "resume_from_checkpoint DIR, or auto,DIR to continue the second phase if it has a "
            "checkpoint; or name a model to start from its weights alone");
    }
    return pretrains && config->model.config_file != NULL
               ? BERTH_OK
               : task_need(config->model.model_name_or_path, "model_name_or_path",
                           pretrains ? ", or config_file for random weights" : "", error);
}

// Checked before anything is loaded.
static enum berth_status check_profile(const struct training_job *job, struct berth_error *error) {
    const struct settings *config = &job->config;
    struct profile profile;
    TRY(profile_init(&profile, config->run.profile, error));
    if (config->run.profile_output == NULL) {
        return BERTH_OK;
    }
    const enum berth_status status = job_is_first(job) && profile.first > 0
                                         ? profile_check_output(config->run.profile_output, error)
                                         : BERTH_OK;
    return status == BERTH_OK ? BERTH_OK : error_prefix(error, status, "profile_output");
}

// This is what transformers does; in the programs of Google and NVIDIA such a run would hardly
// train.
static void note_epochs(const struct training_job *job, const struct settings *typed) {
    const struct settings *config = &job->config;
    if ((job->task->jobs & JOB_PRETRAIN) != 0 && config->engine.max_steps <= 0 &&
        settings_is_given(typed, "max_steps") && !settings_is_chosen(typed, "num_train_epochs")) {
        log_note(&job->log,
                 "max_steps %" PRId64
                 " sets no limit: num_train_epochs is %.10g; max_steps N stops after N updates",
                 config->engine.max_steps, config->engine.num_train_epochs);
    }
}

enum berth_status job_settle(struct training_job *job, struct berth_error *error) {
    struct settings *config = &job->config;
    const struct settings typed = *config;
    if (config->run.deepspeed_config != NULL) {
        TRY(deepspeed_apply(config, config->run.deepspeed_config, &job->log, error));
    }
    TRY(recipe_apply(config, &typed, job->task->jobs, error));
    const char *recipe = job->config.run.recipe;
    if (job->config.machine.precision == BERTH_PRECISION_AUTO &&
        recipe_is_fp32(recipe, job->task->jobs)) {
        log_note(&job->log,
                 "recipe %s was published in fp32; Berth uses bf16 if that is fast on the device "
                 "(precision fp32 changes that)",
                 recipe);
    }
    if (config->optimizer.warmup_steps == 0 && settings_is_given(config, "warmup_steps") &&
        !settings_is_given(config, "warmup_proportion")) {
        config->optimizer.warmup_proportion = 0;
    }
    TRY(job->task->settle(config, TASK_TRAIN, error));
    TRY(save_eval_resolve(config, &job->log, error));
    note_epochs(job, &typed);
    TRY(check_profile(job, error));
    TRY(optimizer_settle(&config->optimizer, error));
    const struct optimizer_settings *settings = &job->config.optimizer;
    const double factor = job_rate_factor(job);
    char text[128];
    if (factor > 1) {
        number_format(text, sizeof text,
                      "lr_scaling %s: learning_rate %.10g x %.10g, for %d processes: %.10g",
                      settings->lr_scaling, settings->learning_rate, factor, job->all_ranks->size,
                      factor * settings->learning_rate);
        log_note(&job->log, "%s", text);
    }
    if (job->comm->size == 1 && config->engine.zero_stage == 3) {
        log_note(&job->log, "zero_stage 3 works only in one process: dividing the weights is not "
                            "supported; use zero_stage 2 with several processes");
    }
    TRY(sharding_of(config, job->comm, &job->sharding, error));
    TRY(loss_scale_check(&config->optimizer, config->machine.precision == BERTH_FP16, error));
    if (!settings_resume(&job->config)) {
        TRY(job_require_start(job, error));
    }
    return task_log_settings(job->task, config, job->task->jobs, &job->log, error);
}

// Workers have different seeds.
enum berth_status job_compare_settings(const struct training_job *job, struct berth_error *error) {
    struct settings common = job->config;
    if (job_is_worker(job)) {
        common.run.seed -= job->all_ranks->rank;
    }
    return rank_facts_compare_settings(job->all_ranks, &common, error);
}

enum berth_status job_compare_inputs(const struct training_job *job, struct berth_error *error) {
    const char *checkpoint = job->resume.folder;
    struct rank_facts facts = {0};
    uint64_t manifest = 0;
    if (job->comm->size == 1) {
        return BERTH_OK;
    }
    TRY(comm_settle(job->comm,
                    checkpoint != NULL ? checkpoint_manifest_checksum(checkpoint, &manifest, error)
                                       : BERTH_OK,
                    error));
    rank_facts_add_settings(&facts, &job->config);
    input_facts_add_model(&facts, &job->files, job->model_folder);
    input_facts_add_feed(&facts, &job->feed, job->train.path);
    if (job->has_evaluation) {
        evaluation_add_facts(&job->evaluation, &facts);
    }
    if (checkpoint != NULL) {
        rank_facts_add_checksum(&facts, "the checksum of the manifest", checkpoint, manifest);
    }
    return rank_facts_compare(&facts, job->comm, error);
}

enum berth_status job_compare_weights(const struct training_job *job, struct berth_error *error) {
    struct rank_facts facts = {0};
    const char *source = job->resume.folder != NULL ? job->resume.folder : job->model_folder;
    input_facts_add_weights(&facts, &job->state, source);
    return rank_facts_compare(&facts, job->comm, error);
}
