// SPDX-License-Identifier: Apache-2.0
// The task classify, with the scores of each class for texts and pairs of texts.
//
// Its sets are those of GLUE and XNLI by name, or the user's own tables. The classes of the
// training set become the model's, unless they are among the classes that the model was trained
// for, which are then kept. Leaves out: files and columns of the published tasks
// (data/pairs/glue_tasks.c), labels (classify_labels.c), scores and result files
// (classify_results.c).
#include "task/classify.h"

#include "core/caseless.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "metrics/results.h"
#include "settings/settings.h"
#include "task/network.h"
#include "train/machine/machine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// What the model keeps: the names of its classes, or of a regression's number.
static const struct class_names *names_of(const struct task_model *model) {
    return model->own;
}

void classify_close(void *own) {
    class_names_done(own);
}

// Texts are read as far as the model reads, not only as far as training read them to save time.
enum berth_status classify_open(struct task_model *model, const struct task_opening *opening,
                                struct berth_error *error) {
    TRY(network_open(
        model, &(struct predictor_kind){.head = PARAM_HEAD_CLASS, .usual_length = LENGTH_OF_MODEL},
        2, opening, error));
    const struct model_files *files = &model->network->predictor.files;
    TRY(classify_check_outputs(files, error));
    TRY(class_names_read(model->own, files, error));
    return network_load(model, opening, error);
}

size_t classify_width(const struct task_model *model) {
    return (size_t)model->network->predictor.files.shape.num_labels;
}

