// SPDX-License-Identifier: Apache-2.0
// The names of classes: their order in a model, and their entry in config.json.
#include "data/pairs/pair_labels.h"

#include "core/memory.h"
#include "core/number.h"
#include "data/tables/caseless.h"
#include "data/tables/table_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PLACEHOLDER "LABEL_"
#define LABELS_SHOWN 20

void pair_labels_list(const char *const *names, size_t count, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (i == LABELS_SHOWN || size - used < TABLE_SHOWN + 16) {
            snprintf(text + used, size - used, ", ...");
            return;
        }
        used += (size_t)snprintf(text + used, size - used, "%s\"%.*s\"", i > 0 ? ", " : "",
                                 table_shown(names[i]), names[i]);
    }
}

// --- renumbering --------------------------------------------------------------------------------

static int32_t find_name(const char *const *names, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return (int32_t)i;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (caseless_equal(names[i], name)) {
            return (int32_t)i;
        }
    }
    return -1;
}

static int are_placeholders(const char *const *names, size_t count) {
    char expected[32];
    for (size_t i = 0; i < count; i++) {
        snprintf(expected, sizeof expected, PLACEHOLDER "%zu", i);
        if (strcmp(names[i], expected) != 0) {
            return 0;
        }
    }
    return 1;
}

// The index of a label that is a number among the placeholders.
static int32_t place_of(const char *label, size_t count) {
    int64_t place;
    return number_parse_integer(label, &place) && place >= 0 && (uint64_t)place < count
               ? (int32_t)place
               : -1;
}

// Copies the names into one block, the array and then the text; NULL when out of memory.
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

// The classes of an example: its only one, or all of several.
static const int32_t *labels_of(const struct pair_example *example, size_t *count) {
    *count = example->label_count >= 0 ? (size_t)example->label_count : 1;
    return example->label_count >= 0 ? example->labels : &example->label;
}

static enum berth_status check_classes(const struct pair_dataset *dataset, const char *const *names,
                                       size_t count, const int32_t *numbers,
                                       struct berth_error *error) {
    for (size_t i = 0; i < dataset->count; i++) {
        const struct pair_example *example = &dataset->examples[i];
        size_t labels;
        const int32_t *list = labels_of(example, &labels);
        for (size_t k = 0; k < labels; k++) {
            if (numbers[list[k]] < 0) {
                char known[512];
                const char *name = dataset->labels[list[k]];
                pair_labels_list(names, count, known, sizeof known);
                return error_set(
                    error, BERTH_BAD_DATA,
                    "%s: line %zu: the model has no label \"%.*s\"; expected one of %s",
                    dataset->name, example->line, table_shown(name), name, known);
            }
        }
    }
    return BERTH_OK;
}

void pair_labels_drop_repeats(struct pair_example *example) {
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

// Names that differ only by case may become one class.
static void take_names(struct pair_dataset *dataset, const char **names, size_t count,
                       const int32_t *numbers) {
    struct pair_storage *storage = dataset->storage;
    for (size_t i = 0; i < dataset->count; i++) {
        size_t labels;
        int32_t *list = (int32_t *)labels_of(&dataset->examples[i], &labels);
        for (size_t k = 0; k < labels; k++) {
            list[k] = numbers[list[k]];
        }
        if (dataset->target == PAIR_LABELS) {
            pair_labels_drop_repeats(&dataset->examples[i]);
        }
    }
    memory_free(storage->labels);
    storage->labels = names;
    dataset->labels = names;
    dataset->label_count = count;
}

enum berth_status pairs_relabel(struct pair_dataset *dataset, const char *const *names,
                                size_t count, struct berth_error *error) {
    if (dataset->label_count == 0 ||
        (count == dataset->label_count && are_placeholders(names, count))) {
        return BERTH_OK;
    }
    int32_t *numbers =
        memory_array(dataset->label_count, sizeof *numbers); // new numbers of the old classes
    const char **copy = copy_names(names, count);
    if (numbers == NULL || copy == NULL) {
        memory_free(numbers);
        memory_free(copy);
        return error_no_memory(error, count * sizeof *names, "the labels");
    }
    for (size_t i = 0; i < dataset->label_count; i++) {
        numbers[i] = find_name(names, count, dataset->labels[i]);
        if (numbers[i] < 0 && are_placeholders(names, count)) {
            numbers[i] = place_of(dataset->labels[i], count);
        }
    }
    enum berth_status status = check_classes(dataset, names, count, numbers, error);
    if (status == BERTH_OK) {
        take_names(dataset, copy, count, numbers);
    } else {
        memory_free(copy);
    }
    memory_free(numbers);
    return status;
}

// --- config.json --------------------------------------------------------------------------------

int pair_labels_to_config(const struct pair_dataset *dataset, json *config) {
    static const char *const single[] = {PLACEHOLDER "0"};
    int real = dataset->target == PAIR_REAL;
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
    const char *type = real                             ? "regression"
                       : dataset->target == PAIR_LABELS ? "multi_label_classification"
                                                        : "single_label_classification";
    failed |= json_set(config, "problem_type", json_new_text(type));
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
