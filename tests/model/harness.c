// SPDX-License-Identifier: Apache-2.0
#include "harness.h"

#include "core/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- the model ----------------------------------------------------------------------------------

static void assert_ok(enum berth_status status, const struct berth_error *error) {
    if (status != BERTH_OK) {
        fail_msg("%s", error->message);
    }
}

static void reserve(struct harness *harness, const struct harness_options *options) {
    struct device_shape shape = {
        .batch = {options->max_rows, options->max_sequences, options->max_masked,
                  options->max_length},
        .hidden = harness->config.hidden_size,
        .intermediate = harness->config.intermediate_size,
        .heads = harness->config.num_attention_heads,
        .vocabulary = harness->config.vocab_size,
        .decoder_rows = bert_decoder_rows(options->max_masked),
        .compute = options->compute,
        .training = harness->keep != BERT_KEEP_NOTHING,
    };
    struct berth_error error = {0};
    assert_ok(harness->device->reserve(harness->device, &shape, &error), &error);
}

// Measures, allocates exactly that much, and carves.
static void take_activations(struct harness *harness, const struct harness_options *options) {
    struct arena arena = {0};
    bert_activations_free(bert_activations_new(&harness->model, options->max_rows,
                                               options->max_sequences, harness->keep, &arena));
    harness->block_bytes = arena.peak;
    harness->block = harness->device->memory_new(harness->device, arena.peak);
    assert_non_null(harness->block);
    arena = (struct arena){.base = harness->block, .size = arena.peak};
    harness->activations = bert_activations_new(&harness->model, options->max_rows,
                                                options->max_sequences, harness->keep, &arena);
    assert_non_null(harness->activations);
    assert_int_equal(arena.used, harness->block_bytes);
}

static void *floats(struct harness *harness, int64_t count, size_t size) {
    void *block = harness->device->memory_new(harness->device, (size_t)count * size);
    assert_non_null(block);
    return block;
}

// BERTH_TEST_DEVICE: the GPU device instead of the CPU, for those tests that do not ask for
// instructions of one.
static enum berth_status open_device(const struct device_options *options, struct device **device,
                                     struct berth_error *error) {
    const char *name = getenv("BERTH_TEST_DEVICE");
    if (name == NULL) {
        return device_cpu_open(options, device, error);
    }
    return options->instructions == NULL || strcmp(options->instructions, "generic") == 0
               ? device_gpu_open(name, options, device, error)
               : error_set(error, BERTH_UNAVAILABLE, "the CPU's %s", options->instructions);
}

int harness_on_gpu(void) {
    const char *name = getenv("BERTH_TEST_DEVICE");
    return name != NULL && (strcmp(name, "cuda") == 0 || strcmp(name, "hip") == 0);
}

int harness_open(struct harness *harness, const struct bert_config *config,
                 const struct harness_options *options) {
    const int training = !options->inference;
    *harness = (struct harness){.config = *config,
                                .keep = options->inference       ? BERT_KEEP_NOTHING
                                        : options->checkpointing ? BERT_RECOMPUTE_LAYERS
                                                                 : BERT_KEEP_ALL};
    struct berth_error error = {0};
    struct device_options machine = {.threads = options->threads,
                                     .instructions = options->instructions};
    enum berth_status status = open_device(&machine, &harness->device, &error);
    if (status == BERTH_UNAVAILABLE) {
        print_message("not on this machine: %s\n", error.message);
        return 0;
    }
    assert_ok(status, &error);
    enum param_head head = options->head != PARAM_HEAD_NONE ? options->head : PARAM_HEAD_SPAN;
    assert_ok(param_table_init(&harness->table, config, head, &error), &error);
    const int64_t total = harness->table.total;
    harness->master = floats(harness, total, sizeof(float));
    harness->gradients = training ? floats(harness, total, sizeof(float)) : NULL;
    harness->compute = harness->master;
    if (options->compute != DTYPE_F32) {
        harness->compute =
            floats(harness, harness->table.matrix_count, dtype_size(options->compute));
    }
    harness->model = (struct bert){
        .positive_weight = 1,
        .config = &harness->config,
        .table = &harness->table,
        .device = harness->device,
        .compute = options->compute,
        .weights = {harness->master, harness->compute, harness->gradients},
        .max_masked = options->max_masked,
        .max_length = options->max_length,
        .attention_dropout = config->attention_probs_dropout_prob,
    };
    take_activations(harness, options);
    reserve(harness, options);
    return 1;
}

