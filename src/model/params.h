// SPDX-License-Identifier: Apache-2.0
// The parameter table: one flat buffer with named slices. Weights, gradients, both moments and the
// compute copy all have this layout, so clipping, the optimizer and checkpoints are loops over
// ranges.
//
// Order of the buffer: [matrices of linear layers][embedding tables][biases and layer norms].
// Matrix products read [0, matrix_count); the compute copy (bf16) covers only these. The matrices
// include the weights of pooler and head, and the word table if it is also the decoder's matrix.
// Every slice starts at a multiple of 64 elements; the gaps and their gradients are always zero.
// Query, key and value of a layer are adjacent without a gap: three names on disk, one [3H, H]
// slice in compute.
#ifndef BERTH_MODEL_PARAMS_H
#define BERTH_MODEL_PARAMS_H

#include "core/error.h"
#include "model/config.h"

#include <stddef.h>
#include <stdint.h>

// The head on top of the encoder: none; the pooled rows of each sequence, without weights;
// "qa_outputs" on each token; the two layers that the architecture has for classes (BERT: pooler
// and "classifier") on the first token of each sequence; "classifier" on each token; pooler and
// "cls.seq_relationship" on the first token together with "cls.predictions" on the masked tokens,
// whose decoder is the word table; "cls.predictions" alone.
enum param_head {
    PARAM_HEAD_NONE,
    PARAM_HEAD_SPAN,
    PARAM_HEAD_CLASS,
    PARAM_HEAD_TOKEN,
    PARAM_HEAD_PRETRAINING,
    PARAM_HEAD_MASKED,
    PARAM_HEAD_EMBEDDING,
    PARAM_HEADS
};

struct param {
    // "bert.encoder.layer.0.attention.self.query.weight": Hugging Face's for BERT; files have the
    // architecture's names (name_for_architecture)
    char name[96];
    int64_t offset; // elements
    int rank;       // 1 or 2
    int64_t rows;   // 1 for vectors
    int64_t cols;
    int fresh; // 1: always initialised randomly, even if a file has a tensor of this name
};

struct param_layer {             // offsets in elements
    int64_t qkv_weight;          // [3H, H]
    int64_t attention_weight;    // [H, H]
    int64_t intermediate_weight; // [I, H]
    int64_t output_weight;       // [H, I]
    int64_t qkv_bias, attention_bias, intermediate_bias, output_bias;
    // The norms that follow the sums of residual stream and sub-layer. In a pre-layer-norm model
    // the norm after the output is the next layer's first one, or the final one.
    int64_t attention_norm_weight, attention_norm_bias, output_norm_weight, output_norm_bias;
    int64_t input_norm_weight, input_norm_bias; // only in a pre-layer-norm model
};

// What is not trained: the lowest layers, and the embeddings with their norm.
struct param_frozen {
    int64_t layers;
    int embeddings;
};

// Made by param_table_init from the configuration and the head, and the same on every rank. Nobody
// changes it afterwards, except `fresh`, until param_table_done. Model, optimizer and checkpoints
// rely on what param_table_check says: the places of the slices, and that the gaps are nobody's.
struct param_table {
    const struct architecture *architecture; // whose names files have (names.h)
    struct param *params;
    size_t count;
    int64_t total;        // elements of a buffer, including gaps
    int64_t matrix_count; // end of the matrices; see above
    int64_t layer_count;
    int64_t head_first;      // end of the layers' matrices and start of the head's
    int64_t parameter_count; // elements without the gaps
    int64_t word, position, type, embedding_norm_weight, embedding_norm_bias; // offsets
    int64_t projection_weight, projection_bias; // [H, E], [H]; -1 if embeddings have H columns
    struct param_layer *layers;
    enum param_head head;
    // [H, H], [H]: the pooler, or the dense layer of a head for classes; -1: none
    int64_t pooler_weight, pooler_bias;
    int64_t head_weight, head_bias; // [outputs, H], [outputs]; -1 without outputs
    // For a head that decodes, else -1: [E, H], [E]; its layer norm; the decoder's bias [V].
    int64_t transform_weight, transform_bias, transform_norm_weight, transform_norm_bias;
    int64_t decoder_bias;
};

