// SPDX-License-Identifier: Apache-2.0
// Reads ONNX files in tests: fields of messages by number, with checks.
#ifndef BERTH_TESTS_FORMAT_ONNX_READER_H
#define BERTH_TESTS_FORMAT_ONNX_READER_H

#include "core/harness.h"
#include "format/protobuf/protobuf.h"

#include <string.h>

typedef struct protobuf_reader message;

// The next field with that number, skipping others; 0 at the end of the message.
static inline int next_field(message *reader, uint32_t number, struct protobuf_field *field) {
    int more;
    do {
        assert_int_equal(protobuf_next(reader, field, &more, NULL), BERTH_OK);
    } while (more && field->number != number);
    return more;
}

static inline size_t count_fields(message reader, uint32_t number) {
    struct protobuf_field field;
    size_t count = 0;
    while (next_field(&reader, number, &field)) {
        count++;
    }
    return count;
}

// The n-th field with that number (from 0), which must exist.
static inline struct protobuf_field field_at(message reader, uint32_t number, size_t n) {
    struct protobuf_field field;
    do {
        assert_true(next_field(&reader, number, &field));
    } while (n-- > 0);
    return field;
}

static inline message message_at(message reader, uint32_t number, size_t n) {
    struct protobuf_field field = field_at(reader, number, n);
    assert_int_equal(field.wire, PROTOBUF_BYTES);
    return protobuf_inside(&reader, &field);
}

static inline uint64_t number_at(message reader, uint32_t number, size_t n) {
    struct protobuf_field field = field_at(reader, number, n);
    assert_int_not_equal(field.wire, PROTOBUF_BYTES);
    return field.value;
}

static inline int is_text(const struct protobuf_field *field, const char *text) {
    return field->length == strlen(text) && memcmp(field->bytes, text, field->length) == 0;
}

static inline void expect_text_at(message reader, uint32_t number, size_t n, const char *text) {
    struct protobuf_field field = field_at(reader, number, n);
    assert_true(is_text(&field, text));
}

#endif
