// SPDX-License-Identifier: Apache-2.0
// The classes of a data set in the terms of a model: renumbers a set's labels as the model has
// them, describes them for messages, and writes and reads their entries in config.json. The tasks
// classify and tag call it when a set is open and when a model is saved; the order of names is
// label_names.h's.
#include "data/pairs/pair_labels.h"

#include "core/memory.h"
#include "core/number.h"
#include "core/utf8.h"
#include "data/tables/label_names.h"
#include "data/tables/table_reader.h"

#include <stdio.h>
#include <string.h>

#define PLACEHOLDER "LABEL_"

// --- renumbering --------------------------------------------------------------------------------

// Copies the names into one block: the array, then the text. NULL when out of memory.
static const char **copy_names(const char *const *names, size_t count) {
    size_t bytes = count * sizeof *names;
    for (size_t i = 0; i < count; i++) {
        bytes += strlen(names[i]) + 1;
    }
    const char **copy = memory_new(bytes);
    char *text = copy != NULL ? (char *)(copy + count) : NULL;
    for (size_t i = 0; copy != NULL && i < count; i++) {
        size_t size = strlen(names[i]) + 1;
        copy[i] = memcpy(text, names[i], size);
        text += size;
    }
    return copy;
}

// The classes of an example: one, or with multi-label data any number.
static const int32_t *labels_of(const struct pair_example *example, size_t *count) {
    *count = example->label_count >= 0 ? (size_t)example->label_count : 1;
    return example->label_count >= 0 ? example->labels : &example->label;
}

// Whole numbers are classes, so that the first fraction may be in another file than those to train.
static const char *regression_remedy(const struct label_names *classes, const char *name) {
    double value;
    return label_names_are_whole(classes) && !number_is_whole(name) &&
                   number_parse_real(name, &value)
               ? "; if the labels are numbers, not classes, train with problem_type regression"
               : "";
}

// Sets the error for the first label without a class; the message ends with `expected`.
static enum berth_status check_classes(const struct pair_dataset *dataset,
                                       const struct label_names *classes, const int32_t *numbers,
                                       const char *expected, struct berth_error *error) {
    for (size_t i = 0; i < dataset->count; i++) {
        const struct pair_example *example = &dataset->examples[i];
        size_t labels;
        const int32_t *list = labels_of(example, &labels);
        for (size_t k = 0; k < labels; k++) {
            if (numbers[list[k]] < 0) {
                const char *name = dataset->labels[list[k]];
                return error_line(error, BERTH_BAD_DATA, dataset->name, example->line,
                                  "the model has no label \"%.*s\"; expected %s%s%s",
                                  UTF8_SHOWN(name, TABLE_SHOWN), expected,
                                  regression_remedy(classes, name), dataset->label_remedy);
            }
        }
    }
    return BERTH_OK;
}

void pair_labels_drop_duplicates(struct pair_example *example) {
    int32_t kept = 0;
    for (int32_t i = 0; i < example->label_count; i++) {
        int32_t before = 0;
        while (before < kept && example->labels[before] != example->labels[i]) {
            before++;
        }
        if (before == kept) {
            example->labels[kept++] = example->labels[i];
        }
    }
    example->label_count = kept;
}

// Renumbers the labels and copies the names. Labels that differ only in case may become one class.
static enum berth_status set_names(struct pair_dataset *dataset, const struct label_names *classes,
                                   const int32_t *numbers, struct berth_error *error) {
    struct pair_storage *storage = dataset->storage;
    const char **names = copy_names(classes->list, classes->count);
    if (names == NULL) {
        return error_no_memory(error, classes->count * sizeof *names, "the labels");
    }
    for (size_t i = 0; i < dataset->count; i++) {
        size_t labels;
        int32_t *list = (int32_t *)labels_of(&dataset->examples[i], &labels);
        for (size_t k = 0; k < labels; k++) {
            list[k] = numbers[list[k]];
        }
        if (dataset->target == PAIR_MULTI_LABEL) {
            pair_labels_drop_duplicates(&dataset->examples[i]);
        }
    }
    memory_free(storage->labels);
    storage->labels = names;
    dataset->labels = names;
    dataset->label_count = classes->count;
    return BERTH_OK;
}

static enum berth_status relabel(struct pair_dataset *dataset, const struct label_names *classes,
                                 int32_t *numbers, struct berth_error *error) {
    char expected[512];
    const struct label_names labels = {dataset->labels, dataset->label_count};
    enum label_match match;
    TRY(label_names_match(classes, &labels, 1, numbers, &match, error));
    label_names_expected(classes, match, expected, sizeof expected);
    TRY(check_classes(dataset, classes, numbers, expected, error));
    dataset->labels_in_order = match == LABELS_BY_ORDER;
    return match != LABELS_BY_NAME && label_names_are_identity(classes, &labels, numbers)
               ? BERTH_OK
               : set_names(dataset, classes, numbers, error);
}

