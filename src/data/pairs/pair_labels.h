// SPDX-License-Identifier: Apache-2.0
// What pairs.c, which reads a table, needs of pair_labels.c beside the functions of pairs.h:
// classes that a task lists twice are one. No other file includes it.
#ifndef BERTH_DATA_PAIR_LABELS_H
#define BERTH_DATA_PAIR_LABELS_H

#include "data/pairs/pairs.h"

// The memory that a data set owns besides its examples.
struct pair_storage {
    struct table table;
    void *labels;     // one block with the names, or an array of borrowed names
    int32_t *numbers; // multi-label: the classes of all examples
    char *text;       // the separated labels, or the numbers without surrounding blanks
};

// Drops repeated labels of a multi-label example.
void pair_labels_drop_duplicates(struct pair_example *example);

#endif
