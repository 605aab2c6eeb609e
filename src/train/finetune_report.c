// SPDX-License-Identifier: Apache-2.0
#include "train/finetune_report.h"

#include "core/file.h"
#include "core/memory.h"
#include "format/json.h"
#include "train/machine.h"

#include <math.h>

#define COUNT(fields) (sizeof(fields) / sizeof((fields)[0]))

static void report_model(const struct finetune_plan *plan, const struct berth_log *log) {
    const struct bert_config *shape = &plan->files->shape;
    struct berth_field fields[] = {
        log_text("model_name_or_path", plan->model_folder),
        log_integer("parameters", plan->files->table.parameter_count),
        log_integer("hidden_size", shape->hidden_size),
        log_integer("num_hidden_layers", shape->num_hidden_layers),
        log_integer("num_attention_heads", shape->num_attention_heads),
        log_integer("intermediate_size", shape->intermediate_size),
        log_integer("vocab_size", shape->vocab_size),
        log_text("precision", plan->config->precision == BERTH_BF16 ? "bf16" : "fp32"),
    };
    log_fields(log, BERTH_RECORD_PLAN, "model", fields, COUNT(fields));
}

static void report_data(const struct finetune_plan *plan, const struct berth_log *log) {
    const struct squad_feature_set *features = &plan->train->features;
    struct berth_field fields[] = {
        log_text("train_file", plan->config->train_file),
        log_integer("train_examples", (int64_t)plan->train->dataset.count),
        log_integer("train_features", (int64_t)features->count),
        log_integer("train_tokens", (int64_t)features->token_count),
        log_real("mean_length", (double)features->token_count / (double)features->count),
        log_text("validation_file", plan->config->validation_file),
        log_integer("eval_features",
                    plan->evaluation != NULL ? (int64_t)plan->evaluation->source.count : 0),
    };
    log_fields(log, BERTH_RECORD_PLAN, "data", fields, COUNT(fields));
}

static void report_batches(const struct finetune_plan *plan, const struct berth_log *log) {
    const struct batching *batching = plan->batching;
    struct berth_field fields[] = {
        log_integer("train_batch_size", batching->update_sequences),
        log_integer("processes", 1),
        log_integer("micro_batches_per_update", plan->micro_batches),
        log_integer("updates_per_epoch", batching->updates_per_epoch),
        log_integer("total_steps", batching->total_steps),
        log_real("epochs", (double)batching->total_steps / (double)batching->updates_per_epoch),
    };
    log_fields(log, BERTH_RECORD_PLAN, "batches", fields, COUNT(fields));
}

static void report_optimizer(const struct finetune_plan *plan, const struct berth_log *log) {
    const struct berth_config *config = plan->config;
    struct berth_field fields[] = {
        log_text("optimizer", config->optimizer),
        log_text("optimizer_formula", config->adam_w_mode ? optimizer_of(config).row->formula
                                                          : "m^/(sqrt(v^)+eps), g += d p"),
        log_text("schedule", plan->schedule->row->name),
        log_text("schedule_formula", plan->schedule->row->formula),
        log_real("learning_rate", config->learning_rate),
        log_integer("warmup_steps", plan->schedule->warmup_steps),
        log_real("weight_decay", config->weight_decay),
        log_text("no_decay", config->no_decay),
        log_real("max_grad_norm", config->max_grad_norm),
        log_text("clip_by", config->clip_by),
        log_integer("seed", config->seed),
    };
    log_fields(log, BERTH_RECORD_PLAN, "optimizer", fields, COUNT(fields));
}

