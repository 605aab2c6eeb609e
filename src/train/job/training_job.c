// SPDX-License-Identifier: Apache-2.0
// A training job from settings to files, in the order in which a reader can follow it from the
// bottom up: training_job_open reads the model and the data, makes the plan, allocates the state
// and locks the output folder; training_job_train runs the loop and writes the result. Each step
// that can fail on one rank alone ends with comm_settle, so that all ranks go on, or none.
//
// The job owns everything that it opens. What happens between two updates is in training_loop.c,
// which settings are allowed in job_settings.c, and the memory in job_plan.c.
#include "train/job/training_job.h"

#include "core/clock.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "model/architectures.h"
#include "model/folder.h"
#include "settings/effects.h"
#include "settings/settings.h"
#include "train/checkpoint/foreign_checkpoint.h"
#include "train/checkpoint/stale_files.h"
#include "train/job/job_save_eval.h"
#include "train/job/rules.h"
#include "train/job/training_job_internal.h"
#include "train/job/training_report.h"
#include "train/machine/machine.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

// --- the output folder --------------------------------------------------------------------------

// Locks the folder first, because another run might be rotating the checkpoints that are read next.
static enum berth_status lock_output(struct training_job *job, struct berth_error *error) {
    TRY(output_lock(&job->config.run, &job->lock, &job->log, error));
    return checkpoint_clean(job->config.run.output_dir, &job->log, error);
}

// --- reading ------------------------------------------------------------------------------------

// Whether the weights are random: neither a model nor a checkpoint is named.
static int is_new(const struct training_job *job) {
    return job->config.model.model_name_or_path == NULL && job->resume.folder == NULL;
}

// Whether shape and vocabulary come from the settings: for a new model, or for an original
// program's checkpoint without them.
static int has_new_shape(const struct training_job *job) {
    return is_new(job) ||
           (!resume_has_model(&job->resume) && job->resume.folder != NULL &&
            job->config.model.model_name_or_path == NULL && job->config.model.config_file != NULL);
}

// Apart from the vocabulary, which vocab_multiple rounds up.
static int has_shape(const struct bert_config *one, const struct bert_config *other) {
    return one->architecture == other->architecture && one->hidden_size == other->hidden_size &&
           one->num_hidden_layers == other->num_hidden_layers &&
           one->num_attention_heads == other->num_attention_heads &&
           one->intermediate_size == other->intermediate_size &&
           one->max_position_embeddings == other->max_position_embeddings &&
           one->type_vocab_size == other->type_vocab_size && one->hidden_act == other->hidden_act &&
           one->hidden_dropout_prob == other->hidden_dropout_prob &&
           one->attention_probs_dropout_prob == other->attention_probs_dropout_prob &&
           one->layer_norm_eps == other->layer_norm_eps &&
           one->pre_layer_norm == other->pre_layer_norm;
}

// Opens the model of the checkpoint, whose shape may differ from config_file's.
static enum berth_status open_checkpoint(struct training_job *job, struct berth_error *error) {
    const char *config_file = job->config.model.config_file;
    job->model_folder = job->resume.folder;
    job->config.model.config_file = NULL;
    const enum berth_status status = model_files_open(
        &job->files, &job->config.model, job->model_folder, job->task->head, &job->log, error);
    job->config.model.config_file = config_file;
    if (status == BERTH_OK) {
        // A config_file may describe another model than the checkpoint's.
        struct bert_config given;
        if (config_file != NULL && bert_config_read(config_file, &given, NULL) == BERTH_OK) {
            (void)inputs_settle_gelu(&job->config.model, &given,
                                     NULL); // what it refuses was refused before
            if (job->config.model.pre_layer_norm >= 0) {
                given.pre_layer_norm = (int)job->config.model.pre_layer_norm;
            }
            if (!has_shape(&given, &job->files.shape)) {
                log_note(&job->log, "config_file is ignored: a resumed run keeps the model of %s",
                         job->model_folder);
            }
            bert_config_done(&given);
        }
    }
    return status;
}

