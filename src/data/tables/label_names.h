// SPDX-License-Identifier: Apache-2.0
// Names of labels, wherever they come from: in what order a model should have them, whether two
// lists mean the same classes, and how they are shown in a message. Data sets are renumbered by
// whoever read them (pair_labels.c, tagged.c).
#ifndef BERTH_DATA_LABEL_NAMES_H
#define BERTH_DATA_LABEL_NAMES_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

struct label_names {
    const char *const *list;
    size_t count;
};

// The comparison function of labels for qsort and bsearch: as numbers if all are integers,
// otherwise by their bytes.
typedef int (*label_order)(const void *, const void *);
label_order label_order_of(const struct label_names *labels);

// Whether the names are Hugging Face's placeholders LABEL_0, LABEL_1, ..., in order. These say
// nothing about the classes.
int label_names_are_placeholders(const struct label_names *names);

// Whether all are whole numbers, of any size.
int label_names_are_whole(const struct label_names *names);

// How labels are matched with classes.
enum label_match {
    LABELS_BY_NAME,   // label and class have the same name
    LABELS_BY_NUMBER, // placeholders, and integer labels: the label is the index of the class
    LABELS_BY_ORDER   // placeholders, and as many other labels as classes: by sorted order
};

// Sets numbers[i] to the class of label i, -1 for none. If any label has the name of a class,
// all are matched by name, so that no match depends on which other labels occur. Names are
// compared exactly, then, with `in_any_case`, ignoring the case of ASCII letters.
enum berth_status label_names_match(const struct label_names *classes,
                                    const struct label_names *labels, int in_any_case,
                                    int32_t *numbers, enum label_match *match,
                                    struct berth_error *error);

// Whether label i is class i for all labels, and every class has a label.
int label_names_are_identity(const struct label_names *classes, const struct label_names *labels,
                             const int32_t *numbers);

// Writes what follows "the model has no label ...; expected " in a message.
void label_names_expected(const struct label_names *classes, enum label_match match, char *text,
                          size_t size);

// Writes a list "a", "b", ..., as far as it fits.
void label_names_list(const struct label_names *names, char *text, size_t size);

#endif
