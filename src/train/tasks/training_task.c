// SPDX-License-Identifier: Apache-2.0
// What all tasks do alike when a job reads, scores and writes their sets: which file is read for
// which use, required settings, losses of rows of logits, the evaluation's records and its result
// files. The rows of tasks are in src/task/.
#include "train/tasks/training_task.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/portable_math.h"
#include "metrics/results.h"
#include "settings/settings.h"
#include "train/engine/infer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum berth_status task_set_open(struct task_set *set, const struct training_task *task,
                                const struct task_open *args, struct berth_error *error) {
    *set = (struct task_set){.own = memory_array_zeroed(1, task->own_size)};
    return set->own != NULL ? task->open(set, args, error)
                            : error_no_memory(error, task->own_size, "a data set");
}

void task_set_close(struct task_set *set, const struct training_task *task) {
    if (set->own != NULL) {
        task->done(set->own);
        memory_free(set->own);
    }
    memory_free(set->class_weights);
    *set = (struct task_set){0};
}

const char *task_file(const struct settings *config, enum task_use use) {
    return use == TASK_TRAIN      ? config->task.train_file
           : use == TASK_VALIDATE ? config->task.validation_file
                                  : config->task.predict_file;
}

const char *task_file_to_score(const struct settings *config, enum task_use use) {
    const char *file = task_file(config, use);
    return use == TASK_VALIDATE && file == NULL ? config->task.predict_file : file;
}

enum berth_status task_need_file(const struct settings *config, enum task_use use,
                                 const char *otherwise, struct berth_error *error) {
    static const char *const names[] = {"train_file", "validation_file", "predict_file"};
    return task_need(task_file(config, use), names[use], otherwise, error);
}

enum berth_status task_need(const char *value, const char *name, const char *otherwise,
                            struct berth_error *error) {
    return value != NULL && value[0] != '\0'
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "%s is missing%s", name, otherwise);
}

enum berth_status task_has_validation(const struct settings *config, const char *expected,
                                      int *answer, struct berth_error *error) {
    const char *path = config->task.validation_file;
    *answer = config->run.do_eval && path != NULL;
    return *answer ? file_require(path, expected, error) : BERTH_OK;
}

enum berth_status task_log_settings(const struct training_task *task, const struct settings *config,
                                    unsigned jobs, const struct berth_log *log,
                                    struct berth_error *error) {
    struct settings shown = *config;
    settings_apply_default(&shown, "max_seq_length", task->defaults);
    return log_settings(log, &shown, jobs, error);
}

void task_score_add(struct task_score *score, const char *name, double value) {
    struct berth_metric *item = &score->items[score->count++];
    snprintf(item->name, sizeof item->name, "%s", name);
    item->value = value;
}

int task_predicts(const struct settings *config) {
    return config->task.do_predict < 0 ? config->task.predict_file != NULL
                                       : config->task.do_predict;
}

double task_cross_entropy(const float *logits, size_t width, int32_t label) {
    double largest = (double)logits[0], sum = 0;
    for (size_t i = 1; i < width; i++) {
        const double logit = (double)logits[i];
        largest = logit > largest ? logit : largest; // as in cpu/loss.c: no fmax
    }
    for (size_t i = 0; i < width; i++) {
        sum += math_exp((double)logits[i] - largest);
    }
    return math_log(sum) + largest - (double)logits[label];
}

double task_smoothed_loss(const float *logits, size_t width, int32_t label, double smoothing) {
    double sum = 0;
    for (size_t i = 0; i < width; i++) {
        sum += (double)logits[i];
    }
    return task_cross_entropy(logits, width, label) +
           smoothing * ((double)logits[label] - sum / (double)width);
}

void task_masked_add(struct task_masked *sums, const struct infer_masked *masked) {
    for (int64_t i = 0; i < masked->count; i++) {
        sums->loss += (double)masked->losses[i];
        sums->hits += masked->hits[i] > 0;
    }
    sums->count += masked->count;
}

