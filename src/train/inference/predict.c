// SPDX-License-Identifier: Apache-2.0
// Runs the job `predict` or `evaluate` from settings to result files: opens the model without
// gradients, reads the set, plans the memory, predicts and writes. It also opens the predictor that
// models in memory use (src/task/network.c), which asks for one batch after another instead.
#include "train/inference/predict.h"

#include "core/clock.h"
#include "core/memory.h"
#include "core/stop.h"
#include "settings/effects.h"
#include "train/checkpoint/checkpoint.h"
#include "train/engine/input_facts.h"
#include "train/engine/plan.h"
#include "train/inference/evaluate.h"
#include "train/machine/machine.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

// --- the predictor ------------------------------------------------------------------------------

// What needs no other rank: files and device.
static enum berth_status open_alone(struct predictor *predictor, struct settings *config,
                                    const struct predictor_kind *kind, const struct berth_log *log,
                                    struct berth_error *error) {
    if (config->model.model_name_or_path == NULL) {
        return error_set(error, BERTH_USAGE, "model_name_or_path is missing");
    }
    TRY(machine_start_threads(machine_threads(&config->machine), error));
    predictor->files.only_planned = config->run.dry_run;
    TRY(model_files_open(&predictor->files, &config->model, config->model.model_name_or_path,
                         kind->head, log, error));
    TRY(model_files_require_head(&predictor->files, &config->model,
                                 config->model.model_name_or_path, error));
    const struct length_limits limits =
        model_files_limits(&predictor->files, kind->usual_length, config->model.model_name_or_path);
    TRY(task_fit_length(config, &limits, &predictor->files.length, log, error));
    if (kind->follow != NULL) {
        TRY(kind->follow(config, &predictor->files, log, error));
    }
    if (predictor->lender != NULL) {
        predictor->device = predictor->lender->device;
        return BERTH_OK;
    }
    return machine_device_open(&config->machine, predictor->comm, log, &predictor->device, error);
}

enum berth_status predictor_open(struct predictor *predictor, struct settings *config,
                                 const struct predictor_kind *kind, struct comm *comm,
                                 const struct berth_log *log, struct berth_error *error) {
    *predictor = (struct predictor){.comm = comm, .divides = kind->divides, .lender = kind->lender};
    TRY(comm_settle(comm, open_alone(predictor, config, kind, log, error), error));
    predictor->state = (struct state){.device = predictor->device,
                                      .table = &predictor->files.table,
                                      .is_int8 = config->machine.precision == BERTH_INT8};
    TRY(machine_inference_dtype(&config->machine, comm, predictor->device, log,
                                &predictor->state.compute, error));
    // The decoder of the masked tokens multiplies with the word table, in the compute dtype.
    return predictor->state.is_int8 && param_head_decodes(predictor->files.table.head)
               ? error_set(error, BERTH_CONFIG,
                           "precision int8: %s predicts words, which needs the word table in fp32 "
                           "or bf16; use precision bf16",
                           param_head_row(predictor->files.table.head)->title)
               : BERTH_OK;
}

static enum berth_status load_weights(struct predictor *predictor, const struct settings *config,
                                      const struct berth_log *log, struct berth_error *error) {
    struct state *state = &predictor->state;
    const struct param_table *table = &predictor->files.table;
    enum dtype compute = state->compute;
    TRY(state->is_int8 ? state_init_int8(state, predictor->device, table, compute, error)
                       : state_init(state, predictor->device, table, compute, 0, error));
    state->is_compared = predictor->comm->size > 1;
    return model_files_load(&predictor->files, config->model.model_name_or_path,
                            (uint64_t)config->run.seed, log, state, error);
}

static enum berth_status borrow_weights(struct predictor *predictor) {
    predictor->state = predictor->lender->state;
    predictor->lent = param_table_of_encoder(predictor->state.table);
    predictor->state.table = &predictor->lent;
    return BERTH_OK;
}

enum berth_status predictor_load(struct predictor *predictor, const struct settings *config,
                                 const struct batch_extent *extent, const struct berth_log *log,
                                 struct berth_error *error) {
    TRY(predictor->lender != NULL ? borrow_weights(predictor)
                                  : load_weights(predictor, config, log, error));
    struct state *state = &predictor->state;
    const struct engine_shape shape = {.infer = *extent};
    return engine_init(&predictor->engine, state,
                       predictor->divides ? predictor->comm : comm_self(), &predictor->files.shape,
                       &shape, error);
}

