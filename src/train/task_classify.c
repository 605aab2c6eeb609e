// SPDX-License-Identifier: Apache-2.0
// Classification and regression of texts and pairs as a task: the tasks of GLUE and XNLI by name,
// or the user's own tables. The classes of the training set become the model's, unless the model
// has classes of the same names, whose order then stands.
//
// Leaves out: what files and columns a published task has (data/glue_tasks.c), metrics and the
// files of results (task/).
#include "core/file.h"
#include "core/memory.h"
#include "core/options.h"
#include "data/glue_tasks.h"
#include "data/pair_features.h"
#include "format/json.h"
#include "task/glue_metrics.h"
#include "task/results.h"
#include "train/machine.h"
#include "train/task.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// One file of a set: MNLI's development and test sets have two.
struct part {
    const char *suffix; // of the scores' names and the files of results: "", "_mm"
    char *path;
    struct pair_dataset dataset;
    struct pair_feature_set features;
    size_t first; // number of its first example in the set
};

#define PARTS_MAX 2

struct classify {
    const struct glue_task *task; // NULL: the user's own
    struct part parts[PARTS_MAX];
    size_t part_count;
    size_t width;       // logits of an example
    float *logits;      // [examples][width]
    json *model;        // config.json's object, which owns the names
    const char **names; // of the classes; NULL: a regression
};

// --- settings -----------------------------------------------------------------------------------

static const char *file_of(const struct berth_config *config, enum task_use use) {
    return use == TASK_TRAIN      ? config->train_file
           : use == TASK_VALIDATE ? config->validation_file
                                  : config->predict_file;
}

static enum berth_status need(const char *value, const char *name, const char *otherwise,
                              struct berth_error *error) {
    return value != NULL && value[0] != '\0'
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "--%s is missing%s", name, otherwise);
}

static enum berth_status check_own(const struct berth_config *config, enum task_use use,
                                   struct berth_error *error) {
    static const char or_task[] = "; name it, or a task of GLUE with --task_name";
    int training = use == TASK_TRAIN;
    TRY(need(file_of(config, use), training ? "train_file" : "predict_file", or_task, error));
    TRY(need(config->text_column, "text_column", or_task, error));
    return training ? need(config->label_column, "label_column", or_task, error) : BERTH_OK;
}

static void set_default(struct berth_config *config, const char *name, const char *value) {
    const struct option_row *row = option_find(name);
    struct berth_config defaults;
    char now[64], usual[64];
    option_defaults(&defaults);
    option_print(config, row, now, sizeof now);
    option_print(&defaults, row, usual, sizeof usual);
    if (!option_is_given(config, row) && strcmp(now, usual) == 0) {
        option_set(config, row, value, NULL);
    }
}

static enum berth_status settle(struct berth_config *config, enum task_use use,
                                struct berth_error *error) {
    // As in run_glue and run_classifier: there are few texts.
    set_default(config, "num_train_epochs", "3");
    if (config->task_name == NULL) {
        return check_own(config, use, error);
    }
    const struct glue_task *task;
    TRY(glue_task_find(config->task_name, &task, error));
    if (file_of(config, use) == NULL) {
        return need(config->data_dir, "data_dir", ", the folder with the task's files", error);
    }
    return BERTH_OK;
}

// --- which files --------------------------------------------------------------------------------

static enum glue_split split_of(const struct berth_config *config, enum task_use use) {
    const char *split = use == TASK_TRAIN ? "train" : use == TASK_VALIDATE ? "dev" : config->split;
    return strcmp(split, "train") == 0 ? GLUE_TRAIN
           : strcmp(split, "dev") == 0 ? GLUE_DEV
                                       : GLUE_TEST;
}

static enum berth_status validates(const struct berth_config *config, int *answer,
                                   struct berth_error *error) {
    *answer = config->validation_file != NULL;
    if (config->validation_file != NULL) {
        return file_exists(config->validation_file)
                   ? BERTH_OK
                   : error_set(error, BERTH_NO_INPUT, "%s: no such file; expected a table of texts",
                               config->validation_file);
    }
    if (config->task_name == NULL || config->data_dir == NULL) {
        return BERTH_OK;
    }
    const struct glue_task *task;
    char *path;
    TRY(glue_task_find(config->task_name, &task, error));
    TRY(glue_task_path(task, config->data_dir, GLUE_DEV, config->language, &path, error));
    memory_free(path);
    *answer = 1;
    return BERTH_OK;
}

