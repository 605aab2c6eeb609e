// SPDX-License-Identifier: Apache-2.0
// Weights in int8: quantizes matrices and tables parameter by parameter while a model is loaded,
// and chooses the wide columns. Leaves out products (the device's) and files (format/).
#include "model/int8.h"

#include "core/int8.h"
#include "core/memory.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#define ALIGNMENT 64
// With fewer columns, outliers are not worth the copies.
#define WIDE_FROM_COLUMNS 64
// Every so many words are looked at: outliers are in the same columns of nearly all words.
#define WORDS_STEP 31

// --- layout of the block ------------------------------------------------------------------------

static const struct param *param_at(const struct param_table *table, int64_t offset) {
    size_t i = 0;
    while (table->params[i].offset != offset) {
        i++;
    }
    return &table->params[i];
}

static void *carve(struct int8_weights *weights, size_t bytes) {
    char *base = weights->block;
    void *part = base == NULL ? NULL : base + weights->bytes;
    weights->bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return part;
}

static struct int8_matrix carve_matrix(struct int8_weights *weights, int64_t rows, int64_t cols,
                                       int is_normalised) {
    struct int8_matrix m = {.rows = rows, .cols = cols};
    m.wide = is_normalised && cols >= WIDE_FROM_COLUMNS ? DEVICE_INT8_WIDE : 0;
    m.data = carve(weights, weights->device->int8_bytes(weights->device, &m));
    return m;
}

static struct int8_layer carve_layer(struct int8_weights *weights) {
    const struct param_layer *first = &weights->table->layers[0];
    const struct param *inner = param_at(weights->table, first->intermediate_weight);
    const int64_t hidden = inner->cols;
    return (struct int8_layer){.qkv = carve_matrix(weights, 3 * hidden, hidden, 1),
                               .attention = carve_matrix(weights, hidden, hidden, 0),
                               .intermediate = carve_matrix(weights, inner->rows, hidden, 1),
                               .output = carve_matrix(weights, hidden, inner->rows, 0)};
}

// Lays out the block; without memory it only measures it.
static void lay_out(struct int8_weights *weights) {
    const struct param *words = param_at(weights->table, weights->table->word);
    weights->bytes = 0;
    weights->word_scales =
        carve(weights, (size_t)(words->rows * int8_groups(words->cols)) * sizeof(float));
    weights->words = mat_of(carve(weights, (size_t)(words->rows * words->cols)), words->rows,
                            words->cols, DTYPE_I8);
    for (int64_t i = 0; i < weights->table->layer_count; i++) {
        const struct int8_layer layer = carve_layer(weights);
        if (weights->layers != NULL) {
            weights->layers[i] = layer;
        }
    }
}

size_t int8_weights_bytes(struct device *device, const struct param_table *table) {
    struct int8_weights weights = {.device = device, .table = table};
    lay_out(&weights);
    return weights.bytes;
}

static int is_replaced(const struct param_table *table, const struct param *param) {
    return param->offset < table->head_first || param->offset == table->word;
}

int64_t int8_replaced_elements(const struct param_table *table) {
    int64_t count = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct param *param = &table->params[i];
        count += is_replaced(table, param) ? param->rows * param->cols : 0;
    }
    return count;
}

enum berth_status int8_weights_init(struct int8_weights *weights, struct device *device,
                                    const struct param_table *table, struct berth_error *error) {
    const size_t bytes = int8_weights_bytes(device, table), layers = (size_t)table->layer_count;
    *weights = (struct int8_weights){.device = device, .table = table, .bytes = bytes};
    weights->layers = memory_array_zeroed(layers, sizeof *weights->layers);
    if (weights->layers == NULL) {
        return error_no_memory(error, layers * sizeof *weights->layers, "the list of layers");
    }
    weights->block = device->memory_new(device, bytes);
    if (weights->block == NULL) {
        return device_no_memory(device, bytes, "the weights in int8", error);
    }
    lay_out(weights);
    return BERTH_OK;
}

void int8_weights_done(struct int8_weights *weights) {
    if (weights->block != NULL) {
        weights->device->memory_free(weights->device, weights->block, weights->bytes);
    }
    weight_integers_done(&weights->mapped);
    memory_free(weights->layers);
    *weights = (struct int8_weights){0};
}

// --- quantization -------------------------------------------------------------------------------

static void set_words(struct int8_weights *weights, const float *values) {
    const struct mat words = weights->words;
#pragma omp parallel for num_threads(weights->device->threads)
    for (int64_t row = 0; row < words.rows; row++) {
        int8_quantize(values + row * words.cols, words.cols,
                      (signed char *)words.data + row * words.stride,
                      weights->word_scales + row * int8_groups(words.cols));
    }
}

// A matrix of a layer (query, key and value are one), and its offset in the table.
struct stacked_matrix {
    const struct int8_matrix *matrix;
    int64_t offset;
};

