// SPDX-License-Identifier: Apache-2.0
// Turns what a training job knows into records: before the first update the model, the data, the
// batches and the optimizer; at the end the summary, and all_results.json and its like in the
// output folder. The log's sinks (src/report/) make lines, JSON or pages of the records.
#include "train/job/training_report.h"

#include "core/file.h"
#include "format/json/json.h"
#include "metrics/results.h"
#include "settings/settings.h"
#include "train/job/lengths.h"
#include "train/machine/machine.h"
#include "train/optimizer/loss_scale.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SEQUENCES_SIZE = 96 };
#define COUNT(fields) (sizeof(fields) / sizeof((fields)[0]))

static void report_data(const struct training_plan *plan, const struct berth_log *log) {
    const struct task_set *train = plan->train;
    const struct evaluation *evaluation = plan->evaluation;
    struct log_record record = {0};
    LOG_ADD(&record, log_text("train_file", train->path));
    if (train->shards != NULL) {
        LOG_ADD(&record, log_integer("shards", (int64_t)train->shards->count),
                log_integer("train_sequences", train->shards->sequences),
                log_integer("row_length", train->shards->length));
    } else {
        LOG_ADD(&record, log_integer("train_examples", train->examples),
                log_integer("train_features", (int64_t)train->source.count),
                log_integer("train_tokens", train->tokens),
                log_real("mean_length", (double)train->tokens / (double)train->source.count));
    }
    if (train->labels[0] != '\0') {
        LOG_ADD(&record, log_text("labels", train->labels));
    }
    LOG_ADD(&record, log_text("validation_file", evaluation != NULL ? evaluation->set.path : NULL),
            log_integer("eval_features",
                        evaluation != NULL ? (int64_t)evaluation->set.source.count : 0));
    log_record(log, BERTH_PLAN, "data", &record);
}

// The sequences of an update. In many other programs a batch size is that of one process.
static void print_sequences(const struct training_plan *plan, char text[SEQUENCES_SIZE]) {
    const int64_t sequences = plan->batching->update_sequences, ranks = plan->ranks;
    if (sequences % ranks == 0) {
        snprintf(text, SEQUENCES_SIZE, "%" PRId64 " process%s x %" PRId64 " = %" PRId64, ranks,
                 ranks == 1 ? "" : "es", sequences / ranks, sequences);
    } else {
        snprintf(text, SEQUENCES_SIZE, "%" PRId64 ", divided among %" PRId64 " processes",
                 sequences, ranks);
    }
}

static void report_batches(const struct training_plan *plan, const struct berth_log *log) {
    const struct batching *batching = plan->batching;
    char sequences[SEQUENCES_SIZE];
    print_sequences(plan, sequences);
    struct log_record record = {0};
    LOG_ADD(&record, log_integer("train_batch_size", batching->update_sequences),
            log_integer("processes", plan->ranks), log_text("sequences_per_update", sequences),
            log_integer("sequences_per_micro_batch", batching->micro.sequences),
            log_integer("micro_batches_per_update", plan->micro_batches),
            log_integer("updates_per_epoch", batching->updates_per_epoch),
            log_integer("total_steps", batching->total_steps),
            log_real("epochs", batching_epochs(batching, batching->total_steps)),
            log_text("expected_time", "printed after the first updates, which are timed"));
    // Explains numbers whose names mean different things in the original programs.
    const int by_tokens = batching->accumulation == 0;
    if (batching->crosses_epochs) {
        LOG_ADD(
            &record,
            log_text("train_batch_size_means", "sequences of one update over all processes; a "
                                               "packed row counts as the sequences in it"),
            log_integer("tokens_per_micro_batch", by_tokens ? batching->micro.tokens : 0),
            log_text("micro_batch_means",
                     by_tokens
                         ? "filled with sequences until one of these is reached"
                         : "this many sequences of one process at once, whatever their tokens"));
    }
    char reduce[sizeof plan->reduce->reason + 16];
    if (plan->ranks > 1) {
        snprintf(reduce, sizeof reduce, "%s (%s)", plan->reduce->native ? "native" : "exact",
                 plan->reduce->reason);
        LOG_ADD(&record, log_text("reduce", reduce));
    }
    log_record(log, BERTH_PLAN, "batches", &record);
}