// A checkpoint of transformers' Trainer, whose classes are those of its own config.json.
static int is_from_trainer(const struct training_job *job) {
    return job->resume.foreign_step >= 0 && resume_has_model(&job->resume);
}

// The Trainer's checkpoint has a tokenizer only if the Trainer was given one.
static enum berth_status find_tokenizer(struct training_job *job, struct berth_error *error) {
    struct settings *config = &job->config;
    char *path;
    TRY(folder_vocabulary_path(job->resume.folder, &path, error));
    if (!file_exists(path) && config->model.vocab_file == NULL) {
        config->model.vocab_file = config->model.model_name_or_path;
    }
    memory_free(path);
    return BERTH_OK;
}

static enum berth_status open_model(struct training_job *job, struct berth_error *error) {
    struct settings *config = &job->config;
    job->files.only_planned = config->run.dry_run;
    if (has_new_shape(job)) {
        job->model_folder = config->model.config_file;
        return model_files_open_new(&job->files, &config->model, job->task->head, &job->log, error);
    }
    if (is_from_trainer(job)) {
        TRY(find_tokenizer(job, error));
        return open_checkpoint(job, error);
    }
    if (config->model.model_name_or_path == NULL) {
        return open_checkpoint(job, error);
    }
    job->model_folder = config->model.model_name_or_path;
    return model_files_open(&job->files, &config->model, job->model_folder, job->task->head,
                            &job->log, error);
}

static enum berth_status open_feed(struct training_job *job, struct berth_error *error) {
    const struct task_set *train = &job->train;
    if (train->text != NULL) {
        return feed_open_text(&job->feed, train->text, &train->masks,
                              machine_threads(&job->config.machine), error);
    }
    if (train->source_count > 0) {
        return feed_open_sets(&job->feed, train->sources, train->source_names, train->source_count,
                              train->mixing, error);
    }
    if (train->shards == NULL) {
        return feed_open_source(&job->feed, &train->source, error);
    }
    feed_open_shards(&job->feed, train->shards, &train->stream);
    return BERTH_OK;
}

// Without scores no model is the best. A set without answers is predicted once, at the end.
static enum berth_status settle_unscored(struct training_job *job, struct berth_error *error) {
    const char *where = job->has_evaluation ? "the validation_file has no answers to compare with"
                        : !job->config.run.do_eval ? "do_eval is false"
                                                   : job->task->validation_advice;
    if (job_is_worker(job)) {
        return error_set(error, BERTH_CONFIG,
                         "workers independent needs evaluations to choose the best worker, and "
                         "there is nothing to evaluate on: %s",
                         where);
    }
    TRY(save_eval_check_unevaluated(&job->config, job->has_evaluation, where, &job->log, error));
    if (job->has_evaluation) {
        job->config.run.evaluate_every_epoch = 0;
        job->config.run.eval_steps = 0;
    }
    return BERTH_OK;
}

// Checks metric_for_best_model before training, because the first evaluation may come late.
static enum berth_status check_metric(struct training_job *job, struct berth_error *error) {
    struct task_score score;
    struct best_metric best;
    if (job->config.run.metric_for_best_model == NULL) {
        return BERTH_OK;
    }
    TRY(evaluation_check(&job->evaluation, &job->files, &score, error));
    return save_eval_best_metric(&job->config.run, &score, &best, error);
}

// Reads what will be predicted after training, so that an unusable file is reported before. The
// prediction itself logs the messages.
static enum berth_status check_prediction(const struct training_job *job,
                                          const struct task_open *training,
                                          struct berth_error *error) {
    static const struct berth_log silent = {0};
    struct task_open args = *training;
    struct task_set set;
    if (!job->task->predicts_separately || !task_predicts(&job->config)) {
        return BERTH_OK;
    }
    args.use = TASK_PREDICT;
    args.log = &silent;
    enum berth_status status = task_set_open(&set, job->task, &args, error);
    task_set_close(&set, job->task);
    return status;
}

