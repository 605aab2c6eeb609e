// SPDX-License-Identifier: Apache-2.0
// The architectures that run, a row each: what their folders call the tensors, classes and keys of
// BERT's layers, which embeddings they have, and how their heads differ. Everything else that Berth
// knows of an architecture follows from its row. Below, the names of those that do not run, for
// errors.
//
// Inside the program, tensors and classes have BERT's names; a row translates them at the files.
// The head for classes keeps its own names, because a BERT's pooler belongs to the encoder and
// another architecture's dense layer belongs to the head.
#include "model/architectures.h"

#include <stddef.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static const struct architecture_default roberta_defaults[] = {{"pad_token_id", 1}, {NULL, 0}};

// XLM-RoBERTa and CamemBERT have the same names.
static const struct architecture_pair roberta_tensors[] = {
    {"cls.predictions.transform.dense.", "lm_head.dense."},
    {"cls.predictions.transform.LayerNorm.", "lm_head.layer_norm."},
    {"cls.predictions.", "lm_head."},
    {NULL, NULL}};

static const struct architecture_pair distilbert_tensors[] = {
    {"bert.encoder.", "bert.transformer."},
    {".attention.self.query.", ".attention.q_lin."},
    {".attention.self.key.", ".attention.k_lin."},
    {".attention.self.value.", ".attention.v_lin."},
    {".attention.output.dense.", ".attention.out_lin."},
    {".attention.output.LayerNorm.", ".sa_layer_norm."},
    {".intermediate.dense.", ".ffn.lin1."},
    {".output.dense.", ".ffn.lin2."},
    {".output.LayerNorm.", ".output_layer_norm."},
    {"cls.predictions.transform.dense.", "vocab_transform."},
    {"cls.predictions.transform.LayerNorm.", "vocab_layer_norm."},
    {"cls.predictions.bias", "vocab_projector.bias"},
    {"cls.predictions.decoder.", "vocab_projector."},
    {NULL, NULL}};

static const struct architecture_pair distilbert_keys[] = {
    {"hidden_size", "dim"},
    {"num_hidden_layers", "n_layers"},
    {"num_attention_heads", "n_heads"},
    {"intermediate_size", "hidden_dim"},
    {"hidden_act", "activation"},
    {"hidden_dropout_prob", "dropout"},
    {"attention_probs_dropout_prob", "attention_dropout"},
    {"classifier_dropout", "seq_classif_dropout"},
    {"type_vocab_size", NULL},
    {"layer_norm_eps", NULL},
    {"position_embedding_type", NULL},
    {NULL, NULL}};

static const struct architecture_default distilbert_defaults[] = {{"num_hidden_layers", 6},
                                                                  {"type_vocab_size", 0},
                                                                  {"classifier_dropout", 0.2},
                                                                  {"qa_dropout", 0.1},
                                                                  {NULL, 0}};

static const struct architecture_pair electra_tensors[] = {
    {"cls.predictions.transform.dense.", "generator_predictions.dense."},
    {"cls.predictions.transform.LayerNorm.", "generator_predictions.LayerNorm."},
    {"cls.predictions.bias", "generator_lm_head.bias"},
    {"cls.predictions.decoder.", "generator_lm_head."},
    {NULL, NULL}};

static const struct architecture_default electra_defaults[] = {{"embedding_size", 128},
                                                               {"hidden_size", 256},
                                                               {"num_attention_heads", 4},
                                                               {"intermediate_size", 1024},
                                                               {NULL, 0}};

// --- orders of modules --------------------------------------------------------------------------

// In the lists of parts, "classifier." is in the names of other layers, too: it comes after them.
#define MASKED_HEAD                                                                                \
    "cls.predictions.bias", "cls.predictions.transform.dense",                                     \
        "cls.predictions.transform.LayerNorm.", "cls.predictions."
#define OTHER_HEADS "classifier.dense.", "classifier.", "qa_outputs."
#define BODY "encoder.layer.", "pooler."

// Modules with layer norms before the sub-layers have this order, too; they end with a norm.
static const struct module_order bert_order = {
    {"embeddings.word_", "embeddings.position_", "embeddings.token_type_", "embeddings.LayerNorm.",
     ".FinalLayerNorm.", BODY, MASKED_HEAD, "cls.seq_relationship.", OTHER_HEADS}};

#define ROBERTA_EMBEDDINGS                                                                         \
    "embeddings.word_", "embeddings.token_type_", "embeddings.LayerNorm.", "embeddings.position_"

// Before transformers 5, the order of RoBERTa and of the two others was BERT's.
static const struct module_order roberta_order = {
    {ROBERTA_EMBEDDINGS, BODY, MASKED_HEAD, OTHER_HEADS}};

