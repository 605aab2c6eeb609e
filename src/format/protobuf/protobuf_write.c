// SPDX-License-Identifier: Apache-2.0
// Writes protocol buffers into a buffer, messages within messages included, whose lengths are
// filled in at their ends. Checkpoints of TensorFlow, event files and ONNX's small parts are made
// with it; weights of ONNX are too large for that and go to the file directly
// (export/onnx_write.c).
#include "format/protobuf/protobuf.h"

#include <string.h>

#define VARINT_BYTES 10 // 64 bits, 7 per byte

static size_t print_varint(unsigned char text[VARINT_BYTES], uint64_t value) {
    size_t length = 0;
    for (; value >= 0x80; value >>= 7) {
        text[length++] = (unsigned char)(value | 0x80);
    }
    text[length++] = (unsigned char)value;
    return length;
}

void protobuf_raw_varint(struct buffer *to, uint64_t value) {
    unsigned char text[VARINT_BYTES];
    buffer_put(to, text, print_varint(text, value));
}

static void put_tag(struct buffer *to, uint32_t number, enum protobuf_wire wire) {
    protobuf_raw_varint(to, (uint64_t)number << 3 | wire);
}

void protobuf_put_varint(struct buffer *to, uint32_t number, uint64_t value) {
    put_tag(to, number, PROTOBUF_VARINT);
    protobuf_raw_varint(to, value);
}

void protobuf_put_fixed32(struct buffer *to, uint32_t number, uint32_t value) {
    put_tag(to, number, PROTOBUF_FIXED32);
    buffer_put_number(to, value, 4);
}

void protobuf_put_fixed64(struct buffer *to, uint32_t number, uint64_t value) {
    put_tag(to, number, PROTOBUF_FIXED64);
    buffer_put_number(to, value, 8);
}

void protobuf_put_float(struct buffer *to, uint32_t number, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    protobuf_put_fixed32(to, number, bits);
}

void protobuf_put_double(struct buffer *to, uint32_t number, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    protobuf_put_fixed64(to, number, bits);
}

void protobuf_put_bytes(struct buffer *to, uint32_t number, const void *bytes, size_t length) {
    put_tag(to, number, PROTOBUF_BYTES);
    protobuf_raw_varint(to, length);
    buffer_put(to, bytes, length);
}

void protobuf_put_text(struct buffer *to, uint32_t number, const char *text) {
    protobuf_put_bytes(to, number, text, strlen(text));
}

size_t protobuf_begin(struct buffer *to, uint32_t number) {
    put_tag(to, number, PROTOBUF_BYTES);
    return to->length;
}

void protobuf_end(struct buffer *to, size_t begun) {
    unsigned char text[VARINT_BYTES];
    if (!to->failed) {
        size_t content = to->length - begun, size = print_varint(text, content);
        if (buffer_reserve(to, size)) {
            memmove(to->bytes + begun + size, to->bytes + begun, content);
            memcpy(to->bytes + begun, text, size);
            to->length += size;
        }
    }
}
