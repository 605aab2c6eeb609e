// SPDX-License-Identifier: Apache-2.0
// The first step of opening a model's weights, before folder_weights.c copies them into a table of
// parameters (params.h). Also tells whose tensors they are, for the messages of refusals.
#include "model/weights.h"

#include "core/file.h"
#include "core/int8.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "model/architectures.h"
#include "model/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- from entries to weights --------------------------------------------------------------------

// compressed-tensors writes a quantized matrix W as integers q in "X.weight" and factors in
// "X.weight_scale", one for each row or for each of equally long groups of columns of a row:
// W = (q - zero point) * scale.
#define MATRIX "weight"
#define SCALE MATRIX "_scale"
#define ZERO_POINT MATRIX "_zero_point"

// Everything that it writes beside "X.weight".
static const struct beside_row {
    const char *ending;
    int is_used; // 0: it describes activations, which are not quantized here
} beside_rows[] = {
    {SCALE, 1},          {ZERO_POINT, 1},          {"input_scale", 0}, {"input_zero_point", 0},
    {"output_scale", 0}, {"output_zero_point", 0},
};

// Layouts that are refused, by the endings of their tensors.
static const struct layout_row {
    const char *ending, *expected, *found, *remedy;
} refused_layouts[] = {
    {".weight_packed", "compressed-tensors' layout \"int-quantized\"",
     "several integers in one number (\"pack-quantized\")",
     "use the model in a floating-point type"},
    {".weight_g_idx", "compressed-tensors' layout \"int-quantized\"",
     "groups of columns in any order (\"actorder\")", "use the model in a floating-point type"},
    {"_CHECKPOINTABLE_OBJECT_GRAPH", "a TensorFlow checkpoint of variables by name",
     "one of objects (tf.train.Checkpoint)",
     "save its variables under the names of Google's BERT with tf.compat.v1.train.Saver"},
};

static int is_quantized(const struct tensor_entry *entry) {
    return entry->dtype == TENSOR_I8 && entry->rank == 2;
}

// The tensor whose name has the suffix `to` instead of `from`; NULL: none.
static const struct tensor_entry *find_beside(const struct tensor_file *file, const char *name,
                                              const char *from, const char *to) {
    char other[WEIGHT_NAME_SIZE + sizeof ZERO_POINT];
    if (!text_ends_with(name, from)) {
        return NULL;
    }
    const int length =
        snprintf(other, sizeof other, "%.*s%s", (int)(strlen(name) - strlen(from)), name, to);
    return (size_t)length < sizeof other ? tensor_file_find(file, other) : NULL;
}

static const struct tensor_entry *of_matrix(const struct tensor_file *file,
                                            const struct tensor_entry *entry, const char *ending) {
    return is_quantized(entry) ? find_beside(file, entry->name, MATRIX, ending) : NULL;
}

static struct weight *add(struct weights *weights, const struct tensor_entry *entry,
                          enum name_use use) {
    struct weight *weight = &weights->list[weights->count++];
    *weight = (struct weight){.entry = entry,
                              .use = use,
                              .rank = entry->rank,
                              .scale = of_matrix(&weights->file, entry, SCALE),
                              .zero_point = of_matrix(&weights->file, entry, ZERO_POINT)};
    memcpy(weight->shape, entry->shape, sizeof weight->shape);
    return weight;
}

