// SPDX-License-Identifier: Apache-2.0
// KServe's version 2 of inference: named tensors in, named tensors out. The inputs are the task's
// texts, as tensors BYTES of [n]; the outputs follow from the task, and a request may name some.
//
// Tensors are JSON, or binary as in KServe's extension: those follow the JSON of a request or
// reply, in the order in which it names them; numbers are little-endian, and each text has its
// length in four bytes before it. Called by call.c; paths are in routes.c.
#include "core/memory.h"
#include "core/utf8.h"
#include "serve/protocols.h"

#include <stdio.h>
#include <string.h>

#define MODEL_VERSION "1" // the only one, as in routes.c
#define LENGTH_SIZE 4     // bytes before a text

// --- tensors of texts ----------------------------------------------------------------------------

// The binary tensors of a request that were not read yet.
struct tensor_bytes {
    const char *at;
    size_t left;
};

struct tensor {
    const char *name;
    size_t count, rank;
    const json *data;          // flat, or nested as the shape is; NULL: binary
    struct tensor_bytes bytes; // of a binary tensor
};

// The number of texts; 0: the shape is not [n] or [n, 1].
static size_t count_of(const json *shape) {
    int64_t count = json_length(shape) > 0;
    for (size_t i = 0; i < json_length(shape); i++) {
        const int64_t length = json_as_integer(json_at(shape, i));
        count = (i > 0 && length != 1) || length < 0 ? 0 : count * length;
    }
    return (size_t)count;
}

// Reads an input, whose shape must be [n] or [n, 1]. A binary one is taken from the beginning of
// `rest`.
static enum berth_status read_tensor(struct tensor *tensor, const char *name, const json *input,
                                     struct tensor_bytes *rest, struct berth_error *error) {
    const char *type = json_text(json_member(input, "datatype"));
    const json *shape = json_member(input, "shape"), *data = json_member(input, "data");
    const json *size = json_member(json_member(input, "parameters"), "binary_data_size");
    if (type == NULL || strcmp(type, "BYTES") != 0) {
        return error_set(error, BERTH_USAGE, "input %s: expected the datatype BYTES", name);
    }
    *tensor = (struct tensor){.name = name, .count = count_of(shape), .rank = json_length(shape)};
    if (data == NULL && size != NULL) {
        const int64_t bytes = json_as_integer(size);
        if (!json_is_integer_value(size) || bytes < 0 || (size_t)bytes > rest->left) {
            return error_set(
                error, BERTH_USAGE,
                "input %s: binary_data_size: expected a number of bytes, at most the %zu "
                "that are left after the JSON, whose length is "
                "Inference-Header-Content-Length",
                tensor->name, rest->left);
        }
        tensor->bytes = (struct tensor_bytes){.at = rest->at, .left = (size_t)bytes};
        rest->at += bytes;
        rest->left -= (size_t)bytes;
        return tensor->count > 0 ? BERTH_OK
                                 : error_set(error, BERTH_USAGE,
                                             "input %s: the shape is not [n] or [n, 1]", name);
    }
    if (!json_is_array_value(data) || tensor->count == 0 || tensor->count != json_length(data)) {
        return error_set(error, BERTH_USAGE,
                         "input %s: the shape is not [n] or [n, 1] of the %zu texts in data", name,
                         json_length(data));
    }
    tensor->data = data;
    return BERTH_OK;
}

// Copies the next text of a binary tensor, with a NUL at its end. All texts of a tensor take less
// space than the tensor.
static enum berth_status take_text(struct tensor *tensor, char *to, size_t *length,
                                   struct berth_error *error) {
    struct tensor_bytes *bytes = &tensor->bytes;
    const int has_length = bytes->left >= LENGTH_SIZE;
    *length = has_length ? little_endian_u32(bytes->at) : 0;
    if (!has_length || *length > bytes->left - LENGTH_SIZE) {
        return error_set(error, BERTH_USAGE,
                         "input %s: the binary data ends within one of its %zu texts, each of "
                         "which has its length before it",
                         tensor->name, tensor->count);
    }
    memcpy(to, bytes->at + LENGTH_SIZE, *length);
    to[*length] = '\0';
    bytes->at += LENGTH_SIZE + *length;
    bytes->left -= LENGTH_SIZE + *length;
    return utf8_is_valid(to, *length)
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "input %s: a text is not in UTF-8", tensor->name);
}

