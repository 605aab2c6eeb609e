// SPDX-License-Identifier: Apache-2.0
// The layout of the parameter buffer, from two tables of rows: one for a layer, one for the rest.
//
// Initial values: normal(0, initializer_range) by the Box-Muller formula in double,
//   z0 = sqrt(-2 ln u0) cos(2 pi u1), z1 = sqrt(-2 ln u0) sin(2 pi u1), u = (word + 1/2) / 2^32,
// element i from draw i of the parameter's stream (two draws give a pair of values). So a value
// depends neither on threads nor on other parameters.
#include "model/params.h"

#include "core/check.h"
#include "core/memory.h"
#include "core/portable_math.h"
#include "core/rng.h"
#include "core/text_util.h"
#include "model/architectures.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SLICE_ALIGNMENT 64
#define NO_FIELD SIZE_MAX

enum size_letter { NOTHING, ONE, TWO, H, I, V, P, E, TYPES, LABELS };

struct layout_row {
    const char *name; // for a layer: the part after "bert.encoder.layer.N."; for a head that
                      // architectures name: the part after that name
    enum size_letter rows, cols;
    size_t field; // in struct param_layer or struct param_table, the int64_t for the offset;
                  // NO_FIELD: directly after the previous row, without a gap
};

#define LAYER(field) offsetof(struct param_layer, field)
#define TABLE(field) offsetof(struct param_table, field)

