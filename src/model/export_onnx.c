// SPDX-License-Identifier: Apache-2.0
// BERT's forward pass as a list of ONNX operators. Between the layers, activations are [batch *
// sequence, H], as linear layers need them. Gemm with transB reads a weight as it is in memory,
// [out, in], so no weight is transposed. Only attention uses [batch, heads, sequence, H / heads].
//
// The GELUs are written as the operator patterns that runtimes recognise and fuse.
#include "model/export_onnx.h"

#include "format/export/onnx_write.h"
#include "model/architectures.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define IR_VERSION 8 // version of the file format for opset 17
#define NAME_SIZE 128
#define NUMBERS_MAX 16

struct text {
    char s[NAME_SIZE];
};

struct building {
    struct onnx_graph graph;
    const struct bert_config *config;
    const struct param_table *table;
    char layer[16];                   // "layer.3.": prefix of the values' names
    const char *numbers[NUMBERS_MAX]; // names of constants that are numbers
    size_t number_count;
};

// --- names --------------------------------------------------------------------------------------

static void append(struct text *text, const char *more) {
    size_t used = strlen(text->s), length = strlen(more);
    assert(used + length < sizeof text->s); // the longest names are those of parameters (params.h)
    memcpy(text->s + used, more, length + 1);
}

static struct text join(const char *a, const char *b) {
    struct text text = {""};
    append(&text, a);
    append(&text, b);
    return text;
}

// The name of a value in the current layer.
static struct text local(const struct building *building, const char *name) {
    return join(building->layer, name);
}

// The name of a parameter of the current layer.
static struct text param_name(const struct building *building, const char *name) {
    struct text text = join("bert.encoder.", building->layer);
    append(&text, name);
    return text;
}

// --- nodes --------------------------------------------------------------------------------------

static void add(struct building *building, const char *operation, const char *a, const char *b,
                const char *to) {
    onnx_add_node(&building->graph,
                  &(struct onnx_node){.operation = operation, .inputs = {a, b}, .outputs = {to}});
}

static void add_with(struct building *building, const char *operation, const char *a,
                     const char *to, struct onnx_attribute attribute) {
    onnx_add_node(&building->graph, &(struct onnx_node){.operation = operation,
                                                        .inputs = {a},
                                                        .outputs = {to},
                                                        .attributes = {attribute}});
}

static struct onnx_attribute integer(const char *name, int64_t value) {
    return (struct onnx_attribute){.name = name, .kind = ONNX_INTEGER, .integer = value};
}

static void transpose(struct building *building, const char *from, const char *to,
                      const int64_t order[4]) {
    add_with(building, "Transpose", from, to,
             (struct onnx_attribute){
                 .name = "perm", .kind = ONNX_INTEGERS, .integers = order, .count = 4});
}

// from * weight' + bias, with the parameters PARAM.weight and PARAM.bias.
static void linear(struct building *building, const char *from, const char *param, const char *to) {
    struct text weight = join(param, ".weight"), bias = join(param, ".bias");
    onnx_add_node(&building->graph, &(struct onnx_node){.operation = "Gemm",
                                                        .inputs = {from, weight.s, bias.s},
                                                        .outputs = {to},
                                                        .attributes = {integer("transB", 1)}});
}

static void layer_norm(struct building *building, const char *from, const char *param,
                       const char *to) {
    struct text weight = join(param, ".weight"), bias = join(param, ".bias");
    struct onnx_attribute epsilon = {
        .name = "epsilon", .kind = ONNX_REAL, .real = (float)building->config->layer_norm_eps};
    onnx_add_node(&building->graph,
                  &(struct onnx_node){.operation = "LayerNormalization",
                                      .inputs = {from, weight.s, bias.s},
                                      .outputs = {to},
                                      .attributes = {integer("axis", -1), epsilon}});
}

// --- constants ----------------------------------------------------------------------------------

// A number is the same wherever it has this name, so it is added once.
static void add_number(struct building *building, const char *name, double value) {
    float number = (float)value;
    for (size_t i = 0; i < building->number_count; i++) {
        if (strcmp(building->numbers[i], name) == 0) {
            return;
        }
    }
    assert(building->number_count < NUMBERS_MAX);
    building->numbers[building->number_count++] = name;
    onnx_add_constant(&building->graph,
                      &(struct tensor_out){.name = name, .dtype = TENSOR_F32, .data = &number});
}

