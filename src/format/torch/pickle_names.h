// SPDX-License-Identifier: Apache-2.0
// The names that pickles of checkpoints may call, and the meaning of such a call. What is no row is
// refused by pickle_calls.c.
#ifndef BERTH_FORMAT_PICKLE_NAMES_H
#define BERTH_FORMAT_PICKLE_NAMES_H

enum pickle_meaning {
    PICKLE_MEANS_NOTHING, // unknown
    PICKLE_MEANS_STORAGE, // a block of numbers of one type; not callable
    PICKLE_MEANS_TYPE,    // a type of numbers; not callable
    PICKLE_MEANS_TENSOR,  // (storage, offset, shape, strides, ...) is a tensor
    PICKLE_MEANS_FIRST,   // a wrapper around a tensor or tuple, the call's first argument
    PICKLE_MEANS_DICT,    // a dictionary
    PICKLE_MEANS_OPAQUE   // harmless and unused
};

struct pickle_name {
    const char *name; // module and name, joined by '.'
    enum pickle_meaning meaning;
    const char *dtype_name; // of storages and types
};

// Row 0 is for unknown names; there are fewer than 256 rows.
extern const struct pickle_name pickle_names[];
unsigned pickle_find_name(const char *name);

#endif
