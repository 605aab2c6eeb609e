// SPDX-License-Identifier: Apache-2.0
// Checkpoint dialects: how other people's tensor names become ours (params.h).
#ifndef BERTH_MODEL_NAMES_H
#define BERTH_MODEL_NAMES_H

#include <stddef.h>

// Our name for the tensor `theirs` of a checkpoint into name[size]. 0 when the tensor carries
// nothing and is to be left out silently. A name that no rule knows is copied; one too long for
// `name` gives
// "", which no parameter is called.
int name_translate(const char *theirs, char *name, size_t size);

#endif
