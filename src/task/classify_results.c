// SPDX-License-Identifier: Apache-2.0
// Turns the logits of an evaluation or a prediction of classes into the benchmark's scores
// (metrics/glue_metrics.h) and the files that the original programs write (metrics/results.h).
// Called by the training of classify.c after the last batch; classify_details.c shows the same in a
// report.
#include "core/memory.h"
#include "core/portable_math.h"
#include "data/tables/label_names.h"
#include "metrics/glue_metrics.h"
#include "task/classify.h"

#include <math.h>
#include <stdio.h>

struct results_predictions classify_predictions(const struct classify *own,
                                                const struct classify_part *part) {
    return (struct results_predictions){.logits = own->logits + part->first * own->width,
                                        .count = part->features.count,
                                        .width = own->width,
                                        .labels = own->names.list,
                                        .multi_label = own->is_multi_label};
}

// The labelled examples of a part, as arrays.
struct outcome {
    int32_t *classes, *labels;
    double *values, *targets;
    size_t count;
};

static void outcome_done(struct outcome *outcome) {
    memory_free(outcome->classes);
    memory_free(outcome->labels);
    memory_free(outcome->values);
    memory_free(outcome->targets);
}

static enum berth_status outcome_init(struct outcome *outcome, const struct classify *own,
                                      const struct classify_part *part, struct berth_error *error) {
    struct results_predictions predictions = classify_predictions(own, part);
    size_t count = predictions.count;
    *outcome = (struct outcome){.classes = memory_array(count, sizeof *outcome->classes),
                                .labels = memory_array(count, sizeof *outcome->labels),
                                .values = memory_array(count, sizeof *outcome->values),
                                .targets = memory_array(count, sizeof *outcome->targets),
                                .count = count};
    if (outcome->classes == NULL || outcome->labels == NULL || outcome->values == NULL ||
        outcome->targets == NULL) {
        outcome_done(outcome);
        return error_no_memory(error, count * sizeof *outcome->values, "the predictions");
    }
    for (size_t i = 0; i < count; i++) {
        outcome->classes[i] = results_predicted_class(&predictions, i);
        outcome->labels[i] = part->features.features[i].label;
        outcome->values[i] = (double)predictions.logits[i * own->width];
        outcome->targets[i] = (double)part->features.features[i].value;
    }
    return BERTH_OK;
}

// The mean over the classes of the binary cross entropy.
static double sigmoid_loss(const float *logits, size_t width, const struct pair_feature *feature) {
    double sum = 0;
    for (size_t k = 0; k < width; k++) {
        sum += fmax((double)logits[k], 0) + math_log1p(math_exp(-fabs((double)logits[k])));
    }
    for (int32_t i = 0; i < feature->label_count; i++) {
        sum -= (double)logits[feature->labels[i]];
    }
    return sum / (double)width;
}

static enum glue_metric metric_of(const struct classify *own) {
    return own->task != NULL         ? own->task->metric
           : own->names.list == NULL ? GLUE_MSE
                                     : GLUE_ACCURACY;
}

size_t classify_score_bytes(const struct classify *own, size_t count) {
    const struct outcome *outcome = NULL;
    return count * (sizeof *outcome->classes + sizeof *outcome->labels + sizeof *outcome->values +
                    sizeof *outcome->targets) +
           (metric_of(own) == GLUE_CORRELATION ? glue_spearman_bytes(count) : 0);
}

// The model's class that F1 is of: the second one of the task, which may have another index in a
// model trained on other files. -1: it has none.
static enum berth_status find_positive(const struct classify *own, int32_t *positive,
                                       struct berth_error *error) {
    const struct label_names classes = {own->names.list, own->names.count};
    const char *const names[2] = {own->task->labels[0].name, own->task->labels[1].name};
    const struct label_names labels = {names, 2};
    int32_t numbers[2];
    enum label_match match;
    TRY(label_names_match(&classes, &labels, 1, numbers, &match, error));
    *positive = numbers[1];
    return BERTH_OK;
}

