// SPDX-License-Identifier: Apache-2.0
// The list of the jobs, through which berth_job and the program's verbs find them. The jobs of
// tasks (train, predict, evaluate) have their rows here, as jobs.c does them for every task; each
// other job has its row in the file that does it.
#include "api/job.h"
#include "api/jobs.h"
#include "api/model.h"
#include "core/stop.h"
#include "core/text_util.h"
#include "settings/settings.h"

#include <string.h>

// --- the jobs of tasks: training, prediction, evaluation -----------------------------------------

// The task that the setting `task` names.
static enum berth_status find_job_task(const struct job *job, const char **task,
                                       struct berth_error *error) {
    const char *name = job_text(job, "task");
    const struct training_task *found = name != NULL ? task_training_find(name) : NULL;
    char names[256] = "";
    if (found != NULL) {
        *task = found->name;
        return BERTH_OK;
    }
    for (size_t i = 0; task_rows[i] != NULL; i++) {
        if (task_rows[i]->training != NULL) {
            words_add(names, sizeof names, task_rows[i]->about.name);
        }
    }
    return error_set(error, BERTH_USAGE, "job %s: task %s; expected one of %s, pretrain",
                     job->row->about.name, name != NULL ? name : "is missing", names);
}

static enum berth_status run_task(struct job *job, struct berth_error *error) {
    const char *name = job->row->about.name, *task = "pretrain";
    struct berth_run_result run;
    TRY(job->row->row_count > 0 ? find_job_task(job, &task, error) : BERTH_OK);
    TRY((strcmp(name, "predict") == 0 ? job_predict
         : strcmp(name, "evaluate") == 0
             ? job_evaluate
             : job_train)(task, job->config, job->log, job->stop, &run, error));
    job_put_integer(job, "steps", run.steps);
    job_put_real(job, "loss", run.final_loss);
    for (size_t i = 0; i < run.metric_count; i++) {
        job_put_real(job, run.metrics[i].name, run.metrics[i].value);
    }
    job_put_real(job, "eval_loss", run.eval_loss);
    job_put_real(job, "samples_per_second", run.samples_per_second);
    return BERTH_OK;
}

static const struct option_row task_setting[] = {{JOB_TEXT("task", NULL)}};
#define TASK_JOB(own, which, text)                                                                 \
    { .about = {#own, text}, .jobs = (which), JOB_SETTINGS(task_setting), .run = run_task }

static const struct job_row
    train = TASK_JOB(train, JOB_TRAIN,
                     "train on files: task, model_name_or_path, train_file, output_dir, ..."),
    pretrain = {.about = {"pretrain", "pre-train a model on shards: input_dir, output_dir, ..."},
                .jobs = JOB_PRETRAIN,
                .run = run_task},
    predict = TASK_JOB(predict, JOB_PREDICT,
                       "predict a file with a model, and score it if it has labels: task, "
                       "model_name_or_path, predict_file, output_dir, ..."),
    evaluate = TASK_JOB(evaluate, JOB_PREDICT,
                        "score a model on a file: task, model_name_or_path, validation_file, ...");

const struct job_row *const job_rows[] = {
    &train,       &pretrain,   &predict,  &evaluate,    &job_vocab, &job_pack, &job_prepare,
    &job_compare, &job_verify, &job_init, &job_inspect, &job_mine,  NULL};

static const struct job_row *find_row(const char *name, struct berth_error *error) {
    char names[256] = "";
    for (size_t i = 0; job_rows[i] != NULL; i++) {
        words_add(names, sizeof names, job_rows[i]->about.name);
        if (name != NULL && strcmp(job_rows[i]->about.name, name) == 0) {
            return job_rows[i];
        }
    }
    (void)error_set(error, BERTH_USAGE, "unknown job \"%s\"; expected one of %s",
                    name != NULL ? name : "", names);
    return NULL;
}

// --- berth_job -----------------------------------------------------------------------------------

static enum berth_status check_required(const struct job *job, struct berth_error *error) {
    const struct job_row *row = job->row;
    const char *required = row->required;
    char name[OPTION_NAME_SIZE];
    for (size_t i = 0; i < row->arguments; i++) {
        if (job->values[i] == NULL) {
            return error_set(error, BERTH_USAGE, "job %s: the setting %s is missing",
                             row->about.name, row->rows[i].name);
        }
    }
    while (option_next_name(&required, name)) {
        if (!job_is_given(job, name)) {
            return error_set(error, BERTH_USAGE, "job %s: the setting %s is missing",
                             row->about.name, name);
        }
    }
    return BERTH_OK;
}

// The files that the settings json_summary and logging_dir name, beside the caller's watch. The
// first record opens them: of several processes only the first one has records.
struct reporting {
    const struct job *job;
    struct watching *watching;
    struct berth_reporter *reporter;
    FILE *nowhere; // what the reporter has for people
    struct berth_error error;
};

static void report(void *context, const struct berth_record *record) {
    struct reporting *reporting = context;
    struct watching *watching = reporting->watching;
    if (reporting->reporter == NULL && reporting->error.status == BERTH_OK) {
        reporting->nowhere = fopen("/dev/null", "w");
        reporting->error.status = berth_reporter_open(
            reporting->job->config, reporting->nowhere != NULL ? fileno(reporting->nowhere) : -1,
            &reporting->reporter, &reporting->error);
        watching->stop = reporting->error.status != BERTH_OK ? STOP_AT_ONCE : watching->stop;
    }
    if (reporting->reporter != NULL) {
        const struct berth_log log = berth_reporter_log(reporting->reporter);
        log.write(log.context, record);
    }
    if (watching->log.write != NULL) {
        watching->log.write(watching->log.context, record);
    }
}

static enum berth_status run_row(struct job *job, struct watching *watching,
                                 const char *const *settings, struct berth_error *error) {
    struct reporting reporting = {.job = job, .watching = watching};
    const char *name, *value;
    if (job->config == NULL) {
        return error_no_memory(error, 0, "a job");
    }
    TRY(settings_check(settings, error));
    while (settings_next(&settings, &name, &value)) {
        TRY(job_set(job, name, value, error));
    }
    TRY(job->row->settle != NULL ? job->row->settle(job, error) : BERTH_OK);
    TRY(check_required(job, error));
    const int has_files =
        job->config->report.json_summary != NULL || job->config->report.logging_dir != NULL;
    job->log =
        has_files ? (struct berth_log){.write = report, .context = &reporting} : watching->log;
    const enum berth_status status = job_perform(job, error);
    berth_reporter_close(reporting.reporter);
    if (reporting.nowhere != NULL) {
        fclose(reporting.nowhere);
    }
    return reporting.error.status != BERTH_OK ? error_copy(error, &reporting.error) : status;
}

struct berth_result *berth_job(const char *name, const char *const *settings,
                               const struct berth_watch *watch, struct berth_error *error) {
    struct berth_error own;
    struct watching watching;
    error = error_begin(error, &own);
    watching_begin(&watching, watch);
    const struct job_row *row = find_row(name, error);
    if (row == NULL) {
        return NULL;
    }
    struct job job = {
        .row = row, .config = settings_new(), .log = watching.log, .stop = &watching.stop};
    if (run_row(&job, &watching, settings, error) != BERTH_OK) {
        berth_result_free(job.result);
        job.result = NULL;
    }
    settings_free(job.config);
    return job.result;
}