// Names and counts of a head's parameters; one row per head in params.c.
struct param_head_row {
    const char *architecture; // Hugging Face's class, for config.json
    const char *title;        // for messages: "a span model"
    const char *name;         // of the last linear layer: "qa_outputs"; NULL: none
    const char *trained_by;   // the command that trains it, for messages; NULL: it has no weights
};
const struct param_head_row *param_head_row(enum param_head head);
// The number of outputs per token (span: 2, token: num_labels) or per sequence (class: num_labels,
// pre-training: 2, masked: 0, embedding: H); H without a head.
int64_t param_head_outputs(enum param_head head, const struct bert_config *config);
// The dropout before the last layer of a head; `hidden` is that of the encoder's layers.
double param_head_dropout(enum param_head head, const struct bert_config *config, double hidden);
// 1 for a head on each token that has this dropout.
int param_head_drops_input(enum param_head head, const struct bert_config *config);
// 1 for the heads with "cls.predictions", which predict masked tokens.
int param_head_decodes(enum param_head head);

// The layer of a parameter by its name; -1: it is of no layer. *rest (may be NULL): the part of the
// name after "bert.encoder.layer.N.", unchanged for -1.
int64_t param_layer_of(const char *name, const char **rest);

// 1 for the embeddings and the encoder; 0 for pooler and head, which a checkpoint may lack.
int param_is_body(const struct param *param);

// BERTH_CONFIG if the architecture does not have the head.
enum berth_status param_table_init(struct param_table *table, const struct bert_config *config,
                                   enum param_head head, struct berth_error *error);
void param_table_done(struct param_table *table);
// NULL, or what is not true of a table (core/check.h).
const char *param_table_check(const struct param_table *table);
// The table `whole` without its head: what an encoder reads of a buffer that another model fills.
// The result borrows from `whole`.
struct param_table param_table_of_encoder(const struct param_table *whole);
// The ranges of the gradient that become final together, in the order of the buffer: the matrices
// of each layer, those of the head, then everything else. They cover the whole buffer.
struct param_range {
    int64_t first, count; // elements
};
size_t param_range_count(const struct param_table *table);
struct param_range param_range(const struct param_table *table, size_t index);

// Marks the head's last layer as fresh, because that of the checkpoint is for another task.
void param_table_renew_head(struct param_table *table);
// Marks the head's weights as read from the file, like the others.
void param_table_keep_head(struct param_table *table);
const struct param *param_table_find(const struct param_table *table, const char *name);

// Receives the values of parameters, one parameter at a time in the order of the table, so that no
// memory for all of them is needed.
struct weights;
struct weight;
struct param_sink {
    // Memory of the host for the values [rows * cols]; NULL: out of memory.
    float *(*begin)(void *context, const struct param *param);
    // The values are complete. Not called if an error occurred since `begin`.
    enum berth_status (*end)(void *context, const struct param *param, float *values,
                             struct berth_error *error);
    // Uses the integers of a weight in its file in place of values; 0: the values are needed. NULL:
    // they always are.
    int (*take)(void *context, const struct param *param, const struct weights *weights,
                const struct weight *weight);
    void *context;
    int threads; // that make initial values; at least 1
};
// A sink that writes to buffer[table->total] and leaves its gaps unchanged.
struct param_sink param_sink_of(float *buffer, int threads);

// Initialises one parameter as Hugging Face does: normal(0, initializer_range) for matrices and
// tables, 0 for biases, 1 for layer-norm weights, 0 for the word table's row of pad_token_id. In a
// pre-layer-norm model, attention.output.dense and output.dense have deviation initializer_range /
// sqrt(2 L), as in BingBert. With config->truncated_initializer, values beyond two deviations are
// redrawn, as Google does. Each parameter has its own random stream (the hash of its name), so
// `threads` changes no value.
void param_initialise_one(const struct param *param, const struct bert_config *config,
                          uint64_t seed, float *values, int threads);
// Initialises all parameters; the gaps become 0.
void param_initialise(const struct param_table *table, const struct bert_config *config,
                      uint64_t seed, float *buffer, int threads);
// The same into a sink.
enum berth_status param_initialise_into(const struct param_table *table,
                                        const struct bert_config *config, uint64_t seed,
                                        const struct param_sink *sink, struct berth_error *error);

#endif
