// SPDX-License-Identifier: Apache-2.0
// What the parts of the pair reader share.
#ifndef BERTH_DATA_PAIR_LABELS_H
#define BERTH_DATA_PAIR_LABELS_H

#include "data/pairs/pairs.h"

// What a data set owns besides its examples.
struct pair_storage {
    struct table table;
    void *labels; // the names in one block, or an array of borrowed ones
    // Of several labels at once: the numbers of all examples, and texts that were cut.
    int32_t *numbers;
    char *pieces;
};

// "a", "b", ... as far as there is room.
void pair_labels_list(const char *const *names, size_t count, char *text, size_t size);

#endif