enum berth_status pairs_relabel(struct pair_dataset *dataset, const char *const *names,
                                size_t count, struct berth_error *error) {
    if (dataset->label_count == 0) {
        return BERTH_OK;
    }
    const struct label_names classes = {names, count};
    int32_t *numbers =
        memory_array(dataset->label_count, sizeof *numbers); // the new class of each old one
    if (numbers == NULL) {
        return error_no_memory(error, dataset->label_count * sizeof *numbers, "the labels");
    }
    enum berth_status status = relabel(dataset, &classes, numbers, error);
    memory_free(numbers);
    return status;
}

// --- in words -----------------------------------------------------------------------------------

void pair_labels_describe(const struct pair_dataset *dataset, char *text, size_t size) {
    if (pair_target_is_number(dataset->target)) {
        double min = dataset->examples[0].value, max = min;
        for (size_t i = 1; i < dataset->count; i++) {
            const double value = dataset->examples[i].value;
            min = value < min ? value : min;
            max = value > max ? value : max;
        }
        number_format(text, size, "numbers from %g to %g", min, max);
        return;
    }
    const struct label_names labels = {dataset->labels, dataset->label_count};
    const size_t used =
        (size_t)snprintf(text, size, "%zu class%s%s (", labels.count, labels.count != 1 ? "es" : "",
                         dataset->target == PAIR_MULTI_LABEL ? ", several at once" : "");
    label_names_list(&labels, text + used, size - used - 1);
    strcat(text, ")");
}

// --- config.json --------------------------------------------------------------------------------

const char *pair_target_name(enum pair_target target) {
    static const char *const names[] = {
        [PAIR_AUTO] = "auto",
        [PAIR_CLASS] = "single_label_classification",
        [PAIR_REAL] = "regression",
        [PAIR_MULTI_LABEL] = "multi_label_classification",
        [PAIR_DEGREE] = "multi_label_classification", // of one label
    };
    return names[target];
}

// sentence-transformers would otherwise apply what the model began with, perhaps none.
static int set_activation(json *config) {
    json *object = json_new_object();
    const int failed =
        json_set(object, "activation_fn", json_new_text("torch.nn.modules.activation.Sigmoid"));
    return failed | json_set(config, "sentence_transformers", object);
}

int pair_labels_to_config(const struct pair_dataset *dataset, json *config) {
    static const char *const single[] = {PLACEHOLDER "0"};
    int real = pair_target_is_number(dataset->target);
    const char *const *names = real ? single : dataset->labels;
    size_t count = real ? 1 : dataset->label_count;
    json *id2label = json_new_object(), *label2id = json_new_object();
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        char number[32];
        snprintf(number, sizeof number, "%zu", i);
        failed |= json_set(id2label, number, json_new_text(names[i]));
        failed |= json_set(label2id, names[i], json_new_integer((int64_t)i));
    }
    failed |= json_set(config, "id2label", id2label);
    failed |= json_set(config, "label2id", label2id);
    failed |= json_set(config, "problem_type", json_new_text(pair_target_name(dataset->target)));
    failed |= dataset->target == PAIR_DEGREE && set_activation(config);
    return !failed;
}

enum berth_status pair_labels_from_config(const json *config, const char *name, const char ***names,
                                          size_t *count, struct berth_error *error) {
    const json *id2label = json_member(config, "id2label");
    *names = NULL;
    *count = 0;
    if (id2label == NULL || json_is_null_value(id2label)) {
        return BERTH_OK;
    }
    size_t length = json_length(id2label);
    const char **list = memory_array(length + 1, sizeof *list);
    if (list == NULL) {
        return error_no_memory(error, length * sizeof *list, "the labels");
    }
    for (size_t i = 0; i < length; i++) {
        char number[32];
        snprintf(number, sizeof number, "%zu", i);
        list[i] = json_text(json_member(id2label, number));
        if (list[i] == NULL) {
            memory_free(list);
            return error_set(error, BERTH_CONFIG,
                             "%s: key \"id2label\": expected names under \"0\" to \"%zu\", found "
                             "none under \"%zu\"",
                             name, length - 1, i);
        }
    }
    list[length] = NULL;
    *names = list;
    *count = length;
    return BERTH_OK;
}
