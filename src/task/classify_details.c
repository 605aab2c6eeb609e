// SPDX-License-Identifier: Apache-2.0
// What reports show about an evaluation of classes besides its scores: the confusion matrix and
// sample answers. Not for regressions and multi-label models. Called after a score was computed
// (classify_results.c); the page that shows it is page/html_results.c.
#include "core/memory.h"
#include "task/classify.h"
#include "train/tasks/confusion.h"
#include "train/tasks/samples.h"

static const char *name_of(const struct classify *own, int64_t index) {
    return own->names.list[index];
}

static enum berth_status log_samples(const struct classify *own, int64_t step,
                                     const struct berth_log *log, struct berth_error *error) {
    const struct classify_part *part = &own->parts[0];
    const struct results_predictions predicted = classify_predictions(own, part);
    struct sample_rank *ranks = memory_array(predicted.count, sizeof *ranks);
    float *scores = memory_array(own->width, sizeof *scores);
    size_t count = 0;
    if (ranks == NULL || scores == NULL) {
        memory_free(ranks);
        memory_free(scores);
        return error_no_memory(error, predicted.count * sizeof *ranks, "the sample answers");
    }
    for (size_t i = 0; i < predicted.count; i++) {
        const int32_t found = results_predicted_class(&predicted, i);
        const int32_t label = part->features.features[i].label;
        results_scores(RESULTS_SOFTMAX, predicted.logits + i * own->width, own->width, scores);
        if (label >= 0) {
            ranks[count++] = (struct sample_rank){found == label ? 0 : (double)scores[found], i};
        }
    }
    count = samples_choose(ranks, count);
    for (size_t i = 0; i < count; i++) {
        const size_t index = ranks[i].example;
        results_scores(RESULTS_SOFTMAX, predicted.logits + index * own->width, own->width, scores);
        const int32_t found = results_predicted_class(&predicted, index);
        const int32_t label = part->features.features[index].label;
        const struct pair_example *example = &part->dataset.examples[index];
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
    memory_free(scores);
    memory_free(ranks);
    return BERTH_OK;
}

static int has_details(const struct classify *own) {
    return own->names.list != NULL && !own->is_multi_label && own->parts[0].dataset.has_labels;
}

size_t classify_detail_bytes(const struct classify *own, size_t count) {
    const size_t confusion = confusion_bytes(own->names.count, count);
    const size_t samples = samples_bytes(count);
    return has_details(own) ? confusion > samples ? confusion : samples : 0;
}

enum berth_status classify_detail(const struct task_set *set, int64_t step,
                                  const struct berth_log *log, struct berth_error *error) {
    const struct classify *own = set->own;
    if (!has_details(own)) {
        return BERTH_OK;
    }
    const struct classify_part *part = &own->parts[0];
    const struct results_predictions predicted = classify_predictions(own, part);
    struct confusion confusion;
    TRY(confusion_init(&confusion, own->names.list, own->names.count, predicted.count, error));
    for (size_t i = 0; i < predicted.count; i++) {
        const int32_t label = part->features.features[i].label;
        if (label >= 0) {
            confusion_count(&confusion, label, results_predicted_class(&predicted, i));
        }
    }
    confusion_log(&confusion, step, log);
    return log_samples(own, step, log, error);
}