// CamemBERT has the same.
static const struct module_order xlm_roberta_order = {
    {MASKED_HEAD, OTHER_HEADS, ROBERTA_EMBEDDINGS, BODY}};

static const struct module_order distilbert_order = {
    {"embeddings.word_", "embeddings.position_", "embeddings.LayerNorm.", BODY,
     "cls.predictions.transform.dense.", "cls.predictions.transform.LayerNorm.", "cls.predictions.",
     "pre_classifier.", OTHER_HEADS}};

static const struct module_order electra_order = {
    {"embeddings.word_", "embeddings.position_", "embeddings.token_type_", "embeddings.LayerNorm.",
     "embeddings_project.", BODY, "cls.predictions.transform.LayerNorm.",
     "cls.predictions.transform.dense.", "cls.predictions.", OTHER_HEADS}};

// --- rows ---------------------------------------------------------------------------------------

#define ROBERTA                                                                                    \
    .prefix = "roberta.", .tensors = roberta_tensors, .defaults = roberta_defaults,                \
    .positions_follow_padding = 1, .has_pooler = 1, .is_in_gguf = 1,                               \
    .class_dense = "classifier.dense", .class_output = "classifier.out_proj",                      \
    .class_activation = ACTIVATION_TANH, .class_input_dropout = 1, .transform_is_gelu = 1

static const struct architecture rows[] = {
    {.type = "bert",
     .title = "a BERT",
     .class_prefix = "Bert",
     .prefix = "bert.",
     .types_separate_pairs = 1,
     .compares_sentences = 1,
     .has_pooler = 1,
     .orders = {&bert_order},
     .has_dialects = 1,
     .is_in_gguf = 1,
     .class_dense = "bert.pooler.dense",
     .class_output = "classifier",
     .class_activation = ACTIVATION_TANH},
    {.type = "roberta",
     .title = "a RoBERTa",
     .class_prefix = "Roberta",
     .orders = {&roberta_order, &bert_order},
     ROBERTA},
    {.type = "xlm-roberta",
     .title = "an XLM-RoBERTa",
     .class_prefix = "XLMRoberta",
     .orders = {&xlm_roberta_order, &bert_order},
     ROBERTA},
    {.type = "camembert",
     .title = "a CamemBERT",
     .class_prefix = "Camembert",
     .orders = {&xlm_roberta_order, &bert_order},
     ROBERTA},
    {.type = "distilbert",
     .title = "a DistilBERT",
     .class_prefix = "DistilBert",
     .prefix = "distilbert.",
     .tensors = distilbert_tensors,
     .keys = distilbert_keys,
     .defaults = distilbert_defaults,
     .refused_key = "sinusoidal_pos_embds",
     .attention_output_is_kept = 1,
     .orders = {&distilbert_order},
     .is_in_gguf = 1,
     .span_dropout_key = "qa_dropout",
     .class_dropout_is_of_texts = 1,
     .class_dense = "pre_classifier",
     .class_output = "classifier",
     .class_activation = ACTIVATION_RELU},
    {.type = "electra",
     .title = "an ELECTRA",
     .class_prefix = "Electra",
     .prefix = "electra.",
     .tensors = electra_tensors,
     .defaults = electra_defaults,
     .types_separate_pairs = 1,
     .embedding_size_key = "embedding_size",
     .orders = {&electra_order},
     .class_dense = "classifier.dense",
     .class_output = "classifier.out_proj",
     .class_activation = ACTIVATION_GELU_ERF,
     .class_input_dropout = 1,
     .transform_is_gelu = 1},
};

const struct architecture *architecture_at(size_t index) {
    return index < LENGTH(rows) ? &rows[index] : NULL;
}

const char *architecture_key(const struct architecture *row, const char *key) {
    const struct architecture_pair *pair = row->keys;
    while (pair != NULL && pair->ours != NULL && strcmp(pair->ours, key) != 0) {
        pair++;
    }
    return pair != NULL && pair->ours != NULL ? pair->theirs : key;
}

double architecture_default(const struct architecture *row, const char *key, double usual) {
    const struct architecture_default *own = row->defaults;
    while (own != NULL && own->key != NULL && strcmp(own->key, key) != 0) {
        own++;
    }
    return own != NULL && own->key != NULL ? own->value : usual;
}

int architecture_class_has_no_types(const char *name) {
    size_t i = 0;
    while (i < LENGTH(rows) &&
           strncmp(name, rows[i].class_prefix, strlen(rows[i].class_prefix)) != 0) {
        i++;
    }
    return i < LENGTH(rows) && architecture_key(&rows[i], "type_vocab_size") == NULL;
}

// --- architectures that do not run ---------------------------------------------------------------

