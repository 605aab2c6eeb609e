// SPDX-License-Identifier: Apache-2.0
// Declarations shared by the parts of the pair reader.
#ifndef BERTH_DATA_PAIR_LABELS_H
#define BERTH_DATA_PAIR_LABELS_H

#include "data/pairs/pairs.h"

// The memory that a data set owns besides its examples.
struct pair_storage {
    struct table table;
    void *labels; // the names in one block, or an array of borrowed ones
    // With several labels at once: the classes of all examples, and the separated texts.
    int32_t *numbers;
    char *pieces;
};

// Of several labels at once keeps the first of each class.
void pair_labels_drop_repeats(struct pair_example *example);

// Lists "a", "b", ... as far as they fit.
void pair_labels_list(const char *const *names, size_t count, char *text, size_t size);

#endif