static void add_integers(struct building *building, const char *name, const int64_t *values,
                         int64_t count) {
    onnx_add_constant(
        &building->graph,
        &(struct tensor_out){
            .name = name, .dtype = TENSOR_I64, .rank = 1, .shape = {count}, .data = values});
}

// Constants that every model needs; activations and heads add their own.
static void add_constants(struct building *building) {
    const struct bert_config *config = building->config;
    int64_t width = config->hidden_size / config->num_attention_heads;
    add_number(building, "one", 1);
    add_number(building, "lowest", -FLT_MAX);
    add_number(building, "attention_scale", 1 / sqrt((double)width));
    add_integers(building, "zero", (int64_t[]){0}, 1);
    add_integers(building, "mask_axes", (int64_t[]){1, 2}, 2);
    add_integers(building, "rows", (int64_t[]){-1, config->hidden_size}, 2);
    if (config->first_position > 0) {
        add_integers(building, "first_position", &config->first_position, 1);
    }
    if (config->embedding_size > 0) {
        add_integers(building, "embedding_rows", (int64_t[]){-1, config->embedding_size}, 2);
    }
    add_integers(building, "head_shape", (int64_t[]){config->num_attention_heads, width}, 2);
}

static void add_weights(struct building *building, const float *buffer) {
    for (size_t i = 0; i < building->table->count; i++) {
        const struct param *param = &building->table->params[i];
        struct tensor_out tensor = {.name = param->name,
                                    .dtype = TENSOR_F32,
                                    .rank = param->rank,
                                    .shape = {param->rows, param->cols},
                                    .data = buffer + param->offset};
        if (param->rank == 1) {
            tensor.shape[0] = param->cols;
        }
        onnx_add_weight(&building->graph, &tensor);
    }
}

// --- before the layers --------------------------------------------------------------------------

// Whether the graph has an input of token types; without it, all have the first type, or none.
static int reads_types(const struct building *building) {
    return bert_architecture(building->config)->types_separate_pairs;
}

static int has_types(const struct building *building) {
    return building->config->type_vocab_size > 0;
}

// "hidden.0" [batch * sequence, H].
static void add_embeddings(struct building *building) {
    add(building, "Gather", "bert.embeddings.word_embeddings.weight", "input_ids", "words");
    if (has_types(building)) {
        add(building, "Gather", "bert.embeddings.token_type_embeddings.weight",
            reads_types(building) ? "token_type_ids" : "zero", "types");
    }
    // "positions" [sequence, E]: the table's rows from the first position.
    const int is_moved = building->config->first_position > 0;
    const char *first = is_moved ? "first_position" : "zero";
    if (is_moved) {
        add(building, "Add", "length", first, "last_position");
    }
    onnx_add_node(
        &building->graph,
        &(struct onnx_node){.operation = "Slice",
                            .inputs = {"bert.embeddings.position_embeddings.weight", first,
                                       is_moved ? "last_position" : "length", "zero"},
                            .outputs = {"positions"}});
    if (has_types(building)) {
        add(building, "Add", "words", "types", "words_and_types");
    }
    add(building, "Add", has_types(building) ? "words_and_types" : "words", "positions",
        "embedded");
    layer_norm(building, "embedded", "bert.embeddings.LayerNorm", "embeddings");
    if (building->config->embedding_size > 0) {
        add(building, "Reshape", "embeddings", "embedding_rows", "narrow");
        linear(building, "narrow", "bert.embeddings_project", "hidden.0");
    } else {
        add(building, "Reshape", "embeddings", "rows", "hidden.0");
    }
}

// --- layers --------------------------------------------------------------------------------------

// Projects hidden to `name` [batch, heads, ...]; `order` permutes the axes [batch, sequence, heads,
// H / heads].
static void add_projection(struct building *building, const char *hidden, const char *name,
                           const int64_t order[4]) {
    struct text param = param_name(building, "attention.self."), result = local(building, name);
    struct text rows = join(result.s, ".rows"), heads = join(result.s, ".heads");
    linear(building, hidden, join(param.s, name).s, rows.s);
    add(building, "Reshape", rows.s, "heads", heads.s);
    transpose(building, heads.s, result.s, order);
}