static const struct type_row {
    const char *type, *title;
} type_rows[] = {
    {"roberta-prelayernorm", "a RoBERTa with pre-layer norms"},
    {"albert", "an ALBERT"},
    {"deberta", "a DeBERTa"},
    {"deberta-v2", "a DeBERTa"},
    {"mpnet", "an MPNet"},
    {"modernbert", "a ModernBERT"},
    {"nomic_bert", "a NomicBERT"},
    {"mobilebert", "a MobileBERT"},
    {"nystromformer", "a Nystromformer"},
    {"squeezebert", "a SqueezeBERT"},
    {"convbert", "a ConvBERT"},
    {"funnel", "a Funnel Transformer"},
    {"big_bird", "a BigBird"},
    {"longformer", "a Longformer"},
    {"megatron-bert", "a Megatron-BERT"},
    {"rembert", "a RemBERT"},
    {"roformer", "a RoFormer"},
    {"xlnet", "an XLNet"},
    {"t5", "a T5"},
    {"bert-generation", "a BERT for generation"},
    {"data2vec-text", "a Data2Vec (RoBERTa's architecture)"},
    {"ernie", "an ERNIE"},
    {"esm", "an ESM"},
    {"eurobert", "a EuroBERT"},
    {"flaubert", "a FlauBERT (XLM's architecture)"},
    {"ibert", "an I-BERT (RoBERTa's architecture)"},
    {"layoutlm", "a LayoutLM"},
    {"luke", "a LUKE (RoBERTa's architecture)"},
    {"splinter", "a Splinter"},
    {"tapas", "a TAPAS"},
    {"xlm", "an XLM"},
    {"xlm-roberta-xl", "an XLM-RoBERTa XL"},
    {"xmod", "an X-MOD (RoBERTa's architecture)"},
    {"gpt_neox", "a GPT-NeoX"},
    {"llama", "a Llama"},
    {"mistral", "a Mistral"},
    {"qwen2", "a Qwen"},
    {"gemma", "a Gemma"},
    {"bart", "a BART"},
    {"gpt2", "a GPT-2"},
};

// '^': at the start of the name, otherwise anywhere. Heads have names of their own, so another
// model family is recognised by its body.
static const struct tensor_row {
    const char *pattern, *title;
} tensor_rows[] = {
    {"^roberta_prelayernorm.", "a RoBERTa with pre-layer norms"},
    {".rel_attn.", "an XLNet"},
    {"^albert.", "an ALBERT"},
    {"encoder.albert_layer_groups.", "an ALBERT"},
    {".key_conv_attn_layer.", "a ConvBERT"},
    {"^convbert.", "a ConvBERT"},
    {"^deberta.", "a DeBERTa"},
    {"encoder.rel_embeddings.", "a DeBERTa"},
    {"^mpnet.", "an MPNet"},
    {"encoder.relative_attention_bias.", "an MPNet"},
    {".attn.Wqkv.", "a ModernBERT or NomicBERT"},
    {"^mobilebert.", "a MobileBERT"},
    {"embedding_transformation.", "a MobileBERT"},
    {"^longformer.", "a Longformer"},
    {".query_global.", "a Longformer"},
    {"^nystromformer.", "a Nystromformer"},
    {"^rembert.", "a RemBERT"},
    {"^roformer.", "a RoFormer"},
    {"encoder.embed_positions.", "a RoFormer"},
    {"^transformer.encoder.layers.", "a SqueezeBERT"},
    {".attention.ln.", "a Megatron-BERT"},
    {".attention.LayerNorm.", "a RoBERTa with pre-layer norms"},
    {"^transformer.h.", "a GPT-2"},
    {"^h.0.attn.c_attn.", "a GPT-2"},
    {"encoder.block.0.layer.0.SelfAttention.", "a T5"},
    {"encoder.layers.0.self_attn.", "a BART or another encoder-decoder"},
    {".attention.self.distance_embedding.", "a BERT with relative positions"},
    {".crossattention.", "a decoder with cross attention"},
};

const char *architecture_of_tensor(const char *name) {
    for (size_t i = 0; i < LENGTH(tensor_rows); i++) {
        const char *pattern = tensor_rows[i].pattern;
        if (pattern[0] == '^' ? strncmp(name, pattern + 1, strlen(pattern + 1)) == 0
                              : strstr(name, pattern) != NULL) {
            return tensor_rows[i].title;
        }
    }
    return NULL;
}

const char *architecture_of_type(const char *model_type) {
    for (size_t i = 0; i < LENGTH(type_rows); i++) {
        if (strcmp(type_rows[i].type, model_type) == 0) {
            return type_rows[i].title;
        }
    }
    return NULL;
}
