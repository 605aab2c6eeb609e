// SPDX-License-Identifier: Apache-2.0
// The table of keys: for each field of a record its name in every form of output, its unit and
// whether it is shown. Every sink of records and the report page read it, so a key is described
// once; values are formatted by lines.c.
#include "report/keys.h"

#include "core/text_util.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// clang-format off
const struct key_row key_rows[] = {
    // --- an update, an evaluation --------------------------------------------------------------
    {"step", .counts = 1},
    {"phase_step", .brief = "", .counts = 1},
    {"total_steps", .line = "", .brief = "%s updates", .dllogger = "plan:steps", .counts = 1},
    {"epoch", .format = "%.2f", .brief = "", .counts = 1},
    {"updates sample_count", .line = "", .counts = 1},
    {"time elapsed", .counts = 1},
    {"task", .line = ""},
    {"train_ema_loss", .line = "", .tags = "Train/Samples/train_ema_loss", .chart = ""},
    {"loss", .format = "%.4f", .dllogger = "step:step_loss", .tags = "Train/Samples/train_loss train/loss",
     .chart = "Loss"},
    {"no_loss", .line = "no loss: %s"},
    {"masked_lm_loss", .brief = "", .chart = "Loss of masked words"},
    {"next_sentence_loss", .brief = "", .chart = "Loss of next sentences"},
    {"eval_loss", .chart = "Loss of evaluations"},
    {"eval_f1", .chart = "F1"},
    {"eval_exact_match eval_exact", .chart = "Exact match"},
    {"eval_precision", .chart = "Precision"},
    {"eval_recall", .chart = "Recall"},
    {"eval_accuracy", .chart = "Accuracy"},
    {"eval_average_precision", .chart = "Average precision"},
    {"eval_triplet_accuracy", .chart = "Accuracy of triplets"},
    {"eval_matthews_correlation", .chart = "Matthews correlation"},
    {"eval_pearson", .chart = "Pearson correlation"},
    {"eval_spearman", .chart = "Spearman correlation"},
    {"eval_ndcg_at_10", .chart = "nDCG of the first 10"},
    {"eval_mrr_at_10", .chart = "Mean reciprocal rank of the first 10"},
    {"eval_map_at_100", .chart = "Mean average precision of the first 100"},
    {"eval_perplexity", .chart = "Perplexity"},
    {"eval_masked_lm_accuracy", .chart = "Accuracy of masked words, evaluated"},
    {"eval_next_sentence_accuracy", .chart = "Accuracy of next sentences, evaluated"},
    {"eval_masked_lm_loss", .chart = "Loss of masked words, evaluated"},
    {"eval_next_sentence_loss", .chart = "Loss of next sentences, evaluated"},
    {"learning_rate", .format = "%.4g", .line = "lr %s", .dllogger = "plan:learning_rate step:learning_rate",
     .tags = "Train/Samples/lr Train/Steps/lr train/learning_rate", .chart = "Learning rate"},
    {"grad_norm", .format = "%.3f", .brief = "", .tags = "Train/Samples/grad_norm train/grad_norm", .chart = "Norm of the gradient"},
    {"samples_per_second", .unit = "sequences/s", .format = "%.1f", .line = "%s samples/s",
     .dllogger = "step:average_perf_per_step eval:inference_sequences_per_second"
                 " finetune:training_sequences_per_second pretrain:training_sequences_per_second"
                 " predict:inference_sequences_per_second evaluate:inference_sequences_per_second",
     .tags = "Train/Samples/samples_per_second", .chart = "Samples per second", .words = "Speed of training"},
    {"tokens_per_second", .unit = "tokens/s", .format = "%.0f", .line = "%s tokens/s", .brief = "",
     .tags = "Train/Samples/tokens_per_second", .chart = "Tokens per second", .words = "Speed of training in tokens"},
    {"mfu", .format = "%.3f", .line = "MFU %s", .chart = "Model FLOPs utilisation"},
    {"model_flops", .line = "", .chart = "Model FLOPs per second"},
    {"rss_bytes", .line = "", .chart = "Memory"},
    {"loss_scale", .brief = "", .dllogger = "note:loss_scale", .tags = "Train/Samples/scale Train/Samples/loss_scale",
     .chart = "Loss scale"},
    {"skipped", .usual = "0", .chart = "Skipped updates"},
    {"comm_exposed_seconds", .brief = "", .chart = "Seconds waiting for exchanges"},
    {"data_wait_ms", .brief = "", .chart = "Milliseconds waiting for data"},
    {"eval_HasAns_f1", .chart = "F1 of questions with an answer"},
    {"eval_HasAns_exact", .chart = "Exact match of questions with an answer"},
    {"eval_NoAns_f1", .chart = "F1 of questions without an answer"},
    {"eval_NoAns_exact", .chart = "Exact match of questions without an answer"},
    {"eval_best_f1", .chart = "F1 at the best threshold"},
    {"eval_best_f1_thresh", .chart = "Best threshold for F1"},
    {"eval_best_exact", .chart = "Exact match at the best threshold"},
    {"eval_best_exact_thresh", .chart = "Best threshold for exact match"},
    {"eval_samples_per_second", .chart = "Samples per second in evaluations"},
    {"eval_tokens_per_second", .chart = "Tokens per second in evaluations"},
    {"forward_ms", .tags = "Train/Samples/elapsed_time_ms_forward"},
    {"backward_ms", .tags = "Train/Samples/elapsed_time_ms_backward"},
    {"step_ms", .tags = "Train/Samples/elapsed_time_ms_step"},
    {"step_loss", .line = "", .dllogger = "step:step_loss", .chart = ""},
    {"final_loss", .line = "", .dllogger = "step:final_loss summary:final_loss", .chart = "", .words = "Last training loss"},
    {"average_training_time_step", .unit = "s", .line = "", .dllogger = "step:average_training_time_step", .chart = ""},
    {"average_samples_per_second last_samples_per_second", .line = "", .chart = ""},
    {"micro_batches_per_update comm_hidden_seconds comm_bytes imbalance slowest_rank slowest_ratio", .brief = ""},

    // --- scores: squad, classes, tags, vectors, masked words, next sentences ------------------------
    {"exact_match", .unit = "%", .format = "%.2f", .line = "EM %s", .dllogger = "summary:exact_match"},
    {"exact", .unit = "%", .format = "%.2f", .line = "EM %s"},
    // A percentage of squad, else a fraction.
    {"f1", .unit = "%", .format = "%.2f", .small = "%.4f", .line = "F1 %s", .dllogger = "eval:F1 summary:F1"},
    {"HasAns_f1 NoAns_f1 best_f1", .unit = "%", .format = "%.2f"},
    {.keys = "HasAns_exact NoAns_exact best_exact best_exact_thresh best_f1_thresh"},
    {"accuracy combined_score matthews_correlation", .format = "%.4f"},
    {.keys = "pearson spearman spearmanr mse precision recall average_precision accuracy_threshold"
             " f1_threshold triplet_accuracy perplexity masked_lm_accuracy next_sentence_accuracy"},
    {.keys = "ndcg_at_10 mrr_at_10 map_at_100 recall_at_1 recall_at_3 recall_at_5 recall_at_10 recall_at_100"
             " precision_at_1 precision_at_3 precision_at_5 precision_at_10"},

    // --- the plan ----------------------------------------------------------------------------------
    {"seed", .format = "%.6g", .dllogger = "plan:SEED", .is_name = 1},
    {"parameters", .brief = "%s parameters", .dllogger = "plan:model_weights_num"},
    {"train_examples", .brief = "%s examples", .dllogger = "plan:training_samples"},
    {"train_features", .brief = "%s sequences", .dllogger = "plan:training_features"},
    {"sequences_per_micro_batch", .brief = "", .dllogger = "plan:train_batch_size plan:batch_size_per_pu"},
    {"model_name_or_path train_file optimizer schedule", .brief = "%s"},
    {"hidden_size num_hidden_layers num_attention_heads intermediate_size vocab_size", .brief = ""},
    {"shards", .brief = "%s shards"},
    {"train_sequences", .brief = "%s sequences"},
    {"train_tokens", .brief = "%s tokens"},
    {"validation_file", .brief = "evaluated on %s", .usual = "none"},
    {"row_length mean_length labels eval_features", .brief = ""},
    {"train_batch_size", .brief = "%s per update"},
    {"processes", .brief = "%s processes", .usual = "1"},
    {"train_batch_size_means tokens_per_micro_batch micro_batch_means sequences_per_update updates_per_epoch reduce"
     " expected_time", .brief = ""},
    {.keys = "epochs"},
    {"warmup_steps", .brief = "%s warm-up updates", .usual = "0"},
    {"optimizer_formula schedule_formula lr_scaling schedule_steps weight_decay no_decay max_grad_norm clip_by"
     " hidden_dropout_prob attention_probs_dropout_prob classifier_dropout", .brief = ""},
    {"disk_bytes", .brief = "up to %s on disk"},
    {"output_dir resumed_from checkpoint_every_steps checkpoints_kept checkpoint_bytes", .brief = ""},
    {"plan_bytes", .brief = "%s"},
    {"device_plan_bytes", .brief = "%s on the device"},
    {"weights_bytes gradients_bytes moments_bytes compute_copy_bytes activations_bytes device_workspace_bytes"
     " batches_bytes data_bytes exchange_bytes shared_exchange_bytes saving_bytes staging_bytes"
     " program_and_features_bytes", .brief = ""},
    {"ranks hosts host_shared_bytes", .brief = ""},

    // --- the end of a job --------------------------------------------------------------------------
    {"seconds", .unit = "s", .format = "%.2f", .line = "%s s", .dllogger = "pretrain:e2e_train_time", .words = "Time, whole run"},
    {"train_seconds", .unit = "s", .format = "%.2f", .brief = "", .words = "Time of training", .dllogger = "finetune:e2e_train_time pretrain:raw_train_time"},
    {"evaluation_seconds", .unit = "s", .format = "%.2f", .brief = "", .words = "Time of evaluations", .dllogger = "finetune:e2e_inference_time"},
    {"evaluation_samples_per_second", .unit = "sequences/s", .format = "%.1f", .brief = "", .words = "Speed of evaluations",
     .dllogger = "finetune:inference_sequences_per_second"},
    {"predict_seconds", .unit = "s", .format = "%.2f", .brief = "%s s", .words = "Time of predictions",
     .dllogger = "predict:e2e_inference_time evaluate:e2e_inference_time"},
    {"steps", .brief = "%s updates", .words = "Updates"},
    {"peak_rss_bytes", .brief = "peak %s", .words = "Largest memory of the process"},
    {"best_metric", .brief = "", .words = "Best score"},
    {"forward_seconds", .brief = "", .words = "Time of forward passes"},
    {"backward_seconds", .brief = "", .words = "Time of backward passes"},
    {"step_seconds", .brief = "", .words = "Time of the optimizer"},
    {"save_seconds", .brief = "", .words = "Time of saving"},
    {"total_seconds", .brief = "", .words = "Time, whole run"},
    {.keys = "worker host state folder error workers best_worker best_seed best_by"},

    // --- notes, warnings, events -------------------------------------------------------------------
    {.keys = "attempted_loss_scale attempted_hysteresis hysteresis"},
    {.keys = "expected_seconds saving_seconds update_seconds mean_time_to_failure save_interval_seconds"
             " save_interval_steps"},
    {.keys = "spikes loss_mean grad_norm_mean data_update"},
    {"eval_samples", .brief = "%s examples"},
    {.keys = "checkpoint_step background_save_seconds predict_batch_size sample_number"},
    {.keys = "done total done_bytes total_bytes note"},

    // --- details of reports ------------------------------------------------------------------------
    {.keys = "from to sequences tokens longest max_seq_length"},
    {.keys = "question predicted expected score probability context predicted_begin predicted_end expected_begin"
             " expected_end"},
    {.keys = "count threshold"},

    // --- result files, as Hugging Face's trainer calls them ------------------------------------------
    {.keys = "global_step train_samples train_loss train_runtime train_steps_per_second train_samples_per_second"
             " train_tokens_per_second total_flos eval_runtime predict_runtime predict_samples"},

    // --- what other keys end with ------------------------------------------------------------------
    {"ms", .unit = "ms", .format = "%.2f"},
    {"bytes", .unit = "B"},
    {"flops", .unit = "FLOP"},
    {"gflops", .unit = "GFLOP"},
};
// clang-format on
const size_t key_row_count = sizeof key_rows / sizeof *key_rows;