static void add_attention(struct building *building, const char *hidden, const char *to) {
    static const int64_t heads_first[4] = {0, 2, 1, 3}, turned[4] = {0, 2, 3, 1};
    add_projection(building, hidden, "query", heads_first);
    add_projection(building, hidden, "key", turned);
    add_projection(building, hidden, "value", heads_first);
    struct text query = local(building, "query"), key = local(building, "key");
    struct text value = local(building, "value"), products = local(building, "products");
    struct text scaled = local(building, "scaled"), scores = local(building, "scores");
    struct text shares = local(building, "shares"), mixed = local(building, "mixed");
    struct text merged = local(building, "merged"), context = local(building, "context");
    struct text param = param_name(building, "attention.output.dense");
    add(building, "MatMul", query.s, key.s, products.s);
    add(building, "Mul", products.s, "attention_scale", scaled.s);
    add(building, "Add", scaled.s, "mask_bias", scores.s);
    add_with(building, "Softmax", scores.s, shares.s, integer("axis", -1));
    add(building, "MatMul", shares.s, value.s, mixed.s);
    transpose(building, mixed.s, merged.s, heads_first);
    add(building, "Reshape", merged.s, "rows", context.s);
    linear(building, context.s, param.s, to);
}

// 1 + erf(x / sqrt(2))
static void add_erf_sum(struct building *building, const char *x, const char *to) {
    struct text divided = local(building, "gelu.divided"), erf = local(building, "gelu.erf");
    add(building, "Div", x, "sqrt_2", divided.s);
    add(building, "Erf", divided.s, NULL, erf.s);
    add(building, "Add", erf.s, "one", to);
}

// x / 2 * (1 + erf(x / sqrt(2)))
static void add_gelu_erf(struct building *building, const char *x, const char *to) {
    struct text sum = local(building, "gelu.sum"), product = local(building, "gelu.product");
    add_erf_sum(building, x, sum.s);
    add(building, "Mul", x, sum.s, product.s);
    add(building, "Mul", product.s, "half", to);
}

static void add_clip(struct building *building, const char *x, const char *lowest,
                     const char *highest, const char *to) {
    onnx_add_node(
        &building->graph,
        &(struct onnx_node){.operation = "Clip", .inputs = {x, lowest, highest}, .outputs = {to}});
}

// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
static void add_gelu_tanh(struct building *building, const char *x, const char *to) {
    struct text cube = local(building, "gelu.cube"), small = local(building, "gelu.small");
    struct text inner = local(building, "gelu.inner"), scaled = local(building, "gelu.scaled");
    struct text tanh = local(building, "gelu.tanh"), sum = local(building, "gelu.sum");
    struct text halved = local(building, "gelu.halved");
    add(building, "Pow", x, "three", cube.s);
    add(building, "Mul", cube.s, "gelu_cubic", small.s);
    add(building, "Add", x, small.s, inner.s);
    add(building, "Mul", inner.s, "gelu_scale", scaled.s);
    add(building, "Tanh", scaled.s, NULL, tanh.s);
    add(building, "Add", tanh.s, "one", sum.s);
    add(building, "Mul", x, "half", halved.s);
    add(building, "Mul", halved.s, sum.s, to);
}

static void add_gelu_clipped(struct building *building, const char *x, const char *to) {
    struct text whole = local(building, "gelu.whole");
    add_gelu_erf(building, x, whole.s);
    add_clip(building, whole.s, "act_lowest", "act_highest", to);
}

static void add_silu(struct building *building, const char *x, const char *to) {
    struct text sigmoid = local(building, "silu.sigmoid");
    add(building, "Sigmoid", x, NULL, sigmoid.s);
    add(building, "Mul", x, sigmoid.s, to);
}

static void add_gelu_quick(struct building *building, const char *x, const char *to) {
    struct text scaled = local(building, "gelu.scaled"), sigmoid = local(building, "gelu.sigmoid");
    add(building, "Mul", x, "gelu_slope", scaled.s);
    add(building, "Sigmoid", scaled.s, NULL, sigmoid.s);
    add(building, "Mul", x, sigmoid.s, to);
}

static void add_relu(struct building *building, const char *x, const char *to) {
    add(building, "Relu", x, NULL, to);
}

static void add_relu_squared(struct building *building, const char *x, const char *to) {
    struct text relu = local(building, "relu");
    add_relu(building, x, relu.s);
    add(building, "Mul", relu.s, relu.s, to);
}

static void add_relu6(struct building *building, const char *x, const char *to) {
    add_clip(building, x, "act_lowest", "act_highest", to);
}

static void add_relu_leaky(struct building *building, const char *x, const char *to) {
    struct onnx_attribute slope = {.name = "alpha", .kind = ONNX_REAL, .real = 0.01F};
    add_with(building, "LeakyRelu", x, to, slope);
}

static void add_hard_swish(struct building *building, const char *x, const char *to) {
    add(building, "HardSwish", x, NULL, to);
}

