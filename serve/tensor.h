// SPDX-License-Identifier: Apache-2.0
// KServe's tensors, as JSON or in binary. Binary tensors follow the JSON of a request or reply, in
// the order in which it names them; numbers are little-endian, and each text has its length in four
// bytes before it.
#ifndef BERTH_SERVE_TENSOR_H
#define BERTH_SERVE_TENSOR_H

#include "core/buffer.h"
#include "core/error.h"
#include "core/json_line.h"
#include "format/json/json.h"

// The binary tensors of a request that were not read yet.
struct tensor_bytes {
    const char *at;
    size_t left;
};

// A tensor of texts.
struct tensor {
    const char *name;
    size_t count, rank;
    const json *data;          // flat, or nested as the shape is; NULL: binary
    struct tensor_bytes bytes; // of a binary tensor
};

// Reads an input of a request, whose shape must be [n] or [n, 1]. A binary one is taken from the
// beginning of `rest`.
enum berth_status tensor_read(struct tensor *tensor, const char *name, const json *input,
                              struct tensor_bytes *rest, struct berth_error *error);
// A text of a tensor in JSON; NULL: there is none at this place.
const json *tensor_text(const struct tensor *tensor, size_t index);
// Copies the next text of a binary tensor, with a NUL at its end. All texts of a tensor take less
// space than the tensor.
enum berth_status tensor_take_text(struct tensor *tensor, char *to, size_t *length,
                                   struct berth_error *error);

// Where the elements of an output go.
struct tensor_writer {
    struct json_line *line; // an open list; `failed` also says that `binary` has failed
    struct buffer *binary;  // NULL: the elements go into the list
};
void tensor_put_text(struct tensor_writer *writer, const char *text);
void tensor_put_integer(struct tensor_writer *writer, int64_t value);
void tensor_put_real(struct tensor_writer *writer, double value);
void tensor_put_float(struct tensor_writer *writer, float value);

#endif