// Refused before training, because the result is written after it.
static enum berth_status check_formats(const struct training_job *job, struct berth_error *error) {
    static const char *const of_dialects[] = {"nvidia", "nvidia_finetuned", "tensorflow"};
    const struct architecture *row = job->files.table.architecture;
    for (size_t i = 0; i < sizeof of_dialects / sizeof *of_dialects && !row->has_dialects; i++) {
        if (words_contain(job->config.run.save_format, ',', of_dialects[i])) {
            return error_set(error, BERTH_CONFIG,
                             "save_format %s: the model is %s, which the programs that read this "
                             "format do not have; use hf or torch",
                             of_dialects[i], row->title);
        }
    }
    return BERTH_OK;
}

// A new head would not be the one that the run to resume has trained.
static enum berth_status check_head(const struct training_job *job, struct berth_error *error) {
    const char *other;
    TRY(bert_config_other_classifier(
        &job->files.shape, param_head_row(job->files.table.head)->architecture, &other, error));
    if (other != NULL) {
        return error_set(error, BERTH_CONFIG,
                         "%s is a checkpoint of a %s%s; name a checkpoint of the same task, or "
                         "start from its weights with model_name_or_path",
                         job->resume.folder, job->files.table.architecture->class_prefix, other);
    }
    return !job->train.new_head
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "%s: its classes are not those of %s; resume with the same labels, or "
                           "start from its weights with model_name_or_path",
                           job->resume.folder, job->train.path);
}

static void warn_of_useless_training(const struct training_job *job) {
    const struct settings *config = &job->config;
    const int64_t updates = job->batching.total_steps;
    if ((float)config->optimizer.adam_epsilon == 0) {
        log_warning(&job->log,
                    "adam_epsilon %g: as in PyTorch, weights without a gradient, such as those of "
                    "words that are not in the texts, become NaN, because 0 is divided by 0; "
                    "1e-8 is usual",
                    config->optimizer.adam_epsilon);
    }
    if (updates == 0) {
        log_warning(&job->log,
                    "num_train_epochs %g is less than one update: the model is saved as it is, "
                    "untrained",
                    config->engine.num_train_epochs);
    } else if (schedule_is_zero(&job->schedule, updates)) {
        log_warning(&job->log,
                    "the learning rate of every update is 0, so nothing will be trained: schedule "
                    "%s, updates: %" PRId64 ", of these warm-up: %" PRId64
                    ", learning_rate %g; schedule constant has no warm-up",
                    config->optimizer.schedule, updates, job->schedule.warmup_steps,
                    job->schedule.peak);
    }
}

static enum berth_status read_inputs(struct training_job *job, struct berth_error *error) {
    struct settings *config = &job->config;
    const struct optimizer optimizer = optimizer_of(&config->optimizer);
    TRY(open_model(job, error));
    TRY(optimizer_check(&optimizer, &job->files.table, error));
    if (resume_has_model(&job->resume)) {
        TRY(model_files_check_vocabulary(&job->files, job->resume.folder, error));
    }
    const struct length_limits limits = model_files_limits(
        &job->files, option_default_integer("max_seq_length", job->task->defaults),
        job->model_folder);
    TRY(task_fit_length(config, &limits, &job->files.length, &job->log, error));
    if (job->task->follow != NULL) {
        TRY(job->task->follow(config, &job->files, &job->log, error));
    }
    // A missing file is reported before the training file is read.
    TRY(job->task->has_validation(config, &job->has_evaluation, error));
    struct task_open args = {
        .use = TASK_TRAIN, .config = config, .files = &job->files, .log = &job->log};
    TRY(task_set_open(&job->train, job->task, &args, error));
    if (is_from_trainer(job)) {
        TRY(check_head(job, error));
    }
    if (job->has_evaluation) {
        args.use = TASK_VALIDATE;
        TRY(evaluation_open(&job->evaluation, job->task, &args, error));
    }
    if (job->has_evaluation && !job->evaluation.set.unscored) {
        TRY(check_metric(job, error));
    } else {
        TRY(settle_unscored(job, error));
    }
    TRY(check_prediction(job, &args, error));
    TRY(open_feed(job, error));
    const struct batching_request request = batching_request_of(config);
    TRY(job->feed.ops->resolve(&job->feed, &job->batching, &request, job->comm, error));
    TRY(batching_apply_steps_rule(&job->batching, &config->engine, job->train.examples, error));
    save_eval_resolve_ratios(config, job->batching.total_steps, &job->log);
    job->schedule =
        schedule_of(&config->optimizer, job_rate_factor(job), job->batching.schedule_steps);
    warn_of_useless_training(job);
    settings_note_effects(job->given, config, job->task->jobs, job->all_ranks->size, &job->log);
    return BERTH_OK;
}

