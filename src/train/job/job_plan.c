// SPDX-License-Identifier: Apache-2.0
// The plan of a training job, made after the data are read and before any large memory is
// allocated: the compute type, the largest micro-batch of a rank, and what weights, gradients,
// activations, data and saving will take. Adding it up, reporting it and refusing it if it does not
// fit is left to train/engine/plan.c.
#include "train/checkpoint/foreign_write.h"
#include "train/job/rules.h"
#include "train/job/training_job_internal.h"
#include "train/job/training_report.h"
#include "train/machine/machine.h"

static enum berth_status find_shape(struct training_job *job, int64_t *micro_batches,
                                    struct berth_error *error) {
    static const struct batch_extent minimum = {.tokens = 1, .sequences = 1, .max_length = 1};
    struct batching_worst worst;
    const struct update_rules rules =
        update_rules_of(&job->config, &job->files.shape, job->files.table.head, job->state.compute);
    const struct batching_rank rank = {&job->files.shape, job->comm->rank, job->comm->size};
    TRY(job->feed.ops->find_worst(&job->feed, &job->batching, &rank, &worst, error));
    *micro_batches = worst.micro_batches;
    job->shape =
        (struct engine_shape){.train = batch_extent_larger(&worst.micro, &minimum),
                              .gradient_checkpointing = job->config.engine.gradient_checkpointing,
                              .attention_dropout = rules.attention_dropout};
    if (job->has_evaluation) {
        job->shape.infer = job->evaluation.extent;
    }
    return BERTH_OK;
}

enum berth_status job_measure_plan(struct training_job *job, struct berth_error *error) {
    job->state = (struct state){
        .device = job->device, .table = &job->files.table, .sharding = job->sharding};
    TRY(machine_compute_dtype(&job->config.machine, job->all_ranks, job->device, &job->log,
                              &job->state.compute, error));
    TRY(machine_compare_devices(job->comm, job->device, job->config.machine.precision,
                                job->sharding.stage, &job->log, error));
    TRY(find_shape(job, &job->micro_batches, error));
    struct update_rules rules =
        update_rules_of(&job->config, &job->files.shape, job->files.table.head, job->state.compute);
    rules.exchange.wire = update_wire(&rules);
    return reduce_choose(&job->config.engine, job->comm, &job->state, &rules.exchange, &job->reduce,
                         error);
}

static size_t saving_bytes(const struct training_job *job) {
    const struct param_table *table = &job->files.table;
    const size_t copy = job_saves_in_background(job) ? saver_bytes(table, &job->sharding) : 0;
    return copy + (job_is_first(job) && foreign_is_written(&job->config.run)
                       ? foreign_write_bytes(table)
                       : 0);
}

static size_t data_bytes(const struct training_job *job) {
    const struct bert model = state_model(&job->state, &job->files.shape);
    return feed_bytes(&job->feed, &job->batching) +
           (job->has_evaluation ? evaluation_bytes(&job->evaluation, &model, job->comm) : 0);
}

// Where the ranks' parts of an update differ, or the micro-batches of an update are given, another
// micro-batch needs another update. 0: the update may stay.
static int64_t update_factor(const struct training_job *job) {
    const int64_t ranks = job->comm->size,
                  accumulation = job->config.engine.gradient_accumulation_steps;
    const int is_uneven = job->batching.update_sequences % ranks != 0;
    return accumulation > 0 ? accumulation * ranks : is_uneven ? ranks : 0;
}

struct plan_args job_memory(const struct training_job *job) {
    const struct update_rules rules =
        update_rules_of(&job->config, &job->files.shape, job->files.table.head, job->state.compute);
    return (struct plan_args){
        .state = &job->state,
        .config = &job->files.shape,
        .shape = &job->shape,
        .update_sequences = job->batching.update_sequences / job->comm->size,
        .update_factor = update_factor(job),
        .texts = (int64_t)packer_texts(&job->train.source),
        .group = (int64_t)packer_group(&job->train.source),
        .masked = job->feed.max_predictions,
        .predict_length = job->files.length,
        .comm = job->all_ranks,
        .exchange =
            job->comm->bytes + range_exchange_bytes(job->comm, job->device, job->files.table.total),
        .levels =
            updater_level_bytes(&job->files.table, (int)(job->batching.parts / job->comm->size)),
        .shared = all_reduce_shared_bytes(job->comm, &job->sharding, update_wire(&rules)),
        .data = data_bytes(job),
        .saving = saving_bytes(job),
        .log = &job->log};
}

enum berth_status job_settle_saving(struct training_job *job, struct berth_error *error) {
    const struct plan_args memory = job_memory(job);
    int is_short = job_saves_in_background(job) && !plan_memory_fits(&memory);
    TRY(job->comm->agree(job->comm, BERTH_OK, &is_short, error));
    if (is_short) {
        log_note(&job->log,
                 "async_save: not enough memory for a copy of weights and moments (%zu MiB): "
                 "checkpoints are written between updates",
                 (size_t)(memory.saving >> 20));
        job->config.run.async_save = 0;
    }
    return BERTH_OK;
}

enum berth_status job_make_plan(const struct training_job *job, struct berth_error *error) {
    const struct update_rules rules =
        update_rules_of(&job->config, &job->files.shape, job->files.table.head, job->state.compute);
    const struct training_plan plan = {.config = &job->config,
                                       .ranks = job->comm->size,
                                       .files = &job->files,
                                       .batching = &job->batching,
                                       .schedule = &job->schedule,
                                       .rules = &rules,
                                       .reduce = &job->reduce,
                                       .micro_batches = job->micro_batches,
                                       .train = &job->train,
                                       .evaluation = job->has_evaluation ? &job->evaluation : NULL,
                                       .model_folder = job->model_folder,
                                       .resume_folder = job->resume.folder};
    const struct plan_args memory = job_memory(job);
    training_report_plan(&plan, &job->log);
    return plan_memory_admit(&memory, NULL, error);
}
