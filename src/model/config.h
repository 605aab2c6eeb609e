// SPDX-License-Identifier: Apache-2.0
// The shape of a BERT: config.json in Hugging Face's or Google's spelling.
#ifndef BERTH_MODEL_CONFIG_H
#define BERTH_MODEL_CONFIG_H

#include "core/device.h"
#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

struct json_t; // format/json/json.h

// What the outputs of a classifier mean, and with them its loss.
enum bert_problem {
    BERT_CLASSES,    // one of num_labels: softmax and cross entropy
    BERT_REGRESSION, // a number: squared error
    BERT_LABELS      // any of num_labels: a sigmoid for each
};

struct bert_config {
    int64_t vocab_size;              // V
    int64_t hidden_size;             // H
    int64_t num_hidden_layers;       // L
    int64_t num_attention_heads;     // A
    int64_t intermediate_size;       // I
    int64_t max_position_embeddings; // P
    int64_t type_vocab_size;
    enum activation hidden_act;
    double hidden_dropout_prob;
    double attention_probs_dropout_prob;
    double layer_norm_eps;
    double initializer_range;
    int truncated_initializer; // draw again beyond two deviations; not a key of the file
    int64_t pad_token_id;
    int64_t num_labels;        // classes of id2label, or "num_labels"
    enum bert_problem problem; // problem_type; where it is absent 1 label is a regression
    double classifier_dropout; // of the pooled output; < 0: hidden_dropout_prob
    int pre_layer_norm;        // 1: layer norms stand before the sub-layers, and one after the last
    char *source_json; // the file's text: unknown keys are written back. NULL for a built-in shape
};

// The built-in shapes: "tiny", "minilm", "base", "large"; BERTH_USAGE for another name.
enum berth_status bert_config_builtin(const char *name, struct bert_config *config,
                                      struct berth_error *error);
// Reads and checks config.json. A wrong type or sign, hidden_size % num_attention_heads != 0,
// position_embedding_type other than "absolute", an unknown hidden_act: BERTH_CONFIG naming key
// and file.
enum berth_status bert_config_read(const char *path, struct bert_config *config,
                                   struct berth_error *error);
// The same from memory; `name` stands for the file in messages.
enum berth_status bert_config_read_memory(const char *name, const char *bytes, size_t length,
                                          struct bert_config *config, struct berth_error *error);
// The first of transformers' names for it.
const char *bert_activation_name(enum activation activation);
// Writes Google's bert_config.json: no layer_norm_eps and pad_token_id unless they differ from
// 1e-12 and 0; unknown keys of the source stay.
enum berth_status bert_config_write_google(const struct bert_config *config, const char *path,
                                           struct berth_error *error);
// Writes config.json for `architecture` ("BertForQuestionAnswering", "BertModel"): indent 2,
// sorted.
enum berth_status bert_config_write(const struct bert_config *config, const char *architecture,
                                    const char *path, struct berth_error *error);
// Lets the members of `object` (of config.json: id2label, ...) replace the configuration's own.
enum berth_status bert_config_merge(struct bert_config *config, const struct json_t *object,
                                    struct berth_error *error);
void bert_config_done(struct bert_config *config);

#endif