// --- weights ------------------------------------------------------------------------------------

// A checkpoint that the shape and vocabulary come from, or that is in the output folder, may be
// removed before the run ends. So the tokenizer's files are copied to the output folder, which
// needs them anyway, and taken from there.
static enum berth_status copy_tokenizer(struct training_job *job, struct berth_error *error) {
    const char *folder = job->config.run.output_dir, *vocab_file = job->config.model.vocab_file;
    const char *source = job->content.tokenizer_folder;
    if (source != job->resume.folder && !path_is_inside(source, folder)) {
        return BERTH_OK;
    }
    TRY(folder_copy_tokenizer(source, job->files.vocab_path, &job->files.rules, folder, error));
    job->content.tokenizer_folder = folder;
    if (job->files.vocab_path == NULL ||
        (vocab_file != NULL && !path_is_inside(vocab_file, folder))) {
        return BERTH_OK;
    }
    memory_free(job->files.vocab_path);
    job->files.vocab_path =
        path_join(folder, job->files.rules.is_pipeline ? "tokenizer.json" : "vocab.txt");
    return job->files.vocab_path != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
}

// Frees what load_state allocated, complete or not.
static void release_state(struct training_job *job) {
    saver_done(&job->saver);
    updater_done(&job->updater);
    engine_done(&job->engine);
    if (job->state.master != NULL) {
        state_done(&job->state);
    }
}

static enum berth_status load_state(struct training_job *job, struct berth_error *error) {
    enum dtype compute = job->state.compute;
    struct update_rules rules =
        update_rules_of(&job->config, &job->files.shape, job->files.table.head, compute);
    rules.class_weights = job->train.class_weights;
    rules.exchange.native = job->reduce.native;
    TRY(state_init_sharded(&job->state, job->device, &job->files.table, compute, &job->sharding,
                           error));
    job->content = (struct checkpoint_content){
        .settings = &job->config,
        .run = &job->config.run,
        .optimizer = optimizer_of(&job->config.optimizer),
        .schedule = &job->schedule,
        .rewarmup = job->config.optimizer.rewarmup,
        .files = &job->files,
        .tokenizer_folder = inputs_tokenizer_folder(&job->config.model, job->model_folder),
        .batching = &job->batching,
        .state = &job->state,
        .progress = &job->progress,
        .comm = job->comm,
        .updater = &job->updater};
    TRY(check_formats(job, error));
    log_event(&job->log, "loading_checkpoint");
    if (job->resume.foreign_step >= 0) {
        TRY(foreign_read(&job->content, job->resume.folder, job->resume.foreign_step, &job->log,
                         error));
    } else if (job->resume.folder != NULL) {
        TRY(checkpoint_read(&job->content, job->resume.folder, &job->log, error));
        log_note(&job->log, "resumed from %s", job->resume.folder);
    } else if (is_new(job)) {
        TRY(model_files_initialise(&job->files, (uint64_t)job->config.run.seed, &job->state,
                                   error));
    } else {
        const char *other;
        TRY(bert_config_other_classifier(
            &job->files.shape, param_head_row(job->files.table.head)->architecture, &other, error));
        if (job->train.new_head || other != NULL) {
            param_table_renew_head(&job->files.table);
        }
        TRY(model_files_load(&job->files, job->model_folder, rules.seed, &job->log, &job->state,
                             error));
        param_table_keep_head(&job->files.table); // later loads are of this run's checkpoints
    }
    const struct progress *progress = &job->progress;
    if (job->config.optimizer.rewarmup && job->config.run.phase2 &&
        progress->step == progress->phase_start) {
        log_note(&job->log, "rewarmup has no effect: the schedule of the second phase begins here");
    }
    log_event(&job->log, "loaded_checkpoint");
    TRY(engine_init(&job->engine, &job->state, job->comm, &job->files.shape, &job->shape, error));
    TRY(updater_init(&job->updater, &job->engine, &rules, job->batching.update_sequences, error));
    range_exchange_note(&job->updater.all_reduce.exchange, &job->log);
    reduce_choice_note(&job->reduce, &job->updater.all_reduce, &job->log);
    return job_saves_in_background(job)
               ? saver_init(&job->saver, &job->content, job->config.run.output_dir, error)
               : BERTH_OK;
}