static struct stacked_matrix stack_of(const struct int8_weights *weights,
                                      const struct param *param) {
    const struct param_table *table = weights->table;
    int64_t i = table->layer_count - 1;
    while (table->layers[i].qkv_weight > param->offset) {
        i--;
    }
    const struct param_layer *offsets = &table->layers[i];
    const struct int8_layer *layer = &weights->layers[i];
    const struct stacked_matrix all[] = {{&layer->output, offsets->output_weight},
                                         {&layer->intermediate, offsets->intermediate_weight},
                                         {&layer->attention, offsets->attention_weight},
                                         {&layer->qkv, offsets->qkv_weight}};
    size_t found = 0;
    while (all[found].offset > param->offset) {
        found++;
    }
    return all[found];
}

int int8_weights_set(struct int8_weights *weights, const struct param *param, const float *values) {
    if (!is_replaced(weights->table, param)) {
        return 0;
    }
    if (param->offset == weights->table->word) {
        set_words(weights, values);
        return 1;
    }
    const struct stacked_matrix stack = stack_of(weights, param);
    weights->device->int8_pack(weights->device, stack.matrix,
                               (param->offset - stack.offset) / param->cols,
                               mat_of((void *)values, param->rows, param->cols, DTYPE_F32), NULL);
    return 1;
}

enum berth_status int8_weights_round(const struct int8_weights *weights, const struct param *param,
                                     float *values, struct berth_error *error) {
    const int64_t columns = param->cols, group = int8_group(columns);
    if (param->offset != weights->table->position) {
        return BERTH_OK;
    }
    OWNED signed char *q = memory_new((size_t)columns);
    OWNED float *scales = memory_array((size_t)int8_groups(columns), sizeof *scales);
    if (q == NULL || scales == NULL) {
        return error_no_memory(error, (size_t)columns, param->name);
    }
    for (float *row = values; row < values + param->rows * columns; row += columns) {
        int8_quantize(row, columns, q, scales);
        for (int64_t c = 0; c < columns; c++) {
            row[c] = scales[c / group] * (float)q[c];
        }
    }
    return BERTH_OK;
}

// The numbers that a group of int8_quantize has; files of others may have -128, too.
static int is_symmetric(const signed char *q, int64_t count) {
    signed char least = 0;
#pragma omp simd reduction(min : least)
    for (int64_t i = 0; i < count; i++) {
        least = q[i] < least ? q[i] : least;
    }
    return least >= -127;
}

int int8_weights_take(struct int8_weights *weights, const struct param *param,
                      const struct weights *file, const struct weight *weight) {
    struct weight_integers found;
    if (!is_replaced(weights->table, param) || !weights->device->is_host ||
        !weights_map_integers(file, weight, &found)) {
        return 0;
    }
    const struct mat integers =
        mat_of((void *)found.values.bytes, param->rows, param->cols, DTYPE_I8); // only read
    if (param->offset == weights->table->word) {
        weights->mapped = found;
        weights->words = integers;
        weights->word_scales = (float *)found.scales.bytes;
        return 1;
    }
    const int is_taken = is_symmetric(integers.data, param->rows * param->cols);
    if (is_taken) {
        const struct stacked_matrix stack = stack_of(weights, param);
        weights->device->int8_pack(weights->device, stack.matrix,
                                   (param->offset - stack.offset) / param->cols, integers,
                                   (const float *)found.scales.bytes);
    }
    weight_integers_done(&found);
    return is_taken;
}

// --- wide columns -------------------------------------------------------------------------------

// The tables whose rows an embedding sums, its norm, and what brings it to the layers' columns.
struct embeddings {
    const struct int8_weights *weights;
    const float *position, *type, *gamma, *beta;
    const float *projection, *projection_bias; // NULL: it has as many columns as the layers
    int64_t positions, columns;                // of the layers
};

static struct embeddings embeddings_of(const struct int8_weights *weights, const float *master) {
    const struct param_table *table = weights->table;
    const int64_t projection = table->projection_weight;
    return (struct embeddings){.weights = weights,
                               .projection = projection >= 0 ? master + projection : NULL,
                               .projection_bias =
                                   projection >= 0 ? master + table->projection_bias : NULL,
                               .columns = weights->layers[0].qkv.cols,
                               .position = master + table->position,
                               .type = master + table->type,
                               .gamma = master + table->embedding_norm_weight,
                               .beta = master + table->embedding_norm_bias,
                               .positions = param_at(table, table->position)->rows};
}

