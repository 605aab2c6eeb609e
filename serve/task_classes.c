// SPDX-License-Identifier: Apache-2.0
// Text classification: classes and their scores, the most likely first.
#include "core/memory.h"
#include "serve/task_rows.h"

#include <stdlib.h>

static enum berth_status open(struct instance *instance, struct berth_log log,
                              struct berth_error *error) {
    return berth_classifier_open(&instance->config, log, &instance->handle.classifier, error);
}

static void close(struct instance *instance) {
    berth_classifier_close(instance->handle.classifier);
}

static int64_t max_tokens(const struct instance *instance) {
    return berth_classifier_max_length(instance->handle.classifier);
}

static int score_of(const struct item *item) {
    return (int)item->parameters.score;
}

static enum berth_status classify(const struct instance *instance, struct text_rows *rows,
                                  int score, struct berth_error *error) {
    return berth_classifier_classify(instance->handle.classifier, rows->texts, rows->count,
                                     (enum berth_score)score, rows->rows, rows->statuses, error);
}

static enum berth_status run_classes(const struct instance *instance, struct item *const *items,
                                     size_t count, struct berth_error *error) {
    const struct text_work work = {.size =
                                       berth_classifier_classes(instance->handle.classifier).count,
                                   .first = BERTH_SCORE_USUAL,
                                   .end = BERTH_SCORE_SOFTMAX + 1,
                                   .setting = score_of,
                                   .compute = classify};
    return task_run_texts(&work, instance, items, count, error);
}

// --- results -------------------------------------------------------------------------------------

struct scored {
    float score;
    size_t index;
};

// In descending order of scores; equal scores are ordered by index.
static int compare_scored(const void *left, const void *right) {
    const struct scored *a = left, *b = right;
    return a->score != b->score ? (a->score < b->score ? 1 : -1)
                                : (a->index > b->index) - (a->index < b->index);
}

static size_t best_class(const struct item *item) {
    size_t best = 0;
    for (size_t i = 1; i < item->number_count; i++) {
        best = item->numbers[i] > item->numbers[best] ? i : best;
    }
    return best;
}

static void write_sorted(struct json_line *line, const struct instance *instance,
                         const struct scored *sorted, size_t count) {
    const struct berth_classes classes = berth_classifier_classes(instance->handle.classifier);
    json_line_open(line, NULL, '[');
    for (size_t i = 0; i < count; i++) {
        json_line_open(line, NULL, '{');
        json_line_text(line, "label", classes.names[sorted[i].index]);
        json_line_float(line, "score", sorted[i].score);
        json_line_close(line, '}');
    }
    json_line_close(line, ']');
}

// All classes unless fewer were requested, the most likely first.
static void write_classes(struct json_line *line, const struct instance *instance,
                          const struct item *item) {
    const size_t asked = (size_t)item->parameters.top, all = item->number_count;
    struct scored *sorted = memory_array(all, sizeof *sorted);
    if (sorted == NULL) {
        line->failed = 1;
        return;
    }
    for (size_t i = 0; i < all; i++) {
        sorted[i] = (struct scored){.score = item->numbers[i], .index = i};
    }
    qsort(sorted, all, sizeof *sorted, compare_scored);
    write_sorted(line, instance, sorted, asked > 0 && asked < all ? asked : all);
    memory_free(sorted);
}

static void put_best_class(struct tensor_writer *writer, const struct instance *instance,
                           const struct item *item) {
    const struct berth_classes classes = berth_classifier_classes(instance->handle.classifier);
    tensor_put_text(writer, classes.names[best_class(item)]);
}

static size_t class_width(const struct instance *instance) {
    return berth_classifier_classes(instance->handle.classifier).count;
}

static const struct task_output class_outputs[] = {
    {"label", "BYTES", task_one, put_best_class},
    {"scores", "FP32", class_width, task_put_numbers},
    {NULL}};

const struct served_task served_classes = {.name = "text-classification",
                                           .architectures = {"ForSequenceClassification"},
                                           .is_listed = 1,
                                           .fields = {"text", "text_pair"},
                                           .open = open,
                                           .close = close,
                                           .max_tokens = max_tokens,
                                           .run = run_classes,
                                           .write = write_classes,
                                           .outputs = class_outputs};