static const struct layout_row layer_matrices[] = {
    {"attention.self.query.weight", H, H, LAYER(qkv_weight)},
    {"attention.self.key.weight", H, H, NO_FIELD},
    {"attention.self.value.weight", H, H, NO_FIELD},
    {"attention.output.dense.weight", H, H, LAYER(attention_weight)},
    {"intermediate.dense.weight", I, H, LAYER(intermediate_weight)},
    {"output.dense.weight", H, I, LAYER(output_weight)},
};
static const struct layout_row span_matrices[] = {
    {"qa_outputs.weight", TWO, H, TABLE(head_weight)},
};
static const struct layout_row class_dense_matrix[] = {
    {".weight", H, H, TABLE(pooler_weight)},
};
static const struct layout_row class_output_matrix[] = {
    {".weight", LABELS, H, TABLE(head_weight)},
};
static const struct layout_row token_matrices[] = {
    {"classifier.weight", LABELS, H, TABLE(head_weight)},
};
static const struct layout_row pretraining_matrices[] = {
    {"bert.pooler.dense.weight", H, H, TABLE(pooler_weight)},
    {"cls.predictions.transform.dense.weight", E, H, TABLE(transform_weight)},
    {"cls.seq_relationship.weight", TWO, H, TABLE(head_weight)},
};
static const struct layout_row masked_matrices[] = {
    {"cls.predictions.transform.dense.weight", E, H, TABLE(transform_weight)},
};
static const struct layout_row word_table[] = {
    {"bert.embeddings.word_embeddings.weight", V, E, TABLE(word)},
};
static const struct layout_row position_table[] = {
    {"bert.embeddings.position_embeddings.weight", P, E, TABLE(position)},
};
static const struct layout_row type_table[] = {
    {"bert.embeddings.token_type_embeddings.weight", TYPES, E, TABLE(type)},
};
static const struct layout_row projection[] = {
    {"bert.embeddings_project.weight", H, E, TABLE(projection_weight)},
    {"bert.embeddings_project.bias", ONE, H, TABLE(projection_bias)},
};
static const struct layout_row embedding_vectors[] = {
    {"bert.embeddings.LayerNorm.weight", ONE, E, TABLE(embedding_norm_weight)},
    {"bert.embeddings.LayerNorm.bias", ONE, E, TABLE(embedding_norm_bias)},
};
static const struct layout_row layer_vectors[] = {
    {"attention.self.query.bias", ONE, H, LAYER(qkv_bias)},
    {"attention.self.key.bias", ONE, H, NO_FIELD},
    {"attention.self.value.bias", ONE, H, NO_FIELD},
    {"attention.output.dense.bias", ONE, H, LAYER(attention_bias)},
    {"attention.output.LayerNorm.weight", ONE, H, LAYER(attention_norm_weight)},
    {"attention.output.LayerNorm.bias", ONE, H, LAYER(attention_norm_bias)},
    {"intermediate.dense.bias", ONE, I, LAYER(intermediate_bias)},
    {"output.dense.bias", ONE, H, LAYER(output_bias)},
    {"output.LayerNorm.weight", ONE, H, LAYER(output_norm_weight)},
    {"output.LayerNorm.bias", ONE, H, LAYER(output_norm_bias)},
};
static const struct layout_row pre_norm_vectors[] = {
    {"PreAttentionLayerNorm.weight", ONE, H, LAYER(input_norm_weight)},
    {"PreAttentionLayerNorm.bias", ONE, H, LAYER(input_norm_bias)},
    {"attention.self.query.bias", ONE, H, LAYER(qkv_bias)},
    {"attention.self.key.bias", ONE, H, NO_FIELD},
    {"attention.self.value.bias", ONE, H, NO_FIELD},
    {"attention.output.dense.bias", ONE, H, LAYER(attention_bias)},
    {"PostAttentionLayerNorm.weight", ONE, H, LAYER(attention_norm_weight)},
    {"PostAttentionLayerNorm.bias", ONE, H, LAYER(attention_norm_bias)},
    {"intermediate.dense.bias", ONE, I, LAYER(intermediate_bias)},
    {"output.dense.bias", ONE, H, LAYER(output_bias)},
};
// The last layer's output norm.
static const struct layout_row final_norm_vectors[] = {
    {"bert.encoder.FinalLayerNorm.weight", ONE, H, LAYER(output_norm_weight)},
    {"bert.encoder.FinalLayerNorm.bias", ONE, H, LAYER(output_norm_bias)},
};
static const struct layout_row span_vectors[] = {
    {"qa_outputs.bias", ONE, TWO, TABLE(head_bias)},
};
static const struct layout_row class_dense_vector[] = {
    {".bias", ONE, H, TABLE(pooler_bias)},
};
static const struct layout_row class_output_vector[] = {
    {".bias", ONE, LABELS, TABLE(head_bias)},
};
static const struct layout_row token_vectors[] = {
    {"classifier.bias", ONE, LABELS, TABLE(head_bias)},
};
static const struct layout_row pretraining_vectors[] = {
    {"bert.pooler.dense.bias", ONE, H, TABLE(pooler_bias)},
    {"cls.predictions.transform.dense.bias", ONE, E, TABLE(transform_bias)},
    {"cls.predictions.transform.LayerNorm.weight", ONE, E, TABLE(transform_norm_weight)},
    {"cls.predictions.transform.LayerNorm.bias", ONE, E, TABLE(transform_norm_bias)},
    {"cls.predictions.bias", ONE, V, TABLE(decoder_bias)},
    {"cls.seq_relationship.bias", ONE, TWO, TABLE(head_bias)},
};
static const struct layout_row masked_vectors[] = {
    {"cls.predictions.transform.dense.bias", ONE, E, TABLE(transform_bias)},
    {"cls.predictions.transform.LayerNorm.weight", ONE, E, TABLE(transform_norm_weight)},
    {"cls.predictions.transform.LayerNorm.bias", ONE, E, TABLE(transform_norm_bias)},
    {"cls.predictions.bias", ONE, V, TABLE(decoder_bias)},
};

#define LENGTH(array) (sizeof(array) / sizeof *(array))
#define CLASS_ROWS 4 // of the head for classes