static enum berth_status add_part(struct classify *own, const char *path, const char *suffix,
                                  struct berth_error *error) {
    struct part *part = &own->parts[own->part_count++];
    part->suffix = suffix;
    part->path = memory_string(path);
    return part->path != NULL ? BERTH_OK : error_no_memory(error, strlen(path), "a path");
}

// The mismatched file of a split that has one, where it is there.
static enum berth_status add_mismatched(struct classify *own, const struct berth_config *config,
                                        enum glue_split split, struct berth_error *error) {
    enum glue_split other = split == GLUE_DEV    ? GLUE_DEV_MISMATCHED
                            : split == GLUE_TEST ? GLUE_TEST_MISMATCHED
                                                 : GLUE_SPLITS;
    if (other == GLUE_SPLITS || own->task->files[other].name == NULL) {
        return BERTH_OK;
    }
    char *path;
    enum berth_status status =
        glue_task_path(own->task, config->data_dir, other, NULL, &path, NULL);
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
    const struct berth_config *config = args->config;
    const char *file = file_of(config, args->use);
    if (config->task_name != NULL) {
        TRY(glue_task_find(config->task_name, &own->task, error));
    }
    if (file != NULL) {
        return add_part(own, file, "", error);
    }
    enum glue_split split = split_of(config, args->use);
    char *path;
    TRY(glue_task_path(own->task, config->data_dir, split, config->language, &path, error));
    enum berth_status status = add_part(own, path, "", error);
    memory_free(path);
    return status == BERTH_OK ? add_mismatched(own, config, split, error) : status;
}

// --- reading ------------------------------------------------------------------------------------

static int is_regression(const struct model_files *files) {
    return files->shape.num_labels == 1;
}

static enum pair_target target_of(const struct task_open *args) {
    const char *type = args->config->problem_type;
    if (args->use != TASK_TRAIN) {
        return is_regression(args->files) ? PAIR_REAL : PAIR_CLASS;
    }
    return strcmp(type, "regression") == 0                    ? PAIR_REAL
           : strcmp(type, "single_label_classification") == 0 ? PAIR_CLASS
                                                              : PAIR_AUTO;
}

static enum berth_status settings_of(const struct classify *own, const struct part *part,
                                     const struct task_open *args, struct pair_settings *settings,
                                     struct berth_error *error) {
    const struct berth_config *config = args->config;
    if (own->task != NULL) {
        enum glue_split split = split_of(config, args->use);
        return glue_task_settings(own->task, split, config->language, settings, error);
    }
    *settings = (struct pair_settings){.text_column = config->text_column,
                                       .text_pair_column = config->text_pair_column,
                                       .label_column = config->label_column,
                                       .label_optional = args->use == TASK_PREDICT,
                                       .target = target_of(args)};
    return table_format_of(part->path, &settings->table.format, error);
}

static enum berth_status read_part(const struct classify *own, struct part *part,
                                   const struct task_open *args, struct berth_error *error) {
    struct pair_settings settings;
    int training = args->use == TASK_TRAIN;
    int64_t limit = training ? args->config->max_train_samples : args->config->max_eval_samples;
    TRY(settings_of(own, part, args, &settings, error));
    TRY(pairs_read(part->path, &settings, &part->dataset, error));
    if (part->dataset.left_out > 0) {
        log_warning(args->log,
                    "%s: %zu rows have another number of fields and are left out (first: "
                    "line %zu)",
                    part->path, part->dataset.left_out, part->dataset.left_out_line);
    }
    if (limit > 0 && (size_t)limit < part->dataset.count) {
        part->dataset.count = (size_t)limit;
    }
    return BERTH_OK;
}

// --- classes ------------------------------------------------------------------------------------

static enum berth_status read_names(struct classify *own, const struct model_files *files,
                                    size_t *count, struct berth_error *error) {
    const char *source = files->shape.source_json, *name = "the model's config.json";
    *count = 0;
    if (source == NULL || is_regression(files)) {
        return BERTH_OK;
    }
    TRY(json_read_memory(name, source, strlen(source), &own->model, error));
    return pair_labels_from_config(own->model, name, &own->names, count, error);
}

