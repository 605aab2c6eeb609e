// SPDX-License-Identifier: Apache-2.0
// The tensors of a checkpoint under our names and in our layout, whatever file they stand in:
// names are translated (names.h), stacks of tensors taken apart, padding rows of the vocabulary
// hidden, and what is stored transposed is turned when it is read.
#ifndef BERTH_MODEL_WEIGHTS_H
#define BERTH_MODEL_WEIGHTS_H

#include "core/error.h"
#include "format/tensors/tensor_file.h"
#include "model/names.h"

#include <stddef.h>
#include <stdint.h>

#define WEIGHT_NAME_SIZE 128

struct weight {
    char name[WEIGHT_NAME_SIZE];      // ours; of one that cannot be translated as much as fits
    const struct tensor_entry *entry; // where it stands
    enum name_use use;                // of the entry; never NAME_DROPPED
    int part;                         // of NAME_STACKED
    int tied; // whether another tensor is the same numbers in the file: this one says nothing new
    int rank;
    int64_t shape[TENSOR_MAX_RANK]; // in our order
};

// Two parameters of a model that are one: torch's files hold them twice as one block of numbers,
// transformers' own have the source alone.
struct weight_tie {
    const char *copy, *source;
};
#define WEIGHT_TIES 2
extern const struct weight_tie weight_ties[WEIGHT_TIES];

struct weights {
    struct tensor_file file;
    struct weight *list; // sorted by name, all distinct
    size_t count;
    size_t dropped;      // tensors of the file that are no part of a model (an optimizer's)
    size_t padding_rows; // of the word table, beyond the vocabulary
};

// Opens `path`, a file of weights or a model folder. vocab_size: that of its configuration, 0 when
// it is not known; a word table that is longer by padding to a multiple of 8, 64 or 128 counts as
// having that many rows. Two tensors that become one, a stack that cannot be taken apart, and a
// checkpoint that is no BERT's by the names of its tensors (which is said): BERTH_BAD_DATA.
enum berth_status weights_open(struct weights *weights, const char *path, int64_t vocab_size,
                               struct berth_error *error);
void weights_close(struct weights *weights);
const struct weight *weights_find(const struct weights *weights, const char *name);
// Whether layer norms stand before the sub-layers: only then there is a final one.
int weights_are_pre_layer_norm(const struct weights *weights);

// Whether the tensor of that name has a row for each word.
int weight_has_word_rows(const char *name);
int64_t weight_elements(const struct weight *weight);
size_t weight_bytes(const struct weight *weight); // in its own type
// Whether its rows follow one another in the file, so that pieces of it can be read.
int weight_is_straight(const struct weight *weight);
// All of it in its own type into to[weight_bytes].
enum berth_status weights_read(const struct weights *weights, const struct weight *weight, void *to,
                               struct berth_error *error);
// Elements [first, first + count) of a straight one in its own type.
enum berth_status weights_read_piece(const struct weights *weights, const struct weight *weight,
                                     size_t first, size_t count, void *to,
                                     struct berth_error *error);
// All of it as f32; types as tensor_file_read_f32.
enum berth_status weights_read_f32(const struct weights *weights, const struct weight *weight,
                                   float *to, struct berth_error *error);

#endif