static const struct head_layout {
    struct param_head_row row;
    const struct layout_row *matrices, *vectors;
    size_t matrix_count, vector_count;
    int decodes; // 1: the word table is the decoder's matrix
    enum size_letter outputs;
} head_layouts[PARAM_HEADS] = {
    [PARAM_HEAD_NONE] = {.row = {"BertModel", "an encoder", NULL, NULL}, .outputs = H},
    [PARAM_HEAD_SPAN] = {.row = {"BertForQuestionAnswering", "a span model", "qa_outputs",
                                 "berth finetune squad"},
                         .matrices = span_matrices,
                         .vectors = span_vectors,
                         .matrix_count = LENGTH(span_matrices),
                         .vector_count = LENGTH(span_vectors),
                         .outputs = TWO},
    [PARAM_HEAD_CLASS] = {.row = {"BertForSequenceClassification", "a classifier", "classifier",
                                  "berth finetune classify"},
                          .outputs = LABELS}, // the architecture names the two layers
    [PARAM_HEAD_TOKEN] = {.row = {"BertForTokenClassification", "a token classifier", "classifier",
                                  "berth finetune tokens"},
                          .matrices = token_matrices,
                          .vectors = token_vectors,
                          .matrix_count = LENGTH(token_matrices),
                          .vector_count = LENGTH(token_vectors),
                          .outputs = LABELS},
    [PARAM_HEAD_PRETRAINING] = {.row = {"BertForPreTraining", "a pre-training model", "cls",
                                        "berth pretrain"},
                                .matrices = pretraining_matrices,
                                .vectors = pretraining_vectors,
                                .matrix_count = LENGTH(pretraining_matrices),
                                .vector_count = LENGTH(pretraining_vectors),
                                .decodes = 1,
                                .outputs = TWO},
    [PARAM_HEAD_MASKED] = {.row = {"BertForMaskedLM", "a masked language model", "cls",
                                   "berth pretrain --objective mlm"},
                           .matrices = masked_matrices,
                           .vectors = masked_vectors,
                           .matrix_count = LENGTH(masked_matrices),
                           .vector_count = LENGTH(masked_vectors),
                           .decodes = 1,
                           .outputs = NOTHING},
    [PARAM_HEAD_EMBEDDING] = {.row = {"BertModel", "a model of embeddings", "the pooling", NULL},
                              .outputs = H},
};

const struct param_head_row *param_head_row(enum param_head head) {
    return &head_layouts[head].row;
}

static int64_t size_of(const struct bert_config *config, enum size_letter letter) {
    const int64_t sizes[] = {[NOTHING] = 0,
                             [ONE] = 1,
                             [TWO] = 2,
                             [H] = config->hidden_size,
                             [I] = config->intermediate_size,
                             [V] = config->vocab_size,
                             [P] = config->max_position_embeddings,
                             [E] = bert_embedding_size(config),
                             [TYPES] = config->type_vocab_size,
                             [LABELS] = config->num_labels};
    return sizes[letter];
}

int64_t param_head_outputs(enum param_head head, const struct bert_config *config) {
    return size_of(config, head_layouts[head].outputs);
}

double param_head_dropout(enum param_head head, const struct bert_config *config, double hidden) {
    const int is_of_texts = bert_architecture(config)->class_dropout_is_of_texts;
    const double own = config->classifier_dropout;
    return head == PARAM_HEAD_SPAN                                ? config->span_dropout
           : own < 0 || (is_of_texts && head != PARAM_HEAD_CLASS) ? hidden
                                                                  : own;
}

int param_head_drops_input(enum param_head head, const struct bert_config *config) {
    return head == PARAM_HEAD_TOKEN ||
           (head == PARAM_HEAD_SPAN && bert_architecture(config)->span_dropout_key != NULL);
}

int param_head_decodes(enum param_head head) {
    return head_layouts[head].decodes;
}

static int64_t align(int64_t offset) {
    return (offset + SLICE_ALIGNMENT - 1) / SLICE_ALIGNMENT * SLICE_ALIGNMENT;
}