static void drop_names(struct classify *own) {
    memory_free(own->names);
    json_free(own->model);
    own->names = NULL;
    own->model = NULL;
}

static int names_say_nothing(const char *const *names, size_t count) {
    return count == 0 || strncmp(names[0], "LABEL_", 6) == 0;
}

// The data's classes become the model's; its head starts anew where it was made for others.
static enum berth_status give_labels(struct part *part, struct model_files *files,
                                     struct berth_error *error) {
    json *labels = json_new_object();
    enum berth_status status = pair_labels_to_config(&part->dataset, labels)
                                   ? model_files_merge(files, labels, error)
                                   : error_no_memory(error, 0, "the labels");
    json_free(labels);
    return status;
}

static enum berth_status settle_labels(struct classify *own, struct task_set *set,
                                       const struct task_open *args, struct berth_error *error) {
    struct part *part = &own->parts[0];
    struct pair_dataset *dataset = &part->dataset;
    int real = dataset->target == PAIR_REAL;
    if (!real && dataset->label_count < 2) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: every example has the same label; there is nothing to learn",
                         part->path);
    }
    size_t count;
    TRY(read_names(own, args->files, &count, error));
    int64_t before = args->files->shape.num_labels;
    int64_t wanted = real ? 1 : (int64_t)dataset->label_count;
    int speaks = !real && !names_say_nothing(own->names, count);
    if (speaks && count == dataset->label_count &&
        pairs_relabel(dataset, own->names, count, NULL) == BERTH_OK) {
        return BERTH_OK;
    }
    set->new_head = before != wanted || speaks;
    if (speaks) {
        log_warning(args->log,
                    "the model's classes (\"%s\", ...) are not those of %s: its head "
                    "starts anew",
                    own->names[0], part->path);
    }
    drop_names(own);
    TRY(give_labels(part, args->files, error));
    return read_names(own, args->files, &count, error);
}

static enum berth_status match_labels(struct classify *own, const struct task_open *args,
                                      struct berth_error *error) {
    size_t count;
    TRY(read_names(own, args->files, &count, error));
    for (size_t i = 0; i < own->part_count && count > 0; i++) {
        TRY(pairs_relabel(&own->parts[i].dataset, own->names, count, error));
    }
    return BERTH_OK;
}

// A named task and a model that was trained for the other kind of target.
static enum berth_status check_kind(const struct classify *own, const struct model_files *files,
                                    struct berth_error *error) {
    const struct pair_dataset *dataset = &own->parts[0].dataset;
    int real = dataset->target == PAIR_REAL;
    if (!dataset->has_labels || real == is_regression(files)) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_CONFIG,
                     "%s: its labels are %s, but the model is made for %s; use a model that was "
                     "fine-tuned for this task",
                     own->parts[0].path, real ? "numbers" : "classes",
                     real ? "classes" : "a regression");
}

// --- the set ------------------------------------------------------------------------------------

static const struct part *part_of(const struct classify *own, size_t index) {
    return &own->parts[own->part_count > 1 && index >= own->parts[1].first];
}

static struct packer_sequence get(const void *data, size_t index) {
    const struct part *part = part_of(data, index);
    return pair_features_sequence(&part->features, index - part->first);
}

static enum berth_status make_features(struct classify *own, struct task_set *set,
                                       const struct task_open *args, struct berth_error *error) {
    for (size_t i = 0; i < own->part_count; i++) {
        struct part *part = &own->parts[i];
        double begin = machine_seconds();
        TRY(pair_features_build(&part->dataset, args->files->tokenizer,
                                args->config->max_seq_length, machine_threads(args->config),
                                &part->features, error));
        part->first = (size_t)set->examples;
        set->examples += (int64_t)part->features.count;
        set->tokens += (int64_t)part->features.token_count;
        log_note(args->log, "%s: %zu examples, %zu tokens, %zu cut to %lld, in %.2f s", part->path,
                 part->features.count, part->features.token_count, part->features.cut,
                 (long long)args->config->max_seq_length, machine_seconds() - begin);
    }
    return BERTH_OK;
}

