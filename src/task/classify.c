// SPDX-License-Identifier: Apache-2.0
// A classifier in memory: the scores of each class for texts and pairs of texts.
//
// Threads may share it (inference.h).
#include "train/tasks/classify.h"

#include "core/memory.h"
#include "metrics/results.h"
#include "task/arguments.h"
#include "task/inference.h"
#include "task/rows.h"
#include "task/texts.h"

#include <stdlib.h>
#include <string.h>

struct berth_classifier {
    struct inference inference;
    struct class_names names; // of the classes, or of a regression's number
};

static enum berth_status load_handle(void *handle, const struct inference_source *source,
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
                                           .load = load_handle,
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

// --- the rows -----------------------------------------------------------------------------------

static enum berth_status open_row(struct task_model *model, struct berth_log log,
                                  struct berth_error *error) {
    return berth_classifier_open(&model->config, log, &model->handle.classifier, error);
}

static void close_row(struct task_model *model) {
    berth_classifier_close(model->handle.classifier);
}

static int64_t max_tokens(const struct task_model *model) {
    return berth_classifier_max_length(model->handle.classifier);
}

static size_t width(const struct task_model *model) {
    return berth_classifier_classes(model->handle.classifier).count;
}

static const char *label(const struct task_model *model, size_t index) {
    const struct berth_classes classes = berth_classifier_classes(model->handle.classifier);
    return index < classes.count ? classes.names[index] : NULL;
}

static int score_of(const struct task_text *text) {
    return (int)text->settings.score;
}

static enum berth_status compute(const struct task_model *model, struct text_rows *rows, int score,
                                 struct berth_error *error) {
    return berth_classifier_classify(model->handle.classifier, rows->texts, rows->count,
                                     (enum berth_score)score, rows->rows, rows->statuses, error);
}

static enum berth_status compute_scores(const struct task_model *model,
                                        struct task_text *const *texts, size_t count,
                                        struct berth_error *error) {
    const struct text_work work = {.size = width(model),
                                   .first = BERTH_SCORE_USUAL,
                                   .end = BERTH_SCORE_SOFTMAX + 1,
                                   .setting = score_of,
                                   .compute = compute};
    return task_run_texts(&work, model, texts, count, error);
}

// In descending order of scores; equal scores are ordered by class.
static int compare_items(const void *left, const void *right) {
    const struct berth_item *a = left, *b = right;
    return a->score != b->score ? (a->score < b->score ? 1 : -1)
                                : (a->id > b->id) - (a->id < b->id);
}

// All classes unless fewer were requested, the most likely first.
static void make_items(const struct task_model *model, struct task_text *text) {
    const size_t asked = (size_t)text->settings.top;
    struct berth_item *items = task_text_items(text, text->width);
    for (size_t i = 0; items != NULL && i < text->width; i++) {
        items[i].text = label(model, i);
        items[i].score = (double)text->rows[i];
        items[i].id = (int64_t)i;
    }
    if (items != NULL) {
        qsort(items, text->width, sizeof *items, compare_items);
        text->item_count = asked > 0 && asked < text->width ? asked : text->width;
    }
}

static enum berth_status run_classify(const struct task_model *model,
                                      struct task_text *const *texts, size_t count,
                                      struct berth_error *error) {
    TRY(compute_scores(model, texts, count, error));
    for (size_t i = 0; i < count; i++) {
        if (texts[i]->status == BERTH_OK) {
            make_items(model, texts[i]);
        }
    }
    return BERTH_OK;
}

static void write_classify(struct json_line *line, const struct task_model *model,
                           const struct task_text *text) {
    (void)model;
    json_line_open(line, NULL, '[');
    for (size_t i = 0; i < text->item_count; i++) {
        json_line_open(line, NULL, '{');
        json_line_text(line, "label", text->items[i].text);
        json_line_float(line, "score", (float)text->items[i].score);
        json_line_close(line, '}');
    }
    json_line_close(line, ']');
}

// A cross-encoder with several classes has no order among documents.
static enum berth_status run_rerank(const struct task_model *model, struct task_text *const *texts,
                                    size_t count, struct berth_error *error) {
    const size_t classes = width(model);
    return classes == 1 ? compute_scores(model, texts, count, error)
                        : error_set(error, BERTH_CONFIG,
                                    "%s has %zu classes; rerank needs a model with one: use "
                                    "classify, which has the score of each class",
                                    model->path, classes);
}

#define CLASSIFIES                                                                                 \
    .job = JOB_PREDICT_CLASSIFY, .open = open_row, .close = close_row, .max_tokens = max_tokens,   \
    .width = width, .label = label

const struct task_row row_classify = {
    .about = {.name = "classify",
              .pipeline = "text-classification",
              .text = "text",
              .pair = "text_pair",
              .label = "label",
              .has_items = 1,
              .has_rows = 1,
              .trains = 1,
              .help = "the classes of a text or a pair of texts, the most likely first"},
    .architectures = {"ForSequenceClassification"},
    CLASSIFIES,
    .settings = "top score overflow",
    .is_listed = 1,
    .run = run_classify,
    .write = write_classify,
    .outputs = {{"label", TASK_ITEM_TEXT}, {"scores", TASK_NUMBERS}}};

const struct task_row row_rerank = {
    .about = {.name = "rerank",
              .pipeline = "text-ranking",
              .text = "query",
              .pair = "document",
              .label = "score",
              .needs_pair = 1,
              .has_rows = 1,
              .help = "one score of a query and a document, by a cross-encoder"},
    CLASSIFIES,
    .settings = "score overflow",
    .run = run_rerank,
    .write = task_write_numbers,
    .outputs = {{"score", TASK_NUMBERS}}};
