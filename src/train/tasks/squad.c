// SPDX-License-Identifier: Apache-2.0
// The task "squad", both versions, with the sets train_file, validation_file and predict_file.
#include "core/memory.h"
#include "core/options.h"
#include "metrics/squad_metrics.h"
#include "train/machine/machine.h"
#include "train/tasks/squad_details.h"
#include "train/tasks/squad_input.h"
#include "train/tasks/task.h"

#include <math.h>

struct squad {
    struct squad_input input;
    struct squad_answer_options options;
    int threads;
    struct squad_logits logits;
    struct squad_result *results; // of the last prediction; NULL before the first
};

// --- settings -----------------------------------------------------------------------------------

static enum berth_status settle(struct berth_config *config, enum task_use use,
                                struct berth_error *error) {
    return task_need_file(config, use, "", error);
}

static enum berth_status has_validation(const struct berth_config *config, int *answer,
                                        struct berth_error *error) {
    return task_has_validation(config, "a SQuAD file", answer, error);
}

// --- sets ---------------------------------------------------------------------------------------

// Without version_2_with_negative, questions without an answer are all given one.
static void warn_of_version(const struct squad *squad, const char *path,
                            const struct berth_log *log) {
    const struct squad_dataset *dataset = &squad->input.dataset;
    size_t impossible = 0;
    for (size_t i = 0; i < dataset->count; i++) {
        impossible += dataset->examples[i].impossible != 0;
    }
    if (impossible > 0 && !squad->options.version_2_with_negative) {
        log_warning(log,
                    "%s: %zu of %zu questions have no answer, but every one will be given one; "
                    "version_2_with_negative lets the model give none",
                    path, impossible, dataset->count);
    }
}

static void note_threshold(const struct task_open *args) {
    if (!args->config->version_2_with_negative &&
        option_name_is_chosen(args->config, "null_score_diff_threshold")) {
        log_note(args->log,
                 "null_score_diff_threshold has no effect without version_2_with_negative");
    }
}

// Google's programs do not count the training questions that they leave out.
static int64_t count_examples(const struct squad_input *input, int training) {
    const struct squad_feature_set *set = &input->features;
    return training && set->rules == SQUAD_RULES_GOOGLE
               ? (int64_t)(input->dataset.count - set->skipped_examples)
               : (int64_t)input->dataset.count;
}

static enum berth_status open_set(struct task_set *set, const struct task_open *args,
                                  struct berth_error *error) {
    struct squad *squad = set->own;
    const struct berth_config *config = args->config;
    int training = args->use == TASK_TRAIN;
    // transformers gives the span head an output for each class; the model's were of another head.
    if (training && args->files->shape.num_labels != 2) {
        TRY(bert_config_drop_classes(&args->files->shape, error));
    }
    set->path = task_file(config, args->use);
    struct squad_input_args input = {.path = set->path,
                                     .limit = training ? config->max_train_samples
                                                       : config->max_eval_samples,
                                     .training = training,
                                     .config = config,
                                     .tokenizer = args->files->tokenizer,
                                     .log = args->log};
    if (!args->after_training && args->use != TASK_VALIDATE) { // else the training set notes it
        squad_input_note_unused(config, args->log);
    }
    TRY(squad_input_open(&squad->input, &input, error));
    set->source = squad_input_source(&squad->input.features);
    set->examples = count_examples(&squad->input, training);
    set->tokens = (int64_t)squad->input.features.token_count;
    if (training) {
        return squad_input_mark_model(args->files, config, error);
    }
    squad->options = squad_input_answer_options(config);
    squad->threads = machine_threads(config);
    TRY(squad_check_ids(&squad->input.dataset, set->path, error));
    // The option asks for the rules of v2.0, as the file's version does.
    squad->input.dataset.version_2 |= squad->options.version_2_with_negative;
    set->unscored = !squad_has_references(&squad->input.dataset);
    warn_of_version(squad, set->path, args->log);
    note_threshold(args);
    if (set->unscored && args->use == TASK_VALIDATE) {
        log_warning(args->log,
                    "%s: no question has an answer: the questions are answered, but nothing is "
                    "scored",
                    set->path);
    }
    return squad_logits_init(&squad->logits, &squad->input.features, error);
}

static void drop_results(struct squad *squad) {
    if (squad->results != NULL) {
        squad_results_free(squad->results, squad->input.dataset.count);
        squad->results = NULL;
    }
}

static void done(void *own) {
    struct squad *squad = own;
    drop_results(squad);
    squad_logits_done(&squad->logits);
    squad_input_done(&squad->input);
}

// --- predictions --------------------------------------------------------------------------------

static void receive(void *set, size_t index, const float *logits, int64_t count) {
    struct squad *squad = ((struct task_set *)set)->own;
    squad_logits_receive(&squad->logits, index, logits, count);
}

static struct squad_outcome outcome_of(const struct squad *squad) {
    return (struct squad_outcome){.dataset = &squad->input.dataset,
                                  .set = &squad->input.features,
                                  .logits = squad->logits.values,
                                  .options = &squad->options};
}

