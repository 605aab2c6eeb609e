// SPDX-License-Identifier: Apache-2.0
#include "model/module_order.h"

#include "core/words.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Substrings of names in the order in which the modules of transformers, NVIDIA, BingBert and
// DeepSpeed's kernel register their parameters; a module's own parameters come before those of its
// sub-modules.
static const char *const module_order[] = {"embeddings.word_",
                                           "embeddings.position_",
                                           "embeddings.token_type_",
                                           "embeddings.LayerNorm.",
                                           ".FinalLayerNorm.",
                                           "encoder.layer.",
                                           "pooler.",
                                           "cls.predictions.bias",
                                           "cls.predictions.transform.dense",
                                           "cls.predictions.transform.LayerNorm.",
                                           "cls.predictions.",
                                           "cls.seq_relationship."};
static const char *const layer_order[] = {".attention.self.query.",
                                          ".attention.self.key.",
                                          ".attention.self.value.",
                                          ".attention.output.dense.",
                                          ".attention.output.LayerNorm.",
                                          ".attn_qkvw",
                                          ".attn_qkvb",
                                          ".attn_ow",
                                          ".attn_ob",
                                          ".attn_nw",
                                          ".attn_nb",
                                          ".PreAttentionLayerNorm.",
                                          ".PostAttentionLayerNorm.",
                                          ".intermediate.",
                                          ".inter_w",
                                          ".inter_b",
                                          ".output.dense.",
                                          ".output.LayerNorm.",
                                          ".output_w",
                                          ".output_b",
                                          ".norm_w",
                                          ".norm_b"};
#define LENGTH(array) (sizeof(array) / sizeof *(array))

static size_t find_first(const char *name, const char *const *list, size_t count) {
    size_t i = 0;
    while (i < count && strstr(name, list[i]) == NULL) {
        i++;
    }
    return i;
}

struct sort_key {
    size_t part, in_layer;
    long layer;
    int is_bias;
};

static struct sort_key sort_key_of(const char *name) {
    static const char layers[] = ".layer.";
    const char *layer = strstr(name, layers);
    return (struct sort_key){
        .part = find_first(name, module_order, LENGTH(module_order)),
        .layer = layer != NULL ? strtol(layer + strlen(layers), NULL, 10) : 0,
        .in_layer = layer != NULL ? find_first(name, layer_order, LENGTH(layer_order)) : 0,
        .is_bias = name_has_suffix(name, ".bias")};
}

static int compare(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

int module_order_compare(const char *left, const char *right) {
    const struct sort_key x = sort_key_of(left), y = sort_key_of(right);
    const int orders[] = {compare((int64_t)x.part, (int64_t)y.part), compare(x.layer, y.layer),
                          compare((int64_t)x.in_layer, (int64_t)y.in_layer),
                          compare(x.is_bias, y.is_bias), strcmp(left, right)};
    size_t i = 0;
    while (i + 1 < LENGTH(orders) && orders[i] == 0) {
        i++;
    }
    return orders[i];
}
