// SPDX-License-Identifier: Apache-2.0
// KServe's version 2 of inference: named tensors in, named tensors out. The inputs are the task's
// texts, as tensors BYTES of [n]; the outputs follow from the task, and a request may name some.
#include "core/utf8.h"
#include "serve/protocols.h"

#include <stdio.h>
#include <string.h>

// A tensor of texts.
struct tensor {
    const json *data; // flat, or nested as its shape is
    size_t rank;
};

static const json *find_tensor(const json *inputs, const char *name) {
    for (size_t i = 0; i < json_length(inputs); i++) {
        const char *own = json_text(json_member(json_at(inputs, i), "name"));
        if (own != NULL && strcmp(own, name) == 0) {
            return json_at(inputs, i);
        }
    }
    return NULL;
}

// The shape is [n] or [n, 1].
static enum berth_status read_tensor(const json *input, const char *name, struct tensor *tensor,
                                     struct berth_error *error) {
    const char *type = json_text(json_member(input, "datatype"));
    const json *shape = json_member(input, "shape"), *data = json_member(input, "data");
    if (type == NULL || strcmp(type, "BYTES") != 0) {
        return error_set(error, BERTH_USAGE, "input %s: expected the datatype BYTES", name);
    }
    int64_t elements = json_length(shape) > 0;
    for (size_t i = 0; i < json_length(shape); i++) {
        const int64_t length = json_as_integer(json_at(shape, i));
        elements = (i > 0 && length != 1) || length < 0 ? -1 : elements * length;
    }
    if (!json_is_array_value(data) || elements < 1 || (size_t)elements != json_length(data)) {
        return error_set(error, BERTH_USAGE,
                         "input %s: the shape is not [n] or [n, 1] of the %zu texts in data", name,
                         json_length(data));
    }
    *tensor = (struct tensor){.data = data, .rank = json_length(shape)};
    return BERTH_OK;
}

// Nested data are lists of one text each: [["a"], ["b"]].
static const json *text_at(const struct tensor *tensor, size_t index) {
    const json *at = json_at(tensor->data, index);
    for (size_t i = 1; i < tensor->rank && json_is_array_value(at) && json_length(at) == 1; i++) {
        at = json_at(at, 0);
    }
    return at;
}

static enum berth_status read_texts(struct call *call, size_t which, const struct tensor *tensor,
                                    struct berth_error *error) {
    const char *name = call->instance->task->fields[which];
    const size_t count = json_length(tensor->data);
    char where[96];
    if (count != call->count) {
        return error_set(error, BERTH_USAGE, "input %s: expected %zu texts, found %zu", name,
                         call->count, count);
    }
    for (size_t i = 0; i < call->count; i++) {
        snprintf(where, sizeof where, "input %s[%zu]", name, i);
        TRY(call_set_text(&call->items[i], which, text_at(tensor, i), where, error));
    }
    return BERTH_OK;
}

static int is_output(const struct served_task *task, const char *name) {
    const struct task_output *own = task->outputs;
    while (own->name != NULL && strcmp(own->name, name) != 0) {
        own++;
    }
    return own->name != NULL;
}

// A list of objects, each with a name of the task's and of its own.
static enum berth_status
check_names(const json *list, const char *where, const struct served_task *task,
            int (*is_known)(const struct served_task *task, const char *name),
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
                             UTF8_SHOWN(name, 60), task->name);
        }
        if (find_tensor(list, name) != json_at(list, i)) {
            return error_set(error, BERTH_USAGE, "%s[%zu]: duplicate name \"%s\"", where, i, name);
        }
    }
    return BERTH_OK;
}

// Whether the request's list of outputs has the name; without a list all are wanted.
static int is_wanted(const struct call *call, const char *name) {
    const json *outputs = call_member(call, "outputs");
    return json_length(outputs) == 0 || find_tensor(outputs, name) != NULL;
}

static enum berth_status read(struct call *call, struct berth_error *error) {
    static const struct call_members known = {
        .read = {"id", "parameters", "inputs", "outputs", "model"}};
    const struct served_task *task = call->instance->task;
    const json *inputs = json_member(call->document, "inputs");
    struct tensor texts[2] = {{.data = NULL}};
    const json *id = call_member(call, "id"), *outputs = call_member(call, "outputs");
    TRY(call_check_members(call, &known, error));
    if (id != NULL && !json_is_text(id)) {
        return error_set(error, BERTH_USAGE, "id: expected a string");
    }
    TRY(check_names(inputs, "inputs", task, task_has_field, error));
    if (outputs != NULL) {
        TRY(check_names(outputs, "outputs", task, is_output, error));
    }
    for (size_t i = 0; i < 2 && task->fields[i] != NULL; i++) {
        const json *input = find_tensor(inputs, task->fields[i]);
        if (input == NULL && (i == 0 || task->is_pair)) {
            return error_set(error, BERTH_USAGE, "missing input %s", task->fields[i]);
        }
        if (input != NULL) {
            TRY(read_tensor(input, task->fields[i], &texts[i], error));
        }
    }
    TRY(call_make_items(call, json_length(texts[0].data), error));
    for (size_t i = 2; i-- > 0;) { // the second one first, as in protocol_hugging_face.c
        if (texts[i].data != NULL) {
            TRY(read_texts(call, i, &texts[i], error));
        }
    }
    return BERTH_OK;
}

// --- outputs -------------------------------------------------------------------------------------

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

static void write_tensor(struct json_line *line, const struct call *call,
                         const struct task_output *output) {
    open_tensor(line, output->name, output->type, (int64_t)call->count,
                output->width(call->instance));
    json_line_open(line, "data", '[');
    for (size_t i = 0; i < call->count; i++) {
        output->write(line, call->instance, &call->items[i]);
    }
    json_line_close(line, ']');
    json_line_close(line, '}');
}

static void write(struct json_line *line, const struct call *call) {
    const char *id = json_text(json_member(call->document, "id"));
    json_line_open(line, NULL, '{');
    json_line_text(line, "model_name", call->model_name);
    if (id != NULL) {
        json_line_text(line, "id", id);
    }
    json_line_open(line, "outputs", '[');
    for (const struct task_output *output = call->instance->task->outputs; output->name != NULL;
         output++) {
        if (is_wanted(call, output->name)) {
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

static void put_tensors(struct json_line *line, const struct instance *instance) {
    const struct served_task *task = instance->task;
    json_line_open(line, "inputs", '[');
    for (size_t i = 0; i < 2 && task->fields[i] != NULL; i++) {
        put_tensor(line, task->fields[i], "BYTES", 1);
    }
    json_line_close(line, ']');
    json_line_open(line, "outputs", '[');
    for (const struct task_output *output = task->outputs; output->name != NULL; output++) {
        put_tensor(line, output->name, output->type, output->width(instance));
    }
    json_line_close(line, ']');
}

void kserve_put_model(struct json_line *line, const char *name, const struct instance *instance) {
    json_line_open(line, NULL, '{');
    json_line_text(line, "name", name);
    json_line_open(line, "versions", '[');
    json_line_close(line, ']');
    json_line_text(line, "platform", "berth");
    put_tensors(line, instance);
    json_line_close(line, '}');
}

const struct protocol protocol_kserve = {.read = read, .write = write};
