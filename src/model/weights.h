// SPDX-License-Identifier: Apache-2.0
// The tensors of a checkpoint, in any file format, under our names and in our layout: names are
// translated (names.h), stacked tensors are split, padding rows of the vocabulary are hidden, and
// transposed matrices are transposed when they are read.
#ifndef BERTH_MODEL_WEIGHTS_H
#define BERTH_MODEL_WEIGHTS_H

#include "core/error.h"
#include "format/tensors/tensor_file.h"
#include "model/config.h"
#include "model/names.h"

#include <stddef.h>
#include <stdint.h>

#define WEIGHT_NAME_SIZE 256

struct weight {
    char name[WEIGHT_NAME_SIZE];           // our name; truncated if it could not be translated
    const struct tensor_entry *entry;      // its source in the file
    enum name_use use;                     // how the entry is stored; never NAME_DROPPED
    const struct tensor_entry *scale;      // of an I8 matrix: a factor for each row; NULL: none
    const struct tensor_entry *zero_point; // of the same: subtracted before scaling; NULL: none
    int part;                              // part of a NAME_STACKED entry
    int tied; // another tensor has the same numbers in the file: this one is redundant
    int rank;
    int64_t shape[TENSOR_MAX_RANK]; // in our layout
};

// Two names for one parameter. Torch files hold it twice, as one block of numbers; files of
// transformers hold only the source.
struct weight_tie {
    const char *copy, *source;
};
#define WEIGHT_TIES 2
extern const struct weight_tie weight_ties[WEIGHT_TIES];

struct weights {
    struct tensor_file file;
    struct weight *list; // sorted by name, no duplicates
    size_t count;
    size_t dropped;      // tensors of the file that are not part of a model (an optimizer's)
    size_t padding_rows; // rows of the word table beyond the vocabulary
    int is_quantized;    // some weights are I8 with scales, which are not in the list
    const struct architecture *shown; // by a prefix of the names; NULL: they have none
    size_t selected; // length of weights_select's prefix, which the entries' names still have
};

// Opens `path`, a file of weights or a model folder. vocab_size is that of the configuration, 0 if
// unknown; a word table padded to a multiple of 8, 64 or 128 rows is treated as having vocab_size
// rows. BERTH_BAD_DATA if two tensors have the same translated name, if a stacked tensor cannot be
// split, or if the names of the tensors show another architecture or another layout of integers,
// which the error names.
enum berth_status weights_open(struct weights *weights, const char *path, int64_t vocab_size,
                               struct berth_error *error);
void weights_close(struct weights *weights);
// Keeps only the tensors whose names begin with `prefix`, under the rest of their names.
void weights_select(struct weights *weights, const char *prefix);
const struct weight *weights_find(const struct weights *weights, const char *name);
// BERTH_BAD_DATA if the names show another architecture than that of the configuration.
enum berth_status weights_check_architecture(const struct weights *weights,
                                             const struct bert_config *config,
                                             struct berth_error *error);
// Whether layer norms come before the sub-layers: only such a model has a final one.
int weights_are_pre_layer_norm(const struct weights *weights);
// The weight that `copy` repeats in a tied model; NULL: none.
const struct weight *weights_tied_to(const struct weights *weights, const struct weight *copy);
// BERTH_CONFIG if `copy` has other numbers than that weight.
enum berth_status weights_check_tie(const struct weights *weights, const struct weight *copy,
                                    const struct weight *source, struct berth_error *error);

// The name of its source in messages; of a part of a stack, our own.
static inline const char *weight_shown_name(const struct weight *weight) {
    return weight->use == NAME_STACKED ? weight->name : weight->entry->name;
}
// Whether the tensor `name` has one row per word.
int weight_has_word_rows(const char *name);
int64_t weight_elements(const struct weight *weight);
// Whether its rows are contiguous in the file, so that pieces of it can be read.
int weight_is_contiguous(const struct weight *weight);
// Reads the whole tensor in its own type, without scales, into `to`.
enum berth_status weights_read(const struct weights *weights, const struct weight *weight, void *to,
                               struct berth_error *error);
// Reads elements [first, first + count) of a contiguous tensor in its own type.
enum berth_status weights_read_elements(const struct weights *weights, const struct weight *weight,
                                        size_t first, size_t count, void *to,
                                        struct berth_error *error);
// BERTH_BAD_DATA for an I8 matrix without scales and zero points that fit it.
enum berth_status weights_check_integers(const struct weights *weights, const struct weight *weight,
                                         struct berth_error *error);
// Reads the whole tensor as f32; for types see tensor_file_read_f32. Integers of an I8 matrix
// become (integer - zero point) * scale.
enum berth_status weights_read_f32(const struct weights *weights, const struct weight *weight,
                                   float *to, struct berth_error *error);

// The integers of an I8 matrix [rows, columns] and their factors where the file has them.
struct weight_integers {
    struct file_mapping values; // signed char [rows, columns]
    struct file_mapping scales; // float [rows, int8_groups(columns)] of core/int8.h
};
// 0: the file has no such matrix, or in another layout, or cannot be mapped.
int weights_map_integers(const struct weights *weights, const struct weight *weight,
                         struct weight_integers *integers);
void weight_integers_done(struct weight_integers *integers);

#endif