void harness_close(struct harness *harness) {
    struct device *dev = harness->device;
    size_t bytes = (size_t)harness->table.total * sizeof(float);
    device_batch_done(&harness->batch);
    bert_activations_free(harness->activations);
    dev->memory_free(dev, harness->block, harness->block_bytes);
    if (harness->compute != harness->master) {
        dev->memory_free(dev, harness->compute,
                         (size_t)harness->table.matrix_count * dtype_size(harness->model.compute));
    }
    if (harness->gradients) {
        dev->memory_free(dev, harness->gradients, bytes);
    }
    dev->memory_free(dev, harness->master, bytes);
    param_table_done(&harness->table);
    dev->close(dev);
}

void harness_load(struct harness *harness, const float *parameters) {
    struct device *dev = harness->device;
    dev->upload(dev, harness->master, parameters, (size_t)harness->table.total * sizeof(float));
    if (harness->compute != harness->master) {
        dev->convert(
            dev, mat_of(harness->compute, 1, harness->table.matrix_count, harness->model.compute),
            harness->master);
    }
}

void harness_zero_gradients(struct harness *harness) {
    harness->device->zero(harness->device, harness->gradients,
                          (size_t)harness->table.total * sizeof(float));
}

static float *download(struct harness *harness, const void *from, int64_t count) {
    float *to = malloc((size_t)count * sizeof *to);
    assert_non_null(to);
    harness->device->download(harness->device, to, from, (size_t)count * sizeof *to);
    return to;
}

// Without the columns that fill up a row.
static void download_rows(struct harness *harness, float *to, struct mat from) {
    const int64_t count = (from.rows - 1) * from.stride + from.cols;
    float *all = download(harness, from.data, count);
    for (int64_t row = 0; row < from.rows; row++) {
        memcpy(to + row * from.cols, all + row * from.stride, (size_t)from.cols * sizeof *to);
    }
    free(all);
}

float *harness_gradients(struct harness *harness) {
    return download(harness, harness->gradients, harness->table.total);
}

float *harness_logits(struct harness *harness, const struct batch *batch) {
    const struct mat logits = bert_logits(&harness->model, harness->activations, batch);
    float *all = malloc((size_t)(logits.rows * logits.cols) * sizeof *all);
    assert_non_null(all);
    download_rows(harness, all, logits);
    return all;
}

float *harness_masked_logits(struct harness *harness, const struct batch *batch) {
    const int64_t most = bert_decoder_rows(batch->masked_count);
    float *all = malloc((size_t)(batch->masked_count * harness->config.vocab_size) * sizeof *all);
    int64_t rows;
    assert_non_null(all);
    bert_forward(&harness->model, harness->activations, batch, NULL);
    for (int64_t first = 0; first < batch->masked_count; first += rows) {
        const int64_t left = batch->masked_count - first;
        rows = left < most ? left : most;
        const struct mat logits =
            bert_decode_logits(&harness->model, harness->activations, batch, first, rows);
        download_rows(harness, all + first * logits.cols, logits);
    }
    return all;
}

