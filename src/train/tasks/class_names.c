// SPDX-License-Identifier: Apache-2.0
// The names of a model's classes: spelled out from its configuration, compared with those of the
// data or of a checkpoint to resume, and written into the configuration of a new model; and the
// weights of classes in the loss. Tasks that classify call it when they open a set, progress.c when
// a run is resumed. Reading the examples is left to src/data/.
#include "train/tasks/class_names.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/utf8.h"
#include "data/tables/label_names.h"
#include "model/folder.h"
#include "settings/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// --- names --------------------------------------------------------------------------------------

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

// transformers writes names that are numbers as numbers.
static enum berth_status spell_names(json *model, struct berth_error *error) {
    const json *from = json_member(model, "id2label");
    json *names = json_new_object();
    struct json_walk walk = {.object = from};
    int failed = 0;
    while (json_walk_next(&walk)) {
        char *number =
            json_is_integer_value(walk.value) ? json_write(walk.value, JSON_COMPACT) : NULL;
        failed |= json_set(names, walk.key,
                           number != NULL ? json_new_text(number) : json_copy_deep(walk.value));
        memory_free(number);
    }
    failed |= json_set(model, "id2label", names);
    return failed == 0 ? BERTH_OK : error_no_memory(error, 0, "the labels");
}

enum berth_status class_names_read(struct class_names *names, const struct model_files *files,
                                   struct berth_error *error) {
    static const char name[] = "the model's config.json";
    const char *source = files->shape.source_json;
    class_names_done(names);
    if (source == NULL) {
        return BERTH_OK;
    }
    TRY(json_read_memory(name, source, strlen(source), &names->model, error));
    TRY(bert_config_is_architecture(&files->shape, param_head_row(files->table.head)->architecture,
                                    &names->has_head, error));
    const int has_names = json_is_object_value(json_member(names->model, "id2label"));
    TRY(has_names ? spell_names(names->model, error)
                  : add_usual_names(names->model, files->shape.num_labels, error));
    return pair_labels_from_config(names->model, name, &names->list, &names->count, error);
}

int class_names_exist(const struct model_files *files) {
    const enum param_head head = files->table.head;
    return (head == PARAM_HEAD_CLASS || head == PARAM_HEAD_TOKEN) &&
           files->shape.problem != BERT_REGRESSION && files->shape.source_json != NULL;
}

json *class_names_json(const struct model_files *files) {
    struct class_names names = {NULL};
    json *object = class_names_read(&names, files, NULL) == BERTH_OK
                       ? json_copy_deep(json_member(names.model, "id2label"))
                       : NULL;
    class_names_done(&names);
    return object;
}

static enum berth_status compare(const struct class_names *then, const struct class_names *now,
                                 const char *path, struct berth_error *error) {
    const size_t count = then->count > now->count ? then->count : now->count;
    for (size_t i = 0; i < count; i++) {
        const char *old = i < then->count ? then->list[i] : "missing";
        const char *new = i < now->count ? now->list[i] : "missing";
        if (strcmp(old, new) != 0) {
            return error_set(error, BERTH_CONFIG,
                             "%s: class %zu was \"%s\" in the run to resume and is now \"%s\"; "
                             "resume with the same labels or start over",
                             path, i, old, new);
        }
    }
    return BERTH_OK;
}

static enum berth_status check_names(const char *const *names, size_t count, const char *separators,
                                     struct berth_error *error) {
    for (size_t i = 0; i < count; i++) {
        const char *name = names[i];
        const size_t begin = strcspn(name, separators);
        const char found = name[begin];
        if (found != '\0') {
            return error_set(error, BERTH_BAD_DATA,
                             "the label that begins \"%.*s\" contains a %s, which would separate "
                             "it in the file of predictions; rename it",
                             (int)utf8_cut(name, begin, 40), name,
                             found == ','    ? "comma"
                             : found == ' '  ? "blank"
                             : found == '\t' ? "tab"
                                             : "line break");
        }
    }
    return BERTH_OK;
}

enum berth_status class_names_check_written(const struct class_names *names, const char *separators,
                                            struct berth_error *error) {
    const enum berth_status status = check_names(names->list, names->count, separators, error);
    return status == BERTH_OK
               ? BERTH_OK
               : error_prefix(error, status, "the model's config.json: key \"id2label\"");
}

