// SPDX-License-Identifier: Apache-2.0
// The labels of a model, from its training data or from earlier training, and the check that a
// set's labels are among them.
#include "core/memory.h"
#include "data/pairs/pair_labels.h"
#include "train/tasks/classify.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int classify_is_regression(const struct model_files *files) {
    return files->shape.problem == BERT_REGRESSION;
}

// transformers' names if config.json has none: LABEL_0, LABEL_1, ...
static enum berth_status add_usual_names(json *model, int64_t count, struct berth_error *error) {
    json *names = json_new_object();
    int failed = 0;
    for (int64_t i = 0; i < count; i++) {
        char number[24], name[32];
        snprintf(number, sizeof number, "%" PRId64, i);
        snprintf(name, sizeof name, "LABEL_%" PRId64, i);
        failed |= json_set(names, number, json_new_text(name));
    }
    failed |= json_set(model, "id2label", names);
    return failed == 0 ? BERTH_OK : error_no_memory(error, 0, "the labels");
}

// Berth has no head with one output for each of several numbers.
enum berth_status classify_check_outputs(const struct model_files *files,
                                         struct berth_error *error) {
    return !classify_is_regression(files) || files->shape.num_labels == 1
               ? BERTH_OK
               : error_set(
                     error, BERTH_CONFIG,
                     "the model's config.json: key \"problem_type\" is regression, but it has "
                     "%" PRId64 " labels; a regression to several numbers is not supported",
                     files->shape.num_labels);
}

enum berth_status classify_read_names(const struct model_files *files, json **model,
                                      const char ***names, size_t *count,
                                      struct berth_error *error) {
    const char *source = files->shape.source_json, *name = "the model's config.json";
    *count = 0;
    *model = NULL;
    *names = NULL;
    if (source == NULL || classify_is_regression(files)) {
        return BERTH_OK;
    }
    TRY(json_read_memory(name, source, strlen(source), model, error));
    if (!json_is_object_value(json_member(*model, "id2label"))) {
        TRY(add_usual_names(*model, files->shape.num_labels, error));
    }
    return pair_labels_from_config(*model, name, names, count, error);
}

static enum berth_status read_names(struct classify *own, const struct model_files *files,
                                    size_t *count, struct berth_error *error) {
    return classify_read_names(files, &own->model, &own->names, count, error);
}

void classify_drop_names(struct classify *own) {
    memory_free(own->names);
    json_free(own->model);
    own->names = NULL;
    own->model = NULL;
}

static int names_say_nothing(const char *const *names, size_t count) {
    return count == 0 || strncmp(names[0], "LABEL_", 6) == 0;
}

// Makes the data's classes the model's; its head is newly initialised if it was for others.
static enum berth_status set_model_labels(struct classify_part *part, struct model_files *files,
                                          struct berth_error *error) {
    json *labels = json_new_object();
    enum berth_status status = pair_labels_to_config(&part->dataset, labels)
                                   ? model_files_merge(files, labels, error)
                                   : error_no_memory(error, 0, "the labels");
    json_free(labels);
    return status;
}

enum berth_status classify_settle_labels(struct classify *own, struct task_set *set,
                                         const struct task_open *args, struct berth_error *error) {
    struct classify_part *part = &own->parts[0];
    struct pair_dataset *dataset = &part->dataset;
    int real = dataset->target == PAIR_REAL, several = dataset->target == PAIR_LABELS;
    own->several = several;
    if (!real && !several && dataset->label_count < 2) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: every example has the same label; there is nothing to learn",
                         part->path);
    }
    size_t count;
    TRY(read_names(own, args->files, &count, error));
    int64_t before = args->files->shape.num_labels;
    const enum bert_problem problem = real ? BERT_REGRESSION : several ? BERT_LABELS : BERT_CLASSES;
    int64_t wanted = real ? 1 : (int64_t)dataset->label_count;
    int speaks = !real && !names_say_nothing(own->names, count);
    if (speaks && count == dataset->label_count && args->files->shape.problem == problem &&
        pairs_relabel(dataset, own->names, count, NULL) == BERTH_OK) {
        return BERTH_OK;
    }
    set->new_head = before != wanted || speaks;
    if (speaks) {
        log_warning(args->log,
                    "the model's classes (\"%s\", ...) differ from those of %s: its head is newly "
                    "initialised",
                    own->names[0], part->path);
    }
    classify_drop_names(own);
    TRY(set_model_labels(part, args->files, error));
    return read_names(own, args->files, &count, error);
}

// Checks that a named task and the model have the same kind of target.
static enum berth_status check_kind(const struct classify *own, const struct model_files *files,
                                    struct berth_error *error) {
    const struct pair_dataset *dataset = &own->parts[0].dataset;
    int real = dataset->target == PAIR_REAL;
    TRY(classify_check_outputs(files, error));
    if (!dataset->has_labels || real == classify_is_regression(files)) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_CONFIG,
                     "%s: its labels are %s, but the model is made for %s; use a model that was "
                     "fine-tuned for this task",
                     own->parts[0].path, real ? "numbers" : "classes",
                     real ? "classes" : "a regression");
}

enum berth_status classify_match_labels(struct classify *own, const struct task_open *args,
                                        struct berth_error *error) {
    size_t count;
    own->several = args->files->shape.problem == BERT_LABELS;
    TRY(check_kind(own, args->files, error));
    TRY(read_names(own, args->files, &count, error));
    for (size_t i = 0; i < own->part_count && count > 0; i++) {
        TRY(pairs_relabel(&own->parts[i].dataset, own->names, count, error));
    }
    return BERTH_OK;
}
