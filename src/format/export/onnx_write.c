// SPDX-License-Identifier: Apache-2.0
// Writes ONNX. A model is a message that contains a graph, which contains the weights, and every
// message begins with its length. So the lengths are computed first; then everything is written in
// one pass, the weights without a copy. Called by model/export_onnx.c at the end of a conversion.
#include "format/export/onnx_write.h"

#include "core/file.h"
#include "core/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// Field numbers of onnx.proto.
enum { MODEL_IR_VERSION = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7 };
enum { MODEL_OPSET = 8, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALISER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OPERATION = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_REAL = 2, ATTRIBUTE_INTEGER = 3, ATTRIBUTE_INTEGERS = 8 };
enum { ATTRIBUTE_KIND = 20, KIND_REAL = 1, KIND_INTEGER = 2, KIND_INTEGERS = 7 };
enum { TENSOR_DIMENSION = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { TENSOR_EXTERNAL = 13, TENSOR_LOCATION = 14, LOCATION_EXTERNAL = 1 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TYPE_ELEMENT = 1, TYPE_SHAPE = 2 };
enum { SHAPE_DIMENSION = 1, DIMENSION_SIZE = 1, DIMENSION_NAME = 2 };

#define FILE_LIMIT ((uint64_t)INT32_MAX)
#define EXTERNAL_MIN_BYTES 1024 // bytes: smaller tensors stay in the file
#define EXTERNAL_ALIGNMENT 4096 // a page: readers map the file into memory

static const struct {
    enum tensor_dtype dtype;
    uint32_t number;
} element_types[] = {{TENSOR_F32, 1},  {TENSOR_U8, 2},   {TENSOR_I8, 3},   {TENSOR_U16, 4},
                     {TENSOR_I16, 5},  {TENSOR_I32, 6},  {TENSOR_I64, 7},  {TENSOR_BOOL, 9},
                     {TENSOR_F16, 10}, {TENSOR_F64, 11}, {TENSOR_U32, 12}, {TENSOR_U64, 13},
                     {TENSOR_BF16, 16}};

// Returns 0 for a type that ONNX does not have.
static uint32_t element_type(enum tensor_dtype dtype) {
    for (size_t i = 0; i < sizeof element_types / sizeof *element_types; i++) {
        if (element_types[i].dtype == dtype) {
            return element_types[i].number;
        }
    }
    return 0;
}

// --- the graph ----------------------------------------------------------------------------------

static void put_attribute(struct buffer *writer, const struct onnx_attribute *attribute) {
    size_t begun = protobuf_begin(writer, NODE_ATTRIBUTE);
    protobuf_put_text(writer, ATTRIBUTE_NAME, attribute->name);
    if (attribute->kind == ONNX_REAL) {
        protobuf_put_float(writer, ATTRIBUTE_REAL, attribute->real);
        protobuf_put_varint(writer, ATTRIBUTE_KIND, KIND_REAL);
    } else if (attribute->kind == ONNX_INTEGER) {
        protobuf_put_varint(writer, ATTRIBUTE_INTEGER, (uint64_t)attribute->integer);
        protobuf_put_varint(writer, ATTRIBUTE_KIND, KIND_INTEGER);
    } else {
        for (size_t i = 0; i < attribute->count; i++) {
            protobuf_put_varint(writer, ATTRIBUTE_INTEGERS, (uint64_t)attribute->integers[i]);
        }
        protobuf_put_varint(writer, ATTRIBUTE_KIND, KIND_INTEGERS);
    }
    protobuf_end(writer, begun);
}

static void put_names(struct buffer *writer, uint32_t number, const char *const *names,
                      size_t limit) {
    for (size_t i = 0; i < limit && names[i] != NULL; i++) {
        protobuf_put_text(writer, number, names[i]);
    }
}

void onnx_add_node(struct onnx_graph *graph, const struct onnx_node *node) {
    struct buffer *writer = &graph->nodes;
    size_t begun = protobuf_begin(writer, GRAPH_NODE);
    put_names(writer, NODE_INPUT, node->inputs, ONNX_NODE_INPUTS);
    put_names(writer, NODE_OUTPUT, node->outputs, ONNX_NODE_OUTPUTS);
    protobuf_put_text(writer, NODE_NAME, node->outputs[0]);
    protobuf_put_text(writer, NODE_OPERATION, node->operation);
    for (size_t i = 0; i < ONNX_NODE_ATTRIBUTES && node->attributes[i].kind != ONNX_NONE; i++) {
        put_attribute(writer, &node->attributes[i]);
    }
    protobuf_end(writer, begun);
}

static void describe_tensor(struct buffer *writer, const struct tensor_out *tensor) {
    for (int i = 0; i < tensor->rank; i++) {
        protobuf_put_varint(writer, TENSOR_DIMENSION, (uint64_t)tensor->shape[i]);
    }
    protobuf_put_varint(writer, TENSOR_TYPE, element_type(tensor->dtype));
    protobuf_put_text(writer, TENSOR_NAME, tensor->name);
}

void onnx_add_constant(struct onnx_graph *graph, const struct tensor_out *tensor) {
    size_t begun = protobuf_begin(&graph->constants, GRAPH_INITIALISER);
    describe_tensor(&graph->constants, tensor);
    protobuf_put_bytes(&graph->constants, TENSOR_RAW, tensor->data, tensor_out_bytes(tensor));
    protobuf_end(&graph->constants, begun);
}

void onnx_add_weight(struct onnx_graph *graph, const struct tensor_out *tensor) {
    struct tensor_out *grown = memory_grow(graph->weights, &graph->weight_capacity,
                                           graph->weight_count + 1, sizeof *grown);
    if (grown == NULL) {
        graph->failed = 1;
        return;
    }
    graph->weights = grown;
    graph->weights[graph->weight_count++] = *tensor;
}

static void put_value(struct buffer *writer, uint32_t number, const struct onnx_value *value) {
    size_t begun = protobuf_begin(writer, number);
    protobuf_put_text(writer, VALUE_NAME, value->name);
    size_t type = protobuf_begin(writer, VALUE_TYPE);
    size_t tensor = protobuf_begin(writer, TYPE_TENSOR);
    protobuf_put_varint(writer, TYPE_ELEMENT, element_type(value->dtype));
    size_t shape = protobuf_begin(writer, TYPE_SHAPE);
    for (int i = 0; i < value->rank; i++) {
        size_t dimension = protobuf_begin(writer, SHAPE_DIMENSION);
        if (value->shape[i].name != NULL) {
            protobuf_put_text(writer, DIMENSION_NAME, value->shape[i].name);
        } else {
            protobuf_put_varint(writer, DIMENSION_SIZE, (uint64_t)value->shape[i].size);
        }
        protobuf_end(writer, dimension);
    }
    protobuf_end(writer, shape);
    protobuf_end(writer, tensor);
    protobuf_end(writer, type);
    protobuf_end(writer, begun);
}

void onnx_add_input(struct onnx_graph *graph, const struct onnx_value *value) {
    put_value(&graph->inputs, GRAPH_INPUT, value);
}

void onnx_add_output(struct onnx_graph *graph, const struct onnx_value *value) {
    put_value(&graph->outputs, GRAPH_OUTPUT, value);
}

void onnx_graph_done(struct onnx_graph *graph) {
    buffer_done(&graph->nodes);
    buffer_done(&graph->constants);
    buffer_done(&graph->inputs);
    buffer_done(&graph->outputs);
    memory_free(graph->weights);
    *graph = (struct onnx_graph){0};
}

// --- weights ------------------------------------------------------------------------------------

// The positions of the weights during layout.
struct weights {
    const struct onnx_graph *graph;
    const char *location; // name of the data file, without its folder; NULL: in the model's file
    uint64_t position;    // within the data file
    struct buffer header; // of the current weight: everything but its numbers
};

static int is_external(const struct weights *weights, const struct tensor_out *tensor) {
    return weights->location != NULL && tensor_out_bytes(tensor) >= EXTERNAL_MIN_BYTES;
}

static void put_entry(struct buffer *writer, const char *key, const char *value) {
    size_t begun = protobuf_begin(writer, TENSOR_EXTERNAL);
    protobuf_put_text(writer, ENTRY_KEY, key);
    protobuf_put_text(writer, ENTRY_VALUE, value);
    protobuf_end(writer, begun);
}

static void put_number_entry(struct buffer *writer, const char *key, uint64_t number) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    put_entry(writer, key, text);
}

