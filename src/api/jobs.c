// SPDX-License-Identifier: Apache-2.0
// The jobs of tasks on files: train, predict, evaluate, show. cli/tasks.c, cli/show.c and
// job_list.c call them with settings that were read; they find the task, start the processes'
// common run (train/job/workers.c, train/inference/predict.c), and afterwards write the formats of
// --save_format and clear away what training alone needs.
#include "api/jobs.h"

#include "api/save_formats.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "metrics/squad_metrics.h"
#include "settings/deepspeed.h"
#include "settings/recipes.h"
#include "settings/settings.h"
#include "task/squad_input.h"
#include "task/task.h"
#include "train/checkpoint/checkpoint.h"
#include "train/inference/predict.h"
#include "train/job/workers.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

// Where to write the result: `result`, or `ignored` if it is NULL; set to what a failure returns.
static struct berth_run_result *clear_result(struct berth_run_result *result,
                                             struct berth_run_result *ignored) {
    result = result != NULL ? result : ignored;
    *result = (struct berth_run_result){.final_loss = NAN, .eval_loss = NAN, .mfu = NAN};
    return result;
}

static enum berth_status find_task(const char *name, const struct training_task **task,
                                   struct berth_error *error) {
    char names[256] = "";
    *task = task_training_find(name);
    for (size_t i = 0; task_training_at(i) != NULL; i++) {
        words_add(names, sizeof names, task_training_at(i)->name);
    }
    if (*task != NULL) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_USAGE, "unknown task \"%s\"; expected one of %s", name, names);
}

// Another run must not replace the model while it is converted.
static enum berth_status save_formats(const struct settings *config, int64_t steps,
                                      const struct berth_log *log, struct berth_error *error) {
    struct file_lock lock = {.descriptor = -1};
    if (config->run.save_format == NULL || strcmp(config->run.save_format, "hf") == 0) {
        return BERTH_OK; // the model is there; the next run may already have the lock
    }
    TRY(output_lock(&config->run, &lock, NULL, error));
    enum berth_status status = save_formats_write(config, steps, log, error);
    file_lock_release(&lock);
    return status;
}

// Whether checkpoints stay when a run has finished. Fine-tuning ends with its model, unless the
// user, or the program whose settings a recipe has, says how to save. The last one is written all
// the same: the last evaluation and the writing of the model come after it, and a run that is
// killed in them, or finds the disk full, resumes from it.
static int keeps_checkpoints(const struct training_task *task, const struct settings *config,
                             const struct berth_run_result *result) {
    return (task->jobs & JOB_FROM_SCRATCH) != 0 || !result->is_complete || result->workers > 0 ||
           config->run.recipe != NULL || config->run.skip_checkpoint ||
           settings_is_chosen(config, "save_total_limit") ||
           settings_is_chosen(config, "save_steps") || settings_is_chosen(config, "save_strategy");
}

// Rank 0 only, when nothing is left to do. Another run may already have the folder: its checkpoints
// are no longer this run's.
static void end_training(const struct training_task *task, const struct settings *config,
                         const struct berth_run_result *result, const struct berth_log *log) {
    const char *folder = config->run.output_dir;
    struct file_lock lock = {.descriptor = -1};
    struct berth_error error;
    if (keeps_checkpoints(task, config, result)) {
        log_note(log, "the model is in %s", folder);
        return;
    }
    if (output_lock(&config->run, &lock, NULL, NULL) != BERTH_OK) {
        return;
    }
    if (checkpoint_remove_all(folder, result->steps, &error) != BERTH_OK) {
        log_warning(log, "a checkpoint could not be removed and stays: %s", error.message);
    }
    file_lock_release(&lock);
    log_note(log,
             "the model is in %s, without the optimizer's state; save_total_limit 1 keeps "
             "that, in a checkpoint",
             folder);
}

// The settings of the training, with the new model.
static enum berth_status settings_trained(const struct training_task *task,
                                          const struct settings *given, struct settings *own,
                                          struct berth_error *error) {
    static const struct berth_log silent = {0}; // training has already logged the file's messages
    if (own->run.deepspeed_config != NULL) {
        TRY(deepspeed_apply(own, own->run.deepspeed_config, &silent, error));
    }
    TRY(recipe_apply(own, given, task->jobs, error));
    own->model.model_name_or_path = own->run.output_dir;
    own->model.config_file = own->model.vocab_file = NULL; // the model's folder has both
    own->run.overwrite_output_dir = 1;
    return BERTH_OK;
}