void predictor_done(struct predictor *predictor) {
    engine_done(&predictor->engine);
    if (predictor->lender == NULL) {
        state_done(&predictor->state);
        if (predictor->device != NULL) {
            predictor->device->close(predictor->device);
        }
    }
    model_files_done(&predictor->files);
}

// --- predicting a set ---------------------------------------------------------------------------

struct predict_job {
    const struct training_task *task;
    enum task_use use; // TASK_PREDICT or TASK_VALIDATE
    char title[64];    // "predict squad"
    struct settings config;
    struct berth_log log;
    const atomic_int *stop;
    int after_training;
    enum berth_status status; // before the job
    struct comm *comm;
    struct predictor predictor;
    struct evaluation evaluation;
    struct file_lock lock;
};

static void report(const struct predict_job *job, const struct infer_result *timing,
                   const struct berth_run_result *result, double seconds) {
    struct log_record record = {0};
    LOG_ADD(&record, log_integer("eval_samples", job->evaluation.set.examples),
            log_integer("eval_features", timing->sequences));
    log_add_metrics(&record, result->metrics, result->metric_count);
    LOG_ADD(&record, log_real("samples_per_second", result->samples_per_second),
            log_real("tokens_per_second", result->tokens_per_second), log_real("mfu", result->mfu),
            log_real("predict_seconds", timing->seconds), log_real("total_seconds", seconds),
            log_integer("peak_rss_bytes", (int64_t)machine_peak_resident()),
            log_text("output_dir", job->config.run.output_dir));
    log_record(&job->log, BERTH_SUMMARY, job->title, &record);
}

static int is_first(const struct predict_job *job) {
    return job->comm->rank == 0;
}

static enum berth_status write_results(const struct predict_job *job,
                                       const struct task_results *results,
                                       struct berth_error *error) {
    TRY(file_lock_check(&job->lock, error));
    TRY(job->task->write(&job->evaluation.set, results, error));
    return results->use == TASK_VALIDATE && results->score->count > 0
               ? task_write_scores(results, error)
               : BERTH_OK;
}

// After a request to stop nothing is written, also if it came during the last batch.
static enum berth_status check_stop(const struct predict_job *job, int stopped,
                                    struct berth_error *error) {
    stopped = stopped || stop_interrupts(job->stop);
    TRY(comm_settle_stop(job->comm, BERTH_OK, &stopped, error));
    return stopped ? error_set(error, BERTH_INTERRUPTED, "stopped on request; no %s were written",
                               job->use == TASK_PREDICT ? "predictions" : "scores")
                   : BERTH_OK;
}

static enum berth_status predict_set(struct predict_job *job, struct berth_run_result *result,
                                     struct berth_error *error) {
    double begin = clock_now();
    struct infer_result timing;
    struct task_score score;
    struct evaluation_run how = {.engine = &job->predictor.engine,
                                 .files = &job->predictor.files,
                                 .log = &job->log,
                                 .stop = job->stop};
    TRY(evaluation_predict(&job->evaluation, &how, &timing, &score, error));
    TRY(check_stop(job, timing.stopped, error));
    struct task_results results = {.use = job->use,
                                   .folder = job->config.run.output_dir,
                                   .score = &score,
                                   .samples = job->evaluation.set.examples,
                                   .seconds = timing.seconds};
    TRY(comm_settle(job->comm, is_first(job) ? write_results(job, &results, error) : BERTH_OK,
                    error));
    double seconds = timing.timed_seconds > 0 ? timing.timed_seconds : NAN;
    result->metric_count = score.count;
    memcpy(result->metrics, score.items, sizeof result->metrics);
    result->eval_loss = score.loss;
    result->samples_per_second = (double)timing.timed_sequences / seconds;
    result->tokens_per_second = (double)timing.timed_tokens / seconds;
    result->mfu = machine_mfu(job->predictor.device, state_product_dtype(&job->predictor.state),
                              timing.timed_flops, timing.timed_seconds);
    report(job, &timing, result, clock_now() - begin);
    return BERTH_OK;
}

static enum berth_status resolve_settings(struct predict_job *job, struct berth_error *error) {
    if (job->status != BERTH_OK) {
        return job->status;
    }
    TRY(job->task->settle(&job->config, job->use, error));
    return task_log_settings(job->task, &job->config, JOB_PREDICT, &job->log, error);
}

