// SPDX-License-Identifier: Apache-2.0
#include "model/weights.h"

#include "core/file.h"
#include "core/memory.h"
#include "model/architectures.h"
#include "model/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- from entries to weights --------------------------------------------------------------------

// "X_scale" has the scales of the matrix "X", as compressed-tensors writes it: for each row, or for
// each row's groups of columns of equal length.
#define SCALE_ENDING "_scale"

static int is_quantized(const struct tensor_entry *entry) {
    return entry->dtype == TENSOR_I8 && entry->rank == 2;
}

static const struct tensor_entry *scale_of(const struct tensor_file *file,
                                           const struct tensor_entry *entry) {
    char name[WEIGHT_NAME_SIZE + sizeof SCALE_ENDING];
    const int length = snprintf(name, sizeof name, "%s" SCALE_ENDING, entry->name);
    return is_quantized(entry) && (size_t)length < sizeof name ? tensor_file_find(file, name)
                                                               : NULL;
}

static struct weight *add(struct weights *weights, const struct tensor_entry *entry,
                          enum name_use use) {
    struct weight *weight = &weights->list[weights->count++];
    *weight = (struct weight){
        .entry = entry, .use = use, .rank = entry->rank, .scale = scale_of(&weights->file, entry)};
    memcpy(weight->shape, entry->shape, sizeof weight->shape);
    return weight;
}

static enum berth_status add_stack(struct weights *weights, const struct tensor_entry *entry,
                                   const char *stacked, struct berth_error *error) {
    if (entry->rank < 1 || entry->shape[0] % NAME_PARTS != 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: tensor \"%s\": expected query, key and value stacked along the rows, "
                         "found a number of rows that is not a multiple of 3",
                         weights->file.path, entry->name);
    }
    for (int part = 0; part < NAME_PARTS; part++) {
        struct weight *weight = add(weights, entry, NAME_STACKED);
        weight->part = part;
        weight->shape[0] /= NAME_PARTS;
        if (!name_part(stacked, part, weight->name, sizeof weight->name)) {
            snprintf(weight->name, sizeof weight->name, "%d.%s", part, entry->name);
        }
    }
    return BERTH_OK;
}

static enum berth_status add_entry(struct weights *weights, const struct tensor_entry *entry,
                                   struct berth_error *error) {
    char name[WEIGHT_NAME_SIZE];
    enum name_use use = name_translate(entry->name, name, sizeof name);
    if (use == NAME_DROPPED) {
        weights->dropped++;
        return BERTH_OK;
    }
    if (use == NAME_STACKED) {
        return add_stack(weights, entry, name, error);
    }
    struct weight *weight = add(weights, entry, use);
    snprintf(weight->name, sizeof weight->name, "%s", name[0] != '\0' ? name : entry->name);
    if (use == NAME_TRANSPOSED && entry->rank == 2) {
        weight->shape[0] = entry->shape[1];
        weight->shape[1] = entry->shape[0];
    }
    return BERTH_OK;
}

// Whether it has the scales of a matrix.
static int is_scale(const struct tensor_file *file, const struct tensor_entry *entry) {
    char name[WEIGHT_NAME_SIZE];
    const size_t length = strlen(entry->name), ending = strlen(SCALE_ENDING);
    if (length <= ending || length - ending >= sizeof name ||
        strcmp(entry->name + length - ending, SCALE_ENDING) != 0) {
        return 0;
    }
    snprintf(name, sizeof name, "%.*s", (int)(length - ending), entry->name);
    const struct tensor_entry *matrix = tensor_file_find(file, name);
    return matrix != NULL && is_quantized(matrix);
}

// The groups of a row.
static int64_t scale_groups(const struct tensor_entry *scale) {
    return scale->rank == 2 ? scale->shape[1] : 1;
}

static int fits(const struct tensor_entry *scale, const struct tensor_entry *entry) {
    return tensor_is_convertible(scale->dtype) && (scale->rank == 1 || scale->rank == 2) &&
           scale->shape[0] == entry->shape[0] && scale_groups(scale) > 0 &&
           entry->shape[1] % scale_groups(scale) == 0;
}