static enum berth_status fill(struct classify *own, const struct task_open *args,
                              struct task_set *set, struct berth_error *error) {
    TRY(find_parts(own, args, error));
    set->path = own->parts[0].path;
    for (size_t i = 0; i < own->part_count; i++) {
        TRY(read_part(own, &own->parts[i], args, error));
    }
    if (args->use == TASK_TRAIN) {
        TRY(settle_labels(own, set, args, error));
    } else {
        TRY(check_kind(own, args->files, error));
        TRY(match_labels(own, args, error));
    }
    TRY(make_features(own, set, args, error));
    set->source = (struct packer_source){.get = get, .data = own, .count = (size_t)set->examples};
    own->width = (size_t)args->files->shape.num_labels;
    if (args->use == TASK_TRAIN) {
        return BERTH_OK;
    }
    own->logits = memory_array(set->source.count * own->width, sizeof *own->logits);
    return own->logits != NULL
               ? BERTH_OK
               : error_no_memory(error, set->source.count * own->width * 4, "the logits");
}

static enum berth_status open_set(struct task_set *set, const struct task_open *args,
                                  struct berth_error *error) {
    *set = (struct task_set){.own = memory_array_zeroed(1, sizeof(struct classify))};
    return set->own != NULL ? fill(set->own, args, set, error)
                            : error_no_memory(error, sizeof(struct classify), "a data set");
}

static void close_set(struct task_set *set) {
    struct classify *own = set->own;
    for (size_t i = 0; own != NULL && i < own->part_count; i++) {
        pair_feature_set_done(&own->parts[i].features);
        pair_dataset_done(&own->parts[i].dataset);
        memory_free(own->parts[i].path);
    }
    if (own != NULL) {
        drop_names(own);
        memory_free(own->logits);
        memory_free(own);
    }
    *set = (struct task_set){0};
}

// --- predictions --------------------------------------------------------------------------------

static void take(void *set, size_t index, const float *logits, int64_t count) {
    struct classify *own = ((struct task_set *)set)->own;
    memcpy(own->logits + index * own->width, logits, (size_t)count * sizeof *logits);
}

static enum berth_status conclude(struct task_set *set, const struct model_files *files,
                                  struct berth_error *error) {
    (void)set;
    (void)files;
    (void)error;
    return BERTH_OK; // the logits say it all
}