// Appends the rows; `fields` is the struct that contains their fields. bert_config's limits keep
// every product and sum within int64_t.
static void add_rows(struct param_table *table, const struct bert_config *config,
                     const struct layout_row *rows, size_t count, const char *prefix,
                     void *fields) {
    for (size_t i = 0; i < count; i++) {
        struct param *param = &table->params[table->count++];
        snprintf(param->name, sizeof param->name, "%s%s", prefix, rows[i].name);
        param->rows = size_of(config, rows[i].rows);
        param->cols = size_of(config, rows[i].cols);
        param->rank = rows[i].rows == ONE ? 1 : 2;
        if (rows[i].field != NO_FIELD) {
            table->total = align(table->total);
            memcpy((char *)fields + rows[i].field, &table->total, sizeof table->total);
        }
        param->offset = table->total;
        table->total += param->rows * param->cols;
        table->parameter_count += param->rows * param->cols;
    }
}

static void add_layers(struct param_table *table, const struct bert_config *config,
                       const struct layout_row *rows, size_t count) {
    for (int64_t layer = 0; layer < config->num_hidden_layers; layer++) {
        char prefix[48];
        snprintf(prefix, sizeof prefix, "bert.encoder.layer.%lld.", (long long)layer);
        add_rows(table, config, rows, count, prefix, &table->layers[layer]);
    }
}

static void add_layer_vectors(struct param_table *table, const struct bert_config *config) {
    const int64_t last = config->num_hidden_layers - 1;
    if (!config->pre_layer_norm) {
        add_layers(table, config, layer_vectors, LENGTH(layer_vectors));
        return;
    }
    add_layers(table, config, pre_norm_vectors, LENGTH(pre_norm_vectors));
    for (int64_t layer = 0; layer < last; layer++) {
        table->layers[layer].output_norm_weight = table->layers[layer + 1].input_norm_weight;
        table->layers[layer].output_norm_bias = table->layers[layer + 1].input_norm_bias;
    }
    add_rows(table, config, final_norm_vectors, LENGTH(final_norm_vectors), "",
             &table->layers[last]);
}

// The head's matrices, or its vectors. The head for classes has two layers, which the architecture
// names.
static void add_head(struct param_table *table, const struct bert_config *config,
                     const struct layout_row *rows, size_t count, int is_matrix) {
    const struct architecture *row = bert_architecture(config);
    if (table->head == PARAM_HEAD_CLASS) {
        add_rows(table, config, is_matrix ? class_dense_matrix : class_dense_vector, 1,
                 row->class_dense, table);
        add_rows(table, config, is_matrix ? class_output_matrix : class_output_vector, 1,
                 row->class_output, table);
    } else {
        add_rows(table, config, rows, count, "", table);
    }
}

static const struct param_table empty = {.head_weight = -1,
                                         .head_bias = -1,
                                         .projection_weight = -1,
                                         .projection_bias = -1,
                                         .pooler_weight = -1,
                                         .pooler_bias = -1,
                                         .transform_weight = -1,
                                         .transform_bias = -1,
                                         .transform_norm_weight = -1,
                                         .transform_norm_bias = -1,
                                         .decoder_bias = -1};