static void add_mish(struct building *building, const char *x, const char *to) {
    struct text softplus = local(building, "mish.softplus"), tanh = local(building, "mish.tanh");
    add(building, "Softplus", x, NULL, softplus.s);
    add(building, "Tanh", softplus.s, NULL, tanh.s);
    add(building, "Mul", x, tanh.s, to);
}

static void add_tanh(struct building *building, const char *x, const char *to) {
    add(building, "Tanh", x, NULL, to);
}

static void add_sigmoid(struct building *building, const char *x, const char *to) {
    add(building, "Sigmoid", x, NULL, to);
}

static void add_laplace(struct building *building, const char *x, const char *to) {
    struct text moved = local(building, "laplace.moved"), scaled = local(building, "laplace.x");
    struct text sum = local(building, "laplace.sum");
    add(building, "Sub", x, "laplace_mean", moved.s);
    add(building, "Div", moved.s, "laplace_deviation", scaled.s);
    add_erf_sum(building, scaled.s, sum.s);
    add(building, "Mul", sum.s, "half", to);
}

static void add_identity(struct building *building, const char *x, const char *to) {
    add(building, "Identity", x, NULL, to);
}

static void add_no_constants(struct building *building) {
    (void)building;
}

static void add_erf_constants(struct building *building) {
    add_number(building, "half", 0.5);
    add_number(building, "sqrt_2", sqrt(2));
}

static void add_tanh_constants(struct building *building) {
    add_number(building, "half", 0.5);
    add_number(building, "three", 3);
    add_number(building, "gelu_cubic", 0.044715);
    add_number(building, "gelu_scale", sqrt(2 / M_PI));
}

static void add_clipped_constants(struct building *building) {
    add_erf_constants(building);
    add_number(building, "act_lowest", -10);
    add_number(building, "act_highest", 10);
}

static void add_quick_constants(struct building *building) {
    add_number(building, "gelu_slope", 1.702);
}

static void add_relu6_constants(struct building *building) {
    add_number(building, "act_lowest", 0);
    add_number(building, "act_highest", 6);
}

static void add_laplace_constants(struct building *building) {
    add_erf_constants(building);
    add_number(building, "laplace_mean", 0.707107);
    add_number(building, "laplace_deviation", 0.282095);
}

static const struct activation_row {
    void (*add_constants)(struct building *building);
    void (*add)(struct building *building, const char *x, const char *to);
} activation_rows[ACTIVATION_COUNT] = {
    [ACTIVATION_GELU_ERF] = {add_erf_constants, add_gelu_erf},
    [ACTIVATION_GELU_TANH] = {add_tanh_constants, add_gelu_tanh},
    [ACTIVATION_GELU_CLIPPED] = {add_clipped_constants, add_gelu_clipped},
    [ACTIVATION_GELU_QUICK] = {add_quick_constants, add_gelu_quick},
    [ACTIVATION_RELU] = {add_no_constants, add_relu},
    [ACTIVATION_RELU_SQUARED] = {add_no_constants, add_relu_squared},
    [ACTIVATION_RELU6] = {add_relu6_constants, add_relu6},
    [ACTIVATION_RELU_LEAKY] = {add_no_constants, add_relu_leaky},
    [ACTIVATION_SILU] = {add_no_constants, add_silu},
    [ACTIVATION_HARD_SWISH] = {add_no_constants, add_hard_swish},
    [ACTIVATION_MISH] = {add_no_constants, add_mish},
    [ACTIVATION_TANH] = {add_no_constants, add_tanh},
    [ACTIVATION_SIGMOID] = {add_no_constants, add_sigmoid},
    [ACTIVATION_LAPLACE] = {add_laplace_constants, add_laplace},
    [ACTIVATION_LINEAR] = {add_no_constants, add_identity},
};

static void add_feed_forward(struct building *building, const char *from, const char *to) {
    struct text wide = local(building, "wide"), active = local(building, "active");
    linear(building, from, param_name(building, "intermediate.dense").s, wide.s);
    activation_rows[building->config->hidden_act].add(building, wide.s, active.s);
    linear(building, active.s, param_name(building, "output.dense").s, to);
}