// Rank 0 only.
static enum berth_status check_output_folder(struct predict_job *job, struct berth_error *error) {
    TRY(output_check_predictions(&job->config.run, &job->config.report, error));
    return !job->config.run.dry_run && dir_exists(job->config.run.output_dir)
               ? output_lock(&job->config.run, &job->lock, &job->log, error)
               : BERTH_OK;
}

static enum berth_status make_output(struct predict_job *job, struct berth_error *error) {
    TRY(output_lock(&job->config.run, &job->lock, &job->log, error));
    return output_check_predictions(&job->config.run, &job->config.report, error);
}

static enum berth_status prepare(struct predict_job *job, struct berth_error *error) {
    struct settings *config = &job->config;
    const struct predictor_kind kind = {
        .head = job->task->head,
        .usual_length = option_default_integer("max_seq_length", job->task->defaults),
        .follow = job->task->follow,
        .divides = 1};
    TRY(predictor_open(&job->predictor, config, &kind, job->comm, &job->log, error));
    if (!job->after_training) {
        settings_note_effects(config, config, JOB_PREDICT, job->comm->size, &job->log);
    }
    struct task_open args = {.use = job->use,
                             .config = config,
                             .files = &job->predictor.files,
                             .log = &job->log,
                             .after_training = job->after_training};
    return evaluation_open(&job->evaluation, job->task, &args, error);
}

static enum berth_status make_plan(const struct predict_job *job, struct berth_error *error) {
    const struct engine_shape shape = {.infer = job->evaluation.extent};
    const struct bert model = state_model(&job->predictor.state, &job->predictor.files.shape);
    struct plan_args plan = {.state = &job->predictor.state,
                             .config = &job->predictor.files.shape,
                             .shape = &shape,
                             .predict_length = job->predictor.files.length,
                             .comm = job->comm,
                             .exchange = job->comm->bytes,
                             .data = evaluation_bytes(&job->evaluation, &model, job->comm),
                             .log = &job->log};
    return plan_memory_admit(&plan, NULL, error);
}

static enum berth_status compare_inputs(const struct predict_job *job, struct berth_error *error) {
    struct rank_facts facts = {0};
    if (job->comm->size == 1) {
        return BERTH_OK;
    }
    rank_facts_add_settings(&facts, &job->config);
    input_facts_add_model(&facts, &job->predictor.files, job->config.model.model_name_or_path);
    evaluation_add_facts(&job->evaluation, &facts);
    return rank_facts_compare(&facts, job->comm, error);
}

static enum berth_status predict_all(struct predict_job *job, struct berth_run_result *result,
                                     struct berth_error *error) {
    struct comm *comm = job->comm;
    const struct settings *config = &job->config;
    TRY(comm_settle(comm, resolve_settings(job, error), error));
    TRY(rank_facts_compare_settings(comm, config, error));
    TRY(comm_settle(comm, is_first(job) ? check_output_folder(job, error) : BERTH_OK, error));
    TRY(comm_settle(comm, prepare(job, error), error));
    TRY(compare_inputs(job, error));
    TRY(comm_settle(comm, make_plan(job, error), error));
    if (config->run.dry_run) {
        return BERTH_OK;
    }
    TRY(comm_settle(
        comm, predictor_load(&job->predictor, config, &job->evaluation.extent, &job->log, error),
        error));
    struct rank_facts facts = {0};
    input_facts_add_weights(&facts, &job->predictor.state, job->config.model.model_name_or_path);
    TRY(rank_facts_compare(&facts, job->comm, error));
    TRY(comm_settle(comm, is_first(job) ? make_output(job, error) : BERTH_OK, error));
    return predict_set(job, result, error);
}

enum berth_status predict(const struct predict_args *args, struct berth_run_result *result,
                          struct berth_error *error) {
    struct predict_job job = {.task = args->task,
                              .use = args->use,
                              .config = *args->config,
                              .log = args->log,
                              .stop = args->stop,
                              .after_training = args->after_training,
                              .status = args->status,
                              .comm = comm_self(),
                              .lock = {.descriptor = -1}};
    snprintf(job.title, sizeof job.title, "%s %s", job.use == TASK_PREDICT ? "predict" : "evaluate",
             job.task->name);
    enum berth_status status =
        machine_comm_open(job.title, args->config, &job.log, &job.comm, error);
    if (status == BERTH_OK) {
        status = predict_all(&job, result, error);
    }
    job.comm->close(job.comm);
    evaluation_done(&job.evaluation);
    predictor_done(&job.predictor);
    file_lock_release(&job.lock);
    return status;
}
