// SPDX-License-Identifier: Apache-2.0
// Checkpoint dialects: translation of other frameworks' tensor names to and from ours (params.h).
// weights.c translates while a model is read, the writers of other formats when one is saved.
#ifndef BERTH_MODEL_NAMES_H
#define BERTH_MODEL_NAMES_H

#include <stddef.h>

struct architecture; // architectures.h

enum name_use {
    NAME_DROPPED = 0, // not part of the model; ignored silently
    NAME_KEPT,
    NAME_TRANSPOSED, // its matrix is the transpose of ours
    NAME_STACKED,    // NAME_PARTS of our tensors, stacked along the rows
    NAME_BUFFER      // belongs to the model but holds no information: an old buffer of positions 0,
                     // 1, 2, ...
};
#define NAME_PARTS 3 // query, key, value

// Writes our name for the tensor `theirs` of a checkpoint to name[size] and returns how its numbers
// are stored. A name that no rule matches is copied; one that does not fit becomes "", which is no
// parameter's name. The name of a stacked tensor contains a '*', which name_part replaces.
enum name_use name_translate(const char *theirs, char *name, size_t size);
// Writes our name of one part of a stacked tensor; 0 if it does not fit.
int name_part(const char *stacked, int part, char *name, size_t size);

// The reverse direction: the name in a dialect of our tensor `our_name`. For NAME_STACKED, the
// tensor is part name_part_of(our_name) of the tensor `name`.
struct name_dialect;
extern const struct name_dialect names_tensorflow; // Google's checkpoints
extern const struct name_dialect names_nvidia;     // models of NVIDIA, Habana and DeepSpeed
extern const struct name_dialect names_kernel;     // models with DeepSpeed's transformer kernel
enum name_use name_for(const struct name_dialect *dialect, const char *our_name, char *name,
                       size_t size);
int name_part_of(const char *our_name);
// The same for the tensors of an architecture (architectures.h), whose numbers are always stored as
// ours. name_translate knows the names of all architectures.
void name_for_architecture(const struct architecture *row, const char *our_name, char *name,
                           size_t size);

// DeepSpeed's kernel uses the same layer-norm names in post- and pre-layer-norm models, and
// name_translate assumes the former. In a file with a final layer norm (NAME_FINAL_NORM) this
// function gives the right name.
#define NAME_FINAL_NORM "bert.encoder.FinalLayerNorm.weight"
void name_pre_norm(const char *our_name, char *name, size_t size);

#endif
