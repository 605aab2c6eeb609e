// SPDX-License-Identifier: Apache-2.0
// The names of labels: their order, and which class of a model each of them is.
#ifndef BERTH_DATA_LABEL_NAMES_H
#define BERTH_DATA_LABEL_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct label_names {
    const char *const *list;
    size_t count;
};

// The order of labels, for qsort and bsearch: ascending as numbers if all are integers, else by
// their bytes.
typedef int (*label_order)(const void *, const void *);
label_order label_order_of(const struct label_names *labels);

// Whether the names are Hugging Face's placeholders LABEL_0, LABEL_1, ..., each with its own index.
// They say nothing about the classes.
int label_names_are_placeholders(const struct label_names *names);

// What tells which class a label is.
enum label_match {
    LABELS_BY_NAME,   // the class of the same name
    LABELS_BY_NUMBER, // placeholders, integers: the class of that number
    LABELS_BY_ORDER   // placeholders, as many other labels as classes: in the order of the labels
};

// Sets numbers[i] to the class of label i, -1 for none. Labels are matched by name as soon as one
// of them has the name of a class, so that no label depends on which others occur. Names are
// compared exactly, then, with `in_any_case`, ignoring the case of ASCII letters.
enum label_match label_names_match(const struct label_names *classes,
                                   const struct label_names *labels, int in_any_case,
                                   int32_t *numbers);

// Whether label i is class i, and every class has a label.
int label_names_are_identity(const struct label_names *classes, const struct label_names *labels,
                             const int32_t *numbers);

// What a message says was expected, after "the model has no label ...; expected ".
void label_names_expected(const struct label_names *classes, enum label_match match, char *text,
                          size_t size);

// Lists "a", "b", ... as far as they fit.
void label_names_list(const struct label_names *names, char *text, size_t size);

#endif