// Checkpoints are kept twice over for a moment: the new one is durable before the old one goes.
static void report_files(const struct finetune_plan *plan, const struct berth_log *log) {
    const struct batching *batching = plan->batching;
    int64_t every =
        plan->config->save_steps > 0 ? plan->config->save_steps : batching->updates_per_epoch;
    int64_t checkpoint = plan->files->table.parameter_count * 12;
    int64_t saves = (batching->total_steps + every - 1) / every;
    int64_t kept = plan->config->save_total_limit > 0 && plan->config->save_total_limit < saves
                       ? plan->config->save_total_limit
                       : saves;
    struct berth_field fields[] = {
        log_text("output_dir", plan->config->output_dir),
        log_text("resumed_from", plan->resume_folder),
        log_integer("checkpoint_every_steps", every),
        log_integer("checkpoints_kept", kept),
        log_integer("checkpoint_bytes", checkpoint),
        log_integer("disk_bytes", checkpoint * (kept + 1) + checkpoint / 3),
    };
    log_fields(log, BERTH_RECORD_PLAN, "files", fields, COUNT(fields));
}

void finetune_report_plan(const struct finetune_plan *plan, const struct berth_log *log) {
    report_model(plan, log);
    report_data(plan, log);
    report_batches(plan, log);
    report_optimizer(plan, log);
    report_files(plan, log);
}

static void report_summary(const struct finetune_summary *summary, const struct berth_log *log) {
    const struct berth_run_result *result = summary->result;
    const struct loop_result *loop = summary->loop;
    struct berth_field fields[] = {
        log_integer("steps", result->steps),
        log_real("final_loss", result->final_loss),
        log_real("exact_match", result->exact_match),
        log_real("f1", result->f1),
        log_real("best_f1",
                 summary->history->best_metric >= 0 ? summary->history->best_metric : NAN),
        log_real("samples_per_second", result->samples_per_second),
        log_real("tokens_per_second", result->tokens_per_second),
        log_real("model_flops", loop->seconds > 0 ? loop->needed_flops / loop->seconds : NAN),
        log_real("mfu", result->mfu),
        log_real("train_seconds", loop->seconds),
        log_real("forward_seconds", loop->forward_seconds),
        log_real("backward_seconds", loop->backward_seconds),
        log_real("step_seconds", loop->step_seconds),
        log_real("save_seconds", loop->save_seconds),
        log_real("evaluation_seconds", loop->evaluation_seconds),
        log_real("seconds", summary->seconds),
        log_integer("peak_rss_bytes", (int64_t)machine_peak_resident()),
        log_text("output_dir", summary->config->output_dir),
    };
    log_fields(log, BERTH_RECORD_SUMMARY, "finetune squad", fields, COUNT(fields));
}

static void set_unless_nan(json *object, const char *key, double value) {
    if (!isnan(value)) {
        json_set(object, key, json_new_real(value));
    }
}

static enum berth_status write_results(const struct finetune_summary *summary,
                                       struct berth_error *error) {
    const struct berth_run_result *result = summary->result;
    const struct loop_result *loop = summary->loop;
    char *path = path_join(summary->config->output_dir, "all_results.json");
    json *object = json_new_object();
    json_set(object, "global_step", json_new_integer(result->steps));
    set_unless_nan(object, "train_loss", result->final_loss);
    set_unless_nan(object, "train_runtime", loop->seconds);
    json_set(object, "train_samples", json_new_integer(loop->sequences));
    set_unless_nan(object, "train_samples_per_second", result->samples_per_second);
    set_unless_nan(object, "train_tokens_per_second", result->tokens_per_second);
    set_unless_nan(object, "total_flos", loop->needed_flops);
    set_unless_nan(object, "mfu", result->mfu);
    set_unless_nan(object, "eval_exact_match", result->exact_match);
    set_unless_nan(object, "eval_f1", result->f1);
    enum berth_status status = path != NULL
                                   ? json_write_file(object, JSON_INDENT_2_SORTED, path, error)
                                   : error_no_memory(error, 0, "a path");
    json_free(object);
    memory_free(path);
    return status;
}

enum berth_status finetune_report_summary(const struct finetune_summary *summary,
                                          const struct berth_log *log, struct berth_error *error) {
    TRY(write_results(summary, error));
    report_summary(summary, log);
    return BERTH_OK;
}