// --- inputs --------------------------------------------------------------------------------------

static const json *find_tensor(const json *inputs, const char *name) {
    for (size_t i = 0; i < json_length(inputs); i++) {
        const char *own = json_text(json_member(json_at(inputs, i), "name"));
        if (own != NULL && strcmp(own, name) == 0) {
            return json_at(inputs, i);
        }
    }
    return NULL;
}

static int is_output(const struct task_row *task, const char *name) {
    const struct task_output *own = task->outputs;
    while (own->name != NULL && strcmp(own->name, name) != 0) {
        own++;
    }
    return own->name != NULL;
}

// A list of objects, each with a name of the task's and of its own.
static enum berth_status check_names(const json *list, const char *where,
                                     const struct task_row *task,
                                     int (*is_known)(const struct task_row *task, const char *name),
                                     struct berth_error *error) {
    if (!json_is_array_value(list)) {
        return error_set(error, BERTH_USAGE, "%s: expected a list", where);
    }
    for (size_t i = 0; i < json_length(list); i++) {
        const char *name = json_text(json_member(json_at(list, i), "name"));
        if (name == NULL) {
            return error_set(error, BERTH_USAGE, "%s[%zu]: expected an object with a name", where,
                             i);
        }
        if (!is_known(task, name)) {
            return error_set(error, BERTH_USAGE, "%s[%zu]: \"%.*s\" is unknown in %s", where, i,
                             UTF8_SHOWN(name, 60), task->about.pipeline);
        }
        if (find_tensor(list, name) != json_at(list, i)) {
            return error_set(error, BERTH_USAGE, "%s[%zu]: duplicate name \"%s\"", where, i, name);
        }
    }
    return BERTH_OK;
}

// Texts of binary tensors go to *to, which is moved past them.
static enum berth_status read_text(struct task_text *item, size_t which, struct tensor *tensor,
                                   size_t index, char **to, struct berth_error *error) {
    char where[96];
    size_t length;
    snprintf(where, sizeof where, "input %s[%zu]", tensor->name, index);
    if (tensor->data != NULL) {
        // Nested data are lists of one text each: [["a"], ["b"]].
        const json *at = json_at(tensor->data, index);
        for (size_t i = 1; i < tensor->rank && json_is_array_value(at) && json_length(at) == 1;
             i++) {
            at = json_at(at, 0);
        }
        return call_set_text(item, which, at, where, error);
    }
    TRY(take_text(tensor, *to, &length, error));
    TRY(call_set_bytes(item, which, *to, length, where, error));
    *to += length + 1;
    return BERTH_OK;
}

static enum berth_status read_items(struct call *call, struct tensor tensors[2],
                                    struct berth_error *error) {
    const size_t bytes = call->request->body_length - call->json_length;
    TRY(call_make_items(call, tensors[0].count, error));
    char *to = call->binary_texts = memory_new(bytes + 1);
    if (to == NULL) {
        return error_no_memory(error, bytes, "a request");
    }
    for (size_t i = 2; i-- > 0;) { // the second one first, as in protocol_hugging_face.c
        if (tensors[i].name != NULL) {
            if (tensors[i].count != call->count) {
                return error_set(error, BERTH_USAGE, "input %s: expected %zu texts, found %zu",
                                 tensors[i].name, call->count, tensors[i].count);
            }
            for (size_t k = 0; k < call->count; k++) {
                TRY(read_text(&call->items[k], i, &tensors[i], k, &to, error));
            }
            if (tensors[i].bytes.left != 0) {
                return error_set(
                    error, BERTH_USAGE,
                    "input %s: the binary data continues after the %zu texts of its shape",
                    tensors[i].name, tensors[i].count);
            }
        }
    }
    return BERTH_OK;
}