static enum berth_status check_scale(const struct tensor_file *file,
                                     const struct tensor_entry *entry, struct berth_error *error) {
    const struct tensor_entry *scale = scale_of(file, entry);
    if (scale != NULL && fits(scale, entry)) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_BAD_DATA,
                     "%s: tensor \"%s\" of type I8: expected \"%s" SCALE_ENDING
                     "\" with %lld rows of a number for each of equal parts of the %lld columns, "
                     "found %s",
                     file->path, entry->name, entry->name, (long long)entry->shape[0],
                     (long long)entry->shape[1],
                     scale == NULL ? "no such tensor" : "another shape or type");
}

static enum berth_status add_entries(struct weights *weights, struct berth_error *error) {
    const struct tensor_file *file = &weights->file;
    weights->list = memory_array(file->count * NAME_PARTS + 1, sizeof *weights->list);
    if (weights->list == NULL) {
        return error_no_memory(error, file->count * NAME_PARTS * sizeof *weights->list, file->path);
    }
    for (size_t i = 0; i < file->count; i++) {
        if (is_scale(file, &file->entries[i])) {
            weights->is_quantized = 1;
        } else {
            TRY(add_entry(weights, &file->entries[i], error));
        }
    }
    return BERTH_OK;
}

// --- names --------------------------------------------------------------------------------------

static int compare_names(const void *a, const void *b) {
    return strcmp(((const struct weight *)a)->name, ((const struct weight *)b)->name);
}

static void sort(struct weights *weights) {
    if (weights->count > 0) {
        qsort(weights->list, weights->count, sizeof *weights->list, compare_names);
    }
}

static void rename_norms(struct weights *weights) {
    for (size_t i = 0; i < weights->count; i++) {
        char name[WEIGHT_NAME_SIZE];
        name_pre_norm(weights->list[i].name, name, sizeof name);
        if (name[0] != '\0') {
            memcpy(weights->list[i].name, name, strlen(name) + 1);
        }
    }
    sort(weights);
}

static enum berth_status check_names(const struct weights *weights, struct berth_error *error) {
    for (size_t i = 1; i < weights->count; i++) {
        const struct weight *before = &weights->list[i - 1], *weight = &weights->list[i];
        if (strcmp(before->name, weight->name) == 0) {
            return error_set(
                error, BERTH_BAD_DATA, "%s: duplicate tensor: \"%s\" and \"%s\" are both %s",
                weights->file.path, before->entry->name, weight->entry->name, weight->name);
        }
    }
    return BERTH_OK;
}

static enum berth_status check_architecture(const struct weights *weights,
                                            struct berth_error *error) {
    for (size_t i = 0; i < weights->count; i++) {
        const char *found = architecture_of_tensor(weights->list[i].name);
        if (found != NULL) {
            return error_set(error, BERTH_BAD_DATA,
                             "%s: tensor \"%s\": this is %s; expected a BERT with learned absolute "
                             "positions, such as bert-base-uncased",
                             weights->file.path, weights->list[i].entry->name, found);
        }
    }
    return BERTH_OK;
}

// --- ties ---------------------------------------------------------------------------------------

