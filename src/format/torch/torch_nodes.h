// SPDX-License-Identifier: Apache-2.0
// The nodes of a tree that torch_write.c writes, made in one expression: a text, a number, a list,
// a dictionary. The writers of training checkpoints put theirs together with these; the types are
// declared in torch.h.
#ifndef BERTH_FORMAT_TORCH_NODES_H
#define BERTH_FORMAT_TORCH_NODES_H

#include "format/torch/torch.h"

static inline struct torch_node node_none(const char *key) {
    return (struct torch_node){.key = key, .kind = TORCH_NONE};
}

static inline struct torch_node node_truth(const char *key, int value) {
    return (struct torch_node){.key = key, .kind = TORCH_TRUTH, .integer = value};
}

static inline struct torch_node node_integer(const char *key, int64_t value) {
    return (struct torch_node){.key = key, .kind = TORCH_INTEGER, .integer = value};
}

static inline struct torch_node node_real(const char *key, double value) {
    return (struct torch_node){.key = key, .kind = TORCH_REAL, .real = value};
}

static inline struct torch_node node_text(const char *key, const char *value) {
    return (struct torch_node){.key = key, .kind = TORCH_TEXT, .text = value};
}

static inline struct torch_node node_many(const char *key, enum torch_kind kind,
                                          const struct torch_node *children, size_t count) {
    return (struct torch_node){.key = key, .kind = kind, .count = count, .children = children};
}

static inline struct torch_node node_tensor(const char *key, const struct tensor_out *tensor) {
    return (struct torch_node){.key = key, .kind = TORCH_TENSOR, .count = 1, .tensors = tensor};
}

#endif