// The model's name is in the path; KServe's client repeats it.
static enum berth_status read(struct call *call, struct berth_error *error) {
    const struct task_row *task = call->instance->task;
    const json *inputs = call_member(call, "inputs"), *outputs = call_member(call, "outputs");
    struct tensor tensors[2] = {{.name = NULL}};
    TRY(members_read(call, "", call->document, "inputs outputs parameters model model_name",
                     error));
    TRY(check_names(inputs, "inputs", task, task_has_field, error));
    if (outputs != NULL) {
        TRY(check_names(outputs, "outputs", task, is_output, error));
    }
    // The inputs in the order of the request, because their binary data has that order.
    const struct http_request *request = call->request;
    struct tensor_bytes rest = {.at = request->body + call->json_length,
                                .left = request->body_length - call->json_length};
    for (size_t i = 0; i < json_length(inputs); i++) {
        const json *input = json_at(inputs, i);
        const size_t which = strcmp(json_text(json_member(input, "name")), task->about.text) != 0;
        TRY(read_tensor(&tensors[which], task_field(task, which), input, &rest, error));
    }
    for (size_t i = 0; i < 2; i++) {
        if (tensors[i].name == NULL && (i == 0 || task->about.needs_pair)) {
            return error_set(error, BERTH_USAGE, "missing input %s", task_field(task, i));
        }
    }
    if (rest.left != 0) {
        return error_set(error, BERTH_USAGE,
                         "the body has %zu bytes more than the JSON and each input's "
                         "binary_data_size",
                         rest.left);
    }
    return read_items(call, tensors, error);
}

// --- outputs -------------------------------------------------------------------------------------

static const char *const types[] = {
    [TASK_ITEM_TEXT] = "BYTES", [TASK_ITEM_SCORE] = "FP64", [TASK_ITEM_START] = "INT64",
    [TASK_ITEM_END] = "INT64",  [TASK_NUMBERS] = "FP32",    [TASK_JSON] = "BYTES"};

// Numbers of an item.
static size_t width_of(const struct task_model *model, const struct task_output *output) {
    return output->source == TASK_NUMBERS ? model->task->width(model) : 1;
}

// Opens a tensor of [items], or of [items, width] if that is more than one number each.
static void open_tensor(struct json_line *line, const char *name, const char *type, int64_t items,
                        size_t width) {
    json_line_open(line, NULL, '{');
    json_line_text(line, "name", name);
    json_line_text(line, "datatype", type);
    json_line_open(line, "shape", '[');
    json_line_integer(line, NULL, items);
    if (width > 1) {
        json_line_integer(line, NULL, (int64_t)width);
    }
    json_line_close(line, ']');
}

// Returns 0 if the tensor is not binary.
static int put_binary(struct buffer *binary, const void *bytes, size_t length) {
    if (binary != NULL) {
        buffer_put(binary, bytes, length);
    }
    return binary != NULL;
}

static void put_text(struct json_line *line, struct buffer *binary, const char *text) {
    const size_t length = text != NULL ? strlen(text) : 0;
    char prefix[LENGTH_SIZE];
    little_endian_put(prefix, length, sizeof prefix);
    if (!put_binary(binary, prefix, sizeof prefix)) {
        json_line_text(line, NULL, text);
        return;
    }
    put_binary(binary, text, length);
}

static void put_json(struct json_line *line, struct buffer *binary, const struct call *call,
                     const struct task_text *text) {
    struct json_line written = {0};
    call->instance->task->write(&written, call->instance, text);
    line->failed |= written.failed;
    put_text(line, binary, written.text != NULL ? written.text : "");
    json_line_done(&written);
}