static void add_layer(struct building *building, int64_t number) {
    char from[32], to[32];
    snprintf(building->layer, sizeof building->layer, "layer.%d.", (int)number);
    snprintf(from, sizeof from, "hidden.%d", (int)number);
    snprintf(to, sizeof to, "hidden.%d", (int)number + 1);
    struct text attended = local(building, "attended"), first = local(building, "attended.sum");
    struct text between = local(building, "between"), fed = local(building, "fed");
    struct text second = local(building, "fed.sum");
    add_attention(building, from, attended.s);
    add(building, "Add", attended.s, from, first.s);
    layer_norm(building, first.s, param_name(building, "attention.output.LayerNorm").s, between.s);
    add_feed_forward(building, between.s, fed.s);
    add(building, "Add", fed.s, between.s, second.s);
    layer_norm(building, second.s, param_name(building, "output.LayerNorm").s, to);
}

// --- heads --------------------------------------------------------------------------------------

// The activation of a head's layer need not be that of the layers.
static void add_activation(struct building *building, enum activation activation, const char *x,
                           const char *to) {
    activation_rows[activation].add_constants(building);
    activation_rows[activation].add(building, x, to);
}

static void add_span_logits(struct building *building, const char *hidden) {
    static const char *const names[2] = {"start_logits", "end_logits"};
    static const char *const columns[2] = {"start_column", "end_column"};
    add_integers(building, "one_each", (int64_t[]){1, 1}, 2);
    linear(building, hidden, "qa_outputs", "span_logits");
    onnx_add_node(&building->graph, &(struct onnx_node){.operation = "Split",
                                                        .inputs = {"span_logits", "one_each"},
                                                        .outputs = {columns[0], columns[1]},
                                                        .attributes = {integer("axis", 1)}});
    for (int i = 0; i < 2; i++) {
        add(building, "Reshape", columns[i], "shape", names[i]);
        onnx_add_output(&building->graph,
                        &(struct onnx_value){.name = names[i],
                                             .dtype = TENSOR_F32,
                                             .rank = 2,
                                             .shape = {{.name = "batch"}, {.name = "sequence"}}});
    }
}

// The size of a row, and the names of the constants that are made of it.
struct row_size {
    const char *size, *shape;
    int64_t columns;
};

// Reshapes rows to [batch, sequence, columns].
static void add_rows(struct building *building, const char *rows, const struct row_size *size,
                     const char *to) {
    add_integers(building, size->size, &size->columns, 1);
    onnx_add_node(&building->graph, &(struct onnx_node){.operation = "Concat",
                                                        .inputs = {"shape", size->size},
                                                        .outputs = {size->shape},
                                                        .attributes = {integer("axis", 0)}});
    add(building, "Reshape", rows, size->shape, to);
}

static void add_sequences(struct building *building, const char *hidden, const char *to) {
    const struct row_size size = {"hidden_size", "hidden_shape", building->config->hidden_size};
    add_rows(building, hidden, &size, to);
}

static void add_hidden_state(struct building *building, const char *hidden) {
    add_sequences(building, hidden, "last_hidden_state");
    onnx_add_output(&building->graph,
                    &(struct onnx_value){.name = "last_hidden_state",
                                         .dtype = TENSOR_F32,
                                         .rank = 3,
                                         .shape = {{.name = "batch"},
                                                   {.name = "sequence"},
                                                   {.size = building->config->hidden_size}}});
}

// Adds "logits" [batch, num_labels], from the first token of each sequence.
static void add_class_logits(struct building *building, const char *hidden) {
    const struct architecture *row = bert_architecture(building->config);
    add_sequences(building, hidden, "sequences");
    onnx_add_node(&building->graph, &(struct onnx_node){.operation = "Gather",
                                                        .inputs = {"sequences", "zero"},
                                                        .outputs = {"first_tokens"},
                                                        .attributes = {integer("axis", 1)}});
    add(building, "Reshape", "first_tokens", "rows", "first_rows");
    linear(building, "first_rows", row->class_dense, "pooler");
    add_activation(building, row->class_activation, "pooler", "pooled");
    linear(building, "pooled", row->class_output, "logits");
    onnx_add_output(
        &building->graph,
        &(struct onnx_value){.name = "logits",
                             .dtype = TENSOR_F32,
                             .rank = 2,
                             .shape = {{.name = "batch"}, {.size = building->config->num_labels}}});
}

// Adds "logits" [batch, sequence, columns] from those rows.
static void add_row_logits(struct building *building, const char *rows,
                           const struct row_size *size) {
    add_rows(building, rows, size, "logits");
    onnx_add_output(&building->graph, &(struct onnx_value){.name = "logits",
                                                           .dtype = TENSOR_F32,
                                                           .rank = 3,
                                                           .shape = {{.name = "batch"},
                                                                     {.name = "sequence"},
                                                                     {.size = size->columns}}});
}

