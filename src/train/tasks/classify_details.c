// SPDX-License-Identifier: Apache-2.0
// What reports show about an evaluation of classes besides its scores: the confusion matrix and
// sample answers. Not for regressions and multi-label models.
#include "core/memory.h"
#include "metrics/results.h"
#include "train/tasks/classify.h"
#include "train/tasks/confusion.h"
#include "train/tasks/samples.h"

static const char *name_of(const struct classify *own, int64_t index) {
    return own->names.list[index];
}

struct predicted {
    struct results_predictions all;
    const struct pair_feature *features;
    const struct pair_example *examples;
};

static struct predicted predicted_of(const struct classify *own) {
    const struct classify_part *part = &own->parts[0];
    return (struct predicted){.all = {.logits = own->logits + part->first * own->width,
                                      .count = part->features.count,
                                      .width = own->width,
                                      .labels = own->names.list},
                              .features = part->features.features,
                              .examples = part->dataset.examples};
}

static enum berth_status log_confusion(const struct classify *own, int64_t step,
                                       const struct berth_log *log, struct berth_error *error) {
    const struct predicted predicted = predicted_of(own);
    struct confusion confusion;
    TRY(confusion_init(&confusion, own->names.list, predicted.all.count, error));
    for (size_t i = 0; i < predicted.all.count; i++) {
        const int32_t label = predicted.features[i].label;
        if (label >= 0) {
            confusion_count(&confusion, label, results_predicted_class(&predicted.all, i));
        }
    }
    confusion_log(&confusion, step, log);
    return BERTH_OK;
}

static void log_sample(const struct classify *own, const struct predicted *predicted,
                       const float *scores, size_t index, int64_t step,
                       const struct berth_log *log) {
    const int32_t found = results_predicted_class(&predicted->all, index);
    const int32_t label = predicted->features[index].label;
    const struct pair_example *example = &predicted->examples[index];
    const struct sample sample = {.question = example->text,
                                  .context = example->pair,
                                  .predicted = name_of(own, found),
                                  .expected = name_of(own, label),
                                  .predicted_begin = -1,
                                  .predicted_end = -1,
                                  .expected_begin = -1,
                                  .expected_end = -1,
                                  .score = found == label ? 100 : 0,
                                  .probability = (double)scores[found]};
    samples_log(log, step, &sample);
}

static enum berth_status log_samples(const struct classify *own, int64_t step,
                                     const struct berth_log *log, struct berth_error *error) {
    const struct predicted predicted = predicted_of(own);
    struct sample_rank *ranks = memory_array(predicted.all.count, sizeof *ranks);
    float *scores = memory_array(own->width, sizeof *scores);
    size_t count = 0;
    if (ranks == NULL || scores == NULL) {
        memory_free(ranks);
        memory_free(scores);
        return error_no_memory(error, predicted.all.count * sizeof *ranks, "the sample answers");
    }
    for (size_t i = 0; i < predicted.all.count; i++) {
        const int32_t found = results_predicted_class(&predicted.all, i);
        const int32_t label = predicted.features[i].label;
        results_scores(RESULTS_SOFTMAX, predicted.all.logits + i * own->width, own->width, scores);
        if (label >= 0) {
            ranks[count++] = (struct sample_rank){found == label ? 0 : (double)scores[found], i};
        }
    }
    count = samples_choose(ranks, count);
    for (size_t i = 0; i < count; i++) {
        const size_t index = ranks[i].example;
        results_scores(RESULTS_SOFTMAX, predicted.all.logits + index * own->width, own->width,
                       scores);
        log_sample(own, &predicted, scores, index, step, log);
    }
    memory_free(scores);
    memory_free(ranks);
    return BERTH_OK;
}

enum berth_status classify_detail(const struct task_set *set, int64_t step,
                                  const struct berth_log *log, struct berth_error *error) {
    const struct classify *own = set->own;
    if (own->names.list == NULL || own->is_multi_label || !own->parts[0].dataset.has_labels) {
        return BERTH_OK;
    }
    TRY(log_confusion(own, step, log, error));
    return log_samples(own, step, log, error);
}
