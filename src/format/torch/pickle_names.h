// SPDX-License-Identifier: Apache-2.0
// The names that pickles of checkpoints may call, and what such a call stands for.
#ifndef BERTH_FORMAT_PICKLE_NAMES_H
#define BERTH_FORMAT_PICKLE_NAMES_H

enum pickle_meaning {
    PICKLE_MEANS_NOTHING, // unknown
    PICKLE_MEANS_STORAGE, // a type of numbers; not to be called
    PICKLE_MEANS_TENSOR,  // (storage, offset, shape, strides, ...) is a tensor
    PICKLE_MEANS_FIRST,   // a tensor or tuple in other clothes: the call's first argument
    PICKLE_MEANS_DICT,    // a dictionary
    PICKLE_MEANS_OPAQUE   // harmless, and of no interest
};

struct pickle_name {
    const char *name; // module and name, joined by '.'
    enum pickle_meaning meaning;
    const char *dtype_name; // of storages
};

// Row 0 is that of unknown names; there are fewer than 256.
extern const struct pickle_name pickle_names[];
unsigned pickle_find_name(const char *name);

#endif