static uint64_t align(uint64_t position) {
    return (position + EXTERNAL_ALIGNMENT - 1) / EXTERNAL_ALIGNMENT * EXTERNAL_ALIGNMENT;
}

// Encodes a weight's header; returns the number of bytes that follow it in the model's file.
static uint64_t put_header(struct weights *weights, const struct tensor_out *tensor) {
    struct buffer *header = &weights->header;
    uint64_t bytes = tensor_out_bytes(tensor);
    buffer_clear(header);
    describe_tensor(header, tensor);
    if (!is_external(weights, tensor)) {
        protobuf_raw_varint(header, TENSOR_RAW << 3 | PROTOBUF_BYTES);
        protobuf_raw_varint(header, bytes);
        return bytes;
    }
    put_entry(header, "location", weights->location);
    put_number_entry(header, "offset", weights->position);
    put_number_entry(header, "length", bytes);
    protobuf_put_varint(header, TENSOR_LOCATION, LOCATION_EXTERNAL);
    weights->position = align(weights->position + bytes);
    return 0;
}

static size_t varint_size(uint64_t value) {
    size_t size = 1;
    while (value >= 0x80) {
        value >>= 7;
        size++;
    }
    return size;
}

static enum berth_status write_data_file(const struct weights *weights, const char *path,
                                         struct berth_error *error) {
    static const char zeros[EXTERNAL_ALIGNMENT];
    struct file_writer file;
    TRY(file_writer_open(&file, path, error));
    for (size_t i = 0; i < weights->graph->weight_count; i++) {
        const struct tensor_out *tensor = &weights->graph->weights[i];
        if (is_external(weights, tensor)) {
            uint64_t bytes = tensor_out_bytes(tensor);
            (void)file_writer_put(&file, tensor->data, (size_t)bytes, error);
            (void)file_writer_put(&file, zeros, (size_t)(align(bytes) - bytes), error);
        }
    }
    return file_writer_commit(&file, error);
}

