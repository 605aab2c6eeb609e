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

int harness_open(struct harness *harness, const struct bert_config *config,
                 const struct harness_options *options) {
    const int training = !options->inference;
    *harness = (struct harness){.config = *config,
                                .keep = options->inference       ? BERT_KEEP_NOTHING
                                        : options->checkpointing ? BERT_KEEP_SUMS
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

float *harness_gradients(struct harness *harness) {
    return download(harness, harness->gradients, harness->table.total);
}

float *harness_logits(struct harness *harness, const struct batch *batch) {
    struct mat logits = bert_logits(&harness->model, harness->activations, batch);
    return download(harness, logits.data, logits.rows * logits.cols);
}

float *harness_masked_logits(struct harness *harness, const struct batch *batch) {
    struct device *dev = harness->device;
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
        dev->download(dev, all + first * logits.cols, logits.data,
                      (size_t)(rows * logits.cols) * sizeof *all);
    }
    return all;
}

double harness_step(struct harness *harness, const struct batch *batch,
                    const struct bert_dropout *dropout, float loss_scale) {
    bert_forward(&harness->model, harness->activations, batch, dropout);
    bert_backward(&harness->model, harness->activations, batch, dropout, loss_scale, harness->sink);
    struct berth_error error = {0};
    assert_ok(harness->device->status(harness->device, &error), &error);
    float *losses = download(harness, bert_losses(harness->activations), batch->sequence_count);
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

// What a sink received.
struct received {
    const struct harness *harness;
    float *values; // [total], as they were when they were received
    char *times;   // [total], how often they were
    int calls;
};

static void keep_range(void *context, size_t index) {
    struct received *received = context;
    const struct param_range range = param_range(&received->harness->table, index);
    const float *gradients = received->harness->gradients;
    received->calls++;
    for (int64_t i = range.first; i < range.first + range.count; i++) {
        received->times[i]++;
        received->values[i] = gradients[i];
    }
}

void assert_sink(struct harness *harness, const struct batch *batch,
                 const struct bert_dropout *dropout) {
    const int64_t total = harness->table.total;
    struct received received = {.harness = harness,
                                .values = calloc((size_t)total, sizeof *received.values),
                                .times = calloc((size_t)total, 1)};
    const struct bert_sink sink = {.ready = keep_range, .context = &received};
    assert_true(received.values != NULL && received.times != NULL);
    harness_zero_gradients(harness);
    harness->sink = &sink;
    harness_step(harness, batch, dropout, 1);
    harness->sink = NULL;
    assert_int_equal(received.calls, harness->config.num_hidden_layers + 2);
    for (int64_t i = 0; i < total; i++) {
        assert_int_equal(received.times[i], 1);
    }
    assert_memory_equal(received.values, harness->gradients,
                        (size_t)total * sizeof *received.values);
    free(received.values);
    free(received.times);
}

// --- batches -------------------------------------------------------------------------------------

struct packed {
    struct batch batch;
    int32_t *numbers;   // all the int32 arrays
    int32_t *word_rows; // rows by their ids
    int64_t *global_indices;
    float *targets, *label_targets;
    int32_t *masked; // rows, then labels
    int32_t *head;   // the arrays of the batch's head
};

static int32_t *sorted_rows(const int32_t *ids, int64_t count) {
    int32_t *rows = malloc((size_t)count * sizeof *rows), most = 0;
    int64_t put = 0;
    assert_non_null(rows);
    for (int64_t i = 0; i < count; i++) {
        most = ids[i] > most ? ids[i] : most;
    }
    for (int32_t id = 0; id <= most; id++) {
        for (int64_t i = 0; i < count; i++) {
            if (ids[i] == id) {
                rows[put++] = (int32_t)i;
            }
        }
    }
    return rows;
}

static void pack_sequence(const struct packed *packed, int32_t *const arrays[4],
                          const struct reference_sequence *sequence, int64_t s, int64_t first) {
    memcpy(arrays[0] + first, sequence->ids, (size_t)sequence->length * sizeof(int32_t));
    memcpy(arrays[1] + first, sequence->type_ids, (size_t)sequence->length * sizeof(int32_t));
    for (int64_t i = 0; i < sequence->length; i++) {
        arrays[2][first + i] = (int32_t)i;
        arrays[3][first + i] = (int32_t)s;
    }
    packed->global_indices[s] = sequence->global_index;
}

static void pack_head(struct packed *packed) {
    struct batch *batch = &packed->batch;
    const int64_t rows = batch_round(batch->sequence_count + batch->masked_count);
    const int64_t numbers = 3 * rows + batch->sequence_count + 1 + batch->masked_count;
    packed->head = malloc((size_t)numbers * sizeof *packed->head);
    assert_non_null(packed->head);
    batch->head =
        (struct batch_head){.rows = packed->head,
                            .positions = packed->head + rows,
                            .sequences = packed->head + 2 * rows,
                            .cu_seqlens = packed->head + 3 * rows,
                            .masked_rows = packed->head + 3 * rows + batch->sequence_count + 1};
    batch_fill_head(batch);
}

struct packed *packed_new(const struct reference_sequence *sequences, int64_t count) {
    int64_t tokens = 0, longest = 0;
    for (int64_t s = 0; s < count; s++) {
        tokens += sequences[s].length;
        longest = sequences[s].length > longest ? sequences[s].length : longest;
    }
    const int64_t rows = batch_round(tokens);
    int64_t masked_count = 0;
    for (int64_t s = 0; s < count; s++) {
        masked_count += sequences[s].masked_count;
    }
    struct packed *packed = malloc(sizeof *packed);
    assert_non_null(packed);
    packed->numbers = calloc((size_t)(4 * rows + 4 * (count + 1)), sizeof(int32_t));
    packed->global_indices = calloc((size_t)count, sizeof(int64_t));
    packed->targets = calloc((size_t)count, sizeof(float));
    const int64_t width = sequences[0].label_target_count;
    packed->label_targets = calloc((size_t)(count * width) + 1, sizeof(float));
    packed->masked = calloc((size_t)(2 * masked_count) + 1, sizeof(int32_t));
    assert_true(packed->numbers && packed->global_indices && packed->targets &&
                packed->label_targets && packed->masked);
    int64_t masked = 0;
    int32_t *arrays[4];
    for (int i = 0; i < 4; i++) {
        arrays[i] = packed->numbers + i * rows;
    }
    int32_t *cu_seqlens = packed->numbers + 4 * rows;
    int32_t *starts = cu_seqlens + count + 1, *ends = starts + count, *labels = ends + count;
    for (int64_t r = tokens; r < rows; r++) {
        arrays[3][r] = -1;
    }
    for (int64_t s = 0; s < count; s++) {
        pack_sequence(packed, arrays, &sequences[s], s, cu_seqlens[s]);
        cu_seqlens[s + 1] = cu_seqlens[s] + (int32_t)sequences[s].length;
        starts[s] = sequences[s].start;
        ends[s] = sequences[s].end;
        labels[s] = sequences[s].label;
        packed->targets[s] = sequences[s].target;
        for (int64_t k = 0; k < width; k++) {
            packed->label_targets[s * width + k] = sequences[s].label_targets[k];
        }
        for (int64_t i = 0; i < sequences[s].masked_count; i++, masked++) {
            packed->masked[masked] = cu_seqlens[s] + sequences[s].masked_positions[i];
            packed->masked[masked_count + masked] = sequences[s].masked_labels[i];
        }
    }
    packed->word_rows = sorted_rows(arrays[0], tokens);
    packed->batch = (struct batch){
        .token_count = tokens,
        .row_count = rows,
        .sequence_count = count,
        .max_length = longest,
        .ids = arrays[0],
        .type_ids = arrays[1],
        .positions = arrays[2],
        .sequences = arrays[3],
        .word_rows = packed->word_rows,
        .cu_seqlens = cu_seqlens,
        .global_indices = packed->global_indices,
        .start_positions = starts,
        .end_positions = ends,
        .labels = labels,
        .targets = packed->targets,
        .label_targets = packed->label_targets,
        .masked_count = masked_count,
        .masked_rows = packed->masked,
        .masked_labels = packed->masked + masked_count,
    };
    pack_head(packed);
    return packed;
}

const struct batch *packed_batch(const struct packed *packed) {
    return &packed->batch;
}

void packed_weigh_masked(struct packed *packed, float weight) {
    packed->batch.masked_weight = weight;
}

void packed_free(struct packed *packed) {
    free(packed->numbers);
    free(packed->word_rows);
    free(packed->global_indices);
    free(packed->targets);
    free(packed->label_targets);
    free(packed->masked);
    free(packed->head);
    free(packed);
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