// --- results -------------------------------------------------------------------------------------

static enum berth_status write_outputs(struct training_job *job, const struct training_result *loop,
                                       struct berth_error *error) {
    const char *folder = job->config.run.output_dir;
    char before[DIGEST_HEX_SIZE] = "";
    TRY(comm_settle(job->comm, job_is_first(job) ? file_lock_check(&job->lock, error) : BERTH_OK,
                    error));
    if (job_is_first(job)) {
        stale_files_digest_weights(folder, before);
    }
    TRY(checkpoint_write_model(&job->content, folder, error));
    if (job_is_first(job)) {
        stale_files_remove_torch(folder, before, &job->log);
    }
    if (!job_is_first(job) || loop->evaluated_step != loop->model_step ||
        loop->evaluated_step < 0) {
        return BERTH_OK;
    }
    struct task_results results = {.use = TASK_VALIDATE,
                                   .folder = folder,
                                   .score = &loop->score,
                                   .step = loop->model_step,
                                   .is_training = 1,
                                   .seconds = loop->prediction_seconds};
    return job->task->write(&job->evaluation.set, &results, error);
}

// The mean over the updates since the last report, which an early stop and steps_this_run may
// leave.
static double final_loss(const struct progress *progress) {
    return progress->loss_count > 0 ? progress->loss_sum / (double)progress->loss_count
                                    : progress->last_loss;
}

static void fill_outcome(const struct training_job *job, const struct training_result *loop,
                         struct training_outcome *outcome) {
    double seconds = loop->seconds > 0 ? loop->seconds : NAN;
    outcome->result = (struct berth_run_result){
        .steps = job->progress.step,
        .final_loss = final_loss(&job->progress),
        .metric_count = loop->score.count,
        .eval_loss = loop->score.loss,
        .samples_per_second = (double)loop->sequences / seconds,
        .tokens_per_second = (double)loop->tokens / seconds,
        .mfu = NAN,
        .is_complete = loop->is_complete,
    };
    memcpy(outcome->result.metrics, loop->score.items, sizeof outcome->result.metrics);
    outcome->is_scored =
        loop->score.count > 0 && loop->evaluated_step == loop->model_step &&
        save_eval_best_metric(&job->config.run, &loop->score, &outcome->score, NULL) == BERTH_OK;
}

static int overwrites(const struct training_job *job) {
    return job->config.run.overwrite_output_dir && job->resume.folder == NULL;
}