static void report_optimizer(const struct training_plan *plan, const struct berth_log *log) {
    const struct settings *config = plan->config;
    const struct optimizer optimizer = optimizer_of(&config->optimizer);
    char formula[160];
    optimizer_print_formula(&optimizer, formula, sizeof formula);
    const enum param_head head = plan->files->table.head;
    struct log_record record = {0};
    LOG_ADD(&record, log_text("optimizer", config->optimizer.optimizer),
            log_text("optimizer_formula", formula), log_text("schedule", plan->schedule->row->name),
            log_text("schedule_formula", plan->schedule->row->formula),
            log_real("learning_rate", plan->schedule->peak),
            log_text("lr_scaling", config->optimizer.lr_scaling),
            log_integer("schedule_steps", plan->schedule->total_steps),
            log_integer("warmup_steps", plan->schedule->warmup_steps),
            log_real("weight_decay", config->optimizer.weight_decay),
            log_text("no_decay", config->optimizer.no_decay),
            log_real("max_grad_norm", config->optimizer.max_grad_norm),
            log_text("clip_by", config->optimizer.clip_by),
            log_text("loss_scale",
                     loss_scale_text(&config->optimizer, config->machine.precision == BERTH_FP16)),
            log_integer("seed", config->run.seed),
            log_real("hidden_dropout_prob", plan->rules->hidden_dropout),
            log_real("attention_probs_dropout_prob", plan->rules->attention_dropout));
    if (head == PARAM_HEAD_CLASS || head == PARAM_HEAD_TOKEN) {
        LOG_ADD(&record, log_real("classifier_dropout", plan->rules->head_dropout));
    }
    log_record(log, BERTH_PLAN, "optimizer", &record);
}

// Where checkpoints are removed there is for a moment one more than are kept, because the new one
// is durable before an old one is removed.
static void report_files(const struct training_plan *plan, const struct berth_log *log) {
    const struct batching *batching = plan->batching;
    const int64_t steps = plan->config->run.save_steps;
    int64_t every = steps == OPTION_AUTO ? 1 : steps > 0 ? steps : batching->updates_per_epoch;
    every = every < batching->total_steps ? every : batching->total_steps;
    int64_t checkpoint = plan->files->table.parameter_count * 12;
    int64_t saves = every > 0 ? (batching->total_steps + every - 1) / every : 0;
    int64_t kept =
        plan->config->run.save_total_limit > 0 && plan->config->run.save_total_limit < saves
            ? plan->config->run.save_total_limit
            : saves;
    int64_t checkpoints = checkpoint * (kept < saves ? kept + 1 : saves);
    if (!save_eval_has_checkpoints(&plan->config->run)) {
        every = kept = 0;
        checkpoints = plan->config->run.skip_checkpoint ? 0 : checkpoint; // of a stop
    }
    LOG_RECORD(log, BERTH_PLAN, "files", log_text("output_dir", plan->config->run.output_dir),
               log_text("resumed_from", plan->resume_folder),
               steps == OPTION_AUTO && every > 0 ? log_text("checkpoint_every_steps", "auto")
                                                 : log_integer("checkpoint_every_steps", every),
               log_integer("checkpoints_kept", kept), log_integer("checkpoint_bytes", checkpoint),
               log_integer("disk_bytes", checkpoints + checkpoint / 3));
}

void training_report_plan(const struct training_plan *plan, const struct berth_log *log) {
    const struct bert_config *shape = &plan->files->shape;
    LOG_RECORD(log, BERTH_PLAN, "model", log_text("model_name_or_path", plan->model_folder),
               log_integer("parameters", plan->files->table.parameter_count),
               log_integer("hidden_size", shape->hidden_size),
               log_integer("num_hidden_layers", shape->num_hidden_layers),
               log_integer("num_attention_heads", shape->num_attention_heads),
               log_integer("intermediate_size", shape->intermediate_size),
               log_integer("vocab_size", shape->vocab_size),
               log_text("precision", machine_precision_name(plan->config->machine.precision)));
    report_data(plan, log);
    report_batches(plan, log);
    report_optimizer(plan, log);
    report_files(plan, log);
    // Lengths in shards become known during training (loop_records.c).
    const struct task_set *train = plan->train;
    struct lengths lengths;
    if (train->shards == NULL) {
        lengths_of_sources(&lengths, train->source_count > 0 ? train->sources : &train->source,
                           train->source_count > 0 ? train->source_count : 1);
        lengths_log(&lengths, plan->files->length, log);
    }
}

static void add_unless_nan(struct log_record *record, const char *key, double value) {
    if (!isnan(value)) {
        LOG_ADD(record, log_real(key, value));
    }
}

