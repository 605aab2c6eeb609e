// SPDX-License-Identifier: Apache-2.0
#include "serve/tensor.h"

#include "core/utf8.h"

#define LENGTH_SIZE 4 // bytes before a text

// The number of texts; 0: the shape is not [n] or [n, 1].
static size_t count_of(const json *shape) {
    int64_t count = json_length(shape) > 0;
    for (size_t i = 0; i < json_length(shape); i++) {
        const int64_t length = json_as_integer(json_at(shape, i));
        count = (i > 0 && length != 1) || length < 0 ? 0 : count * length;
    }
    return (size_t)count;
}

static enum berth_status take_bytes(struct tensor *tensor, const json *size,
                                    struct tensor_bytes *rest, struct berth_error *error) {
    const int64_t bytes = json_as_integer(size);
    if (!json_is_integer_value(size) || bytes < 0 || (size_t)bytes > rest->left) {
        return error_set(error, BERTH_USAGE,
                         "input %s: binary_data_size: expected a number of bytes, at most the %zu "
                         "that are left after the JSON, whose length is "
                         "Inference-Header-Content-Length",
                         tensor->name, rest->left);
    }
    tensor->bytes = (struct tensor_bytes){.at = rest->at, .left = (size_t)bytes};
    rest->at += bytes;
    rest->left -= (size_t)bytes;
    return BERTH_OK;
}

enum berth_status tensor_read(struct tensor *tensor, const char *name, const json *input,
                              struct tensor_bytes *rest, struct berth_error *error) {
    const char *type = json_text(json_member(input, "datatype"));
    const json *shape = json_member(input, "shape"), *data = json_member(input, "data");
    const json *size = json_member(json_member(input, "parameters"), "binary_data_size");
    if (type == NULL || strcmp(type, "BYTES") != 0) {
        return error_set(error, BERTH_USAGE, "input %s: expected the datatype BYTES", name);
    }
    *tensor = (struct tensor){.name = name, .count = count_of(shape), .rank = json_length(shape)};
    if (data == NULL && size != NULL) {
        TRY(take_bytes(tensor, size, rest, error));
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

// Nested data are lists of one text each: [["a"], ["b"]].
const json *tensor_text(const struct tensor *tensor, size_t index) {
    const json *at = json_at(tensor->data, index);
    for (size_t i = 1; i < tensor->rank && json_is_array_value(at) && json_length(at) == 1; i++) {
        at = json_at(at, 0);
    }
    return at;
}

enum berth_status tensor_take_text(struct tensor *tensor, char *to, size_t *length,
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

// --- outputs -------------------------------------------------------------------------------------

static void put_bytes(struct tensor_writer *writer, const void *bytes, size_t length) {
    buffer_put(writer->binary, bytes, length);
    writer->line->failed |= writer->binary->failed;
}

void tensor_put_text(struct tensor_writer *writer, const char *text) {
    if (writer->binary == NULL) {
        json_line_text(writer->line, NULL, text);
        return;
    }
    const size_t length = text != NULL ? strlen(text) : 0;
    char prefix[LENGTH_SIZE];
    little_endian_put(prefix, length, sizeof prefix);
    put_bytes(writer, prefix, sizeof prefix);
    put_bytes(writer, text, length);
}

void tensor_put_integer(struct tensor_writer *writer, int64_t value) {
    if (writer->binary == NULL) {
        json_line_integer(writer->line, NULL, value);
    } else {
        put_bytes(writer, &value, sizeof value);
    }
}

void tensor_put_real(struct tensor_writer *writer, double value) {
    if (writer->binary == NULL) {
        json_line_real(writer->line, NULL, value);
    } else {
        put_bytes(writer, &value, sizeof value);
    }
}

void tensor_put_float(struct tensor_writer *writer, float value) {
    if (writer->binary == NULL) {
        json_line_float(writer->line, NULL, value);
    } else {
        put_bytes(writer, &value, sizeof value);
    }
}