// --- the file -----------------------------------------------------------------------------------

// Encodes what precedes the nodes; the graph's length is known.
static void put_head(struct buffer *head, const struct onnx_model *model, uint64_t graph_bytes) {
    protobuf_put_varint(head, MODEL_IR_VERSION, (uint64_t)model->ir_version);
    protobuf_put_text(head, MODEL_PRODUCER, "berth");
    size_t begun = protobuf_begin(head, MODEL_OPSET);
    protobuf_put_varint(head, OPSET_VERSION, (uint64_t)model->opset);
    protobuf_end(head, begun);
    size_t name = 1 + varint_size(strlen(model->name)) + strlen(model->name);
    protobuf_raw_varint(head, MODEL_GRAPH << 3 | PROTOBUF_BYTES);
    protobuf_raw_varint(head, graph_bytes + name);
    protobuf_put_text(head, GRAPH_NAME, model->name);
}

static uint64_t measure_graph(struct weights *weights) {
    const struct onnx_graph *graph = weights->graph;
    // Bytes of all weights in the model's file, with tags and lengths.
    uint64_t total = 0;
    weights->position = 0;
    for (size_t i = 0; i < weights->graph->weight_count; i++) {
        uint64_t numbers = put_header(weights, &weights->graph->weights[i]);
        uint64_t message = weights->header.length + numbers;
        total += 1 + varint_size(message) + message;
    }
    return graph->nodes.length + graph->constants.length + graph->inputs.length +
           graph->outputs.length + total;
}