static void report_summary(const struct training_summary *summary, const struct berth_log *log) {
    const struct berth_run_result *result = summary->result;
    const struct training_result *loop = summary->loop;
    const struct comm_stats *exchanged = &loop->exchanged;
    struct log_record record = {0};
    LOG_ADD(&record, log_integer("steps", result->steps),
            log_real("final_loss", result->final_loss));
    // "best_metric" is the Trainer's name for the best model's score; "best_f1" is a score of SQuAD
    // 2.0.
    const struct task_score *score = &summary->loop->score;
    log_add_metrics(&record, score->items, score->count);
    add_unless_nan(&record, "eval_loss", score->loss);
    // There may be a score by which models are compared.
    struct best_metric best;
    if (summary->loop->score.count > 0 &&
        save_eval_best_metric(&summary->config->run, &summary->loop->score, &best, NULL) ==
            BERTH_OK) {
        LOG_ADD(&record, log_real("best_metric", summary->progress->best.value));
    }
    LOG_ADD(&record, log_real("samples_per_second", result->samples_per_second),
            log_real("tokens_per_second", result->tokens_per_second),
            log_real("model_flops", loop->seconds > 0 ? loop->required_flops / loop->seconds : NAN),
            log_real("mfu", result->mfu), log_real("train_seconds", loop->seconds),
            log_real("forward_seconds", loop->forward_seconds),
            log_real("backward_seconds", loop->backward_seconds),
            log_real("step_seconds", loop->step_seconds),
            log_real("save_seconds", loop->save_seconds),
            log_real("evaluation_seconds", loop->evaluation_seconds),
            log_real("evaluation_samples_per_second", loop->predicted_per_second),
            log_real("seconds", summary->seconds),
            log_integer("peak_rss_bytes", (int64_t)machine_peak_resident()),
            log_text("output_dir", summary->config->run.output_dir));
    if (exchanged->busy_seconds > 0) {
        const double hidden = exchanged->busy_seconds - exchanged->exposed_seconds;
        LOG_ADD(&record, log_real("comm_exposed_seconds", exchanged->exposed_seconds),
                log_real("comm_hidden_seconds", fmax(0, hidden)),
                log_integer("comm_bytes", (int64_t)exchanged->bytes));
    }
    log_record(log, BERTH_SUMMARY, summary->task->title, &record);
}

static enum berth_status write_training(const struct training_summary *summary,
                                        struct berth_error *error) {
    const struct berth_run_result *result = summary->result;
    const struct training_result *loop = summary->loop;
    struct log_record record = {0};
    LOG_ADD(&record, log_real("epoch", summary->epoch), log_integer("global_step", result->steps),
            // The number of sequences of an epoch.
            log_integer("train_samples", summary->train->shards != NULL
                                             ? summary->train->shards->sequences
                                             : (int64_t)summary->train->source.count));
    // The mean over all updates, as transformers' Trainer has it; in pre-training over those of the
    // phase.
    add_unless_nan(&record, "train_loss",
                   summary->progress->train_loss_count > 0
                       ? summary->progress->train_loss_sum /
                             (double)summary->progress->train_loss_count
                       : NAN);
    if (loop->updates > 0) {
        LOG_ADD(&record, log_real("train_runtime", loop->seconds),
                log_real("train_steps_per_second", (double)loop->updates / loop->seconds));
    }
    add_unless_nan(&record, "train_samples_per_second", result->samples_per_second);
    add_unless_nan(&record, "train_tokens_per_second", result->tokens_per_second);
    LOG_ADD(&record, log_real("total_flos", summary->progress->total_flos));
    add_unless_nan(&record, "mfu", result->mfu);
    return results_write_json(summary->config->run.output_dir, "train", record.fields, record.count,
                              error);
}

// Whether train_results.json is of the run that made the updates, not of an earlier one.
static int has_training(const struct training_summary *summary) {
    const struct path path = path_in(summary->config->run.output_dir, "train_results.json");
    json *found = NULL;
    int64_t step = -1;
    const int is_read = json_read_file(path.text, &found, NULL) == BERTH_OK &&
                        json_get_integer(found, path.text, "global_step", &step, NULL) == BERTH_OK;
    json_free(found);
    return is_read && step == summary->result->steps;
}

enum berth_status training_report_summary(const struct training_summary *summary,
                                          const struct berth_log *log, struct berth_error *error) {
    if (summary->loop->updates == 0 && has_training(summary)) {
        log_note(log, "no updates were left to train: train_results.json is unchanged");
        TRY(results_merge_json(summary->config->run.output_dir, "train", error));
    } else {
        TRY(write_training(summary, error));
    }
    if (summary->loop->score.count > 0) {
        const struct task_results results = {.folder = summary->config->run.output_dir,
                                             .score = &summary->loop->score,
                                             .is_training = 1,
                                             .epoch = summary->epoch,
                                             .samples = summary->evaluated->examples,
                                             .seconds = summary->loop->prediction_seconds};
        TRY(task_write_scores(&results, error));
    }
    report_summary(summary, log);
    return BERTH_OK;
}