// Predicts the test set with the new model, unless `status`, this process's own so far, is a
// failure in any process: the others would wait for it. They compare their settings first, so these
// are filled in even then.
static enum berth_status predict_trained(const struct training_task *task,
                                         const struct settings *config, struct berth_log log,
                                         const atomic_int *stop, enum berth_status status,
                                         struct berth_error *error) {
    struct settings own = *config;
    const enum berth_status settled =
        settings_trained(task, config, &own, status == BERTH_OK ? error : NULL);
    const struct predict_args args = {.task = task,
                                      .use = TASK_PREDICT,
                                      .config = &own,
                                      .log = log,
                                      .stop = stop,
                                      .after_training = 1,
                                      .status = status != BERTH_OK ? status : settled};
    struct berth_run_result ignored; // the caller gets training's
    return predict(&args, clear_result(NULL, &ignored), error);
}

enum berth_status job_train(const char *task, const struct settings *config, struct berth_log log,
                            const atomic_int *stop, struct berth_run_result *result,
                            struct berth_error *error) {
    const struct training_task *found;
    struct berth_run_result ignored;
    int rank;
    result = clear_result(result, &ignored);
    TRY(find_task(task, &found, error));
    TRY(save_formats_check(config->run.save_format, error));
    TRY(workers_train(found, config, log, stop, result, &rank, error));
    if (config->run.dry_run || result->best_worker < 0) {
        return BERTH_OK; // there is no model
    }
    enum berth_status status =
        rank == 0 ? save_formats(config, result->steps, &log, error) : BERTH_OK;
    if (found->predicts_separately && task_predicts(config)) {
        status = predict_trained(found, config, log, stop, status, error);
    }
    if (status == BERTH_OK && rank == 0) {
        end_training(found, config, result, &log);
    }
    return status;
}

enum berth_status job_predict(const char *task, const struct settings *config, struct berth_log log,
                              const atomic_int *stop, struct berth_run_result *result,
                              struct berth_error *error) {
    const struct training_task *found;
    struct berth_run_result ignored;
    result = clear_result(result, &ignored);
    TRY(find_task(task, &found, error));
    const struct predict_args args = {
        .task = found, .use = TASK_PREDICT, .config = config, .log = log, .stop = stop};
    return predict(&args, result, error);
}

enum berth_status job_evaluate(const char *task, const struct settings *config,
                               struct berth_log log, const atomic_int *stop,
                               struct berth_run_result *result, struct berth_error *error) {
    const struct training_task *found;
    struct berth_run_result ignored;
    result = clear_result(result, &ignored);
    TRY(find_task(task, &found, error));
    const struct predict_args args = {
        .task = found, .use = TASK_VALIDATE, .config = config, .log = log, .stop = stop};
    return predict(&args, result, error);
}

double berth_run_metric(const struct berth_run_result *result, const char *name) {
    size_t count = result != NULL && name != NULL ? result->metric_count : 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(result->metrics[i].name, name) == 0) {
            return result->metrics[i].value;
        }
    }
    return NAN;
}

enum berth_status berth_evaluate_squad(const char *dataset_path, const char *predictions_path,
                                       const char *null_odds_path, double null_threshold,
                                       struct berth_log log, char **text,
                                       struct berth_error *error) {
    char *unwanted = NULL;
    const struct squad_evaluation_files files = {dataset_path, predictions_path, null_odds_path};
    enum berth_status status =
        squad_evaluate_files(&files, null_threshold, &log, text != NULL ? text : &unwanted, error);
    memory_free(unwanted);
    return status;
}

enum berth_status berth_show_squad(const struct settings *config, struct berth_selection samples,
                                   struct berth_log log,
                                   int (*visit)(void *context, const struct berth_sample *sample),
                                   void *context, struct berth_error *error) {
    struct show_args args = {
        .config = config, .samples = samples, .log = &log, .visit = visit, .context = context};
    return show_squad(&args, error);
}