static enum berth_status add_stack(struct weights *weights, const struct tensor_entry *entry,
                                   const char *stacked, struct berth_error *error) {
    if (entry->rank < 1 || entry->shape[0] % NAME_PARTS != 0) {
        return error_tensor(error, BERTH_BAD_DATA, weights->file.path, entry->name,
                            "expected query, key and value stacked along the rows, "
                            "found a number of rows that is not a multiple of 3");
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

// Whether it is an optimizer slot of a TensorFlow variable X, such as "X/Adam".
static int is_slot(const struct tensor_file *file, const struct tensor_entry *entry) {
    char name[WEIGHT_NAME_SIZE];
    const char *slash = strrchr(entry->name, '/');
    if (slash == NULL || (size_t)(slash - entry->name) >= sizeof name) {
        return 0;
    }
    snprintf(name, sizeof name, "%.*s", (int)(slash - entry->name), entry->name);
    return tensor_file_find(file, name) != NULL;
}

static enum berth_status add_entry(struct weights *weights, const struct tensor_entry *entry,
                                   struct berth_error *error) {
    char name[WEIGHT_NAME_SIZE];
    enum name_use use = name_translate(entry->name, name, sizeof name);
    if (use == NAME_DROPPED || is_slot(&weights->file, entry)) {
        weights->dropped++;
        return BERTH_OK;
    }
    if (use == NAME_STACKED) {
        return add_stack(weights, entry, name, error);
    }
    if (weights->shown == NULL) {
        // Files of models with a head have the encoder's prefix.
        const struct architecture *row = NULL;
        for (size_t i = 0; row == NULL && architecture_at(i) != NULL; i++) {
            const char *prefix = architecture_at(i)->prefix;
            row = strncmp(entry->name, prefix, strlen(prefix)) == 0 ? architecture_at(i) : NULL;
        }
        weights->shown = row;
    }
    struct weight *weight = add(weights, entry, use);
    snprintf(weight->name, sizeof weight->name, "%s", name[0] != '\0' ? name : entry->name);
    if (use == NAME_TRANSPOSED && entry->rank == 2) {
        weight->shape[0] = entry->shape[1];
        weight->shape[1] = entry->shape[0];
    }
    return BERTH_OK;
}

// The row for a tensor that belongs to a matrix of integers; NULL: it belongs to none.
static const struct beside_row *row_beside_matrix(const struct tensor_file *file,
                                                  const struct tensor_entry *entry) {
    for (size_t i = 0; i < sizeof beside_rows / sizeof *beside_rows; i++) {
        const struct tensor_entry *matrix =
            find_beside(file, entry->name, beside_rows[i].ending, MATRIX);
        if (matrix != NULL && is_quantized(matrix)) {
            return &beside_rows[i];
        }
    }
    return NULL;
}

// The groups of a row.
static int64_t scale_groups(const struct tensor_entry *scale) {
    return scale->rank == 2 ? scale->shape[1] : 1;
}

static enum berth_status check_scale(const struct tensor_file *file, const struct weight *weight,
                                     struct berth_error *error) {
    const struct tensor_entry *entry = weight->entry, *scale = weight->scale;
    if (scale != NULL && tensor_is_convertible(scale->dtype) &&
        (scale->rank == 1 || scale->rank == 2) && scale->shape[0] == entry->shape[0] &&
        scale_groups(scale) > 0 && entry->shape[1] % scale_groups(scale) == 0) {
        return BERTH_OK;
    }
    if (!text_ends_with(entry->name, MATRIX)) {
        return error_tensor(error, BERTH_BAD_DATA, file->path, entry->name,
                            "expected a name that ends in \"" MATRIX "\" of a matrix of type I8");
    }
    return error_set(error, BERTH_BAD_DATA,
                     "%s: tensor \"%s\" of type I8: expected \"%s_scale"
                     "\" with %lld rows and a number of columns that divides %lld, found %s",
                     file->path, entry->name, entry->name, (long long)entry->shape[0],
                     (long long)entry->shape[1],
                     scale == NULL ? "no such tensor" : "another shape or type");
}

enum berth_status weights_check_integers(const struct weights *weights, const struct weight *weight,
                                         struct berth_error *error) {
    if (!is_quantized(weight->entry) || weight->use != NAME_KEPT) {
        return BERTH_OK;
    }
    TRY(check_scale(&weights->file, weight, error));
    const struct tensor_entry *zero = weight->zero_point, *scale = weight->scale;
    return zero == NULL || (zero->dtype == TENSOR_I8 && zero->rank == scale->rank &&
                            memcmp(zero->shape, scale->shape, sizeof zero->shape) == 0)
               ? BERTH_OK
               : error_tensor(error, BERTH_BAD_DATA, weights->file.path, zero->name,
                              "expected type I8 and the shape of \"%s\", found "
                              "another shape or type",
                              scale->name);
}

// The key under which a training script saved the model, beside a loss or a generator's state; "":
// the file's tensors are all the model's.
static const char *model_key(const struct tensor_file *file) {
    static const char *const keys[] = {"model_state_dict.", "state_dict."};
    const char *found = "";
    for (size_t i = 0; i < file->count && found[0] == '\0'; i++) {
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            found = strncmp(file->entries[i].name, keys[k], strlen(keys[k])) == 0 ? keys[k] : found;
        }
    }
    return found;
}

static enum berth_status add_entries(struct weights *weights, struct berth_error *error) {
    const struct tensor_file *file = &weights->file;
    const char *key = model_key(file);
    weights->list = memory_array(file->count * NAME_PARTS + 1, sizeof *weights->list);
    if (weights->list == NULL) {
        return error_no_memory(error, file->count * NAME_PARTS * sizeof *weights->list, file->path);
    }
    for (size_t i = 0; i < file->count; i++) {
        const struct tensor_entry *entry = &file->entries[i];
        const struct beside_row *row = row_beside_matrix(file, entry);
        const int is_outside = strncmp(entry->name, key, strlen(key)) != 0;
        for (size_t k = 0; k < sizeof refused_layouts / sizeof *refused_layouts; k++) {
            const struct layout_row *layout = &refused_layouts[k];
            if (text_ends_with(entry->name, layout->ending)) {
                return error_tensor(error, BERTH_BAD_DATA, file->path, entry->name,
                                    "expected %s, found %s; %s", layout->expected, layout->found,
                                    layout->remedy);
            }
        }
        weights->is_quantized |= row != NULL;
        weights->dropped += is_outside || (row != NULL && !row->is_used);
        if (row == NULL && !is_outside) {
            TRY(add_entry(weights, entry, error));
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

enum berth_status weights_check_architecture(const struct weights *weights,
                                             const struct bert_config *config,
                                             struct berth_error *error) {
    const struct architecture *shown = weights->shown, *row = bert_architecture(config);
    return shown == NULL || strcmp(shown->prefix, row->prefix) == 0
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "%s: tensors begin with \"%s\": this is %s, but config.json says "
                           "\"model_type\": \"%s\"; use the config.json of these weights",
                           weights->file.path, shown->prefix, shown->title, row->type);
}

// --- ties ---------------------------------------------------------------------------------------

const struct weight_tie weight_ties[WEIGHT_TIES] = {
    {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
    {"cls.predictions.decoder.bias", "cls.predictions.bias"},
};

static int have_one_shape(const struct weight *a, const struct weight *b) {
    return a->rank == b->rank && memcmp(a->shape, b->shape, sizeof a->shape) == 0;
}

// A copy without its source is the parameter itself, as for Hugging Face, which ties both.
static void settle_ties(struct weights *weights) {
    for (size_t i = 0; i < WEIGHT_TIES; i++) {
        struct weight *copy = (struct weight *)weights_find(weights, weight_ties[i].copy);
        const struct weight *source = weights_find(weights, weight_ties[i].source);
        if (copy != NULL && source != NULL) {
            const struct tensor_entry *a = copy->entry, *b = source->entry;
            copy->tied = a->begin == b->begin && a->end == b->end && have_one_shape(copy, source);
        } else if (copy != NULL) {
            snprintf(copy->name, sizeof copy->name, "%s", weight_ties[i].source);
            sort(weights);
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
        for (size_t i = 0; i < weights->count; i++) {
            char name[WEIGHT_NAME_SIZE];
            name_pre_norm(weights->list[i].name, name, sizeof name);
            if (name[0] != '\0') {
                memcpy(weights->list[i].name, name, strlen(name) + 1);
            }
        }
        sort(weights);
    }
    for (size_t i = 1; i < weights->count; i++) {
        const struct weight *before = &weights->list[i - 1], *weight = &weights->list[i];
        if (strcmp(before->name, weight->name) == 0) {
            TRY_DONE(error_set(
                error, BERTH_BAD_DATA, "%s: duplicate tensor: \"%s\" and \"%s\" are both %s",
                weights->file.path, before->entry->name, weight->entry->name, weight->name));
        }
    }
    for (size_t i = 0; i < weights->count; i++) {
        const char *found = architecture_of_tensor(weights->list[i].name);
        if (found != NULL) {
            TRY_DONE(error_tensor(error, BERTH_BAD_DATA, weights->file.path,
                                  weights->list[i].entry->name,
                                  "this is %s; expected a model with BERT's layers "
                                  "and learned absolute positions, such as bert-base-uncased",
                                  found));
        }
    }
    settle_ties(weights);
    if (vocab_size > 0) {
        for (size_t i = 0; i < sizeof word_rows / sizeof *word_rows; i++) {
            struct weight *weight = (struct weight *)weights_find(weights, word_rows[i]);
            if (weight != NULL && weight->rank >= 1 && weight_is_contiguous(weight) &&
                is_padded(weight->shape[0], vocab_size)) {
                if (i == 0) {
                    weights->padding_rows = (size_t)(weight->shape[0] - vocab_size);
                }
                weight->shape[0] = vocab_size;
            }
        }
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
    weights->selected = length;
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

int weight_is_contiguous(const struct weight *weight) {
    return weight->use != NAME_TRANSPOSED || weight->rank != 2;
}

// The index of its first element within the entry.
static int64_t origin(const struct weight *weight) {
    return weight->part * weight_elements(weight);
}

enum berth_status weights_read_elements(const struct weights *weights, const struct weight *weight,
                                        size_t first, size_t count, void *to,
                                        struct berth_error *error) {
    size_t size = tensor_dtype_size(weight->entry->dtype);
    return weights->file.format->read(&weights->file, weight->entry,
                                      ((uint64_t)origin(weight) + first) * size, count * size, to,
                                      error);
}

// Reads a matrix that is stored transposed, as f32 if `widen`, and transposes it.
static enum berth_status read_transposed(const struct weights *weights, const struct weight *weight,
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
    return weight_is_contiguous(weight)
               ? weights_read_elements(weights, weight, 0, (size_t)weight_elements(weight), to,
                                       error)
               : read_transposed(weights, weight, 0, to, error);
}

// The integers of a matrix with its scales and zero points.
struct integers {
    int64_t groups; // of all rows; the file may have padding rows after them
    signed char *values, *zeros;
    float *scales;
};

static enum berth_status read_integers(const struct weights *weights, const struct weight *weight,
                                       const struct integers *integers, struct berth_error *error) {
    TRY(weights_read(weights, weight, integers->values, error));
    TRY(tensor_file_read_f32(&weights->file, weight->scale, 0, integers->groups, integers->scales,
                             error));
    return weight->zero_point == NULL
               ? BERTH_OK
               : weights->file.format->read(&weights->file, weight->zero_point, 0,
                                            (size_t)integers->groups, integers->zeros, error);
}

static enum berth_status read_quantized(const struct weights *weights, const struct weight *weight,
                                        float *to, struct berth_error *error) {
    const size_t count = (size_t)weight_elements(weight);
    const int64_t groups = weight->shape[0] * scale_groups(weight->scale);
    const int64_t length = groups > 0 ? (int64_t)count / groups : 0;
    const struct integers all = {.groups = groups,
                                 .values = memory_pages(count),
                                 .zeros = memory_array_zeroed((size_t)groups, 1),
                                 .scales = memory_array((size_t)groups, sizeof *all.scales)};
    enum berth_status status = all.values != NULL && all.zeros != NULL && all.scales != NULL
                                   ? read_integers(weights, weight, &all, error)
                                   : error_no_memory(error, count, weight->name);
    for (int64_t i = 0; i < groups && status == BERTH_OK; i++) {
        for (int64_t at = i * length; at < (i + 1) * length; at++) {
            to[at] = all.scales[i] * (float)(all.values[at] - all.zeros[i]);
        }
    }
    memory_pages_free(all.values, count);
    memory_free(all.zeros);
    memory_free(all.scales);
    return status;
}

enum berth_status weights_read_f32(const struct weights *weights, const struct weight *weight,
                                   float *to, struct berth_error *error) {
    TRY(weights_check_integers(weights, weight, error));
    if (is_quantized(weight->entry) && weight->use == NAME_KEPT) {
        return read_quantized(weights, weight, to, error);
    }
    return weight_is_contiguous(weight)
               ? tensor_file_read_f32(&weights->file, weight->entry, origin(weight),
                                      weight_elements(weight), to, error)
               : read_transposed(weights, weight, 1, to, error);
}

static int has_our_layout(const struct weights *weights, const struct weight *weight) {
    const struct tensor_entry *scale = weight->scale;
    return is_quantized(weight->entry) && weight->use == NAME_KEPT && weight->zero_point == NULL &&
           weights_check_integers(weights, weight, NULL) == BERTH_OK &&
           scale->dtype == TENSOR_F32 && scale_groups(scale) == int8_groups(weight->shape[1]);
}

int weights_map_integers(const struct weights *weights, const struct weight *weight,
                         struct weight_integers *integers) {
    const struct tensor_file *file = &weights->file;
    *integers = (struct weight_integers){0};
    const int is_mapped = file->format->map != NULL && has_our_layout(weights, weight) &&
                          file->format->map(file, weight->entry, &integers->values) &&
                          file->format->map(file, weight->scale, &integers->scales) &&
                          (uintptr_t)integers->scales.bytes % _Alignof(float) == 0;
    if (!is_mapped) {
        weight_integers_done(integers);
    }
    return is_mapped;
}

void weight_integers_done(struct weight_integers *integers) {
    file_unmap(&integers->values);
    file_unmap(&integers->scales);
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

#define COMPARED_AT_ONCE ((int64_t)1 << 18) // numbers

static int has_pieces(const struct weight *weight) {
    return weight_is_contiguous(weight) && !is_quantized(weight->entry);
}

static enum berth_status read_piece(const struct weights *weights, const struct weight *weight,
                                    int64_t first, int64_t count, float *to,
                                    struct berth_error *error) {
    return has_pieces(weight) ? tensor_file_read_f32(&weights->file, weight->entry,
                                                     origin(weight) + first, count, to, error)
                              : weights_read_f32(weights, weight, to, error);
}

// Compares weights of one shape, in pieces of `most` numbers.
static enum berth_status compare_pieces(const struct weights *weights,
                                        const struct weight *const pair[2], int64_t most,
                                        float *const numbers[2], int *same,
                                        struct berth_error *error) {
    const int64_t all = weight_elements(pair[0]);
    *same = 1;
    for (int64_t first = 0; first < all && *same; first += most) {
        const int64_t count = all - first < most ? all - first : most;
        TRY(read_piece(weights, pair[0], first, count, numbers[0], error));
        TRY(read_piece(weights, pair[1], first, count, numbers[1], error));
        *same = memcmp(numbers[0], numbers[1], (size_t)count * sizeof(float)) == 0;
    }
    return BERTH_OK;
}

enum berth_status weights_check_tie(const struct weights *weights, const struct weight *copy,
                                    const struct weight *source, struct berth_error *error) {
    int same = have_one_shape(copy, source);
    if (same && !copy->tied) {
        const struct weight *const pair[] = {copy, source};
        const int64_t most =
            has_pieces(copy) && has_pieces(source) ? COMPARED_AT_ONCE : weight_elements(copy);
        const size_t bytes = (size_t)most * sizeof(float);
        float *const numbers[] = {memory_pages(bytes), memory_pages(bytes)};
        const enum berth_status status =
            numbers[0] != NULL && numbers[1] != NULL
                ? compare_pieces(weights, pair, most, numbers, &same, error)
                : error_no_memory(error, 2 * bytes, copy->name);
        memory_pages_free(numbers[0], bytes);
        memory_pages_free(numbers[1], bytes);
        TRY(status);
    }
    return same ? BERTH_OK
                : error_tensor(error, BERTH_CONFIG, weights->file.path, copy->entry->name,
                               "expected the values of \"%s\", found others: a model "
                               "whose decoder is not tied to the word embeddings "
                               "(\"tie_word_embeddings\": false) cannot predict words here",
                               source->entry->name);
}
