// SPDX-License-Identifier: Apache-2.0
// Checkpoint dialects: how other people's tensor names become ours (params.h).
#ifndef BERTH_MODEL_NAMES_H
#define BERTH_MODEL_NAMES_H

#include <stddef.h>

enum name_use {
    NAME_DROPPED = 0, // the tensor is no part of the model and is to be left out silently
    NAME_KEPT,
    NAME_TRANSPOSED, // its matrix is the transpose of ours
    NAME_STACKED,    // NAME_PARTS tensors of ours, one below the other
    NAME_BUFFER      // part of the file, but says nothing: an old buffer of positions 0, 1, 2, ...
};
#define NAME_PARTS 3 // query, key, value

// Our name for the tensor `theirs` of a checkpoint into name[size], and how its numbers stand. A
// name that no rule knows is copied; one too long for `name` gives "", which no parameter is
// called. What is stacked has a '*' where name_part puts the part.
enum name_use name_translate(const char *theirs, char *name, size_t size);
// Our name of a part of what name_translate called stacked; 0 when it does not fit.
int name_part(const char *stacked, int part, char *name, size_t size);

// The other way: the name in a dialect of the tensor that we call `our_name`. Of NAME_STACKED the
// tensor is part name_part_of(our_name) of the one called `name`.
struct name_dialect;
extern const struct name_dialect names_tensorflow; // Google's checkpoints
extern const struct name_dialect names_nvidia;     // NVIDIA's, Habana's and DeepSpeed's models
extern const struct name_dialect names_kernel;     // DeepSpeed's with its transformer kernel
enum name_use name_for(const struct name_dialect *dialect, const char *our_name, char *name,
                       size_t size);
int name_part_of(const char *our_name);

// DeepSpeed's kernel calls the layer norms alike in post- and pre-layer-norm models; name_translate
// takes the first. In a file with a final layer norm (NAME_FINAL_NORM) this gives the right name.
#define NAME_FINAL_NORM "bert.encoder.FinalLayerNorm.weight"
void name_pre_norm(const char *our_name, char *name, size_t size);

#endif
