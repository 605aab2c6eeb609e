// SPDX-License-Identifier: Apache-2.0
// The shape of a BERT model, read from and written to config.json in Hugging Face's or Google's
// format. Everything that is computed follows from it: the parameter table, activations, and a
// device's scratch memory.
#ifndef BERTH_MODEL_CONFIG_H
#define BERTH_MODEL_CONFIG_H

#include "core/error.h"
#include "device/device.h"

#include <stddef.h>
#include <stdint.h>

struct json_t;       // format/json/json.h
struct architecture; // architectures.h

// The meaning of a classifier's outputs; it determines the loss.
enum bert_problem {
    BERT_CLASSES,    // one of num_labels: softmax and cross entropy
    BERT_REGRESSION, // a number: squared error
    BERT_MULTI_LABEL // any of num_labels: a sigmoid for each
};

// The losses of sentence embeddings.
enum bert_embedding_loss {
    BERT_SIMILARITIES, // of the texts of an example: device.h
    BERT_NEGATIVES     // cross entropy of the cosines of a first text and all other texts of its
                       // group, whose class is its own second text
};

// What examples of texts are trained for. In a batch, the first texts of a group are followed by
// its second texts, then its third texts, and so on.
struct bert_objective {
    enum bert_embedding_loss loss;
    enum similarity_loss similarity; // of BERT_SIMILARITIES
    int is_of_cosines; // 1: the loss is of vectors scaled to length 1, whose products are cosines
    int64_t texts;     // of an example
    int64_t group;     // examples of a group; the last one of a batch may have fewer
    double margin;     // of triplets
    double scale;      // factor of the cosines of BERT_NEGATIVES and SIMILARITY_ORDER
    int is_symmetric;  // of BERT_NEGATIVES: the mean of this loss and of that of each second text,
                       // whose class is its own first text among those of its group
};

enum { BERT_OBJECTIVES_MAX = 8, BERT_DIMENSIONS_MAX = 16 };

// How the rows of a text become an embedding, and how it is trained: each batch has one objective
// (core/batch.h). With Matryoshka dimensions the loss is the sum of the losses of the vectors'
// first dimensions[i] columns, scaled to length 1, times their weights.
struct bert_embedding {
    enum berth_pooling pooling;
    int normalize; // embeddings have length 1
    struct bert_objective objectives[BERT_OBJECTIVES_MAX];
    int64_t objective_count; // 0: it is not trained
    int64_t dimensions[BERT_DIMENSIONS_MAX];
    double dimension_weights[BERT_DIMENSIONS_MAX];
    int64_t dimension_count; // 0: one loss, of whole vectors
};

struct bert_config {
    size_t architecture;             // row of architectures.h; 0: BERT
    int64_t vocab_size;              // V; 0: that of the vocabulary
    int64_t hidden_size;             // H
    int64_t num_hidden_layers;       // L
    int64_t num_attention_heads;     // A
    int64_t intermediate_size;       // I
    int64_t max_position_embeddings; // P
    int64_t type_vocab_size;         // 0: there are no token types
    int64_t embedding_size;          // E: columns of the embeddings; 0: H (bert_embedding_size)
    int64_t first_position;          // of a text, in the table of positions
    enum activation hidden_act;
    double hidden_dropout_prob;
    double attention_probs_dropout_prob;
    double layer_norm_eps;
    double initializer_range;
    int truncated_initializer; // redraw values beyond two standard deviations; not a key of the
                               // file
    int64_t pad_token_id;
    int64_t num_labels;              // classes of id2label, or "num_labels"
    enum bert_problem problem;       // problem_type; if absent, 1 label means regression
    int has_problem_type;            // whether the file has problem_type
    struct bert_embedding embedding; // of sentence embeddings; no key of the file
    double classifier_dropout;       // for the pooled output; < 0: hidden_dropout_prob
    double span_dropout;             // of the span head's input
    int pre_layer_norm; // 1: layer norms come before the sub-layers, and one after the last
    char *source_json;  // JSON of the file, in UTF-8, so that unknown keys are written back; NULL
                        // for a built-in shape
};

static inline int64_t bert_embedding_size(const struct bert_config *config) {
    return config->embedding_size > 0 ? config->embedding_size : config->hidden_size;
}
// Columns of a batch's label_targets: labels, or the columns of a vector; 0: it has none.
int64_t bert_target_columns(const struct bert_config *config);
// The most tokens of a text that have a position.
static inline int64_t bert_positions(const struct bert_config *config) {
    return config->max_position_embeddings - config->first_position;
}
// The row of architectures.h.
const struct architecture *bert_architecture(const struct bert_config *config);

// Fills in a built-in shape: "tiny", "minilm", "base" or "large" of BERT, or that of a published
// model, such as "roberta-base". BERTH_USAGE for another name.
enum berth_status bert_config_builtin(const char *name, struct bert_config *config,
                                      struct berth_error *error);
// Reads and checks config.json, or the geometry in an experiment's file of BingBert
// ("bert_model_config"): vocab_size is then 0, for the size of the vocabulary. BERTH_CONFIG, naming
// key and file, for a wrong type or sign, hidden_size % num_attention_heads != 0, a
// position_embedding_type other than "absolute", or an unknown hidden_act.
enum berth_status bert_config_read(const char *path, struct bert_config *config,
                                   struct berth_error *error);
// The same from memory; `name` is the file's name in messages.
enum berth_status bert_config_read_memory(const char *name, const char *bytes, size_t length,
                                          struct bert_config *config, struct berth_error *error);
// Refuses the geometry of an experiment, for uses in which no vocabulary decides vocab_size.
enum berth_status bert_config_require_vocab_size(const struct bert_config *config, const char *path,
                                                 struct berth_error *error);
// The name of the activation in transformers; the first one if it has several.
const char *bert_activation_name(enum activation activation);
// What the configuration says about the model and its training, by key of config.json, without
// names of classes and keys of other programs; newly allocated (json_free). NULL: out of memory.
struct json_t *bert_config_values(const struct bert_config *config);
// Writes Google's bert_config.json. layer_norm_eps and pad_token_id are omitted if they are 1e-12
// and 0; unknown keys of the source are kept.
enum berth_status bert_config_write_google(const struct bert_config *config, const char *path,
                                           struct berth_error *error);
// Writes config.json with indent 2 and sorted keys for the class that is `architecture` of a BERT
// ("BertForQuestionAnswering", "BertModel").
enum berth_status bert_config_write(const struct bert_config *config, const char *architecture,
                                    const char *path, struct berth_error *error);
// Whether the source's first "architectures" is the class that is `name` of a BERT.
enum berth_status bert_config_is_architecture(const struct bert_config *config, const char *name,
                                              int *answer, struct berth_error *error);
// Whether the source's first "architectures" and `architecture`, a class of BERT, are different
// classifiers: of texts, of words or of choices, whose tensors have the same names. *other is then
// the end of its name, "ForTokenClassification"; else NULL.
enum berth_status bert_config_other_classifier(const struct bert_config *config,
                                               const char *architecture, const char **other,
                                               struct berth_error *error);
// Overrides keys of the configuration with the members of `object` (id2label, ...).
enum berth_status bert_config_merge(struct bert_config *config, const struct json_t *object,
                                    struct berth_error *error);
// Removes the classes, because the model gets another head.
enum berth_status bert_config_drop_classes(struct bert_config *config, struct berth_error *error);
void bert_config_done(struct bert_config *config);

#endif
