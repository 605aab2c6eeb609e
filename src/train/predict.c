// SPDX-License-Identifier: Apache-2.0
#include "train/predict.h"

#include "core/memory.h"
#include "train/evaluate.h"
#include "train/machine.h"
#include "train/output.h"
#include "train/plan.h"

#include <math.h>

// --- a model ready to answer --------------------------------------------------------------------

enum berth_status predictor_open(struct predictor *predictor, struct berth_config *config,
                                 const struct berth_log *log, struct berth_error *error) {
    *predictor = (struct predictor){0};
    if (config->model_name_or_path == NULL) {
        return error_set(error, BERTH_USAGE, "--model_name_or_path is missing");
    }
    TRY(model_files_open(&predictor->files, config, config->model_name_or_path, log, error));
    TRY(machine_device_open(config, log, &predictor->device, error));
    predictor->state = (struct state){
        .device = predictor->device,
        .table = &predictor->files.table,
        .compute = config->precision == BERTH_BF16 ? DTYPE_BF16 : DTYPE_F32,
    };
    return BERTH_OK;
}

enum berth_status predictor_load(struct predictor *predictor, const struct berth_config *config,
                                 const struct trainer_shape *shape, const struct berth_log *log,
                                 struct berth_error *error) {
    struct state *state = &predictor->state;
    enum dtype compute = state->compute;
    TRY(state_init(state, predictor->device, &predictor->files.table, compute, 0, error));
    TRY(model_files_load(&predictor->files, config->model_name_or_path, (uint64_t)config->seed, log,
                         state, error));
    struct trainer_rules rules = trainer_rules_of(config, &predictor->files.shape);
    return trainer_init(&predictor->trainer, state, &predictor->files.shape, &rules, shape, error);
}

void predictor_done(struct predictor *predictor) {
    trainer_done(&predictor->trainer);
    state_done(&predictor->state);
    if (predictor->device != NULL) {
        predictor->device->close(predictor->device);
    }
    model_files_done(&predictor->files);
}

static struct trainer_shape shape_of(const struct evaluation *evaluation) {
    return (struct trainer_shape){.infer_tokens = evaluation->shape.tokens,
                                  .infer_sequences = evaluation->shape.sequences,
                                  .max_length = evaluation->shape.max_length};
}

// --- a whole file -------------------------------------------------------------------------------

struct predict_job {
    struct berth_config config;
    struct berth_log log;
    const volatile int *stop;
    struct predictor predictor;
    struct evaluation evaluation;
    struct file_lock lock;
};

static void report(const struct predict_job *job, const struct infer_result *timing,
                   const struct berth_run_result *result, double answer_seconds) {
    struct berth_field fields[] = {
        log_integer("eval_samples", (int64_t)job->evaluation.input.dataset.count),
        log_integer("eval_features", timing->sequences),
        log_real("exact_match", result->exact_match),
        log_real("f1", result->f1),
        log_real("samples_per_second", result->samples_per_second),
        log_real("tokens_per_second", result->tokens_per_second),
        log_real("mfu", result->mfu),
        log_real("predict_seconds", timing->seconds),
        log_real("total_seconds", answer_seconds),
        log_integer("peak_rss_bytes", (int64_t)machine_peak_resident()),
        log_text("output_dir", job->config.output_dir),
    };
    log_fields(&job->log, BERTH_RECORD_SUMMARY, "predict squad", fields,
               sizeof fields / sizeof fields[0]);
}

static void fill_rates(const struct predict_job *job, const struct infer_result *timing,
                       struct berth_run_result *result) {
    double seconds = timing->seconds > 0 ? timing->seconds : NAN;
    result->samples_per_second = (double)timing->timed_sequences / seconds;
    result->tokens_per_second = (double)timing->timed_tokens / seconds;
    result->mfu = machine_mfu(job->predictor.device, job->predictor.state.compute,
                              timing->timed_flops, timing->seconds);
}

static enum berth_status predict(struct predict_job *job, struct berth_run_result *result,
                                 struct berth_error *error) {
    struct evaluation *evaluation = &job->evaluation;
    double begin = machine_seconds();
    struct infer_result timing;
    TRY(evaluation_predict(evaluation, &job->predictor.trainer, job->predictor.files.tokenizer,
                           &job->log, job->stop, &timing, error));
    if (timing.stopped) {
        return error_set(error, BERTH_INTERRUPTED, "stopped on request; nothing was written");
    }
    TRY(evaluation_write(evaluation, job->config.output_dir, error));
    double seconds = machine_seconds() - begin;
    if (evaluation_has_references(evaluation)) {
        TRY(evaluation_score(evaluation, &result->exact_match, &result->f1, error));
    }
    fill_rates(job, &timing, result);
    report(job, &timing, result, seconds);
    return BERTH_OK;
}

static enum berth_status run(struct predict_job *job, struct berth_run_result *result,
                             struct berth_error *error) {
    struct berth_config *config = &job->config;
    if (config->predict_file == NULL) {
        return error_set(error, BERTH_USAGE, "--predict_file is missing");
    }
    TRY(output_check(config, "", error));
    if (!config->dry_run && dir_exists(config->output_dir)) {
        TRY(output_take(config, &job->lock, error));
    }
    TRY(predictor_open(&job->predictor, config, &job->log, error));
    TRY(evaluation_open(&job->evaluation, config->predict_file, config->max_eval_samples, config,
                        job->predictor.files.tokenizer, &job->log, error));
    struct trainer_shape shape = shape_of(&job->evaluation);
    struct plan_args plan = {.state = &job->predictor.state,
                             .config = &job->predictor.files.shape,
                             .shape = &shape,
                             .log = &job->log};
    TRY(plan_memory_admit(&plan, NULL, error));
    if (config->dry_run) {
        return BERTH_OK;
    }
    TRY(predictor_load(&job->predictor, config, &shape, &job->log, error));
    TRY(output_take(config, &job->lock, error));
    return predict(job, result, error);
}

enum berth_status predict_squad(const struct berth_config *config, struct berth_log log,
                                const volatile int *stop, struct berth_run_result *result,
                                struct berth_error *error) {
    struct berth_run_result ignored;
    struct predict_job job = {
        .config = *config, .log = log, .stop = stop, .lock = {.descriptor = -1}};
    result = result != NULL ? result : &ignored;
    *result =
        (struct berth_run_result){.final_loss = NAN, .exact_match = NAN, .f1 = NAN, .mfu = NAN};
    enum berth_status status = run(&job, result, error);
    evaluation_done(&job.evaluation);
    predictor_done(&job.predictor);
    file_lock_release(&job.lock);
    return status;
}
