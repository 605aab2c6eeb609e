// SPDX-License-Identifier: Apache-2.0
// Compares and orders the names of labels: by number, by bytes, or as another list has them, in any
// case of letters where that alone helps. Tables, tags and tasks call it when a data set meets a
// model's classes; what follows for the data is theirs.
#include "data/tables/label_names.h"

#include "core/caseless.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/utf8.h"
#include "data/tables/table_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABELS_SHOWN 20

// --- order --------------------------------------------------------------------------------------

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_number_then_bytes(const void *a, const void *b) {
    const int order = number_compare_whole(*(const char *const *)a, *(const char *const *)b);
    return order != 0 ? order : by_bytes(a, b);
}

int label_names_are_whole(const struct label_names *names) {
    size_t i = 0;
    while (i < names->count && number_is_whole(names->list[i])) {
        i++;
    }
    return i == names->count;
}

label_order label_order_of(const struct label_names *labels) {
    return label_names_are_whole(labels) ? by_number_then_bytes : by_bytes;
}

// --- classes ------------------------------------------------------------------------------------

int label_names_are_placeholders(const struct label_names *names) {
    char expected[32];
    for (size_t i = 0; i < names->count; i++) {
        snprintf(expected, sizeof expected, "LABEL_%zu", i);
        if (strcmp(names->list[i], expected) != 0) {
            return 0;
        }
    }
    return 1;
}

struct named {
    const char *name;
    int32_t number;
};

static int by_number(const void *a, const void *b) {
    const int32_t x = ((const struct named *)a)->number, y = ((const struct named *)b)->number;
    return (x > y) - (x < y);
}

static int compare_exactly(const void *a, const void *b) {
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static int compare_in_any_case(const void *a, const void *b) {
    return caseless_compare(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static int by_name(const void *a, const void *b) {
    const int order = compare_exactly(a, b);
    return order != 0 ? order : by_number(a, b);
}

static int by_name_in_any_case(const void *a, const void *b) {
    const int order = compare_in_any_case(a, b);
    return order != 0 ? order : by_number(a, b);
}

// How names are compared, and how they are sorted for it.
struct comparison {
    int (*compare)(const void *, const void *), (*order)(const void *, const void *);
};

static const struct comparison exactly = {compare_exactly, by_name},
                               in_other_case = {compare_in_any_case, by_name_in_any_case};

// The first class of that name; -1: none.
static int32_t find_name(const struct named *sorted, size_t count, const char *name,
                         const struct comparison *comparison) {
    const struct named wanted = {.name = name};
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int is_before = comparison->compare(&sorted[middle], &wanted) < 0;
        low = is_before ? middle + 1 : low;
        high = is_before ? high : middle;
    }
    return low < count && comparison->compare(&sorted[low], &wanted) == 0 ? sorted[low].number : -1;
}

// Finds the classes of those labels that have none yet.
static void match_names(struct named *classes, size_t count, const struct label_names *labels,
                        const struct comparison *comparison, int32_t *numbers) {
    if (count > 0) {
        qsort(classes, count, sizeof *classes, comparison->order);
    }
    for (size_t i = 0; i < labels->count; i++) {
        if (numbers[i] < 0) {
            numbers[i] = find_name(classes, count, labels->list[i], comparison);
        }
    }
}

static int32_t class_of_number(const char *label, size_t count) {
    int64_t number;
    return number_parse_integer(label, &number) && number >= 0 && (uint64_t)number < count
               ? (int32_t)number
               : -1;
}

enum berth_status label_names_match(const struct label_names *classes,
                                    const struct label_names *labels, int in_any_case,
                                    int32_t *numbers, enum label_match *match,
                                    struct berth_error *error) {
    *match = LABELS_BY_NAME;
    struct named *named = memory_array(classes->count, sizeof *named);
    if (named == NULL) {
        return error_no_memory(error, classes->count * sizeof *named, "the labels");
    }
    for (size_t i = 0; i < classes->count; i++) {
        named[i] = (struct named){.name = classes->list[i], .number = (int32_t)i};
    }
    for (size_t i = 0; i < labels->count; i++) {
        numbers[i] = -1;
    }
    match_names(named, classes->count, labels, &exactly, numbers);
    if (in_any_case) {
        match_names(named, classes->count, labels, &in_other_case, numbers);
    }
    memory_free(named);
    const size_t count = labels->count;
    size_t found = 0;
    while (found < count && numbers[found] < 0) {
        found++;
    }
    if (found < count || !label_names_are_placeholders(classes)) {
        return BERTH_OK;
    }
    const int are_numbers = label_names_are_whole(labels);
    if (!are_numbers && labels->count != classes->count) {
        return BERTH_OK;
    }
    for (size_t i = 0; i < labels->count; i++) {
        numbers[i] = are_numbers ? class_of_number(labels->list[i], classes->count) : (int32_t)i;
    }
    *match = are_numbers ? LABELS_BY_NUMBER : LABELS_BY_ORDER;
    return BERTH_OK;
}

int label_names_are_identity(const struct label_names *classes, const struct label_names *labels,
                             const int32_t *numbers) {
    size_t i = 0;
    while (i < labels->count && numbers[i] == (int32_t)i) {
        i++;
    }
    return i == labels->count && labels->count == classes->count;
}

// --- messages -----------------------------------------------------------------------------------

void label_names_list(const struct label_names *names, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < names->count; i++) {
        if (i == LABELS_SHOWN || size - used < TABLE_SHOWN + 16) {
            snprintf(text + used, size - used, ", ...");
            return;
        }
        used += (size_t)snprintf(text + used, size - used, "%s\"%.*s\"", i > 0 ? ", " : "",
                                 UTF8_SHOWN(names->list[i], TABLE_SHOWN));
    }
}

void label_names_expected(const struct label_names *classes, enum label_match match, char *text,
                          size_t size) {
    if (match == LABELS_BY_NUMBER) {
        snprintf(text, size,
                 "0 to %zu, because its classes have no names: number the labels from 0, or name "
                 "the classes in id2label of its config.json",
                 classes->count - 1);
        return;
    }
    const size_t used = (size_t)snprintf(text, size, "one of ");
    label_names_list(classes, text + used, size - used);
}