double harness_step(struct harness *harness, const struct batch *batch,
                    const struct bert_dropout *dropout, float loss_scale) {
    bert_forward(&harness->model, harness->activations, batch, dropout);
    bert_backward(&harness->model, harness->activations, batch, dropout, loss_scale,
                  harness->listener);
    struct berth_error error = {0};
    assert_ok(harness->device->status(harness->device, &error), &error);
    float *losses = download(harness, bert_losses(harness->activations, 0), batch->sequence_count);
    double sum = 0;
    for (int64_t s = 0; s < batch->sequence_count; s++) {
        sum += losses[s];
    }
    free(losses);
    const enum param_head head = harness->table.head;
    if (batch->masked_count > 0 && (param_head_decodes(head) || head == PARAM_HEAD_TOKEN)) {
        losses = download(harness, bert_masked_losses(harness->activations), batch->masked_count);
        for (int64_t i = 0; i < batch->masked_count; i++) {
            sum += (double)batch->masked_weight * losses[i];
        }
        free(losses);
    }
    return sum;
}

// What a listener received.
struct received {
    const struct harness *harness;
    float *values; // [total], as they were when they were received
    char *times;   // [total], how often they were
    int calls;
};

static void keep_range(void *context, size_t index) {
    struct received *received = context;
    const struct harness *harness = received->harness;
    const struct param_range range = param_range(&harness->table, index);
    received->calls++;
    for (int64_t i = range.first; i < range.first + range.count; i++) {
        received->times[i]++;
    }
    harness->device->download(harness->device, received->values + range.first,
                              harness->gradients + range.first,
                              (size_t)range.count * sizeof(float));
}

void assert_sink(struct harness *harness, const struct batch *batch,
                 const struct bert_dropout *dropout) {
    const int64_t total = harness->table.total;
    struct received received = {.harness = harness,
                                .values = calloc((size_t)total, sizeof *received.values),
                                .times = calloc((size_t)total, 1)};
    const struct gradient_listener listener = {.ready = keep_range, .context = &received};
    assert_true(received.values != NULL && received.times != NULL);
    harness_zero_gradients(harness);
    harness->listener = &listener;
    harness_step(harness, batch, dropout, 1);
    harness->listener = NULL;
    assert_int_equal(received.calls, harness->config.num_hidden_layers + 2);
    for (int64_t i = 0; i < total; i++) {
        assert_int_equal(received.times[i], 1);
    }
    float *gradients = harness_gradients(harness);
    assert_memory_equal(received.values, gradients, (size_t)total * sizeof *gradients);
    free(gradients);
    free(received.values);
    free(received.times);
}

// --- batches -------------------------------------------------------------------------------------

struct packed {
    struct batch batch;
    struct batch_extent extent;
    void *block; // of all arrays
};

static void sort_rows(struct batch *batch) {
    int32_t most = 0, *rows = (int32_t *)batch->word_rows;
    for (int64_t i = 0; i < batch->token_count; i++) {
        most = batch->ids[i] > most ? batch->ids[i] : most;
    }
    for (int32_t id = 0; id <= most; id++) {
        for (int64_t i = 0; i < batch->token_count; i++) {
            if (batch->ids[i] == id) {
                *rows++ = (int32_t)i;
            }
        }
    }
}

static void pack_tokens(struct batch *batch, const struct reference_sequence *sequence, int64_t s) {
    const int64_t first = batch->cu_seqlens[s];
    memcpy((int32_t *)batch->ids + first, sequence->ids,
           (size_t)sequence->length * sizeof(int32_t));
    memcpy((int32_t *)batch->type_ids + first, sequence->type_ids,
           (size_t)sequence->length * sizeof(int32_t));
    for (int64_t i = 0; i < sequence->length; i++) {
        ((int32_t *)batch->positions)[first + i] = (int32_t)i;
        ((int32_t *)batch->sequences)[first + i] = (int32_t)s;
    }
    ((int32_t *)batch->cu_seqlens)[s + 1] = (int32_t)(first + sequence->length);
}