double task_masked_mean(const struct task_masked *sums, double sum) {
    return sums->count > 0 ? sum / (double)sums->count : NAN;
}

// --- result files --------------------------------------------------------------------------------

#define RESULT_FIELDS (BERTH_METRICS_MAX + 5)

// Fills fields[] and keys[] with "eval_accuracy", ..., and "eval_loss" where there is one.
static size_t score_fields(const struct task_score *score, const char *prefix,
                           struct berth_field fields[RESULT_FIELDS], char keys[RESULT_FIELDS][64]) {
    size_t count = 0;
    for (; count < score->count; count++) {
        snprintf(keys[count], sizeof keys[count], "%s_%s", prefix, score->items[count].name);
        fields[count] = log_real(keys[count], score->items[count].value);
    }
    if (!isnan(score->loss)) {
        snprintf(keys[count], sizeof keys[count], "%s_loss", prefix);
        fields[count] = log_real(keys[count], score->loss);
        count++;
    }
    return count;
}

enum berth_status task_write_evaluation(const struct task_results *results,
                                        struct berth_error *error) {
    struct berth_field fields[RESULT_FIELDS];
    char keys[RESULT_FIELDS][64];
    size_t count = score_fields(results->score, "eval", fields, keys);
    if (results->is_training) {
        fields[count++] = log_integer("global_step", results->step);
    }
    if (!isnan(results->score->loss)) {
        fields[count++] = log_real("loss", results->score->loss); // Google's estimator has it twice
    }
    return results_write_eval_text(results->folder, fields, count, error);
}

enum berth_status task_write_scores(const struct task_results *results, struct berth_error *error) {
    struct berth_field fields[RESULT_FIELDS];
    char keys[RESULT_FIELDS][64];
    const double seconds = results->seconds;
    size_t count = score_fields(results->score, "eval", fields, keys);
    fields[count++] = log_real("eval_runtime", seconds);
    fields[count++] = log_integer("eval_samples", results->samples);
    fields[count++] = log_real("eval_samples_per_second", (double)results->samples / seconds);
    if (results->is_training) {
        fields[count++] = log_real("epoch", results->epoch);
    }
    return results_write_json(results->folder, "eval", fields, count, error);
}

enum berth_status task_write_prediction(const struct task_set *set,
                                        const struct task_results *results,
                                        struct berth_error *error) {
    if (results->score->count == 0) {
        return BERTH_OK;
    }
    struct berth_field fields[RESULT_FIELDS];
    char keys[RESULT_FIELDS][64];
    size_t count = score_fields(results->score, "predict", fields, keys);
    fields[count++] = log_real("predict_runtime", results->seconds);
    fields[count++] = log_integer("predict_samples", set->examples);
    return results_write_json(results->folder, "predict", fields, count, error);
}

enum berth_status task_fit_length(struct settings *config, const struct length_limits *limits,
                                  int64_t *fitted, const struct berth_log *log,
                                  struct berth_error *error) {
    const int64_t positions = limits->positions;
    const int is_chosen = settings_is_chosen(config, "max_seq_length");
    int64_t *length = &config->features.max_seq_length;
    *length = !is_chosen && limits->usual > 0 ? limits->usual : *length;
    if (*length > positions && is_chosen) {
        return error_set(error, BERTH_CONFIG,
                         "max_seq_length %" PRId64 " exceeds the %" PRId64
                         " positions of %s; use at most that many tokens",
                         *length, positions, limits->source);
    }
    if (*length > positions && limits->usual < LENGTH_OF_MODEL) {
        log_note(log,
                 "max_seq_length: %" PRId64 " instead of %" PRId64
                 ", the number of positions of %s",
                 positions, *length, limits->source);
    }
    *fitted = *length = *length < positions ? *length : positions;
    return BERTH_OK;
}
