// SPDX-License-Identifier: Apache-2.0
#include "model/architectures.h"

#include <stddef.h>
#include <string.h>

static const struct type_row {
    const char *type, *title;
} type_rows[] = {
    {"roberta", "a RoBERTa"},
    {"xlm-roberta", "an XLM-RoBERTa"},
    {"camembert", "a CamemBERT (RoBERTa's architecture)"},
    {"roberta-prelayernorm", "a RoBERTa with pre-layer norms"},
    {"distilbert", "a DistilBERT"},
    {"albert", "an ALBERT"},
    {"electra", "an ELECTRA"},
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
    {"^roberta.", "a RoBERTa"},
    {"^distilbert.", "a DistilBERT"},
    {".rel_attn.", "an XLNet"},
    {"^transformer.layer.", "a DistilBERT"},
    {"^albert.", "an ALBERT"},
    {"encoder.albert_layer_groups.", "an ALBERT"},
    {".key_conv_attn_layer.", "a ConvBERT"},
    {"^convbert.", "a ConvBERT"},
    {"^electra.", "an ELECTRA"},
    {"embeddings_project.", "an ELECTRA"},
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
    for (size_t i = 0; i < sizeof tensor_rows / sizeof *tensor_rows; i++) {
        const char *pattern = tensor_rows[i].pattern;
        if (pattern[0] == '^' ? strncmp(name, pattern + 1, strlen(pattern + 1)) == 0
                              : strstr(name, pattern) != NULL) {
            return tensor_rows[i].title;
        }
    }
    return NULL;
}

const char *architecture_of_type(const char *model_type) {
    for (size_t i = 0; i < sizeof type_rows / sizeof *type_rows; i++) {
        if (strcmp(type_rows[i].type, model_type) == 0) {
            return type_rows[i].title;
        }
    }
    return NULL;
}
