// SPDX-License-Identifier: Apache-2.0
// Declarations shared by the parts of the pair reader.
#ifndef BERTH_DATA_PAIR_LABELS_H
#define BERTH_DATA_PAIR_LABELS_H

#include "data/pairs/pairs.h"

// The memory that a data set owns besides its examples.
struct pair_storage {
    struct table table;
    void *labels;     // the names in one block, or an array of borrowed ones
    int32_t *numbers; // with several labels at once: the classes of all examples
    char *text;       // separated texts, and numbers without the blanks beside them
};

// Of several labels at once keeps the first of each class.
void pair_labels_drop_duplicates(struct pair_example *example);

#endif