int key_next_word(const char **words, char word[KEY_WORD_SIZE]) {
    if (*words == NULL || **words == '\0') {
        return 0;
    }
    const size_t length = strcspn(*words, " ");
    snprintf(word, KEY_WORD_SIZE, "%.*s", (int)length, *words);
    *words += length + ((*words)[length] == ' ');
    return 1;
}

static const struct key_row nothing = {.keys = ""};

static const char *chart_of(const char *key) {
    const char *chart = key_row(key)->chart;
    return chart != NULL && *chart != '\0' ? chart : NULL;
}

const char *key_words(const char *key, char *text, size_t size) {
    char evaluated[KEY_WORD_SIZE];
    snprintf(evaluated, sizeof evaluated, "eval_%s", key);
    const char *words = key_row(key)->words;
    words = words != NULL ? words : chart_of(key);
    words = words != NULL ? words : chart_of(evaluated);
    if (words != NULL) {
        return words;
    }
    snprintf(text, size, "%s", key);
    for (char *at = text; *at != '\0'; at++) {
        *at = *at == '_' ? ' ' : at == text ? (char)toupper((unsigned char)*at) : *at;
    }
    return text;
}

const struct key_row *key_row(const char *key) {
    for (size_t i = 0; i < key_row_count; i++) {
        if (words_contain(key_rows[i].keys, ' ', key)) {
            return &key_rows[i];
        }
    }
    return &nothing;
}

const struct key_row *key_form(const char *key) {
    const struct key_row *found = &nothing;
    size_t longest = 0;
    for (size_t i = 0; i < key_row_count; i++) {
        const struct key_row *row = &key_rows[i];
        const char *words = row->format != NULL || row->unit != NULL ? row->keys : NULL;
        for (char word[KEY_WORD_SIZE]; key_next_word(&words, word);) {
            if (text_ends_with(key, word) && strlen(word) > longest) {
                longest = strlen(word);
                found = row;
            }
        }
    }
    return found;
}