enum berth_status param_table_init(struct param_table *table, const struct bert_config *config,
                                   enum param_head head, struct berth_error *error) {
    const struct head_layout *layout = &head_layouts[head];
    size_t layers = (size_t)config->num_hidden_layers;
    size_t capacity = layers * (LENGTH(layer_matrices) + LENGTH(layer_vectors)) +
                      LENGTH(final_norm_vectors) + LENGTH(position_table) + LENGTH(type_table) +
                      LENGTH(projection) + LENGTH(embedding_vectors) + LENGTH(word_table) +
                      CLASS_ROWS + layout->matrix_count + layout->vector_count;
    *table = empty;
    const struct architecture *row = bert_architecture(config);
    if (head == PARAM_HEAD_PRETRAINING && !row->compares_sentences) {
        return error_set(error, BERTH_CONFIG,
                         "%s has no head for the next sentence, which this pre-training needs; "
                         "train it with `berth pretrain --objective mlm`",
                         row->title);
    }
    table->architecture = bert_architecture(config);
    table->head = head;
    table->layer_count = config->num_hidden_layers;
    table->params = memory_array_zeroed(capacity, sizeof *table->params);
    table->layers = memory_array_zeroed(layers, sizeof *table->layers);
    if (table->params == NULL || table->layers == NULL) {
        param_table_done(table);
        return error_no_memory(error, capacity * sizeof *table->params, "the parameter table");
    }
    add_layers(table, config, layer_matrices, LENGTH(layer_matrices));
    table->head_first = table->total = align(table->total);
    add_head(table, config, layout->matrices, layout->matrix_count, 1);
    if (layout->decodes) {
        add_rows(table, config, word_table, LENGTH(word_table), "", table);
    }
    table->matrix_count = table->total = align(table->total);
    if (!layout->decodes) {
        add_rows(table, config, word_table, LENGTH(word_table), "", table);
    }
    add_rows(table, config, position_table, LENGTH(position_table), "", table);
    // Without token types, all tokens read one row of zeros, which is a gap of the buffer.
    if (config->type_vocab_size > 0) {
        add_rows(table, config, type_table, LENGTH(type_table), "", table);
    } else {
        table->type = table->total = align(table->total);
        table->total += bert_embedding_size(config);
    }
    if (config->embedding_size > 0) {
        add_rows(table, config, projection, LENGTH(projection), "", table);
    }
    add_rows(table, config, embedding_vectors, LENGTH(embedding_vectors), "", table);
    add_layer_vectors(table, config);
    add_head(table, config, layout->vectors, layout->vector_count, 0);
    table->total = align(table->total);
    assert(table->count <= capacity);
    return BERTH_OK;
}

struct param_table param_table_of_encoder(const struct param_table *whole) {
    struct param_table table = *whole;
    table.head = PARAM_HEAD_EMBEDDING;
    table.pooler_weight = table.pooler_bias = table.head_weight = table.head_bias = -1;
    table.transform_weight = table.transform_bias = -1;
    table.transform_norm_weight = table.transform_norm_bias = table.decoder_bias = -1;
    return table;
}

void param_table_done(struct param_table *table) {
    memory_free(table->params);
    memory_free(table->layers);
    *table = empty;
}

static const char *check_slices(const struct param_table *table) {
    int64_t end = 0, parameters = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct param *param = &table->params[i];
        CLAUSE(param->offset >= end, "parameters are in the order of the buffer, without overlap");
        CLAUSE(param->offset == end || param->offset % SLICE_ALIGNMENT == 0,
               "a parameter follows the one before it, or begins at a multiple of 64");
        CLAUSE(param->rank == 2 || param->rows == 1, "a vector has one row");
        end = param->offset + param->rows * param->cols;
        parameters += param->rows * param->cols;
    }
    CLAUSE(end <= table->total, "the parameters are inside the buffer");
    CLAUSE(parameters == table->parameter_count, "parameter_count is the elements without gaps");
    return NULL;
}

static const char *check_layers(const struct param_table *table) {
    int64_t first = 0;
    for (int64_t i = 0; i < table->layer_count; i++) {
        const struct param_layer *layer = &table->layers[i];
        CLAUSE(layer->qkv_weight == first || i > 0, "the matrices of layer 0 come first");
        CLAUSE(layer->qkv_weight >= first && layer->attention_weight > layer->qkv_weight &&
                   layer->intermediate_weight > layer->attention_weight &&
                   layer->output_weight > layer->intermediate_weight,
               "matrices are in the order of the layers");
        CLAUSE(layer->qkv_bias >= table->matrix_count && layer->output_bias >= table->matrix_count,
               "the vectors of layers follow all matrices");
        first = layer->output_weight;
    }
    CLAUSE(table->layer_count == 0 || first < table->head_first,
           "the head's matrices follow those of the layers");
    return NULL;
}