// Puts what the text has for an output into the open list, or into `binary`, if it is not NULL.
static void put_element(struct json_line *line, struct buffer *binary, const struct call *call,
                        const struct task_text *text, enum task_source source) {
    static const struct berth_item nothing = {.text = "", .start = -1, .end = -1};
    const struct berth_item *first = text->item_count > 0 ? text->items : &nothing;
    const int64_t position = source == TASK_ITEM_END ? first->end : first->start;
    switch (source) {
    case TASK_ITEM_TEXT:
        put_text(line, binary, first->text);
        break;
    case TASK_ITEM_SCORE:
        if (!put_binary(binary, &first->score, sizeof first->score)) {
            json_line_real(line, NULL, first->score);
        }
        break;
    case TASK_ITEM_START:
    case TASK_ITEM_END:
        if (!put_binary(binary, &position, sizeof position)) {
            json_line_integer(line, NULL, position);
        }
        break;
    case TASK_NUMBERS:
        for (size_t i = 0; i < text->row_count * text->width; i++) {
            if (!put_binary(binary, &text->rows[i], sizeof *text->rows)) {
                json_line_float(line, NULL, text->rows[i]);
            }
        }
        break;
    case TASK_JSON:
        put_json(line, binary, call, text);
        break;
    }
}

static void put_elements(struct json_line *line, struct buffer *binary, const struct call *call,
                         const struct task_output *output) {
    for (size_t i = 0; i < call->count; i++) {
        put_element(line, binary, call, &call->items[i], output->source);
    }
}

static void write_tensor(struct json_line *line, struct call *call,
                         const struct task_output *output) {
    const size_t before = call->binary.length;
    open_tensor(line, output->name, types[output->source], (int64_t)call->count,
                width_of(call->instance, output));
    // The output is binary if its own parameters say so, else as those of the request do.
    const json *asked = find_tensor(call_member(call, "outputs"), output->name);
    const json *own = json_member(json_member(asked, "parameters"), "binary_data");
    const json *usual = json_member(call_member(call, "parameters"), "binary_data_output");
    if (json_truth(json_is_boolean(own) ? own : usual)) {
        put_elements(line, &call->binary, call, output);
        line->failed |= call->binary.failed;
        json_line_open(line, "parameters", '{');
        json_line_integer(line, "binary_data_size", (int64_t)(call->binary.length - before));
        json_line_close(line, '}');
    } else {
        json_line_open(line, "data", '[');
        put_elements(line, NULL, call, output);
        json_line_close(line, ']');
    }
    json_line_close(line, '}');
}

static void write(struct json_line *line, struct call *call) {
    const char *id = json_text(json_member(call->document, "id"));
    json_line_open(line, NULL, '{');
    json_line_text(line, "model_name", call->model_name);
    json_line_text(line, "model_version", MODEL_VERSION);
    if (id != NULL) {
        json_line_text(line, "id", id);
    }
    json_line_open(line, "outputs", '[');
    for (const struct task_output *output = call->instance->task->outputs; output->name != NULL;
         output++) {
        // Without a list of outputs all are wanted.
        const json *outputs = call_member(call, "outputs");
        if (json_length(outputs) == 0 || find_tensor(outputs, output->name) != NULL) {
            write_tensor(line, call, output);
        }
    }
    json_line_close(line, ']');
    json_line_close(line, '}');
}

// --- the description of a model ------------------------------------------------------------------

// A tensor of any number of items.
static void put_tensor(struct json_line *line, const char *name, const char *type, size_t width) {
    open_tensor(line, name, type, -1, width);
    json_line_close(line, '}');
}

void kserve_put_model(struct json_line *line, const char *name, const struct task_model *instance) {
    json_line_open(line, NULL, '{');
    json_line_text(line, "name", name);
    json_line_open(line, "versions", '[');
    json_line_text(line, NULL, MODEL_VERSION);
    json_line_close(line, ']');
    json_line_text(line, "platform", "berth");
    const struct task_row *task = instance->task;
    json_line_open(line, "inputs", '[');
    for (size_t i = 0; i < 2 && task_field(task, i) != NULL; i++) {
        put_tensor(line, task_field(task, i), "BYTES", 1);
    }
    json_line_close(line, ']');
    json_line_open(line, "outputs", '[');
    for (const struct task_output *output = task->outputs; output->name != NULL; output++) {
        put_tensor(line, output->name, types[output->source], width_of(instance, output));
    }
    json_line_close(line, ']');
    json_line_close(line, '}');
}

const struct protocol protocol_kserve = {.read = read, .write = write, .members = "id"};
