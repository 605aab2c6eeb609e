// SPDX-License-Identifier: Apache-2.0
// A classifier in memory: the scores of each class for texts and pairs of texts.
//
// Threads may share it (inference.h).
#include "api/arguments.h"
#include "api/inference.h"
#include "api/texts.h"
#include "core/memory.h"
#include "metrics/results.h"
#include "train/tasks/classify.h"

#include <string.h>

struct berth_classifier {
    struct inference inference;
    struct class_names names; // of the classes, or of a regression's number
};

static enum berth_status load(void *handle, const struct inference_source *source,
                              struct berth_error *error) {
    struct berth_classifier *classifier = handle;
    struct inference *inference = &classifier->inference;
    const struct model_files *files = &inference->predictor.files;
    // Texts are read as far as the model reads, not only as far as training read them to save time.
    const struct predictor_kind kind = {PARAM_HEAD_CLASS, LENGTH_OF_MODEL};
    TRY(predictor_open(&inference->predictor, &inference->config, &kind, source->comm, source->log,
                       error));
    TRY(classify_check_outputs(files, error));
    TRY(class_names_read(&classifier->names, files, error));
    inference_set_extent(inference);
    return inference_load(inference, source->log, error);
}

static void done(void *handle) {
    class_names_done(&((struct berth_classifier *)handle)->names);
}

static const struct inference_kind kind = {.size = sizeof(struct berth_classifier),
                                           .what = "a classifier",
                                           .job = JOB_PREDICT_CLASSIFY,
                                           .load = load,
                                           .done = done};

enum berth_status berth_classifier_open(const struct berth_config *config, struct berth_log log,
                                        struct berth_classifier **classifier,
                                        struct berth_error *error) {
    REQUIRE(classifier, error);
    *classifier = NULL;
    REQUIRE_CONFIG(config, error);
    const struct inference_source source = {.config = config, .comm = comm_self(), .log = &log};
    void *opened;
    const enum berth_status status = inference_open(&kind, &source, &opened, error);
    *classifier = opened;
    return status;
}

void berth_classifier_close(struct berth_classifier *classifier) {
    inference_close(&kind, classifier);
}

struct berth_classes berth_classifier_classes(const struct berth_classifier *classifier) {
    if (classifier == NULL) {
        return (struct berth_classes){.count = 0};
    }
    const struct bert_config *shape = &classifier->inference.predictor.files.shape;
    return (struct berth_classes){.problem = shape->problem == BERT_REGRESSION ? BERTH_REGRESSION
                                             : shape->problem == BERT_MULTI_LABEL
                                                 ? BERTH_MULTI_LABEL
                                                 : BERTH_SINGLE_LABEL,
                                  .count = (size_t)shape->num_labels,
                                  .names = classifier->names.list};
}

int64_t berth_classifier_max_length(const struct berth_classifier *classifier) {
    return classifier != NULL ? classifier->inference.config.max_seq_length : 0;
}

// --- scores -------------------------------------------------------------------------------------

struct pass {
    struct texts texts;
    enum results_function function;
    size_t width;
    float *scores;
    struct berth_text_status *statuses;
};

static enum results_function function_of(const struct berth_classifier *classifier,
                                         enum berth_score score) {
    static const enum results_function usual[] = {[BERTH_SINGLE_LABEL] = RESULTS_SOFTMAX,
                                                  [BERTH_MULTI_LABEL] = RESULTS_SIGMOID,
                                                  [BERTH_REGRESSION] = RESULTS_LOGITS};
    static const enum results_function asked[] = {[BERTH_SCORE_NONE] = RESULTS_LOGITS,
                                                  [BERTH_SCORE_SIGMOID] = RESULTS_SIGMOID,
                                                  [BERTH_SCORE_SOFTMAX] = RESULTS_SOFTMAX};
    if (score != BERTH_SCORE_USUAL) {
        return asked[score];
    }
    // As in transformers' pipeline, where one label without a problem is no regression.
    const struct bert_config *shape = &classifier->inference.predictor.files.shape;
    return shape->num_labels == 1 && !shape->has_problem_type
               ? RESULTS_SIGMOID
               : usual[berth_classifier_classes(classifier).problem];
}

static void receive(void *context, size_t index, const float *logits, int64_t count) {
    const struct pass *pass = context;
    const size_t item = pass->texts.indices[index];
    if (texts_check_finite(&pass->statuses[item], logits, (size_t)count)) {
        results_scores(pass->function, logits, pass->width, pass->scores + item * pass->width);
    }
}

static enum berth_status run(const struct berth_classifier *classifier, struct pass *pass,
                             struct berth_error *error) {
    const struct packer_source source = texts_source(&pass->texts);
    const struct infer_args args = {.source = &source, .receive = receive, .context = pass};
    return inference_run(&classifier->inference, args, error);
}

enum berth_status berth_classifier_classify(const struct berth_classifier *classifier,
                                            const struct berth_text *texts, size_t count,
                                            enum berth_score score, float *scores,
                                            struct berth_text_status *statuses,
                                            struct berth_error *error) {
    REQUIRE(classifier, error);
    if ((unsigned)score > BERTH_SCORE_SOFTMAX) {
        return error_set(error, BERTH_USAGE, "unknown score %d", (int)score);
    }
    if (count == 0) {
        return BERTH_OK;
    }
    REQUIRE(texts, error);
    REQUIRE(scores, error);
    REQUIRE(statuses, error);
    struct pass pass = {.function = function_of(classifier, score),
                        .width = berth_classifier_classes(classifier).count,
                        .scores = scores,
                        .statuses = statuses};
    memset(scores, 0, count * pass.width * sizeof *scores);
    const struct texts_args args = {.items = texts, .count = count, .statuses = statuses};
    enum berth_status status = texts_prepare(&pass.texts, &classifier->inference, &args, error);
    if (status == BERTH_OK) {
        status = run(classifier, &pass, error);
    }
    texts_done(&pass.texts);
    return status;
}