const struct weight_tie weight_ties[WEIGHT_TIES] = {
    {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
    {"cls.predictions.decoder.bias", "cls.predictions.bias"},
};

static int have_one_shape(const struct weight *a, const struct weight *b) {
    return a->rank == b->rank && memcmp(a->shape, b->shape, sizeof a->shape) == 0;
}

static void mark_ties(struct weights *weights) {
    for (size_t i = 0; i < WEIGHT_TIES; i++) {
        struct weight *copy = (struct weight *)weights_find(weights, weight_ties[i].copy);
        const struct weight *source = weights_find(weights, weight_ties[i].source);
        if (copy != NULL && source != NULL) {
            const struct tensor_entry *a = copy->entry, *b = source->entry;
            copy->tied = a->begin == b->begin && a->end == b->end && have_one_shape(copy, source);
        }
    }
}

// --- the vocabulary's padding -------------------------------------------------------------------

// Tensors with one row per word.
static const char *const word_rows[] = {"bert.embeddings.word_embeddings.weight",
                                        "cls.predictions.decoder.weight",
                                        "cls.predictions.decoder.bias", "cls.predictions.bias"};

static int is_padded(int64_t rows, int64_t vocab_size) {
    static const int64_t multiples[] = {8, 64, 128};
    int found = 0;
    for (size_t i = 0; i < sizeof multiples / sizeof *multiples; i++) {
        found |= rows == (vocab_size + multiples[i] - 1) / multiples[i] * multiples[i];
    }
    return found && rows > vocab_size;
}

static void hide_padding(struct weights *weights, int64_t vocab_size) {
    for (size_t i = 0; i < sizeof word_rows / sizeof *word_rows; i++) {
        struct weight *weight = (struct weight *)weights_find(weights, word_rows[i]);
        if (weight != NULL && weight->rank >= 1 && weight_is_straight(weight) &&
            is_padded(weight->shape[0], vocab_size)) {
            if (i == 0) {
                weights->padding_rows = (size_t)(weight->shape[0] - vocab_size);
            }
            weight->shape[0] = vocab_size;
        }
    }
}

int weight_has_word_rows(const char *name) {
    size_t i = 0;
    while (i < sizeof word_rows / sizeof *word_rows && strcmp(word_rows[i], name) != 0) {
        i++;
    }
    return i < sizeof word_rows / sizeof *word_rows;
}

// --- opening ------------------------------------------------------------------------------------

enum berth_status weights_open(struct weights *weights, const char *path, int64_t vocab_size,
                               struct berth_error *error) {
    *weights = (struct weights){0};
    TRY(folder_open_weights(path, &weights->file, error));
    enum berth_status status;
    TRY_DONE(add_entries(weights, error));
    sort(weights);
    if (weights_are_pre_layer_norm(weights)) {
        rename_norms(weights);
    }
    TRY_DONE(check_names(weights, error));
    TRY_DONE(check_architecture(weights, error));
    mark_ties(weights);
    if (vocab_size > 0) {
        hide_padding(weights, vocab_size);
    }
done:
    if (status != BERTH_OK) {
        weights_close(weights);
    }
    return status;
}

void weights_select(struct weights *weights, const char *prefix) {
    const size_t length = strlen(prefix);
    size_t kept = 0;
    for (size_t i = 0; i < weights->count; i++) {
        struct weight weight = weights->list[i];
        if (strncmp(weight.name, prefix, length) == 0) {
            memmove(weight.name, weight.name + length, strlen(weight.name + length) + 1);
            weights->list[kept++] = weight;
        }
    }
    weights->count = kept;
}

void weights_close(struct weights *weights) {
    tensor_file_close(&weights->file);
    memory_free(weights->list);
    *weights = (struct weights){0};
}

static int compare_with_name(const void *name, const void *weight) {
    return strcmp(name, ((const struct weight *)weight)->name);
}

const struct weight *weights_find(const struct weights *weights, const char *name) {
    return weights->count > 0 ? bsearch(name, weights->list, weights->count, sizeof *weights->list,
                                        compare_with_name)
                              : NULL;
}

int weights_are_pre_layer_norm(const struct weights *weights) {
    return weights_find(weights, NAME_FINAL_NORM) != NULL;
}

// --- reading ------------------------------------------------------------------------------------

int64_t weight_elements(const struct weight *weight) {
    int64_t count = 1;
    for (int i = 0; i < weight->rank; i++) {
        if (weight->shape[i] == 0) {
            return 0; // regardless of the other dimensions
        }
    }
    for (int i = 0; i < weight->rank; i++) {
        count *= weight->shape[i];
    }
    return count;
}

int weight_is_straight(const struct weight *weight) {
    return weight->use != NAME_TRANSPOSED || weight->rank != 2;
}

// The index of its first element within the entry.
static int64_t origin(const struct weight *weight) {
    return weight->part * weight_elements(weight);
}

enum berth_status weights_read_piece(const struct weights *weights, const struct weight *weight,
                                     size_t first, size_t count, void *to,
                                     struct berth_error *error) {
    size_t size = tensor_dtype_size(weight->entry->dtype);
    return weights->file.format->read(&weights->file, weight->entry,
                                      ((uint64_t)origin(weight) + first) * size, count * size, to,
                                      error);
}

// Reads a matrix that is stored transposed, as f32 if `widen`, and transposes it.
static enum berth_status read_turned(const struct weights *weights, const struct weight *weight,
                                     int widen, void *to, struct berth_error *error) {
    int64_t count = weight_elements(weight);
    size_t size = widen ? sizeof(float) : tensor_dtype_size(weight->entry->dtype);
    size_t bytes = (size_t)count * size;
    void *theirs = memory_pages(bytes);
    if (theirs == NULL) {
        return error_no_memory(error, bytes, weight->name);
    }
    enum berth_status status =
        widen ? tensor_file_read_f32(&weights->file, weight->entry, 0, count, theirs, error)
              : tensor_file_read(&weights->file, weight->entry, theirs, error);
    if (status == BERTH_OK) {
        tensor_transpose(theirs, weight->shape[1], weight->shape[0], size, to);
    }
    memory_pages_free(theirs, bytes);
    return status;
}

enum berth_status weights_read(const struct weights *weights, const struct weight *weight, void *to,
                               struct berth_error *error) {
    return weight_is_straight(weight)
               ? weights_read_piece(weights, weight, 0, (size_t)weight_elements(weight), to, error)
               : read_turned(weights, weight, 0, to, error);
}

// Multiplies each row, or group of a row, with its scale.
static enum berth_status read_quantized(const struct weights *weights, const struct weight *weight,
                                        float *to, struct berth_error *error) {
    const int64_t scale_count = weight->shape[0] * scale_groups(weight->scale);
    const size_t count = (size_t)weight_elements(weight);
    const int64_t group = scale_count > 0 ? (int64_t)count / scale_count : 0;
    signed char *values = memory_pages(count);
    float *scales = memory_array((size_t)scale_count, sizeof *scales);
    enum berth_status status = values != NULL && scales != NULL
                                   ? weights_read(weights, weight, values, error)
                                   : error_no_memory(error, count, weight->name);
    if (status == BERTH_OK) {
        status = tensor_file_read_f32(&weights->file, weight->scale, 0, scale_count, scales, error);
    }
    for (int64_t i = 0; i < scale_count && status == BERTH_OK; i++) {
        for (int64_t at = i * group; at < (i + 1) * group; at++) {
            to[at] = scales[i] * (float)values[at];
        }
    }
    memory_pages_free(values, count);
    memory_free(scales);
    return status;
}

enum berth_status weights_read_f32(const struct weights *weights, const struct weight *weight,
                                   float *to, struct berth_error *error) {
    if (is_quantized(weight->entry) && weight->use == NAME_KEPT) {
        TRY(check_scale(&weights->file, weight->entry, error));
        return read_quantized(weights, weight, to, error);
    }
    return weight_is_straight(weight)
               ? tensor_file_read_f32(&weights->file, weight->entry, origin(weight),
                                      weight_elements(weight), to, error)
               : read_turned(weights, weight, 1, to, error);
}

// --- ties, by their numbers ---------------------------------------------------------------------

const struct weight *weights_tied_to(const struct weights *weights, const struct weight *copy) {
    for (size_t i = 0; i < WEIGHT_TIES; i++) {
        if (strcmp(weight_ties[i].copy, copy->name) == 0) {
            return weights_find(weights, weight_ties[i].source);
        }
    }
    return NULL;
}

// Of one shape.
static enum berth_status compare_numbers(const struct weights *weights, const struct weight *a,
                                         const struct weight *b, int *same,
                                         struct berth_error *error) {
    const size_t bytes = (size_t)weight_elements(a) * sizeof(float);
    float *const first = memory_pages(bytes), *const second = memory_pages(bytes);
    enum berth_status status = first != NULL && second != NULL
                                   ? weights_read_f32(weights, a, first, error)
                                   : error_no_memory(error, 2 * bytes, a->name);
    if (status == BERTH_OK) {
        status = weights_read_f32(weights, b, second, error);
    }
    *same = status == BERTH_OK && memcmp(first, second, bytes) == 0;
    memory_pages_free(first, bytes);
    memory_pages_free(second, bytes);
    return status;
}

enum berth_status weights_check_tie(const struct weights *weights, const struct weight *copy,
                                    const struct weight *source, struct berth_error *error) {
    int same = have_one_shape(copy, source);
    if (same && !copy->tied) {
        TRY(compare_numbers(weights, copy, source, &same, error));
    }
    return same ? BERTH_OK
                : error_set(
                      error, BERTH_CONFIG,
                      "%s: tensor \"%s\": expected the numbers of \"%s\", found others: a model "
                      "whose decoder is not tied to its words (\"tie_word_embeddings\": false) "
                      "cannot predict words here",
                      weights->file.path, copy->entry->name, source->entry->name);
}