// The normalised embedding of a word, at one of the positions.
static void embed(const struct embeddings *e, int64_t word, float *to) {
    const struct mat words = e->weights->words;
    const signed char *q = (const signed char *)words.data + word * words.stride;
    const float *scales = e->weights->word_scales + word * int8_groups(words.cols);
    const int64_t group = int8_group(words.cols);
    const float *position = e->position + word % e->positions * words.cols;
    double sum = 0, squares = 0;
    for (int64_t g = 0; g < words.cols / group; g++) {
        for (int64_t c = g * group; c < (g + 1) * group; c++) {
            to[c] = scales[g] * (float)q[c] + position[c] + e->type[c];
            sum += to[c];
            squares += (double)to[c] * to[c];
        }
    }
    const double mean = sum / (double)words.cols;
    const double deviation = sqrt(fmax(squares / (double)words.cols - mean * mean, 1e-12));
#pragma omp simd
    for (int64_t c = 0; c < words.cols; c++) {
        to[c] = (float)((to[c] - mean) / deviation) * e->gamma[c] + e->beta[c];
    }
}

// The first layer's input, in `to`, or in `embedded` where embeddings need no projection.
static const float *project(const struct embeddings *e, const float *embedded, float *to) {
    const int64_t count = e->weights->words.cols;
    for (int64_t c = 0; c < e->columns && e->projection != NULL; c++) {
        const float *row = e->projection + c * count;
        float sums[8] = {0}; // in one order, whatever vectors the compiler chooses
        for (int64_t i = 0; i < count; i += 8) {
            for (int64_t lane = 0; lane < 8 && i + lane < count; lane++) {
                sums[lane] += row[i + lane] * embedded[i + lane];
            }
        }
        for (int lane = 1; lane < 8; lane++) {
            sums[0] += sums[lane];
        }
        to[c] = sums[0] + e->projection_bias[c];
    }
    return e->projection != NULL ? to : embedded;
}

static void keep_larger(float *sizes, const float *row, int64_t count) {
#pragma omp simd
    for (int64_t c = 0; c < count; c++) {
        const float size = fabsf(row[c]);
        sizes[c] = size > sizes[c] ? size : sizes[c];
    }
}

// Each thread has `each` numbers of zeroed memory, for sizes, an input of the layers and an
// embedding. The largest are the same whatever the number of threads.
static void find_sizes(const struct embeddings *e, float *memory, int64_t each, float *sizes) {
#pragma omp parallel num_threads(e->weights->device->threads)
    {
        float *own = memory + omp_get_thread_num() * each;
        float *input = own + e->columns, *embedded = input + e->columns;
#pragma omp for schedule(static)
        for (int64_t word = 0; word < e->weights->words.rows; word += WORDS_STEP) {
            embed(e, word, embedded);
            keep_larger(own, project(e, embedded, input), e->columns);
        }
#pragma omp critical(int8_sizes)
        keep_larger(sizes, own, e->columns);
    }
}

// Writes the columns with the largest sizes, ascending; overwrites their sizes.
static void find_largest(float *sizes, int64_t count, int32_t columns[DEVICE_INT8_WIDE]) {
    for (int found = 0; found < DEVICE_INT8_WIDE; found++) {
        int32_t largest = 0;
        for (int32_t c = 1; c < count; c++) {
            largest = sizes[c] > sizes[largest] ? c : largest;
        }
        sizes[largest] = -1;
        int at = found;
        for (; at > 0 && columns[at - 1] > largest; at--) {
            columns[at] = columns[at - 1];
        }
        columns[at] = largest;
    }
}

static void finish_layers(struct int8_weights *weights, const float *master, float *sizes) {
    const struct param_table *table = weights->table;
    struct device *device = weights->device;
    const int64_t hidden = weights->layers[0].qkv.cols;
    int32_t columns[DEVICE_INT8_WIDE];
    find_largest(sizes, hidden, columns);
    for (int64_t i = 0; i < table->layer_count; i++) {
        const struct int8_layer *layer = &weights->layers[i];
        const float *gamma = master + table->layers[i].attention_norm_weight;
        device->int8_finish(device, &layer->qkv, columns);
        device->int8_finish(device, &layer->attention, NULL);
        for (int64_t c = 0; c < hidden; c++) {
            sizes[c] = fabsf(gamma[c]);
        }
        find_largest(sizes, hidden, columns);
        device->int8_finish(device, &layer->intermediate, columns);
        device->int8_finish(device, &layer->output, NULL);
    }
}

enum berth_status int8_weights_finish(struct int8_weights *weights, const float *master,
                                      struct berth_error *error) {
    const struct embeddings embeddings = embeddings_of(weights, master);
    const int64_t each = 2 * embeddings.columns + weights->words.cols;
    const size_t count = (size_t)(each * (weights->device->threads + 1));
    float *sizes = memory_array_zeroed(count, sizeof *sizes);
    if (sizes == NULL) {
        return error_no_memory(error, count * sizeof *sizes, "the sizes of columns");
    }
    find_sizes(&embeddings, sizes + each, each, sizes);
    file_map_rest(&weights->mapped.values); // of all words a text has few
    file_map_rest(&weights->mapped.scales);
    finish_layers(weights, master, sizes);
    memory_free(sizes);
    return BERTH_OK;
}
