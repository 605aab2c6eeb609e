// SPDX-License-Identifier: Apache-2.0
// Reads and writes protocol buffers' wire format, field by field, without generated code: the
// caller knows the field numbers. TensorFlow's files, ONNX and sentencepiece's models are made of
// it.
#ifndef BERTH_FORMAT_PROTOBUF_H
#define BERTH_FORMAT_PROTOBUF_H

#include "core/buffer.h"
#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

enum protobuf_wire {
    PROTOBUF_VARINT = 0,
    PROTOBUF_FIXED64 = 1,
    PROTOBUF_BYTES = 2, // text, bytes, a message, packed numbers
    PROTOBUF_FIXED32 = 5
};

// --- reading ------------------------------------------------------------------------------------

// A message in memory, which the caller owns.
struct protobuf_reader {
    const unsigned char *begin, *at, *end;
    const char *name; // for messages: "x.index: tensor \"y\""
};
struct protobuf_field {
    uint32_t number;
    enum protobuf_wire wire;
    uint64_t value;             // of numbers, in two's complement
    const unsigned char *bytes; // of PROTOBUF_BYTES: points into the message
    size_t length;
};

struct protobuf_reader protobuf_read(const void *bytes, size_t length, const char *name);
// The next field; *more is 0 at the message's end. A field that extends beyond the message, an
// unknown wire type (also groups), a field number that is 0 or too large: BERTH_BAD_DATA.
enum berth_status protobuf_next(struct protobuf_reader *reader, struct protobuf_field *field,
                                int *more, struct berth_error *error);
// BERTH_BAD_DATA when the field has another wire type.
enum berth_status protobuf_expect(const struct protobuf_reader *reader,
                                  const struct protobuf_field *field, enum protobuf_wire wire,
                                  struct berth_error *error);
// The content of a field of PROTOBUF_BYTES as a message.
struct protobuf_reader protobuf_inside(const struct protobuf_reader *reader,
                                       const struct protobuf_field *field);
// Reads a bare varint, for packed numbers and for containers around messages.
enum berth_status protobuf_varint(struct protobuf_reader *reader, uint64_t *value,
                                  struct berth_error *error);

// --- writing ------------------------------------------------------------------------------------

void protobuf_put_varint(struct buffer *to, uint32_t number, uint64_t value);
void protobuf_put_fixed32(struct buffer *to, uint32_t number, uint32_t value);
void protobuf_put_fixed64(struct buffer *to, uint32_t number, uint64_t value);
void protobuf_put_float(struct buffer *to, uint32_t number, float value);
void protobuf_put_double(struct buffer *to, uint32_t number, double value);
void protobuf_put_bytes(struct buffer *to, uint32_t number, const void *bytes, size_t length);
void protobuf_put_text(struct buffer *to, uint32_t number, const char *text);
// A nested message: its content is written between begin and end. `end` takes begin's result.
size_t protobuf_begin(struct buffer *to, uint32_t number);
void protobuf_end(struct buffer *to, size_t begun);
// Without a field's number.
void protobuf_raw_varint(struct buffer *to, uint64_t value);

#endif
