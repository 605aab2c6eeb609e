// SPDX-License-Identifier: Apache-2.0
// Used where a checkpoint of another program is read (train/checkpoint) or written (api/convert):
// sorts our parameters by the list that fits. The lists are in architectures.c.
#include "model/module_order.h"

#include "core/text_util.h"
#include "model/architectures.h"
#include "model/weights.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Of all modules: transformers', NVIDIA's, BingBert's and DeepSpeed's kernel; a module's own
// parameters come before those of its sub-modules.
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
                                          ".norm_b",
                                          NULL};
#define LENGTH(array) (sizeof(array) / sizeof *(array))
#define NO_PART SIZE_MAX

static size_t find_first(const char *name, const char *const *parts) {
    for (size_t i = 0; parts[i] != NULL; i++) {
        if (strstr(name, parts[i]) != NULL) {
            return i;
        }
    }
    return NO_PART;
}

static int compare(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

static struct module_place place_of(const struct module_order *order, const char *name) {
    static const char layers[] = ".layer.";
    const char *layer = strstr(name, layers);
    return (struct module_place){.name = name,
                                 .part = find_first(name, order->parts),
                                 .layer =
                                     layer != NULL ? strtol(layer + strlen(layers), NULL, 10) : 0,
                                 .in_layer = layer != NULL ? find_first(name, layer_order) : 0,
                                 .is_bias = name_has_suffix(name, ".bias")};
}

struct module_place module_place_of(const struct module_order *order, const char *name,
                                    int is_tied) {
    const struct module_place own = place_of(order, name);
    if (is_tied && strcmp(name, weight_ties[0].source) == 0) {
        const struct module_place other = place_of(order, weight_ties[0].copy);
        return module_place_compare(&other, &own) < 0 ? other : own;
    }
    return own;
}

int module_place_compare(const struct module_place *left, const struct module_place *right) {
    const int orders[] = {(left->part > right->part) - (left->part < right->part),
                          compare(left->layer, right->layer),
                          (left->in_layer > right->in_layer) - (left->in_layer < right->in_layer),
                          compare(left->is_bias, right->is_bias), strcmp(left->name, right->name)};
    size_t i = 0;
    while (i + 1 < LENGTH(orders) && orders[i] == 0) {
        i++;
    }
    return orders[i];
}

int module_order_ties(const struct weights *weights) {
    const struct weight *decoder = weights_find(weights, weight_ties[0].copy);
    return weights_find(weights, "cls.predictions.transform.dense.weight") != NULL &&
           (decoder == NULL || decoder->tied);
}

int module_order_compare(const char *left, const char *right) {
    const struct module_order *order = architecture_at(0)->orders[0];
    const struct module_place x = place_of(order, left), y = place_of(order, right);
    return module_place_compare(&x, &y);
}
