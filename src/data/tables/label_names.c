// SPDX-License-Identifier: Apache-2.0
#include "data/tables/label_names.h"

#include "core/caseless.h"
#include "core/number.h"
#include "core/utf8.h"
#include "data/tables/table_reader.h"

#include <stdio.h>
#include <string.h>

#define LABELS_SHOWN 20

// --- order --------------------------------------------------------------------------------------

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_integer(const void *a, const void *b) {
    int64_t x = 0, y = 0;
    number_parse_integer(*(const char *const *)a, &x);
    number_parse_integer(*(const char *const *)b, &y);
    return x != y ? (x > y) - (x < y) : by_bytes(a, b);
}

static int are_integers(const struct label_names *labels) {
    int64_t integer;
    size_t i = 0;
    while (i < labels->count && number_parse_integer(labels->list[i], &integer)) {
        i++;
    }
    return i == labels->count;
}

label_order label_order_of(const struct label_names *labels) {
    return are_integers(labels) ? by_integer : by_bytes;
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

static int32_t find_name(const struct label_names *names, const char *name, int in_any_case) {
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->list[i], name) == 0) {
            return (int32_t)i;
        }
    }
    for (size_t i = 0; i < names->count && in_any_case; i++) {
        if (caseless_equal(names->list[i], name)) {
            return (int32_t)i;
        }
    }
    return -1;
}

static int32_t class_of_number(const char *label, size_t count) {
    int64_t number;
    return number_parse_integer(label, &number) && number >= 0 && (uint64_t)number < count
               ? (int32_t)number
               : -1;
}

enum label_match label_names_match(const struct label_names *classes,
                                   const struct label_names *labels, int in_any_case,
                                   int32_t *numbers) {
    int named = 0;
    for (size_t i = 0; i < labels->count; i++) {
        numbers[i] = find_name(classes, labels->list[i], in_any_case);
        named |= numbers[i] >= 0;
    }
    if (named || !label_names_are_placeholders(classes)) {
        return LABELS_BY_NAME;
    }
    const int by_number = are_integers(labels);
    if (!by_number && labels->count != classes->count) {
        return LABELS_BY_NAME;
    }
    for (size_t i = 0; i < labels->count; i++) {
        numbers[i] = by_number ? class_of_number(labels->list[i], classes->count) : (int32_t)i;
    }
    return by_number ? LABELS_BY_NUMBER : LABELS_BY_ORDER;
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