const char *classify_label(const struct task_model *model, size_t index) {
    return index < classify_width(model) ? names_of(model)->list[index] : NULL;
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

struct classify_call {
    const struct task_model *model;
    struct text_inputs inputs;
};

static void receive(void *context, size_t index, const float *logits, int64_t count) {
    const struct classify_call *call = context;
    struct task_text *text = call->inputs.texts[index];
    float *scores = task_text_rows(text, 1, (size_t)count);
    if (scores != NULL && text_check_finite(text, logits, (size_t)count)) {
        results_scores(function_of(call->model, text->settings.score), logits, (size_t)count,
                       scores);
    }
}

enum berth_status classify_compute(const struct task_model *model, struct task_text *const *texts,
                                   size_t count, struct berth_error *error) {
    struct classify_call call = {.model = model};
    enum berth_status status = text_inputs_make(&call.inputs, model, NULL, texts, count, error);
    if (status == BERTH_OK) {
        const struct packer_source source = text_inputs_source(&call.inputs);
        const struct infer_args args = {.source = &source, .receive = receive, .context = &call};
        status = network_run(model, args, error);
    }
    text_inputs_done(&call.inputs);
    return status;
}

// --- items --------------------------------------------------------------------------------------

// Orders items by descending scores, and equal scores by class.
static int compare_items(const void *left, const void *right) {
    const struct berth_item *a = left, *b = right;
    return a->score != b->score ? (a->score < b->score ? 1 : -1)
                                : (a->id > b->id) - (a->id < b->id);
}

// The scores text->rows[width] as items with these names, the most likely first; all of them unless
// fewer were requested.
static void make_items(struct task_text *text, const char *const *names) {
    const size_t asked = (size_t)text->settings.top;
    struct berth_item *items = task_text_items(text, text->width);
    for (size_t i = 0; items != NULL && i < text->width; i++) {
        items[i].text = names[i];
        items[i].score = (double)text->rows[i];
        items[i].id = (int64_t)i;
    }
    if (items != NULL) {
        qsort(items, text->width, sizeof *items, compare_items);
        text->item_count = asked > 0 && asked < text->width ? asked : text->width;
    }
}

// --- candidate labels: zero-shot classification by a model of entailment -------------------------

struct candidates {
    struct task_list labels, hypotheses; // [labels.count] what a text with a label entails
    struct task_text *pairs;             // [texts][labels.count] each text with each of them
    struct task_text **list;             // of `pairs`
};

static char *hypothesis_of(const char *form, const char *label) {
    const char *place = strstr(form, "{}");
    const size_t before = (size_t)(place - form), length = strlen(label);
    const size_t after = strlen(place + 2) + 1;
    char *text = memory_new(before + length + after);
    if (text != NULL) {
        memcpy(text, form, before);
        memcpy(text + before, label, length);
        memcpy(text + before + length, place + 2, after);
    }
    return text;
}

static enum berth_status read_candidates(const struct call_settings *asked,
                                         struct candidates *candidates, struct berth_error *error) {
    const struct option_row *usual = task_option_find("hypothesis_template");
    const char *form =
        asked->hypothesis_template != NULL ? asked->hypothesis_template : usual->default_value;
    struct task_list *labels = &candidates->labels, *hypotheses = &candidates->hypotheses;
    if (strstr(form, "{}") == NULL) {
        return error_set(error, BERTH_USAGE,
                         "hypothesis_template: expected {} in it, the place of a label; found "
                         "\"%s\"",
                         form);
    }
    TRY(task_list_read("candidate_labels", asked->candidate_labels, labels, error));
    if (labels->count == 0) {
        return error_set(error, BERTH_USAGE, "candidate_labels: expected labels, found none");
    }
    hypotheses->items = memory_array_zeroed(labels->count, sizeof *hypotheses->items);
    for (size_t i = 0; hypotheses->items != NULL && i < labels->count; i++) {
        hypotheses->items[hypotheses->count++] = hypothesis_of(form, labels->items[i]);
        if (hypotheses->items[i] == NULL) {
            return error_no_memory(error, strlen(form) + strlen(labels->items[i]), "a hypothesis");
        }
    }
    return hypotheses->items != NULL
               ? BERTH_OK
               : error_no_memory(error, labels->count * sizeof(char *), "the candidate labels");
}

// The classes of entailment and, as transformers' pipeline finds it, of contradiction.
static enum berth_status find_entailment(const struct task_model *model, size_t classes[2],
                                         struct berth_error *error) {
    static const char prefix[] = "entail";
    for (size_t i = 0; i < classify_width(model) && classify_width(model) > 1; i++) {
        const char *name = classify_label(model, i);
        if (strlen(name) >= sizeof prefix - 1 &&
            caseless_equal_bytes(name, prefix, sizeof prefix - 1)) {
            classes[1] = i;
            classes[0] = i == 0 ? classify_width(model) - 1 : 0;
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_USAGE,
                     "%s has no class whose name begins with \"%s\"; candidate_labels need a model "
                     "that was trained on entailment, as on MNLI",
                     model->path, prefix);
}

// How likely each label is: entailment against contradiction, or among the labels' entailments.
static void score_candidates(struct task_text *text, const struct task_text *pairs, size_t count,
                             const size_t classes[2]) {
    float *scores = task_text_rows(text, 1, count);
    const int is_alone = text->settings.multi_label || count == 1;
    for (size_t i = 0; i < count && text->status == BERTH_OK; i++) {
        float logits[2];
        if (pairs[i].status != BERTH_OK) {
            task_text_fail(text, pairs[i].status, pairs[i].message);
            return;
        }
        logits[0] = pairs[i].rows[classes[0]];
        logits[1] = pairs[i].rows[classes[1]];
        if (is_alone) {
            results_scores(RESULTS_SOFTMAX, logits, 2, logits);
        }
        scores[i] = logits[1];
        text->tokens_read += pairs[i].tokens_read;
        text->truncated |= pairs[i].truncated;
    }
    if (!is_alone && text->status == BERTH_OK) {
        results_scores(RESULTS_SOFTMAX, scores, count, scores);
    }
}

static void make_candidates(struct task_text *text, const struct candidates *candidates) {
    const struct task_list *labels = &candidates->labels;
    const char **own = memory_array(labels->count, sizeof *own);
    if (own == NULL) {
        task_text_fail(text, BERTH_NO_MEMORY, "out of memory");
        return;
    }
    for (size_t i = 0; i < labels->count; i++) {
        own[i] = task_text_own(text, memory_string(labels->items[i]));
    }
    if (text->status == BERTH_OK) {
        make_items(text, own);
    }
    memory_free(own);
}

static enum berth_status run_candidates(const struct task_model *model,
                                        struct candidates *candidates,
                                        struct task_text *const *texts, size_t count,
                                        struct berth_error *error) {
    size_t classes[2] = {0};
    const size_t labels = candidates->labels.count;
    TRY(find_entailment(model, classes, error));
    candidates->pairs = memory_array_zeroed(count * labels, sizeof *candidates->pairs);
    candidates->list = memory_array(count * labels, sizeof *candidates->list);
    if (candidates->pairs == NULL || candidates->list == NULL) {
        return error_no_memory(error, count * labels * sizeof *candidates->pairs,
                               "the candidate labels");
    }
    for (size_t i = 0; i < count * labels; i++) {
        struct task_text *pair = candidates->list[i] = &candidates->pairs[i];
        pair->texts[0] = texts[i / labels]->texts[0];
        pair->texts[1] = candidates->hypotheses.items[i % labels];
        pair->settings = task_usual;
        pair->settings.score = BERTH_SCORE_NONE;
        if (texts[i / labels]->texts[1] != NULL) {
            task_text_fail(texts[i / labels], BERTH_USAGE,
                           "candidate_labels are for one text, found a pair");
        }
    }
    TRY(classify_compute(model, candidates->list, count * labels, error));
    for (size_t i = 0; i < count; i++) {
        if (texts[i]->status == BERTH_OK) {
            score_candidates(texts[i], candidates->pairs + i * labels, labels, classes);
        }
        if (texts[i]->status == BERTH_OK) {
            make_candidates(texts[i], candidates);
        }
    }
    return BERTH_OK;
}

// What is wrong with the labels is said of each text, since the texts of other calls may be run
// with these.
static void classify_candidates(const struct task_model *model, struct task_text *const *texts,
                                size_t count) {
    struct candidates candidates = {.pairs = NULL};
    struct berth_error error;
    enum berth_status status = read_candidates(&texts[0]->settings, &candidates, &error);
    if (status == BERTH_OK) {
        status = run_candidates(model, &candidates, texts, count, &error);
    }
    for (size_t i = 0; status != BERTH_OK && i < count; i++) {
        task_text_fail(texts[i], status, error.message);
    }
    for (size_t i = 0; candidates.pairs != NULL && i < count * candidates.labels.count; i++) {
        task_text_done(&candidates.pairs[i]);
    }
    task_list_done(&candidates.labels);
    task_list_done(&candidates.hypotheses);
    memory_free(candidates.pairs);
    memory_free(candidates.list);
}

// --- the rows -----------------------------------------------------------------------------------

static int have_same_candidates(const struct call_settings *a, const struct call_settings *b) {
    return a->candidate_labels == b->candidate_labels &&
           a->hypothesis_template == b->hypothesis_template && a->multi_label == b->multi_label;
}

static enum berth_status run_classify(const struct task_model *model,
                                      struct task_text *const *texts, size_t count,
                                      struct berth_error *error) {
    for (size_t first = 0, end = 0; first < count; first = end) {
        const struct call_settings *asked = &texts[first]->settings;
        while (end < count && have_same_candidates(asked, &texts[end]->settings)) {
            end++;
        }
        if (asked->candidate_labels != NULL) {
            classify_candidates(model, texts + first, end - first);
            continue;
        }
        TRY(classify_compute(model, texts + first, end - first, error));
        for (size_t i = first; i < end; i++) {
            if (texts[i]->status == BERTH_OK) {
                make_items(texts[i], (const char *const *)names_of(model)->list);
            }
        }
    }
    return BERTH_OK;
}

// Writes what transformers' pipeline for zero-shot classification returns.
static void write_candidates(struct json_line *line, const struct task_text *text) {
    json_line_open(line, NULL, '{');
    json_line_text(line, "sequence", text->texts[0]);
    json_line_open(line, "labels", '[');
    for (size_t i = 0; i < text->item_count; i++) {
        json_line_text(line, NULL, text->items[i].text);
    }
    json_line_close(line, ']');
    json_line_open(line, "scores", '[');
    for (size_t i = 0; i < text->item_count; i++) {
        json_line_float(line, NULL, (float)text->items[i].score);
    }
    json_line_close(line, ']');
    json_line_close(line, '}');
}

static void write_classify(struct json_line *line, const struct task_model *model,
                           const struct task_text *text) {
    (void)model;
    if (text->settings.candidate_labels != NULL) {
        write_candidates(line, text);
        return;
    }
    json_line_open(line, NULL, '[');
    for (size_t i = 0; i < text->item_count; i++) {
        json_line_open(line, NULL, '{');
        json_line_text(line, "label", text->items[i].text);
        json_line_float(line, "score", (float)text->items[i].score);
        json_line_close(line, '}');
    }
    json_line_close(line, ']');
}

// === training, evaluation and prediction of files ==============================================

// --- settings -----------------------------------------------------------------------------------

static enum berth_status check_settings(const struct settings *config, enum task_use use,
                                        struct berth_error *error) {
    if (config->task.task_name == NULL) {
        static const char or_task[] = "; name it, or a task of GLUE with task_name";
        const int needs_label = use == TASK_TRAIN && config->features.text_column != NULL;
        TRY(task_need_file(config, use, or_task, error));
        if (config->features.text_pair_column != NULL) {
            TRY(task_need(config->features.text_column, "text_column",
                          ", the column of first texts", error));
        }
        return needs_label
                   ? task_need(config->features.label_column, "label_column", or_task, error)
                   : BERTH_OK;
    }
    const struct glue_task *task;
    TRY(glue_task_find(config->task.task_name, &task, error));
    return config->task.data_dir != NULL || task_file(config, use) != NULL
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "data_dir is missing, the folder with the files of %s; `berth fetch "
                           "%s` downloads %s",
                           task->title, task->source,
                           strstr(task->source, ".zip") != NULL ? "them as an archive to unpack"
                                                                : "those for training");
}

// Checks before training what prediction after training will need.
static enum berth_status check_prediction(const struct settings *config,
                                          struct berth_error *error) {
    const struct glue_task *task;
    char *path;
    TRY(check_settings(config, TASK_PREDICT, error));
    if (config->task.predict_file != NULL) {
        return file_require(config->task.predict_file, "a table of texts", error);
    }
    TRY(glue_task_find(config->task.task_name, &task, error));
    TRY(glue_task_path(task, config->task.data_dir, GLUE_TEST, config->task.language, &path,
                       error));
    memory_free(path);
    return BERTH_OK;
}

static enum berth_status resolve_settings(struct settings *config, enum task_use use,
                                          struct berth_error *error) {
    // As in run_glue and run_classifier, because there are few texts.
    settings_apply_default(config, "num_train_epochs", JOB_FINETUNE_CLASSIFY);
    TRY(check_settings(config, use, error));
    return use == TASK_TRAIN && task_predicts(config) ? check_prediction(config, error) : BERTH_OK;
}

// --- files ---------------------------------------------------------------------------------------

static enum glue_split split_of(const struct settings *config, enum task_use use) {
    const char *split = use == TASK_TRAIN      ? "train"
                        : use == TASK_VALIDATE ? "dev"
                                               : config->task.split;
    return strcmp(split, "train") == 0 ? GLUE_TRAIN
           : strcmp(split, "dev") == 0 ? GLUE_DEV
                                       : GLUE_TEST;
}

static enum berth_status has_validation(const struct settings *config, int *answer,
                                        struct berth_error *error) {
    TRY(task_has_validation(config, "a table of texts", answer, error));
    if (*answer || !config->run.do_eval || config->task.task_name == NULL ||
        config->task.data_dir == NULL) {
        return BERTH_OK;
    }
    const struct glue_task *task;
    char *path;
    TRY(glue_task_find(config->task.task_name, &task, error));
    TRY(glue_task_path(task, config->task.data_dir, GLUE_DEV, config->task.language, &path, error));
    memory_free(path);
    *answer = 1;
    return BERTH_OK;
}

static enum berth_status add_part(struct classify *own, const char *path, const char *suffix,
                                  struct berth_error *error) {
    struct classify_part *part = &own->parts[own->part_count++];
    part->suffix = suffix;
    part->path = memory_string(path);
    return part->path != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
}

// Adds the mismatched file of a split, if there is one.
static enum berth_status add_mismatched(struct classify *own, const struct settings *config,
                                        enum glue_split split, struct berth_error *error) {
    enum glue_split other = split == GLUE_DEV    ? GLUE_DEV_MISMATCHED
                            : split == GLUE_TEST ? GLUE_TEST_MISMATCHED
                                                 : GLUE_SPLITS;
    if (other == GLUE_SPLITS || own->task->files[other].name == NULL) {
        return BERTH_OK;
    }
    char *path;
    enum berth_status status =
        glue_task_path(own->task, config->task.data_dir, other, NULL, &path, NULL);
    if (status == BERTH_NO_INPUT) {
        return BERTH_OK;
    }
    if (status != BERTH_OK) {
        return error_no_memory(error, 0, "a path");
    }
    status = add_part(own, path, "_mm", error);
    memory_free(path);
    return status;
}

static enum berth_status find_parts(struct classify *own, const struct task_open *args,
                                    struct berth_error *error) {
    const struct settings *config = args->config;
    const char *file =
        own->is_ranking ? task_file_to_score(config, args->use) : task_file(config, args->use);
    if (config->task.task_name != NULL) {
        TRY(glue_task_find(config->task.task_name, &own->task, error));
    }
    if (file != NULL) {
        return add_part(own, file, "", error);
    }
    enum glue_split split = split_of(config, args->use);
    char *path;
    TRY(glue_task_path(own->task, config->task.data_dir, split, config->task.language, &path,
                       error));
    enum berth_status status = add_part(own, path, "", error);
    memory_free(path);
    return status == BERTH_OK ? add_mismatched(own, config, split, error) : status;
}

// --- reading -------------------------------------------------------------------------------------

static enum pair_target target_of(const struct classify *own, const struct task_open *args) {
    const char *type = args->config->task.problem_type;
    if (own->is_ranking) {
        return PAIR_DEGREE;
    }
    if (args->use != TASK_TRAIN) {
        return args->files->shape.problem == BERT_REGRESSION    ? PAIR_REAL
               : args->files->shape.problem == BERT_MULTI_LABEL ? PAIR_MULTI_LABEL
                                                                : PAIR_CLASS;
    }
    return strcmp(type, "regression") == 0                    ? PAIR_REAL
           : strcmp(type, "multi_label_classification") == 0  ? PAIR_MULTI_LABEL
           : strcmp(type, "single_label_classification") == 0 ? PAIR_CLASS
                                                              : PAIR_AUTO;
}

// How messages about the labels in the user's own files end.
#define ANOTHER_COLUMN "; label_column names another column"
static const char *const label_remedies[] = {
    [TASK_TRAIN] = ANOTHER_COLUMN,
    [TASK_VALIDATE] = ANOTHER_COLUMN,
    [TASK_PREDICT] = ("; `berth predict classify` with text_column and without label_column "
                      "predicts without labels")};

static enum berth_status settings_of(const struct classify *own, const struct classify_part *part,
                                     const struct task_open *args, struct pair_settings *settings,
                                     struct berth_error *error) {
    const struct settings *config = args->config;
    if (own->task != NULL) {
        enum glue_split split = split_of(config, args->use);
        return glue_task_settings(own->task, split, config->task.language, settings, error);
    }
    *settings = (struct pair_settings){.text_column = config->features.text_column,
                                       .text_pair_column = config->features.text_pair_column,
                                       .label_column = config->features.label_column,
                                       .label_optional = args->use == TASK_PREDICT,
                                       .label_remedy = label_remedies[args->use],
                                       .target = target_of(own, args),
                                       .max = own->is_ranking ? 1 : 0};
    return table_format_of(part->path, &settings->table.format, error);
}

static enum berth_status check_types(const struct classify *own, const struct pair_dataset *dataset,
                                     const struct model_files *files, struct berth_error *error) {
    if (dataset->text_pair_column == NULL || model_files_distinguish_pairs(files)) {
        return BERTH_OK;
    }
    return error_set(
        error, BERTH_CONFIG,
        "%s: column %s has second texts, but with type_vocab_size %" PRId64
        " the model cannot distinguish them from the first; use a model with type_vocab_size 2%s",
        dataset->name, dataset->text_pair_column, files->shape.type_vocab_size,
        own->task == NULL ? ", or text_column without text_pair_column" : "");
}

// Refuses pairs, chosen by the names of the columns, of which one column holds the model's labels:
// it is a label column that was not named.
static enum berth_status check_choice(const struct classify *own,
                                      const struct pair_dataset *dataset,
                                      struct berth_error *error) {
    size_t texts = 0, pairs = 0;
    if (dataset->text_pair_column == NULL || dataset->label_column != NULL) {
        return BERTH_OK;
    }
    for (size_t i = 0; i < dataset->count; i++) {
        const struct pair_example *example = &dataset->examples[i];
        texts += class_names_find(&own->names, example->text) < own->names.count;
        pairs += class_names_find(&own->names, example->pair) < own->names.count;
    }
    return texts < dataset->count && pairs < dataset->count
               ? BERTH_OK
               : error_set(
                     error, BERTH_CONFIG,
                     "%s: column %s, chosen by name as a text, holds the model's labels; name "
                     "the columns with text_column and label_column",
                     dataset->name,
                     texts == dataset->count ? dataset->text_column : dataset->text_pair_column);
}

static enum berth_status read_part(const struct classify *own, struct classify_part *part,
                                   const struct task_open *args, struct berth_error *error) {
    struct pair_settings settings;
    int training = args->use == TASK_TRAIN;
    int64_t limit = training ? args->config->features.max_train_samples
                             : args->config->features.max_eval_samples;
    TRY(settings_of(own, part, args, &settings, error));
    settings.has_class_minus_one = class_names_find(&own->names, "-1") < own->names.count;
    TRY(pairs_read(part->path, &settings, &part->dataset, error));
    if (settings.text_column == NULL) {
        TRY(check_choice(own, &part->dataset, error));
    }
    TRY(check_types(own, &part->dataset, args->files, error));
    if (part->dataset.text_pair_column != NULL &&
        tokenizer_rules_of(args->files->tokenizer)->one_type) {
        log_note(
            args->log,
            "%s: second texts have the token type 0, as in transformers 5, because the model's "
            "tokenizer gives no token_type_ids",
            part->path);
    }
    if (part->dataset.skipped_rows > 0) {
        log_warning(args->log,
                    "%s: %zu rows with a different number of fields are left out (first: line %zu)",
                    part->path, part->dataset.skipped_rows, part->dataset.skipped_line);
    }
    if (settings.text_column == NULL) {
        const char *pair = part->dataset.text_pair_column, *label = part->dataset.label_column;
        log_detail(args->log,
                   "%s: text_column %s, text_pair_column %s, label_column %s, chosen by name; to "
                   "choose others, set these options",
                   part->path, part->dataset.text_column, pair != NULL ? pair : "none",
                   label != NULL ? label : "none");
    }
    if (part->dataset.empty_label_column != NULL) {
        log_note(args->log,
                 "%s: %s holds no labels, only empty ones, null or -1: predicted without scores; "
                 "label_column names another column",
                 part->path, part->dataset.empty_label_column);
    }
    if (limit > 0 && (size_t)limit < part->dataset.count) {
        part->dataset.count = (size_t)limit;
    }
    return BERTH_OK;
}

// --- the set -------------------------------------------------------------------------------------

static struct packer_sequence get(const void *data, size_t index) {
    const struct classify *own = data;
    const struct classify_part *part =
        &own->parts[own->part_count > 1 && index >= own->parts[1].first];
    return pair_features_sequence(&part->features, index - part->first);
}

// Counts the training set's classes.
static enum berth_status weigh_classes(const struct classify *own, const struct task_open *args,
                                       struct task_set *set, struct berth_error *error) {
    const struct pair_dataset *dataset = &own->parts[0].dataset;
    if (own->is_multi_label || own->names.list == NULL) {
        return class_weights_refuse(args->config, error);
    }
    size_t *counts = memory_array_zeroed(own->names.count, sizeof *counts);
    if (counts == NULL) {
        return error_no_memory(error, own->names.count * sizeof *counts, "the classes");
    }
    for (size_t i = 0; i < dataset->count; i++) {
        counts[dataset->examples[i].label]++;
    }
    enum berth_status status = class_weights_set(set, args->config, &own->names, counts, error);
    memory_free(counts);
    return status;
}

enum berth_status classify_open_set(struct task_set *set, const struct task_open *args,
                                    struct berth_error *error) {
    struct classify *own = set->own;
    TRY(find_parts(own, args, error));
    set->path = own->parts[0].path;
    if (args->use != TASK_TRAIN) {
        TRY(classify_read_names(&own->names, args->files, error));
    }
    for (size_t i = 0; i < own->part_count; i++) {
        TRY(read_part(own, &own->parts[i], args, error));
    }
    if (args->use == TASK_TRAIN) {
        TRY(classify_settle_labels(own, set, args, error));
        pair_labels_describe(&own->parts[0].dataset, set->labels, sizeof set->labels);
    } else {
        TRY(classify_match_labels(own, args, error));
    }
    for (size_t i = 0; i < own->part_count; i++) {
        struct classify_part *part = &own->parts[i];
        double begin = clock_now();
        TRY(pair_features_build(&part->dataset, args->files->tokenizer, args->files->length,
                                machine_threads(&args->config->machine), &part->features, error));
        part->first = (size_t)set->examples;
        set->examples += (int64_t)part->features.count;
        set->tokens += (int64_t)part->features.token_count;
        (part->features.truncated > 0 ? log_note : log_detail)(
            args->log, "%s: %zu examples, %zu tokens, %zu truncated to %lld, in %.2f s", part->path,
            part->features.count, part->features.token_count, part->features.truncated,
            (long long)args->files->length, clock_now() - begin);
    }
    set->source = (struct packer_source){.get = get, .data = own, .count = (size_t)set->examples};
    own->width = (size_t)args->files->shape.num_labels;
    own->smoothing = args->config->task.label_smoothing_factor;
    own->positive_weight = args->config->task.positive_weight;
    if (args->use == TASK_TRAIN) {
        return weigh_classes(own, args, set, error);
    }
    own->logits = memory_array_zeroed(set->source.count * own->width, sizeof *own->logits);
    return own->logits != NULL
               ? BERTH_OK
               : error_no_memory(error, set->source.count * own->width * 4, "the logits");
}

void classify_close_set(void *own) {
    struct classify *classify = own;
    for (size_t i = 0; i < classify->part_count; i++) {
        pair_feature_set_done(&classify->parts[i].features);
        pair_dataset_done(&classify->parts[i].dataset);
        memory_free(classify->parts[i].path);
    }
    class_names_done(&classify->names);
    memory_free(classify->logits);
}

// --- predictions ---------------------------------------------------------------------------------

void classify_receive(void *set, size_t index, const float *logits, int64_t count) {
    struct classify *own = ((struct task_set *)set)->own;
    memcpy(own->logits + index * own->width, logits, (size_t)count * sizeof *logits);
}

// Scores and details are made one after another.
static size_t result_bytes(const struct task_set *set) {
    const struct classify *own = set->own;
    const size_t count = set->source.count;
    const size_t scores = classify_score_bytes(own, count);
    const size_t details = classify_detail_bytes(own, count);
    return count * own->width * sizeof *own->logits + (scores > details ? scores : details);
}

static const struct task_form form = {
    .ending = "jsonl",
    .columns = "text_column=text text_pair_column=text_pair label_column=label",
    .write = task_write_example};

static const struct task_command commands[] = {
    {.verb = "finetune",
     .name = "classify",
     .use = TASK_TRAIN,
     .jobs = JOB_FINETUNE_CLASSIFY,
     .summary = "fine-tune a classifier or a regression on texts or pairs",
     .usage = "--model DIR (--task NAME --data_dir DIR | --train FILE --text_column NAME "
              "--label_column NAME) --output DIR [options]",
     .example = "berth finetune classify --model minilm --task mrpc --data_dir mrpc --output out\n"
                "berth finetune classify --model minilm --train reviews.csv --dev held-out.csv \\\n"
                "    --text-column review --label-column stars --output out",
     .notes =
         "Tasks of GLUE and XNLI are known by name, with their files, columns, classes and "
         "metrics; your own files are TSV, CSV or JSON lines, distinguished by their names. The "
         "model's folder also gets eval_results.txt, eval_results.json and all_results.json. "
         "Signals and --resume_from_checkpoint work as in `berth finetune squad`.",
     .required = "model_name_or_path output_dir"},
    {.verb = "predict",
     .name = "classify",
     .use = TASK_PREDICT,
     .jobs = JOB_PREDICT_CLASSIFY,
     .summary = "classify texts or pairs, or predict their numbers",
     .usage = "--model DIR (--task NAME --data_dir DIR [--split NAME] | --input FILE "
              "--text_column NAME) --output DIR [options]",
     .example =
         "berth predict classify --model out --task mrpc --data_dir mrpc --output predicted\n"
         "berth predict classify --model out --input new.csv --text-column review \\\n"
         "    --output predicted",
     .notes = "Writes test_results.tsv (the classes' probabilities), predict_results_TASK.txt "
              "(the classes) and, if the file has labels, predict_results.json with the scores.",
     .required = "model_name_or_path output_dir"},
    {.verb = NULL}};

static const struct training_task training = {.name = "classify",
                                              .commands = commands,
                                              .form = &form,
                                              .title = "finetune classify",
                                              .jobs = JOB_FINETUNE,
                                              .predicts_separately = 1,
                                              .head = PARAM_HEAD_CLASS,
                                              .has_loss = 1,
                                              .validation_advice =
                                                  "name a table with validation_file",
                                              .defaults = JOB_FINETUNE_CLASSIFY,
                                              .settle = resolve_settings,
                                              .has_validation = has_validation,
                                              .own_size = sizeof(struct classify),
                                              .open = classify_open_set,
                                              .done = classify_close_set,
                                              .receive = classify_receive,
                                              .result_bytes = result_bytes,
                                              .score = classify_score,
                                              .detail = classify_detail,
                                              .write = classify_write};

// === the row =====================================================================================

const struct task_row row_classify = {
    .training = &training,
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
    .tasks = {"classify " TASKS_OF_ENCODER, "classify rerank " TASKS_OF_ENCODER},
    .job = JOB_PREDICT_CLASSIFY,
    .own_size = sizeof(struct class_names),
    .open = classify_open,
    .done = classify_close,
    .label = classify_label,
    .width = classify_width,
    .settings = "top score candidate_labels hypothesis_template multi_label overflow",
    .is_listed = 1,
    .run = run_classify,
    .write = write_classify,
    .outputs = {{"label", TASK_ITEM_TEXT}, {"scores", TASK_NUMBERS}},
    .verb = {.jobs = JOB_CLASSIFY,
             .reader = TASK_READ_BY_BOTH,
             .top = "all",
             .sample = {"reviews", "Works well."},
             .notes = "Output is a line of JSON for each text, as from the text-classification "
                      "pipeline of transformers: a list of {\"label\": \"...\", \"score\": P}, the "
                      "most likely first; on a terminal lines for people."}};