enum berth_status class_names_set(struct model_files *files, const struct pair_dataset *dataset,
                                  const char *separators, struct berth_error *error) {
    TRY(check_names(dataset->labels, dataset->label_count, separators, error));
    json *labels = json_new_object();
    enum berth_status status = pair_labels_to_config(dataset, labels)
                                   ? model_files_merge(files, labels, error)
                                   : error_no_memory(error, 0, "the labels");
    json_free(labels);
    return status;
}

// The names in the configuration `path`; none if it is missing or has none.
static enum berth_status read_config_names(struct class_names *names, const char *path,
                                           struct berth_error *error) {
    struct berth_error own;
    const enum berth_status status = json_read_file(path, &names->model, &own);
    if (status != BERTH_OK) {
        return file_probe(status, &own, error);
    }
    if (!json_is_object_value(json_member(names->model, "id2label"))) {
        return BERTH_OK;
    }
    TRY(spell_names(names->model, error));
    return pair_labels_from_config(names->model, path, &names->list, &names->count, error);
}

// The names in the configuration beside the file `path`, as above.
static enum berth_status read_names_beside(struct class_names *names, const char *path,
                                           struct berth_error *error) {
    OWNED char *config = folder_config_path(path_parent(path).text);
    return config != NULL ? read_config_names(names, config, error)
                          : error_no_memory(error, 0, "a path");
}

enum berth_status class_names_check(const struct model_files *files, const json *object,
                                    const char *path, struct berth_error *error) {
    struct class_names then = {NULL}, now = {NULL};
    if (!class_names_exist(files)) {
        return BERTH_OK;
    }
    enum berth_status status =
        json_member(object, "id2label") != NULL
            ? pair_labels_from_config(object, path, &then.list, &then.count, error)
            : read_names_beside(&then, path, error);
    if (status == BERTH_OK && then.count > 0) {
        status = class_names_read(&now, files, error);
    }
    if (status == BERTH_OK && then.count > 0) {
        status = compare(&then, &now, path, error);
    }
    class_names_done(&then);
    class_names_done(&now);
    return status;
}

void class_names_done(struct class_names *names) {
    memory_free((void *)names->list);
    json_free(names->model);
    *names = (struct class_names){.model = NULL};
}

size_t class_names_find(const struct class_names *names, const char *name) {
    size_t i = 0;
    while (i < names->count && strcmp(names->list[i], name) != 0) {
        i++;
    }
    return i;
}

int class_names_are_placeholders(const struct class_names *names) {
    const struct label_names classes = {names->list, names->count};
    return label_names_are_placeholders(&classes);
}

void class_names_note_order(const char *path, const char *const *labels, size_t count,
                            const struct berth_log *log) {
    char list[512];
    const struct label_names taken = {labels, count};
    label_names_list(&taken, list, sizeof list);
    log_note(log,
             "%s: the model's classes have no names; its classes, from 0 on, are assumed to be %s; "
             "to name them, set id2label in its config.json",
             path, list);
}

// --- the head of a model to be trained -----------------------------------------------------------

static enum bert_problem problem_of(const struct pair_dataset *dataset) {
    return dataset->target == PAIR_REAL    ? BERT_REGRESSION
           : dataset->target == PAIR_CLASS ? BERT_CLASSES
                                           : BERT_MULTI_LABEL;
}

static const char *title_of(enum bert_problem problem) {
    return problem == BERT_REGRESSION    ? "a regression"
           : problem == BERT_MULTI_LABEL ? "multi-label"
                                         : "single-label";
}

// Classes that are placeholders may not have been trained.
static int is_other_problem(const struct class_names *names, const struct model_files *files,
                            const struct pair_dataset *dataset) {
    return !class_names_are_placeholders(names) && files->shape.problem != problem_of(dataset);
}

int class_names_are_comparable(const struct class_names *names, const struct model_files *files,
                               const struct pair_dataset *dataset) {
    const size_t labels = dataset->label_count;
    return !pair_target_is_number(dataset->target) && !is_other_problem(names, files, dataset) &&
           (names->count == labels || (names->count > labels && names->has_head));
}