enum berth_status training_job_train(struct training_job *job, const atomic_int *stop,
                                     struct training_outcome *outcome, struct berth_error *error) {
    struct training_loop loop = {.task = job->task->name,
                                 .config = &job->config,
                                 .log = &job->log,
                                 .stop = stop,
                                 .lock = &job->lock,
                                 .overwrites = overwrites(job),
                                 .updater = &job->updater,
                                 .batching = &job->batching,
                                 .schedule = &job->schedule,
                                 .feed = &job->feed,
                                 .content = &job->content,
                                 .saver = job_saves_in_background(job) ? &job->saver : NULL,
                                 .evaluation = job->has_evaluation ? &job->evaluation : NULL};
    struct training_result done;
    job->stop = stop;
    TRY(resume_saved_step(&job->resume, job->comm, job->config.run.output_dir, job->progress.step,
                          &loop.saved_step, error));
    log_event(&job->log, "train_start");
    enum berth_status status =
        comm_settle(job->comm, training_loop_run(&loop, &done, error), error);
    if (status == BERTH_OK) {
        status = job_use_best(job, &done, error);
    }
    fill_outcome(job, &done, outcome);
    TRY(comm_settle(job->comm, status, error));
    // Measuring the peak takes seconds, so it is done only after success.
    outcome->result.mfu =
        machine_mfu(job->device, job->state.compute, done.required_flops, done.seconds);
    TRY(comm_settle(job->comm, write_outputs(job, &done, error), error));
    struct training_summary summary = {
        .task = job->task,
        .result = &outcome->result,
        .loop = &done,
        .progress = &job->progress,
        .train = &job->train,
        .evaluated = &job->evaluation.set,
        .config = &job->config,
        .epoch = batching_epochs(&job->batching, job->progress.step - job->progress.phase_start),
        .seconds = clock_now() - job->begin};
    return job_is_first(job) ? training_report_summary(&summary, &job->log, error) : BERTH_OK;
}

// Rank 0 only: checks the output folder, finds what to resume from, and notes settings of the
// tokenizer that are not kept.
static enum berth_status check_output(struct training_job *job, struct berth_error *error) {
    const char *otherwise = ", or resume with resume_from_checkpoint auto";
    TRY(output_check(&job->config.run, &job->config.report,
                     settings_resume(&job->config) ? NULL : otherwise, error));
    if (!job->config.run.dry_run && dir_exists(job->config.run.output_dir)) {
        TRY(lock_output(job, error));
    }
    if (settings_resume(&job->config)) {
        TRY(resume_find(&job->resume, &job->config, &job->log, error));
    }
    if (job->config.optimizer.rewarmup && job->resume.folder == NULL) {
        log_note(&job->log, "rewarmup has no effect: the run does not resume from a checkpoint");
    }
    TRY(job->resume.folder != NULL ? BERTH_OK : job_require_start(job, error));
    // No file of a model folder, as transformers reads it, has a place for these settings.
    const struct settings *config = &job->config;
    const struct {
        const char *name;
        int is_set;
    } rules[] = {{"tokenizer google", config->model.tokenizer != NULL &&
                                          strcmp(config->model.tokenizer, "google") == 0},
                 {"max_word_length", config->model.max_word_length > 0},
                 {"split_special", config->model.split_special >= 0}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].is_set) {
            log_note(
                &job->log,
                "%s is not kept in the model's files; give it again wherever the model is used",
                rules[i].name);
        }
    }
    return overwrites(job)
               ? stale_files_check(job->config.run.output_dir, &job->config.model, error)
               : BERTH_OK;
}

// What needs no other rank: input and device.
static enum berth_status prepare(struct training_job *job, struct berth_error *error) {
    TRY(machine_start_threads(machine_threads(&job->config.machine), error));
    TRY(read_inputs(job, error));
    return machine_device_open(&job->config.machine, job->all_ranks, &job->log, &job->device,
                               error);
}

static enum berth_status start(struct training_job *job, struct berth_error *error) {
    TRY(progress_init(&job->progress, error));
    job->progress.jobs = job->task->jobs;
    job->progress.rate_factor = job_rate_factor(job);
    job->progress.feed = &job->feed;
    job->progress.files = &job->files;
    const struct state planned = job->state;
    enum berth_status status = load_state(job, error);
    if (status == BERTH_NO_MEMORY && !job->device->is_host) {
        release_state(job);
        job->state = planned;
        const struct plan_args memory = job_memory(job);
        plan_memory_advise(&memory, error);
    }
    // A run that is resumed beyond its end would train and evaluate nothing.
    if (status == BERTH_OK) {
        const int64_t step = job->progress.step;
        const int64_t end = job->progress.phase_start + job->batching.total_steps;
        return step <= end
                   ? BERTH_OK
                   : error_set(error, BERTH_CONFIG,
                               "%s: update %" PRId64 " is beyond the end of this run, update "
                               "%" PRId64 "; increase max_steps or num_train_epochs, or name "
                               "an earlier checkpoint",
                               job->resume.folder, step, end);
    }
    return status;
}