static struct results_predictions predictions_of(const struct classify *own,
                                                 const struct part *part) {
    return (struct results_predictions){.logits = own->logits + part->first * own->width,
                                        .count = part->features.count,
                                        .width = own->width,
                                        .labels = own->names};
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
                                      const struct part *part, struct berth_error *error) {
    struct results_predictions predictions = predictions_of(own, part);
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

// -log softmax(logits)[label]
static double cross_entropy(const float *logits, size_t width, int32_t label) {
    double largest = (double)logits[0], sum = 0;
    for (size_t i = 1; i < width; i++) {
        largest = fmax(largest, (double)logits[i]);
    }
    for (size_t i = 0; i < width; i++) {
        sum += exp((double)logits[i] - largest);
    }
    return log(sum) + largest - (double)logits[label];
}

static double mean_loss(const struct classify *own, const struct part *part) {
    const float *logits = own->logits + part->first * own->width;
    double sum = 0;
    for (size_t i = 0; i < part->features.count; i++) {
        const struct pair_feature *feature = &part->features.features[i];
        double difference = (double)logits[i * own->width] - (double)feature->value;
        sum += own->names == NULL
                   ? difference * difference
                   : cross_entropy(logits + i * own->width, own->width, feature->label);
    }
    return sum / (double)part->features.count;
}

static enum glue_metric metric_of(const struct classify *own) {
    return own->task != NULL ? own->task->metric : own->names == NULL ? GLUE_MSE : GLUE_ACCURACY;
}

static enum berth_status score_part(struct classify *own, const struct part *part,
                                    struct task_score *score, struct berth_error *error) {
    struct outcome outcome;
    struct glue_scores scores = {.count = 0};
    TRY(outcome_init(&outcome, own, part, error));
    struct glue_outcome view = {.count = outcome.count, .class_count = own->width};
    if (own->names != NULL) {
        view.predictions = outcome.classes;
        view.labels = outcome.labels;
    } else {
        view.predicted_values = outcome.values;
        view.values = outcome.targets;
    }
    enum berth_status status = glue_score(metric_of(own), &view, &scores, error);
    outcome_done(&outcome);
    for (size_t i = 0; i < scores.count && score->count < BERTH_METRICS_MAX; i++) {
        struct berth_metric *item = &score->items[score->count++];
        snprintf(item->name, sizeof item->name, "%s%s", scores.items[i].name, part->suffix);
        item->value = scores.items[i].value;
    }
    return status;
}

static enum berth_status score_set(const struct task_set *set, struct task_score *score,
                                   struct berth_error *error) {
    struct classify *own = set->own;
    *score = (struct task_score){.loss = NAN, .lower_is_better = metric_of(own) == GLUE_MSE};
    if (!own->parts[0].dataset.has_labels) {
        return BERTH_OK;
    }
    score->loss = mean_loss(own, &own->parts[0]);
    TRY(score_part(own, &own->parts[0], score, error));
    score->best_by = score->count - 1;
    if (own->part_count > 1 && own->parts[1].dataset.has_labels) {
        TRY(score_part(own, &own->parts[1], score, error));
    }
    return BERTH_OK;
}

// --- files of results ---------------------------------------------------------------------------

#define RESULT_FIELDS (BERTH_METRICS_MAX + 4)

// "eval_accuracy", ... into fields[] and keys[].
static size_t score_fields(const struct task_results *results, const char *prefix,
                           struct berth_field fields[RESULT_FIELDS], char keys[RESULT_FIELDS][64]) {
    const struct task_score *score = results->score;
    size_t count = 0;
    for (; count < score->count; count++) {
        snprintf(keys[count], sizeof keys[count], "%s_%s", prefix, score->items[count].name);
        fields[count] = log_real(keys[count], score->items[count].value);
    }
    snprintf(keys[count], sizeof keys[count], "%s_loss", prefix);
    fields[count] = log_real(keys[count], score->loss);
    return count + 1;
}

static enum berth_status write_evaluation(const struct task_results *results,
                                          struct berth_error *error) {
    struct berth_field fields[RESULT_FIELDS];
    char keys[RESULT_FIELDS][64];
    size_t count = score_fields(results, "eval", fields, keys);
    fields[count++] = log_integer("global_step", results->step);
    fields[count++] = log_real("loss", results->train_loss);
    return results_write_eval_text(results->folder, fields, count, error);
}

static enum berth_status write_part(const struct classify *own, const struct part *part,
                                    const char *folder, struct berth_error *error) {
    struct results_predictions predictions = predictions_of(own, part);
    char name[128];
    snprintf(name, sizeof name, "test_results%s.tsv", part->suffix);
    TRY(results_write_probabilities(folder, name, &predictions, error));
    const char *task = own->task != NULL ? own->task->name : "";
    snprintf(name, sizeof name, "predict_results%s%s%s.txt", task[0] != '\0' ? "_" : "", task,
             part->suffix);
    return results_write_predictions(folder, name, &predictions, error);
}

static enum berth_status write_predictions(const struct task_set *set,
                                           const struct task_results *results,
                                           struct berth_error *error) {
    const struct classify *own = set->own;
    for (size_t i = 0; i < own->part_count; i++) {
        TRY(write_part(own, &own->parts[i], results->folder, error));
    }
    if (results->score->count == 0) {
        return BERTH_OK;
    }
    struct berth_field fields[RESULT_FIELDS];
    char keys[RESULT_FIELDS][64];
    size_t count = score_fields(results, "predict", fields, keys);
    fields[count++] = log_real("predict_runtime", results->seconds);
    fields[count++] = log_integer("predict_samples", set->examples);
    return results_write_json(results->folder, "predict", fields, count, error);
}

static enum berth_status write_results(const struct task_set *set,
                                       const struct task_results *results,
                                       struct berth_error *error) {
    return results->use == TASK_VALIDATE ? write_evaluation(results, error)
                                         : write_predictions(set, results, error);
}

const struct task task_classify = {.name = "classify",
                                   .head = PARAM_HEAD_CLASS,
                                   .max_seq_length = 128, // as in run_glue and run_classifier
                                   .settle = settle,
                                   .validates = validates,
                                   .open = open_set,
                                   .close = close_set,
                                   .take = take,
                                   .conclude = conclude,
                                   .score = score_set,
                                   .write = write_results};
