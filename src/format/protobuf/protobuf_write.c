// SPDX-License-Identifier: Apache-2.0
// Writes protocol buffers to a growing buffer.
#include "core/little_endian.h"
#include "core/memory.h"
#include "format/protobuf/protobuf.h"

#include <string.h>

#define VARINT_BYTES 10 // 64 bits, 7 per byte

// Makes room for `more` bytes; 0 when out of memory.
static int reserve(struct protobuf_writer *writer, size_t more) {
    if (more > writer->capacity - writer->length && !writer->failed) {
        unsigned char *grown =
            memory_grow(writer->bytes, &writer->capacity, writer->length + more, 1);
        writer->bytes = grown != NULL ? grown : writer->bytes;
        writer->failed = grown == NULL;
    }
    return !writer->failed;
}

void protobuf_raw(struct protobuf_writer *writer, const void *bytes, size_t length) {
    if (length > 0 && reserve(writer, length)) {
        memcpy(writer->bytes + writer->length, bytes, length);
        writer->length += length;
    }
}

static size_t print_varint(unsigned char text[VARINT_BYTES], uint64_t value) {
    size_t length = 0;
    for (; value >= 0x80; value >>= 7) {
        text[length++] = (unsigned char)(value | 0x80);
    }
    text[length++] = (unsigned char)value;
    return length;
}

void protobuf_raw_varint(struct protobuf_writer *writer, uint64_t value) {
    unsigned char text[VARINT_BYTES];
    protobuf_raw(writer, text, print_varint(text, value));
}

static void put_little_endian(struct protobuf_writer *writer, uint64_t value, size_t size) {
    unsigned char text[8];
    little_endian_put(text, value, size);
    protobuf_raw(writer, text, size);
}

void protobuf_raw_fixed32(struct protobuf_writer *writer, uint32_t value) {
    put_little_endian(writer, value, 4);
}

static void put_tag(struct protobuf_writer *writer, uint32_t number, enum protobuf_wire wire) {
    protobuf_raw_varint(writer, (uint64_t)number << 3 | wire);
}

void protobuf_put_varint(struct protobuf_writer *writer, uint32_t number, uint64_t value) {
    put_tag(writer, number, PROTOBUF_VARINT);
    protobuf_raw_varint(writer, value);
}

void protobuf_put_fixed32(struct protobuf_writer *writer, uint32_t number, uint32_t value) {
    put_tag(writer, number, PROTOBUF_FIXED32);
    put_little_endian(writer, value, 4);
}

void protobuf_put_fixed64(struct protobuf_writer *writer, uint32_t number, uint64_t value) {
    put_tag(writer, number, PROTOBUF_FIXED64);
    put_little_endian(writer, value, 8);
}

void protobuf_put_float(struct protobuf_writer *writer, uint32_t number, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    protobuf_put_fixed32(writer, number, bits);
}

void protobuf_put_double(struct protobuf_writer *writer, uint32_t number, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    protobuf_put_fixed64(writer, number, bits);
}

void protobuf_put_bytes(struct protobuf_writer *writer, uint32_t number, const void *bytes,
                        size_t length) {
    put_tag(writer, number, PROTOBUF_BYTES);
    protobuf_raw_varint(writer, length);
    protobuf_raw(writer, bytes, length);
}

void protobuf_put_text(struct protobuf_writer *writer, uint32_t number, const char *text) {
    protobuf_put_bytes(writer, number, text, strlen(text));
}

size_t protobuf_begin(struct protobuf_writer *writer, uint32_t number) {
    put_tag(writer, number, PROTOBUF_BYTES);
    return writer->length;
}

void protobuf_end(struct protobuf_writer *writer, size_t begun) {
    unsigned char text[VARINT_BYTES];
    if (!writer->failed) {
        size_t content = writer->length - begun, size = print_varint(text, content);
        if (reserve(writer, size)) {
            memmove(writer->bytes + begun + size, writer->bytes + begun, content);
            memcpy(writer->bytes + begun, text, size);
            writer->length += size;
        }
    }
}

void protobuf_clear(struct protobuf_writer *writer) {
    writer->length = 0;
    writer->failed = 0;
}

void protobuf_done(struct protobuf_writer *writer) {
    memory_free(writer->bytes);
    *writer = (struct protobuf_writer){0};
}
