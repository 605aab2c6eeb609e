// SPDX-License-Identifier: Apache-2.0
// Writes ONNX: a graph of operators and its weights, in one file, or with the weights in a second
// file when the first would exceed the limit of protocol buffers. The caller chooses the operators.
// model/export_onnx.c is that caller.
#ifndef BERTH_FORMAT_ONNX_WRITE_H
#define BERTH_FORMAT_ONNX_WRITE_H

#include "core/error.h"
#include "format/protobuf/protobuf.h"
#include "format/tensors/tensor.h"

#include <stddef.h>
#include <stdint.h>

#define ONNX_NODE_INPUTS 4
#define ONNX_NODE_OUTPUTS 2
#define ONNX_NODE_ATTRIBUTES 2

// Zero-initialise; onnx_graph_done frees it. onnx_write reports it when a graph ran out of memory.
struct onnx_graph {
    struct buffer nodes, constants, inputs, outputs; // encoded
    struct tensor_out *weights;
    size_t weight_count, weight_capacity;
    int failed;
};
void onnx_graph_done(struct onnx_graph *graph);

enum onnx_attribute_kind { ONNX_NONE, ONNX_INTEGER, ONNX_REAL, ONNX_INTEGERS };
struct onnx_attribute {
    const char *name;
    enum onnx_attribute_kind kind;
    int64_t integer;
    float real;
    const int64_t *integers;
    size_t count; // of integers
};

// Lists end at the first NULL or ONNX_NONE. The node's own name is its first output's.
struct onnx_node {
    const char *operation;
    const char *inputs[ONNX_NODE_INPUTS];
    const char *outputs[ONNX_NODE_OUTPUTS];
    struct onnx_attribute attributes[ONNX_NODE_ATTRIBUTES];
};

// Copy their arguments into the graph, except the name and data of a weight, which are borrowed
// until the graph is written. Add nodes in the order of computation.
void onnx_add_node(struct onnx_graph *graph, const struct onnx_node *node);
void onnx_add_constant(struct onnx_graph *graph, const struct tensor_out *tensor);
void onnx_add_weight(struct onnx_graph *graph, const struct tensor_out *tensor);

// An input or output of the graph; a dimension is a name (of any size) or a size.
struct onnx_dimension {
    const char *name; // NULL: `size`
    int64_t size;
};
struct onnx_value {
    const char *name;
    enum tensor_dtype dtype;
    int rank;
    struct onnx_dimension shape[TENSOR_MAX_RANK];
};
void onnx_add_input(struct onnx_graph *graph, const struct onnx_value *value);
void onnx_add_output(struct onnx_graph *graph, const struct onnx_value *value);

struct onnx_model {
    const struct onnx_graph *graph;
    const char *name; // of the graph
    int64_t ir_version, opset;
    // If the file would be larger, the weights go to PATH.data. 0: protocol buffers' 2 GiB - 1.
    uint64_t file_limit;
};

// Writes PATH, and before it PATH.data where the limit requires it, each atomically; when PATH
// cannot be written, PATH.data is removed. A data type that ONNX lacks is BERTH_CANT_CREATE; the
// message names the tensor.
enum berth_status onnx_write(const char *path, const struct onnx_model *model,
                             struct berth_error *error);

#endif