const char *param_table_check(const struct param_table *table) {
    CLAUSE(table->architecture != NULL, "a table is of an architecture");
    CLAUSE((unsigned)table->head < PARAM_HEADS, "the head is one of enum param_head");
    CLAUSE(align(table->total) == table->total && align(table->matrix_count) == table->matrix_count,
           "buffer and matrices end at multiples of 64");
    CLAUSE(table->head_first <= table->matrix_count && table->matrix_count <= table->total,
           "the head's matrices are among the matrices, and these in the buffer");
    CLAUSE(table->head_weight < table->matrix_count && table->pooler_weight < table->matrix_count &&
               table->transform_weight < table->matrix_count,
           "the head's weights are matrices");
    CLAUSE(table->decoder_bias < 0 || table->word < table->matrix_count,
           "the word table of a decoder is a matrix");
    const char *broken = check_slices(table);
    return broken == NULL ? check_layers(table) : broken;
}

size_t param_range_count(const struct param_table *table) {
    return (size_t)table->layer_count + 2;
}

struct param_range param_range(const struct param_table *table, size_t index) {
    const size_t layers = (size_t)table->layer_count;
    // The word table follows the head's matrices if it is the decoder.
    const int64_t rest = table->decoder_bias >= 0 ? table->word : table->matrix_count;
    const int64_t first = index < layers    ? table->layers[index].qkv_weight
                          : index == layers ? table->head_first
                                            : rest;
    const int64_t end = index + 1 < layers    ? table->layers[index + 1].qkv_weight
                        : index + 1 == layers ? table->head_first
                        : index == layers     ? rest
                                              : table->total;
    return (struct param_range){first, end - first};
}

void param_table_renew_head(struct param_table *table) {
    for (size_t i = 0; i < table->count; i++) {
        int64_t offset = table->params[i].offset;
        table->params[i].fresh = offset == table->head_weight || offset == table->head_bias;
    }
}

void param_table_keep_head(struct param_table *table) {
    for (size_t i = 0; i < table->count; i++) {
        table->params[i].fresh = 0;
    }
}

int64_t param_layer_of(const char *name, const char **rest) {
    int layer, length = 0;
    if (sscanf(name, "bert.encoder.layer.%d.%n", &layer, &length) != 1 || length == 0) {
        return -1;
    }
    if (rest != NULL) {
        *rest = name + length;
    }
    return layer;
}

int param_is_body(const struct param *param) {
    return strncmp(param->name, "bert.", 5) == 0 && strncmp(param->name, "bert.pooler.", 12) != 0;
}

const struct param *param_table_find(const struct param_table *table, const char *name) {
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->params[i].name, name) == 0) {
            return &table->params[i];
        }
    }
    return NULL;
}

// Elements [first, first + 2) of a stream of standard normal values.
static void normal_pair(uint64_t seed, uint32_t stream, uint64_t first, double pair[2]) {
    uint64_t index = first;
    double u0 = (rng_draw(seed, stream, &index) + 0.5) * 0x1p-32;
    double u1 = (rng_draw(seed, stream, &index) + 0.5) * 0x1p-32;
    double radius = sqrt(-2.0 * math_log(u0));
    pair[0] = radius * math_cosine_pi(2.0 * u1);
    pair[1] = radius * math_sine_pi(2.0 * u1);
}

// Normal values within two standard deviations. A pair with a value beyond them is redrawn from a
// position of the stream at which no other pair starts, so each value depends only on its position.
static void truncated_pair(uint64_t seed, uint32_t stream, uint64_t first, double pair[2]) {
    const double limit = 2;
    normal_pair(seed, stream, first, pair);
    for (uint64_t again = 1; fabs(pair[0]) > limit || fabs(pair[1]) > limit; again++) {
        normal_pair(seed, stream, first + (again << 48), pair);
    }
}