static void pack_labels(struct batch *batch, const struct reference_sequence *sequence, int64_t s) {
    ((int64_t *)batch->global_indices)[s] = sequence->global_index;
    ((int32_t *)batch->start_positions)[s] = sequence->start;
    ((int32_t *)batch->end_positions)[s] = sequence->end;
    ((int32_t *)batch->labels)[s] = sequence->label;
    ((float *)batch->targets)[s] = sequence->target;
    for (int64_t k = 0; k < sequence->label_target_count; k++) {
        ((float *)batch->label_targets)[s * sequence->label_target_count + k] =
            sequence->label_targets[k];
    }
    for (int64_t i = 0; i < sequence->masked_count; i++, batch->masked_count++) {
        ((int32_t *)batch->masked_rows)[batch->masked_count] =
            batch->cu_seqlens[s] + sequence->masked_positions[i];
        ((int32_t *)batch->masked_labels)[batch->masked_count] = sequence->masked_labels[i];
    }
}

static struct batch_extent extent_of(const struct reference_sequence *sequences, int64_t count) {
    struct batch_extent extent = {
        .sequences = count, .labels = sequences[0].label_target_count, .head_rows = count};
    for (int64_t s = 0; s < count; s++) {
        const struct reference_sequence *sequence = &sequences[s];
        extent.tokens += sequence->length;
        extent.masked += sequence->masked_count;
        extent.head_rows += sequence->masked_count;
        extent.max_length =
            sequence->length > extent.max_length ? sequence->length : extent.max_length;
    }
    return extent;
}

struct packed *packed_new(const struct reference_sequence *sequences, int64_t count) {
    struct packed *packed = malloc(sizeof *packed);
    assert_non_null(packed);
    *packed = (struct packed){.extent = extent_of(sequences, count)};
    struct batch *batch = &packed->batch;
    packed->block = calloc(batch_carve(batch, NULL, &packed->extent), 1);
    assert_non_null(packed->block);
    batch_carve(batch, packed->block, &packed->extent);
    batch->token_count = packed->extent.tokens;
    batch->row_count = batch_round(batch->token_count);
    batch->sequence_count = count;
    batch->max_length = packed->extent.max_length;
    for (int64_t s = 0; s < count; s++) {
        pack_tokens(batch, &sequences[s], s);
        pack_labels(batch, &sequences[s], s);
    }
    for (int64_t r = batch->token_count; r < batch->row_count; r++) {
        ((int32_t *)batch->sequences)[r] = -1;
    }
    sort_rows(batch);
    batch_fill_head(batch);
    return packed;
}

const struct batch *packed_batch(const struct packed *packed) {
    return &packed->batch;
}

void packed_weigh_masked(struct packed *packed, float weight) {
    packed->batch.masked_weight = weight;
}

void packed_free(struct packed *packed) {
    free(packed->block);
    free(packed);
}

const struct batch *harness_batch(struct harness *harness, const struct packed *packed) {
    struct berth_error error = {0};
    device_batch_done(&harness->batch);
    assert_ok(device_batch_init(&harness->batch, harness->device, &packed->extent, &error), &error);
    return device_batch_upload(&harness->batch, &packed->batch);
}

// --- random material -----------------------------------------------------------------------------

struct bert_config tiny_config(int64_t hidden, int64_t heads, int64_t inner, int64_t layers) {
    return (struct bert_config){
        .vocab_size = 61,
        .hidden_size = hidden,
        .num_hidden_layers = layers,
        .num_attention_heads = heads,
        .intermediate_size = inner,
        .max_position_embeddings = 512,
        .type_vocab_size = 2,
        .hidden_act = ACTIVATION_GELU_ERF,
        .layer_norm_eps = 1e-12,
        .initializer_range = 0.02,
    };
}

// About normal: the sum of four uniform numbers, mean 0, deviation 1.
static double draw(uint64_t seed, uint64_t *index) {
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        sum += rng_draw(seed, 7, index) / 4294967296.0 - 0.5;
    }
    return sum * sqrt(3.0);
}