// As in transformers' run_classification: micro F1 over all decisions, and the fraction of examples
// with all decisions correct.
static void score_labels(const struct classify *own, const struct classify_part *part,
                         struct task_score *score) {
    size_t both = 0, predicted = 0, actual = 0, exact = 0;
    for (size_t i = 0; i < part->features.count; i++) {
        const float *logits = own->logits + (part->first + i) * own->width;
        const struct pair_feature *feature = &part->features.features[i];
        size_t wrong = 0;
        for (size_t k = 0; k < own->width; k++) {
            int holds = 0;
            for (int32_t n = 0; n < feature->label_count; n++) {
                holds |= (size_t)feature->labels[n] == k;
            }
            both += holds && logits[k] > 0;
            predicted += logits[k] > 0;
            actual += (size_t)holds;
            wrong += holds != (logits[k] > 0);
        }
        exact += wrong == 0;
    }
    task_score_add(score, "accuracy", (double)exact / (double)part->features.count);
    task_score_add(score, "f1",
                   predicted + actual > 0 ? 2.0 * (double)both / (double)(predicted + actual) : 0);
}

static enum berth_status score_part(struct classify *own, const struct classify_part *part,
                                    struct task_score *score, struct berth_error *error) {
    struct outcome outcome;
    struct glue_scores scores = {.count = 0};
    if (own->is_multi_label) {
        score_labels(own, part, score);
        return BERTH_OK;
    }
    TRY(outcome_init(&outcome, own, part, error));
    struct glue_outcome view = {.count = outcome.count, .class_count = own->width};
    if (own->names.list != NULL) {
        view.predictions = outcome.classes;
        view.labels = outcome.labels;
    } else {
        view.predicted_values = outcome.values;
        view.values = outcome.targets;
    }
    enum berth_status status =
        metric_of(own) == GLUE_ACCURACY_F1 ? find_positive(own, &view.positive, error) : BERTH_OK;
    if (status == BERTH_OK) {
        status = glue_score(metric_of(own), &view, &scores, error);
    }
    outcome_done(&outcome);
    for (size_t i = 0; i < scores.count && score->count < BERTH_METRICS_MAX; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", scores.items[i].name, part->suffix);
        task_score_add(score, name, scores.items[i].value);
    }
    return status;
}

enum berth_status classify_score(const struct task_set *set, struct task_score *score,
                                 struct berth_error *error) {
    struct classify *own = set->own;
    *score = (struct task_score){.loss = NAN, .lower_is_better = metric_of(own) == GLUE_MSE};
    if (!own->parts[0].dataset.has_labels) {
        return BERTH_OK;
    }
    const struct classify_part *part = &own->parts[0];
    const float *logits = own->logits + part->first * own->width;
    double sum = 0;
    for (size_t i = 0; i < part->features.count; i++) {
        const struct pair_feature *feature = &part->features.features[i];
        const float *row = logits + i * own->width;
        double difference = (double)logits[i * own->width] - (double)feature->value;
        sum += own->names.list == NULL ? difference * difference
               : own->is_multi_label
                   ? sigmoid_loss(row, own->width, feature)
                   : task_smoothed_loss(row, own->width, feature->label, own->smoothing);
    }
    score->loss = sum / (double)part->features.count;
    TRY(score_part(own, &own->parts[0], score, error));
    score->best_by = score->count - 1;
    if (own->part_count > 1 && own->parts[1].dataset.has_labels) {
        TRY(score_part(own, &own->parts[1], score, error));
    }
    return BERTH_OK;
}

// --- result files --------------------------------------------------------------------------------

enum berth_status classify_write(const struct task_set *set, const struct task_results *results,
                                 struct berth_error *error) {
    if (results->use == TASK_VALIDATE) {
        return task_write_evaluation(results, error);
    }
    const struct classify *own = set->own;
    for (size_t i = 0; i < own->part_count; i++) {
        const struct classify_part *part = &own->parts[i];
        const struct results_predictions predictions = classify_predictions(own, part);
        const char *task = own->task != NULL ? own->task->name : "";
        char first[128], second[128];
        snprintf(first, sizeof first, "test_results%s.tsv", part->suffix);
        snprintf(second, sizeof second, "predict_results%s%s%s.txt", task[0] != '\0' ? "_" : "",
                 task, part->suffix);
        const struct results_names names = {.probabilities = first, .predictions = second};
        TRY(results_write_predictions(results->folder, &names, &predictions, error));
    }
    return task_write_prediction(set, results, error);
}