// Details need no more than scores do.
static size_t result_bytes(const struct task_set *set) {
    const struct squad *squad = set->own;
    const struct squad_outcome outcome = outcome_of(squad);
    const size_t questions = squad->input.dataset.count;
    return squad_logits_bytes(&squad->input.features) +
           squad_answers_bytes(&outcome, squad->threads) +
           questions * (sizeof(const char *) + sizeof(double)) + squad_score_v2_bytes(questions);
}

static enum berth_status conclude(struct task_set *set, const struct model_files *files,
                                  struct berth_error *error) {
    struct squad *squad = set->own;
    drop_results(squad);
    struct squad_outcome outcome = outcome_of(squad);
    outcome.tokenizer = files->tokenizer;
    return squad_answer_all(&outcome, squad->threads, &squad->results, error);
}

static void add_part(struct task_score *score, const char *exact, const char *f1,
                     const struct squad_subset_score *part) {
    if (part->total > 0) {
        task_score_add(score, exact, part->exact);
        task_score_add(score, f1, part->f1);
    }
}

// Scores under the names of the official script.
static enum berth_status score_v2(const struct squad *squad, const char *const *predictions,
                                  struct task_score *score, struct berth_error *error) {
    const struct squad_dataset *dataset = &squad->input.dataset;
    double *odds = NULL;
    if (squad->options.version_2_with_negative) {
        odds = memory_array(dataset->count, sizeof *odds);
        if (odds == NULL) {
            return error_no_memory(error, dataset->count * sizeof *odds, "the null odds");
        }
        for (size_t i = 0; i < dataset->count; i++) {
            odds[i] = squad->results[i].null_odds;
        }
    }
    struct squad_score_v2 found;
    enum berth_status status = squad_score_v2(dataset, predictions, odds, &found, error);
    memory_free(odds);
    TRY(status);
    add_part(score, "exact", "f1", &found.all);
    add_part(score, "HasAns_exact", "HasAns_f1", &found.answered);
    add_part(score, "NoAns_exact", "NoAns_f1", &found.unanswered);
    if (!isnan(found.best_f1)) {
        task_score_add(score, "best_exact", found.best_exact);
        task_score_add(score, "best_exact_thresh", found.best_exact_threshold);
        task_score_add(score, "best_f1", found.best_f1);
        task_score_add(score, "best_f1_thresh", found.best_f1_threshold);
    }
    return BERTH_OK;
}

static enum berth_status score_v1(const struct squad_dataset *dataset,
                                  const char *const *predictions, struct task_score *score,
                                  struct berth_error *error) {
    struct squad_score found;
    TRY(squad_score_v1(dataset, predictions, &found, error));
    task_score_add(score, "exact_match", found.exact_match);
    task_score_add(score, "f1", found.f1);
    return BERTH_OK;
}

// Scores in percent, by the rules of the data set's version.
static enum berth_status score(const struct task_set *set, struct task_score *result,
                               struct berth_error *error) {
    const struct squad *squad = set->own;
    const struct squad_dataset *dataset = &squad->input.dataset;
    *result = (struct task_score){.loss = NAN};
    if (set->unscored) {
        return BERTH_OK;
    }
    const char **predictions = memory_array(dataset->count, sizeof *predictions);
    if (predictions == NULL) {
        return error_no_memory(error, dataset->count * sizeof *predictions, "the predictions");
    }
    for (size_t i = 0; i < dataset->count; i++) {
        predictions[i] = squad->results[i].prediction;
    }
    result->best_by = 1;
    enum berth_status status = dataset->version_2 ? score_v2(squad, predictions, result, error)
                                                  : score_v1(dataset, predictions, result, error);
    memory_free(predictions);
    return status;
}

static enum berth_status detail(const struct task_set *set, int64_t step,
                                const struct berth_log *log, struct berth_error *error) {
    const struct squad *squad = set->own;
    const struct squad_dataset *dataset = &squad->input.dataset;
    return !set->unscored
               ? squad_details_log(dataset, squad->results, squad->options.version_2_with_negative,
                                   step, log, error)
               : BERTH_OK;
}

static enum berth_status write_results(const struct task_set *set,
                                       const struct task_results *results,
                                       struct berth_error *error) {
    const struct squad *squad = set->own;
    TRY(squad_answers_write(results->folder, &squad->input.dataset, squad->results, &squad->options,
                            error));
    return results->use == TASK_PREDICT ? task_write_prediction(set, results, error) : BERTH_OK;
}

const struct task task_squad = {.name = "squad",
                                .title = "finetune squad",
                                .jobs = JOB_FINETUNE,
                                .defaults = JOB_FINETUNE_SQUAD,
                                .head = PARAM_HEAD_SPAN,
                                .validation_advice = "name a file with validation_file",
                                .settle = settle,
                                .has_validation = has_validation,
                                .own_size = sizeof(struct squad),
                                .open = open_set,
                                .done = done,
                                .receive = receive,
                                .conclude = conclude,
                                .result_bytes = result_bytes,
                                .score = score,
                                .detail = detail,
                                .write = write_results};