struct normal {
    double deviation;
    uint64_t seed;
    uint32_t stream;
    void (*draw)(uint64_t seed, uint32_t stream, uint64_t first, double pair[2]);
};

static void fill_normal(float *to, int64_t count, const struct normal *normal, int threads) {
#pragma omp parallel for num_threads(threads)
    for (int64_t i = 0; i < count; i += 2) {
        double pair[2];
        normal->draw(normal->seed, normal->stream, (uint64_t)i, pair);
        to[i] = (float)(normal->deviation * pair[0]);
        if (i + 1 < count) {
            to[i + 1] = (float)(normal->deviation * pair[1]);
        }
    }
}

// The sub-layers' last matrices, which add to the residual stream 2 L times, start smaller in a
// pre-layer-norm model, because it does not normalise the stream.
static double deviation(const struct param *param, const struct bert_config *config) {
    double range = config->initializer_range;
    return config->pre_layer_norm && text_ends_with(param->name, ".output.dense.weight")
               ? range / sqrt(2.0 * (double)config->num_hidden_layers)
               : range;
}

void param_initialise_one(const struct param *param, const struct bert_config *config,
                          uint64_t seed, float *to, int threads) {
    int64_t count = param->rows * param->cols;
    if (param->rank == 2) {
        // FNV-1a, 32 bits: the stream of a parameter's initial values.
        const char *name = param->name;
        uint32_t hash = 2166136261u;
        for (; *name != '\0'; name++) {
            hash = (hash ^ (unsigned char)*name) * 16777619u;
        }
        const struct normal normal = {.deviation = deviation(param, config),
                                      .seed = seed,
                                      .stream = hash,
                                      .draw = config->truncated_initializer ? truncated_pair
                                                                            : normal_pair};
        fill_normal(to, count, &normal, threads);
    } else {
        float value = text_ends_with(param->name, "LayerNorm.weight") ? 1.0f : 0.0f;
        for (int64_t i = 0; i < count; i++) {
            to[i] = value;
        }
    }
    if (text_ends_with(param->name, "word_embeddings.weight")) {
        memset(to + config->pad_token_id * param->cols, 0, (size_t)param->cols * sizeof *to);
    }
}

void param_initialise(const struct param_table *table, const struct bert_config *config,
                      uint64_t seed, float *buffer, int threads) {
    memset(buffer, 0, (size_t)table->total * sizeof *buffer);
    for (size_t i = 0; i < table->count; i++) {
        param_initialise_one(&table->params[i], config, seed, buffer + table->params[i].offset,
                             threads);
    }
}

enum berth_status param_initialise_into(const struct param_table *table,
                                        const struct bert_config *config, uint64_t seed,
                                        const struct param_sink *sink, struct berth_error *error) {
    for (size_t i = 0; i < table->count; i++) {
        const struct param *param = &table->params[i];
        float *values = sink->begin(sink->context, param);
        if (values == NULL) {
            return error_no_memory(error, (size_t)(param->rows * param->cols) * sizeof *values,
                                   param->name);
        }
        param_initialise_one(param, config, seed, values, sink->threads);
        TRY(sink->end(sink->context, param, values, error));
    }
    return BERTH_OK;
}

static float *begin_in_buffer(void *buffer, const struct param *param) {
    return (float *)buffer + param->offset;
}

static enum berth_status end_in_buffer(void *buffer, const struct param *param, float *values,
                                       struct berth_error *error) {
    (void)buffer;
    (void)param;
    (void)values;
    (void)error;
    return BERTH_OK;
}

struct param_sink param_sink_of(float *buffer, int threads) {
    return (struct param_sink){begin_in_buffer, end_in_buffer, NULL, buffer, threads};
}
