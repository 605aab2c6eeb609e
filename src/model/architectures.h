// SPDX-License-Identifier: Apache-2.0
// The table of architectures: what a row says, and how to read it. A new architecture with BERT's
// layers is a new row. Also recognises architectures that do not run, so that an error can name the
// model that a checkpoint holds instead of reporting a missing tensor.
#ifndef BERTH_MODEL_ARCHITECTURES_H
#define BERTH_MODEL_ARCHITECTURES_H

#include "device/device.h"
#include "model/module_order.h"

#include <stddef.h>

// Part of a name of ours, and what the architecture writes instead.
struct architecture_pair {
    const char *ours, *theirs;
};
struct architecture_default {
    const char *key; // ours
    double value;
};

#define ARCHITECTURE_ORDERS 2
struct architecture {
    const char *type;         // "model_type" of config.json
    const char *title;        // for messages
    const char *class_prefix; // of the names of Hugging Face's classes, instead of "Bert"
    const char *prefix;       // of the encoder's tensors, instead of "bert."
    // Lists that end with NULL, or NULL. Of tensors: each pair is applied once, in order, before
    // the prefix is replaced, at the start of a name or, if it begins with '.', anywhere; in the
    // other direction after it. When names are read, every row is applied to every name, so what a
    // row renames must differ from the names of all other rows. Of keys: theirs NULL: config.json
    // has no such key.
    const struct architecture_pair *tensors, *keys;
    const struct architecture_default *defaults; // of keys, where they differ from BERT's
    const char *refused_key;        // a switch of config.json that must not be on; NULL: none
    const char *embedding_size_key; // embeddings may have fewer columns than layers, to which a
                                    // linear layer then brings them; NULL: they have as many
    const char *span_dropout_key;   // dropout before the span head; NULL: none
    int types_separate_pairs;       // 1: only token types distinguish the two texts of a pair
    int positions_follow_padding;   // 1: a text's first position is pad_token_id + 1
    int attention_output_is_kept;   // 1: no dropout after the attention's output layer
    int compares_sentences;         // 1: has a head for the next sentence
    int has_pooler;                 // 1: transformers' model without a head has one
    // The orders in which transformers' modules register their parameters, that of the newest
    // version first. Where there are several, the shapes of parameters tell which one a file has.
    const struct module_order *orders[ARCHITECTURE_ORDERS]; // NULL: no other
    int has_dialects; // 1: Google's, NVIDIA's and DeepSpeed's programs have it, with names of their
                      // own
    int is_in_gguf;   // 1: llama.cpp computes it, as its architecture "bert"
    // The head for classes: logits = output(dropout(activation(dense(first row)))).
    const char *class_dense, *class_output;
    enum activation class_activation;
    int class_input_dropout;       // 1: the first row passes through a dropout, too
    int class_dropout_is_of_texts; // 1: "classifier_dropout" is not that of the head for tokens
    int transform_is_gelu;         // 1: the head for masked words has GELU, whatever hidden_act is
};

// Row 0 is BERT; NULL: there is no such row.
const struct architecture *architecture_at(size_t index);
// The name of our key in the architecture's config.json; NULL: it has none.
const char *architecture_key(const struct architecture *row, const char *key);
// The default of our key; `usual` if it is BERT's.
double architecture_default(const struct architecture *row, const char *key, double usual);
// Whether a class of transformers with this name, such as a tokenizer's, is of an architecture
// whose models have no token types.
int architecture_class_has_no_types(const char *name);

// The architecture that does not run and has a tensor of this (translated) name: "an ALBERT"; NULL:
// possibly one that runs.
const char *architecture_of_tensor(const char *name);
// The same for the "model_type" of a config.json; NULL if the type is not in the table.
const char *architecture_of_type(const char *model_type);

#endif