void class_names_note_missing(const struct class_names *names, size_t labels, const char *path,
                              const struct berth_log *log) {
    if (labels < names->count) {
        log_note(log, "%s has %zu of the model's %zu classes: its head is kept, with all of them",
                 path, labels, names->count);
    }
}

void class_names_settle_head(struct task_set *set, const struct class_names *names,
                             const struct task_open *args, const struct pair_dataset *dataset,
                             int are_same) {
    const int real = pair_target_is_number(dataset->target);
    const size_t outputs = real ? 1 : dataset->label_count;
    const int differ =
        !real && !are_same && (names->count == outputs || !class_names_are_placeholders(names));
    set->new_head = differ || args->files->shape.num_labels != (int64_t)outputs;
    if (differ && is_other_problem(names, args->files, dataset)) {
        log_warning(args->log, "the model is %s, but %s is %s: its head is newly initialised",
                    title_of(args->files->shape.problem), set->path, title_of(problem_of(dataset)));
    } else if (differ) {
        log_warning(args->log,
                    "the model's classes (\"%s\", ...) differ from those of %s: its head is newly "
                    "initialised",
                    names->list[0], set->path);
    }
}

// --- weights ------------------------------------------------------------------------------------

static enum berth_status parse_weights(double *weights, const struct class_names *names,
                                       const char *text, struct berth_error *error) {
    const char *rest = text;
    size_t count = 0;
    for (double weight; rest != NULL && *rest != '\0'; count++) {
        char number[NUMBER_TEXT_SIZE * 2];
        const size_t length = strcspn(rest, ", ");
        snprintf(number, sizeof number, "%.*s", (int)length, rest);
        const int is_number = length < sizeof number && number_parse_real(number, &weight);
        rest = is_number && weight > 0 ? rest + length + strspn(rest + length, ", ") : NULL;
        if (rest != NULL && count < names->count) {
            weights[count] = weight;
        }
    }
    return rest != NULL && count == names->count
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "class_weights: expected \"balanced\" or %zu numbers above 0, one for "
                           "each class (\"%s\" first), found \"%s\"",
                           names->count, names->list[0], text);
}

// A loss that is only smoothed has equal weights.
static enum berth_status fill_weights(double *weights, const struct settings *config,
                                      const struct class_names *names, const size_t *counts,
                                      const char *path, struct berth_error *error) {
    if (config->task.class_weights == NULL) {
        for (size_t k = 0; k < names->count; k++) {
            weights[k] = 1;
        }
        return BERTH_OK;
    }
    if (strcmp(config->task.class_weights, "balanced") == 0) {
        size_t all = 0;
        for (size_t k = 0; k < names->count; k++) {
            all += counts[k];
            if (counts[k] == 0) {
                return error_set(
                    error, BERTH_BAD_DATA,
                    "%s: class_weights balanced: the class \"%s\" does not occur; give a "
                    "weight for each class",
                    path, names->list[k]);
            }
        }
        for (size_t k = 0; k < names->count; k++) {
            weights[k] = (double)all / ((double)names->count * (double)counts[k]);
        }
        return BERTH_OK;
    }
    return parse_weights(weights, names, config->task.class_weights, error);
}

static int is_plain(const struct settings *config) {
    return config->task.class_weights == NULL && config->task.label_smoothing_factor <= 0;
}

enum berth_status class_weights_set(struct task_set *set, const struct settings *config,
                                    const struct class_names *names, const size_t *counts,
                                    struct berth_error *error) {
    if (is_plain(config)) {
        return BERTH_OK;
    }
    set->class_weights = memory_array(names->count, sizeof *set->class_weights);
    return set->class_weights != NULL
               ? fill_weights(set->class_weights, config, names, counts, set->path, error)
               : error_no_memory(error, names->count * sizeof *set->class_weights,
                                 "the weights of the classes");
}

enum berth_status class_weights_refuse(const struct settings *config, struct berth_error *error) {
    return is_plain(config)
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "%s applies only where a text has one of several classes, not to a "
                           "regression or several labels per text; omit it",
                           config->task.class_weights != NULL ? "class_weights"
                                                              : "label_smoothing_factor");
}
