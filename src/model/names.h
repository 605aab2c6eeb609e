// SPDX-License-Identifier: Apache-2.0
// Checkpoint dialects: how other people's tensor names become ours (params.h).
#ifndef BERTH_MODEL_NAMES_H
#define BERTH_MODEL_NAMES_H

#include <stddef.h>

enum name_use {
    NAME_DROPPED = 0, // the tensor carries nothing and is to be left out silently
    NAME_KEPT,
    NAME_TRANSPOSED // its matrix is the transpose of ours
};

// Our name for the tensor `theirs` of a checkpoint into name[size], and how its numbers stand. A
// name that no rule knows is copied; one too long for `name` gives "", which no parameter is
// called.
enum name_use name_translate(const char *theirs, char *name, size_t size);

// The other way: the name in Google's TensorFlow checkpoints of the tensor that we call `ours`.
enum name_use name_for_tensorflow(const char *ours, char *name, size_t size);

#endif
