// SPDX-License-Identifier: Apache-2.0
// Reads protocol buffers field by field, never beyond the end of a message, and allocates nothing.
// TensorFlow's index and records and the models of sentencepiece are read with it; what a field
// number means is known to their files.
#include "format/protobuf/protobuf.h"

#include "core/little_endian.h"
#define VARINT_BYTES 10 // 64 bits, 7 per byte
#define LARGEST_NUMBER ((1u << 29) - 1)

struct protobuf_reader protobuf_read(const void *bytes, size_t length, const char *name) {
    const unsigned char *begin = bytes;
    return (struct protobuf_reader){
        .begin = begin, .at = begin, .end = begin + length, .name = name};
}

static size_t offset_of(const struct protobuf_reader *reader) {
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
    return error_set(error, BERTH_BAD_DATA, "%s: byte %zu of %zu: %s", reader->name,
                     offset_of(reader), (size_t)(reader->end - reader->begin),
                     left < VARINT_BYTES ? "a truncated number" : "a number of more than 64 bits");
}

static enum berth_status read_tag(struct protobuf_reader *reader, struct protobuf_field *field,
                                  struct berth_error *error) {
    size_t begin = offset_of(reader);
    uint64_t tag;
    TRY(protobuf_varint(reader, &tag, error));
    *field = (struct protobuf_field){.number = (uint32_t)(tag >> 3), .wire = tag & 7};
    if (tag >> 3 == 0 || tag >> 3 > LARGEST_NUMBER) {
        return error_set(error, BERTH_BAD_DATA, "%s: byte %zu: invalid field number", reader->name,
                         begin);
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
        return error_set(error, BERTH_BAD_DATA, "%s: field %u: expected %llu bytes, %zu are left",
                         reader->name, field->number, (unsigned long long)size,
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