// Creates the output folder only now, so that unusable input leaves none behind. Another run may
// have filled it in the meantime.
static enum berth_status make_output(struct training_job *job, struct berth_error *error) {
    if (job->lock.descriptor < 0) {
        TRY(lock_output(job, error));
        TRY(output_check(&job->config.run, &job->config.report,
                         ", or resume with resume_from_checkpoint auto", error));
    }
    TRY(copy_tokenizer(job, error));
    return run_log_begin(job->run_log, job->config.run.output_dir, settings_resume(&job->config),
                         error);
}

static enum berth_status open_log(struct training_job *job, struct berth_error *error) {
    const struct run_log_settings settings = {.next = job->log,
                                              .report = job->config.report.report,
                                              .report_every = job->config.report.report_every};
    if (job_is_first(job)) {
        TRY(run_log_open(&settings, &job->run_log, error));
        job->log = run_log_log(job->run_log);
    }
    return BERTH_OK;
}

// All ranks start, or none does.
static enum berth_status open_all(struct training_job *job, struct berth_error *error) {
    struct comm *all_ranks = job->all_ranks;
    TRY(comm_settle(all_ranks, open_log(job, error), error));
    TRY(comm_settle(all_ranks, job_settle(job, error), error));
    TRY(job_compare_settings(job, error));
    TRY(comm_settle(all_ranks, job_is_first(job) ? check_output(job, error) : BERTH_OK, error));
    TRY(resume_broadcast(&job->resume, job->comm, job->config.run.output_dir, error));
    TRY(comm_settle(all_ranks, prepare(job, error), error));
    TRY(job_compare_inputs(job, error));
    TRY(comm_settle(all_ranks, job_measure_plan(job, error), error));
    TRY(job_settle_saving(job, error));
    TRY(comm_settle(all_ranks, job_make_plan(job, error), error));
    if (job->config.run.dry_run) {
        return BERTH_OK;
    }
    TRY(comm_settle(all_ranks, start(job, error), error));
    TRY(job_compare_weights(job, error));
    TRY(comm_settle(all_ranks, job_is_first(job) ? make_output(job, error) : BERTH_OK, error));
    return output_compare_ranks(job->comm, job->config.run.output_dir, error);
}

enum berth_status training_job_open(const struct training_job_args *args,
                                    struct training_job **opened, struct berth_error *error) {
    struct training_job *job = memory_array_zeroed(1, sizeof *job);
    enum berth_status status =
        job != NULL ? BERTH_OK : error_no_memory(error, sizeof *job, "a training job");
    *opened = NULL;
    status = comm_settle(args->all_ranks, status, error);
    if (status != BERTH_OK) {
        memory_free(job);
        args->comm->close(args->comm);
        return status;
    }
    *job = (struct training_job){.task = args->task,
                                 .config = *args->config,
                                 .given = args->config,
                                 .log = args->log,
                                 .lock = {.descriptor = -1},
                                 .comm = args->comm,
                                 .all_ranks = args->all_ranks,
                                 .resume = resume_none,
                                 .begin = clock_now()};
    *opened = job;
    return open_all(job, error);
}

void training_job_close(struct training_job *job) {
    if (job == NULL) {
        return;
    }
    saver_done(&job->saver);
    updater_finish(&job->updater);
    job->comm->close(job->comm); // before freeing memory that it may still access
    release_state(job);
    progress_done(&job->progress);
    if (job->device != NULL) {
        job->device->close(job->device);
    }
    evaluation_done(&job->evaluation);
    feed_done(&job->feed);
    task_set_close(&job->train, job->task);
    model_files_done(&job->files);
    resume_done(&job->resume);
    run_log_close(job->run_log);
    file_lock_release(&job->lock);
    memory_free(job);
}