static void put_buffer(struct file_writer *file, const struct buffer *part,
                       struct berth_error *error) {
    (void)file_writer_put(file, part->bytes, part->length, error);
}

static enum berth_status no_memory(const char *path, struct berth_error *error) {
    return error_set(error, BERTH_NO_MEMORY, "out of memory for the graph of %s", path);
}

static enum berth_status write_model_file(struct weights *weights, const char *path,
                                          const struct buffer *head, struct berth_error *error) {
    const struct onnx_graph *graph = weights->graph;
    struct file_writer file;
    TRY(file_writer_open(&file, path, error));
    put_buffer(&file, head, error);
    put_buffer(&file, &graph->nodes, error);
    put_buffer(&file, &graph->constants, error);
    struct buffer begin = {0};
    weights->position = 0;
    for (size_t i = 0; i < weights->graph->weight_count; i++) {
        const struct tensor_out *tensor = &weights->graph->weights[i];
        uint64_t numbers = put_header(weights, tensor);
        buffer_clear(&begin);
        protobuf_raw_varint(&begin, GRAPH_INITIALISER << 3 | PROTOBUF_BYTES);
        protobuf_raw_varint(&begin, weights->header.length + numbers);
        weights->header.failed |= begin.failed;
        (void)file_writer_put(&file, begin.bytes, begin.length, error);
        (void)file_writer_put(&file, weights->header.bytes, weights->header.length, error);
        (void)file_writer_put(&file, tensor->data, (size_t)numbers, error);
    }
    buffer_done(&begin);
    put_buffer(&file, &graph->inputs, error);
    put_buffer(&file, &graph->outputs, error);
    if (weights->header.failed) {
        file_writer_abort(&file);
        return no_memory(path, error);
    }
    return file_writer_commit(&file, error);
}

// Writes the data file first, so that a model never names a missing one.
static enum berth_status write_files(struct weights *weights, const char *path,
                                     const char *data_path, const struct onnx_model *model,
                                     struct berth_error *error) {
    struct buffer head = {0};
    put_head(&head, model, measure_graph(weights));
    enum berth_status status = BERTH_OK;
    if (head.failed || weights->header.failed) {
        status = no_memory(path, error);
        goto done;
    }
    if (weights->location != NULL) {
        TRY_DONE(write_data_file(weights, data_path, error));
    }
    TRY_DONE(write_model_file(weights, path, &head, error));
done:
    if (status != BERTH_OK && weights->location != NULL) {
        (void)file_remove(data_path, NULL);
    }
    buffer_done(&head);
    return status;
}

static enum berth_status check_graph(const char *path, const struct onnx_graph *graph,
                                     struct berth_error *error) {
    if (graph->failed || graph->nodes.failed || graph->constants.failed || graph->inputs.failed ||
        graph->outputs.failed) {
        return no_memory(path, error);
    }
    for (size_t i = 0; i < graph->weight_count; i++) {
        const struct tensor_out *tensor = &graph->weights[i];
        if (element_type(tensor->dtype) == 0) {
            return error_set(error, BERTH_CANT_CREATE,
                             "cannot create %s: tensor \"%s\": ONNX has no data type for it", path,
                             tensor->name);
        }
    }
    return BERTH_OK;
}

enum berth_status onnx_write(const char *path, const struct onnx_model *model,
                             struct berth_error *error) {
    TRY(check_graph(path, model->graph, error));
    const struct path data_path = path_format("%s.data", path);
    struct weights weights = {.graph = model->graph};
    uint64_t limit = model->file_limit != 0 ? model->file_limit : FILE_LIMIT;
    if (measure_graph(&weights) + EXTERNAL_ALIGNMENT > limit) { // one page for the head
        weights.location = path_name(data_path.text);
    }
    enum berth_status status = write_files(&weights, path, data_path.text, model, error);
    buffer_done(&weights.header);
    return status;
}
