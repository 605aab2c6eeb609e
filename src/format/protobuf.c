// SPDX-License-Identifier: Apache-2.0
// Reading never looks beyond the message's end and allocates nothing.
#include "format/protobuf.h"

#include "core/memory.h"

#include <string.h>

#define VARINT_BYTES 10 // of 64 bits, 7 in a byte
#define LARGEST_NUMBER ((1u << 29) - 1)

// --- reading ------------------------------------------------------------------------------------

struct protobuf_reader protobuf_read(const void *bytes, size_t length, const char *name) {
    const unsigned char *begin = bytes;
    return (struct protobuf_reader){
        .begin = begin, .at = begin, .end = begin + length, .name = name};
}

static size_t place(const struct protobuf_reader *reader) {
    return (size_t)(reader->at - reader->begin);
}

enum berth_status protobuf_varint(struct protobuf_reader *reader, uint64_t *value,
                                  struct berth_error *error) {
    size_t left = (size_t)(reader->end - reader->at);
    *value = 0;
    for (size_t i = 0; i < VARINT_BYTES && i < left; i++) {
        unsigned char byte = reader->at[i];
        *value |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (byte < 0x80 && (i < VARINT_BYTES - 1 || byte <= 1)) {
            reader->at += i + 1;
            return BERTH_OK;
        }
        if (byte < 0x80) {
            break;
        }
    }
    return error_set(error, BERTH_BAD_DATA, "%s: byte %zu of %zu: %s", reader->name, place(reader),
                     (size_t)(reader->end - reader->begin),
                     left < VARINT_BYTES ? "a number is cut off" : "a number of more than 64 bits");
}

static uint64_t little_endian(const unsigned char *bytes, size_t size) {
    uint64_t value = 0;
    for (size_t i = size; i-- > 0;) {
        value = value << 8 | bytes[i];
    }
    return value;
}

static enum berth_status read_tag(struct protobuf_reader *reader, struct protobuf_field *field,
                                  struct berth_error *error) {
    size_t begin = place(reader);
    uint64_t tag;
    TRY(protobuf_varint(reader, &tag, error));
    *field = (struct protobuf_field){.number = (uint32_t)(tag >> 3), .wire = tag & 7};
    if (tag >> 3 == 0 || tag >> 3 > LARGEST_NUMBER) {
        return error_set(error, BERTH_BAD_DATA, "%s: byte %zu: no field has this number",
                         reader->name, begin);
    }
    return BERTH_OK;
}

enum berth_status protobuf_next(struct protobuf_reader *reader, struct protobuf_field *field,
                                int *more, struct berth_error *error) {
    *more = reader->at < reader->end;
    if (!*more) {
        return BERTH_OK;
    }
    TRY(read_tag(reader, field, error));
    if (field->wire == PROTOBUF_VARINT) {
        return protobuf_varint(reader, &field->value, error);
    }
    uint64_t size = field->wire == PROTOBUF_FIXED32 ? 4 : 8;
    if (field->wire == PROTOBUF_BYTES) {
        TRY(protobuf_varint(reader, &size, error));
    } else if (field->wire != PROTOBUF_FIXED32 && field->wire != PROTOBUF_FIXED64) {
        return error_set(error, BERTH_BAD_DATA, "%s: field %u: unknown wire type %d", reader->name,
                         field->number, (int)field->wire);
    }
    if (size > (uint64_t)(reader->end - reader->at)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: field %u: %llu bytes are announced, %zu are left", reader->name,
                         field->number, (unsigned long long)size,
                         (size_t)(reader->end - reader->at));
    }
    if (field->wire == PROTOBUF_BYTES) {
        field->bytes = reader->at;
        field->length = (size_t)size;
    } else {
        field->value = little_endian(reader->at, (size_t)size);
    }
    reader->at += size;
    return BERTH_OK;
}

enum berth_status protobuf_expect(const struct protobuf_reader *reader,
                                  const struct protobuf_field *field, enum protobuf_wire wire,
                                  struct berth_error *error) {
    return field->wire == wire
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA, "%s: field %u: expected wire type %d, found %d",
                           reader->name, field->number, (int)wire, (int)field->wire);
}

struct protobuf_reader protobuf_inside(const struct protobuf_reader *reader,
                                       const struct protobuf_field *field) {
    return protobuf_read(field->bytes, field->length, reader->name);
}

// --- writing ------------------------------------------------------------------------------------

// Room for so many more bytes; 0 when memory is out.
static int reserve(struct protobuf_writer *writer, size_t more) {
    if (more > writer->capacity - writer->length && !writer->failed) {
        size_t capacity = 2 * writer->capacity + more + 64;
        unsigned char *grown = memory_resize(writer->bytes, capacity, 1);
        if (grown != NULL) {
            writer->bytes = grown;
            writer->capacity = capacity;
        } else {
            writer->failed = 1;
        }
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
    for (size_t i = 0; i < size; i++) {
        text[i] = (unsigned char)(value >> 8 * i);
    }
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
