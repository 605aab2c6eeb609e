// SPDX-License-Identifier: Apache-2.0
// The tasks classify, with the scores of each class for texts and pairs of texts, and rerank, whose
// model has one class.
#include "train/tasks/classify.h"

#include "core/memory.h"
#include "metrics/results.h"
#include "task/model.h"

#include <stdlib.h>

// What the model keeps: the names of its classes, or of a regression's number.
static const struct class_names *names_of(const struct task_model *model) {
    return model->own;
}

static void done(void *own) {
    class_names_done(own);
}

// Texts are read as far as the model reads, not only as far as training read them to save time.
static enum berth_status open_row(struct task_model *model, const struct task_opening *opening,
                                  struct berth_error *error) {
    TRY(network_open(model, PARAM_HEAD_CLASS, LENGTH_OF_MODEL, 2, opening, error));
    const struct model_files *files = &model->network->predictor.files;
    TRY(classify_check_outputs(files, error));
    TRY(class_names_read(model->own, files, error));
    return network_load(model, opening, error);
}

static size_t width(const struct task_model *model) {
    return (size_t)model->network->predictor.files.shape.num_labels;
}

static const char *label(const struct task_model *model, size_t index) {
    return index < width(model) ? names_of(model)->list[index] : NULL;
}

// --- scores -------------------------------------------------------------------------------------

static enum results_function function_of(const struct task_model *model, enum berth_score score) {
    const struct bert_config *shape = &model->network->predictor.files.shape;
    switch (score) {
    case BERTH_SCORE_NONE:
        return RESULTS_LOGITS;
    case BERTH_SCORE_SIGMOID:
        return RESULTS_SIGMOID;
    case BERTH_SCORE_SOFTMAX:
        return RESULTS_SOFTMAX;
    case BERTH_SCORE_USUAL:
        break;
    }
    // As in transformers' pipeline, where one label without a problem is no regression.
    return (shape->num_labels == 1 && !shape->has_problem_type) ||
                   shape->problem == BERT_MULTI_LABEL
               ? RESULTS_SIGMOID
           : shape->problem == BERT_REGRESSION ? RESULTS_LOGITS
                                               : RESULTS_SOFTMAX;
}

struct pass {
    const struct task_model *model;
    struct text_inputs inputs;
};

static void receive(void *context, size_t index, const float *logits, int64_t count) {
    const struct pass *pass = context;
    struct task_text *text = pass->inputs.texts[index];
    float *scores = task_text_rows(text, 1, (size_t)count);
    if (scores != NULL && text_check_finite(text, logits, (size_t)count)) {
        results_scores(function_of(pass->model, text->settings.score), logits, (size_t)count,
                       scores);
    }
}

static enum berth_status compute_scores(const struct task_model *model,
                                        struct task_text *const *texts, size_t count,
                                        struct berth_error *error) {
    struct pass pass = {.model = model};
    enum berth_status status = text_inputs_make(&pass.inputs, model, NULL, texts, count, error);
    if (status == BERTH_OK) {
        const struct packer_source source = text_inputs_source(&pass.inputs);
        const struct infer_args args = {.source = &source, .receive = receive, .context = &pass};
        status = network_run(model, args, error);
    }
    text_inputs_done(&pass.inputs);
    return status;
}

// --- the rows -----------------------------------------------------------------------------------

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
    .job = JOB_PREDICT_CLASSIFY, .own_size = sizeof(struct class_names), .open = open_row,         \
    .done = done, .width = width, .label = label

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
    .outputs = {{"label", TASK_ITEM_TEXT}, {"scores", TASK_NUMBERS}},
    .verb = {.jobs = JOB_FILL,
             .reader = TASK_READ_BY_BOTH,
             .top = "all",
             .sample = {"reviews", "Works well."},
             .notes = "Output is a line of JSON for each text, as from the text-classification "
                      "pipeline of transformers: a list of {\"label\": \"...\", \"score\": P}, the "
                      "most likely first; on a terminal lines for people."}};

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
    .outputs = {{"score", TASK_NUMBERS}},
    .verb = {.jobs = JOB_FILL,
             .reader = TASK_READ_BY_BOTH,
             .sample = {"cross-encoder", "Where is Bern?", "Bern is in Switzerland."},
             .notes = "Each line of FILE, or of standard input, is a document. Output is "
                      "{\"index\": N, \"score\": S} per document, in their order; on a terminal "
                      "lines for people."}};