static void add_token_logits(struct building *building, const char *hidden) {
    const struct row_size size = {"label_count", "logit_shape", building->config->num_labels};
    linear(building, hidden, "classifier", "token_logits");
    add_row_logits(building, "token_logits", &size);
}

static void add_word_logits(struct building *building, const char *hidden) {
    const struct row_size size = {"vocab_size", "words_shape", building->config->vocab_size};
    snprintf(building->layer, sizeof building->layer, "predictions.");
    linear(building, hidden, "cls.predictions.transform.dense", "predictions.wide");
    add_activation(building,
                   bert_architecture(building->config)->transform_is_gelu
                       ? ACTIVATION_GELU_ERF
                       : building->config->hidden_act,
                   "predictions.wide", "predictions.active");
    layer_norm(building, "predictions.active", "cls.predictions.transform.LayerNorm",
               "predictions.normed");
    onnx_add_node(&building->graph,
                  &(struct onnx_node){.operation = "Gemm",
                                      .inputs = {"predictions.normed",
                                                 "bert.embeddings.word_embeddings.weight",
                                                 "cls.predictions.bias"},
                                      .outputs = {"predictions.rows"},
                                      .attributes = {integer("transB", 1)}});
    add_row_logits(building, "predictions.rows", &size);
}

// What follows the last layer.
static void (*const head_rows[PARAM_HEADS])(struct building *building, const char *hidden) = {
    [PARAM_HEAD_NONE] = add_hidden_state,
    [PARAM_HEAD_SPAN] = add_span_logits,
    [PARAM_HEAD_CLASS] = add_class_logits,
    [PARAM_HEAD_TOKEN] = add_token_logits,
    [PARAM_HEAD_MASKED] = add_word_logits};

static void add_head(struct building *building) {
    char hidden[32];
    assert(head_rows[building->table->head] != NULL);
    snprintf(hidden, sizeof hidden, "hidden.%d", (int)building->config->num_hidden_layers);
    snprintf(building->layer, sizeof building->layer, "head.");
    head_rows[building->table->head](building, hidden);
}

// --- the graph ----------------------------------------------------------------------------------

enum berth_status export_onnx_write(const char *path, const struct bert_config *config,
                                    const struct param_table *table, const float *buffer,
                                    uint64_t file_limit, struct berth_error *error) {
    struct building building = {.config = config, .table = table};
    static const char *const names[] = {"input_ids", "attention_mask", "token_type_ids"};
    const size_t count = sizeof names / sizeof *names - !reads_types(&building);
    for (size_t i = 0; i < count; i++) {
        onnx_add_input(&building.graph,
                       &(struct onnx_value){.name = names[i],
                                            .dtype = TENSOR_I64,
                                            .rank = 2,
                                            .shape = {{.name = "batch"}, {.name = "sequence"}}});
    }
    add_constants(&building);
    activation_rows[config->hidden_act].add_constants(&building);
    add_weights(&building, buffer);
    // "shape": [batch, sequence]; "length": [sequence]; "heads": [batch, sequence, heads, H /
    // heads].
    add(&building, "Shape", "input_ids", NULL, "shape");
    add_with(&building, "Shape", "input_ids", "length", integer("start", 1));
    onnx_add_node(&building.graph, &(struct onnx_node){.operation = "Concat",
                                                       .inputs = {"shape", "head_shape"},
                                                       .outputs = {"heads"},
                                                       .attributes = {integer("axis", 0)}});
    // "mask_bias" [batch, 1, 1, sequence]: 0 for tokens, the lowest number for padding.
    add_with(&building, "Cast", "attention_mask", "mask", integer("to", 1)); // float
    add(&building, "Unsqueeze", "mask", "mask_axes", "mask_rows");
    add(&building, "Sub", "one", "mask_rows", "padding");
    add(&building, "Mul", "padding", "lowest", "mask_bias");
    add_embeddings(&building);
    for (int64_t i = 0; i < config->num_hidden_layers; i++) {
        add_layer(&building, i);
    }
    add_head(&building);
    struct onnx_model model = {.graph = &building.graph,
                               .name = bert_architecture(config)->type,
                               .ir_version = IR_VERSION,
                               .opset = EXPORT_ONNX_OPSET,
                               .file_limit = file_limit};
    enum berth_status status = onnx_write(path, &model, error);
    onnx_graph_done(&building.graph);
    return status;
}