static int ends_with(const char *name, const char *end) {
    size_t length = strlen(name), tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

float *random_parameters(const struct param_table *table, uint64_t seed) {
    float *values = calloc((size_t)table->total, sizeof *values);
    assert_non_null(values);
    uint64_t index = 0;
    for (size_t p = 0; p < table->count; p++) {
        const struct param *param = &table->params[p];
        const int gamma = ends_with(param->name, "LayerNorm.weight");
        const double scale = param->rank == 1 ? 0.2 : 1 / sqrt((double)param->cols);
        for (int64_t i = 0; i < param->rows * param->cols; i++) {
            values[param->offset + i] = (float)(gamma + scale * draw(seed, &index));
        }
    }
    return values;
}

struct reference_sequence *sequences_new(const struct bert_config *config, const int64_t *lengths,
                                         int64_t count, int64_t first_index, uint64_t seed) {
    int64_t tokens = 0;
    for (int64_t s = 0; s < count; s++) {
        tokens += lengths[s];
    }
    size_t head = (size_t)count * sizeof(struct reference_sequence);
    struct reference_sequence *sequences = malloc(head + (size_t)tokens * 2 * sizeof(int32_t));
    assert_non_null(sequences);
    int32_t *next = (int32_t *)(void *)((char *)sequences + head);
    uint64_t index = 0;
    for (int64_t s = 0; s < count; s++) {
        int32_t *ids = next, *types = next + lengths[s];
        next = types + lengths[s];
        for (int64_t i = 0; i < lengths[s]; i++) {
            ids[i] = 1 + (int32_t)rng_below(seed, 8, &index, (uint32_t)config->vocab_size - 1);
            types[i] = i > lengths[s] / 3 && config->type_vocab_size > 1;
        }
        sequences[s] = (struct reference_sequence){
            .length = lengths[s],
            .ids = ids,
            .type_ids = types,
            .global_index = first_index + s,
            .start = (int32_t)rng_below(seed, 9, &index, (uint32_t)lengths[s]),
            .end = (int32_t)rng_below(seed, 9, &index, (uint32_t)lengths[s])};
    }
    return sequences;
}

void sequences_free(struct reference_sequence *sequences) {
    free(sequences);
}

// --- comparisons ---------------------------------------------------------------------------------

double norm2(const double *x, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += x[i] * x[i];
    }
    return sqrt(sum);
}

double *to_double(const float *x, int64_t count) {
    double *y = malloc((size_t)count * sizeof *y);
    assert_non_null(y);
    for (int64_t i = 0; i < count; i++) {
        y[i] = x[i];
    }
    return y;
}

double relative_error(const float *x, const float *y, int64_t count) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        size += (double)y[i] * y[i];
    }
    return difference == 0 ? 0 : sqrt(difference / size);
}

void assert_same(const float *x, const float *y, int64_t count, double on_gpu) {
    if (harness_on_gpu()) {
        assert_true(relative_error(x, y, count) <= on_gpu);
    } else {
        assert_memory_equal(x, y, (size_t)count * sizeof *x);
    }
}

double largest_difference(const float *x, const double *y, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double difference = fabs(x[i] - y[i]);
        largest = difference <= largest ? largest : difference; // keeps a NaN
    }
    return largest;
}

double assert_gradients(const struct param_table *table, const float *g, const double *g0,
                        double relative, double floor, const char *what) {
    const double whole = norm2(g0, table->total);
    double worst = 0;
    for (size_t p = 0; p < table->count; p++) {
        const struct param *param = &table->params[p];
        double difference = 0;
        for (int64_t i = 0; i < param->rows * param->cols; i++) {
            double d = g[param->offset + i] - g0[param->offset + i];
            difference += d * d;
        }
        double bound =
            relative * norm2(g0 + param->offset, param->rows * param->cols) + floor * whole;
        // A lone token's loss is 0 and all its gradients are.
        double ratio = difference == 0 ? 0 : sqrt(difference) / bound;
        if (!(ratio <= 1)) {
            fail_msg("%s: gradient of %s is off by %g, allowed are %g", what, param->name,
                     sqrt(difference), bound);
        }
        worst = ratio > worst ? ratio : worst;
    }
    return worst;
}
