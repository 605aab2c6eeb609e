// SPDX-License-Identifier: Apache-2.0
// Protocol buffers' wire format: the specification's examples, round trips, and invalid messages,
// each in a block of its exact size so that the sanitizer detects reads past the end.
#include "core/harness.h"
#include "core/memory.h"
#include "core/rng.h"
#include "format/protobuf/protobuf.h"

#include <stdlib.h>
#include <string.h>

static struct protobuf_field next(struct protobuf_reader *reader) {
    struct protobuf_field field;
    struct berth_error error;
    int more;
    if (protobuf_next(reader, &field, &more, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_true(more);
    return field;
}

static void assert_end(struct protobuf_reader *reader) {
    struct protobuf_field field;
    int more = 1;
    assert_int_equal(protobuf_next(reader, &field, &more, NULL), BERTH_OK);
    assert_false(more);
}

static void assert_writes(const struct buffer *writer, const char *bytes, size_t length) {
    assert_false(writer->failed);
    assert_int_equal(writer->length, length);
    assert_memory_equal(writer->bytes, bytes, length);
}

// --- valid messages -----------------------------------------------------------------------------

// The examples of the specification: a = 150; b = "testing"; c = {a = 150}.
static void test_examples(void **state) {
    (void)state;
    static const char number[] = "\x08\x96\x01", text[] = "\x12\x07testing",
                      nested[] = "\x1a\x03\x08\x96\x01";
    struct buffer writer = {0};
    protobuf_put_varint(&writer, 1, 150);
    assert_writes(&writer, number, 3);
    buffer_clear(&writer);
    protobuf_put_text(&writer, 2, "testing");
    assert_writes(&writer, text, 9);
    buffer_clear(&writer);
    size_t begun = protobuf_begin(&writer, 3);
    protobuf_put_varint(&writer, 1, 150);
    protobuf_end(&writer, begun);
    assert_writes(&writer, nested, 5);
    struct protobuf_reader reader = protobuf_read(writer.bytes, writer.length, "x");
    struct protobuf_field field = next(&reader);
    assert_int_equal(field.number, 3);
    assert_int_equal(field.wire, PROTOBUF_BYTES);
    struct protobuf_reader inner = protobuf_inside(&reader, &field);
    field = next(&inner);
    assert_true(field.number == 1 && field.wire == PROTOBUF_VARINT && field.value == 150);
    assert_end(&inner);
    assert_end(&reader);
    buffer_done(&writer);
}

static void test_every_wire_type(void **state) {
    (void)state;
    struct buffer writer = {0};
    protobuf_put_double(&writer, 1, 1.0);
    protobuf_put_float(&writer, 2, -2.5f);
    protobuf_put_fixed64(&writer, 3, 0x0102030405060708u);
    protobuf_put_fixed32(&writer, 4, 0x01020304u);
    protobuf_put_bytes(&writer, 5, "a\0b", 3);
    protobuf_put_varint(&writer, 6, (uint64_t)-1);
    protobuf_put_varint(&writer, (1u << 29) - 1, 0);
    assert_memory_equal(writer.bytes, "\x09\0\0\0\0\0\0\xf0\x3f\x15\0\0\x20\xc0", 14);
    struct protobuf_reader reader = protobuf_read(writer.bytes, writer.length, "x");
    assert_true(next(&reader).value == 0x3ff0000000000000u);
    assert_true(next(&reader).value == 0xc0200000u);
    assert_true(next(&reader).value == 0x0102030405060708u);
    struct protobuf_field field = next(&reader);
    assert_true(field.wire == PROTOBUF_FIXED32 && field.value == 0x01020304u);
    assert_int_equal(protobuf_expect(&reader, &field, PROTOBUF_FIXED32, NULL), BERTH_OK);
    assert_int_equal(protobuf_expect(&reader, &field, PROTOBUF_VARINT, NULL), BERTH_BAD_DATA);
    field = next(&reader);
    assert_int_equal(field.length, 3);
    assert_memory_equal(field.bytes, "a\0b", 3);
    assert_true((int64_t)next(&reader).value == -1);
    assert_int_equal(next(&reader).number, (1u << 29) - 1);
    assert_end(&reader);
    buffer_done(&writer);
}

// Bare numbers of every length, and nested messages with a length of every size.
static void test_round_trips(void **state) {
    (void)state;
    struct buffer writer = {0};
    uint64_t at = 0, values[200];
    for (size_t i = 0; i < 200; i++) {
        values[i] = ((uint64_t)rng_draw(1, 1, &at) << 32 | rng_draw(1, 1, &at)) >> i % 64;
        protobuf_raw_varint(&writer, values[i]);
    }
    struct protobuf_reader reader = protobuf_read(writer.bytes, writer.length, "x");
    for (size_t i = 0; i < 200; i++) {
        uint64_t value;
        assert_int_equal(protobuf_varint(&reader, &value, NULL), BERTH_OK);
        assert_true(value == values[i]);
    }
    assert_end(&reader);
    static const size_t sizes[] = {0, 1, 127, 128, 16383, 16384, 70000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        buffer_clear(&writer);
        size_t begun = protobuf_begin(&writer, 9);
        for (size_t k = 0; k < sizes[i]; k++) {
            buffer_put(&writer, "x", 1);
        }
        protobuf_end(&writer, begun);
        protobuf_put_varint(&writer, 1, 5);
        reader = protobuf_read(writer.bytes, writer.length, "x");
        assert_int_equal(next(&reader).length, sizes[i]);
        assert_int_equal(next(&reader).value, 5);
        assert_end(&reader);
    }
    buffer_done(&writer);
}

static void test_memory_runs_out(void **state) {
    (void)state;
    struct buffer writer = {0};
    memory_fail_at(1, 1);
    size_t begun = protobuf_begin(&writer, 1);
    protobuf_put_text(&writer, 2, "text");
    protobuf_end(&writer, begun);
    memory_fail_at(0, 0);
    assert_true(writer.failed);
    assert_int_equal(writer.length, 0);
    buffer_done(&writer);
}

// --- invalid messages ----------------------------------------------------------------------------

// Reads to the end or to the first error.
static enum berth_status read_all(const void *bytes, size_t length, struct berth_error *error) {
    char *exact = malloc(length > 0 ? length : 1);
    memcpy(exact, bytes, length);
    struct protobuf_reader reader = protobuf_read(exact, length, "x");
    struct protobuf_field field;
    enum berth_status status = BERTH_OK;
    int more = 1;
    while (status == BERTH_OK && more) {
        status = protobuf_next(&reader, &field, &more, error);
    }
    free(exact);
    return status;
}

static void test_malformed(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *part;
    } cases[] = {
        {"\x08", 1, "truncated number"},
        {"\x08\x80", 2, "truncated number"},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11, "more than 64 bits"},
        {"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 12, "more than 64 bits"},
        {"\x00\x01", 2, "invalid field"},
        {"\x80\x80\x80\x80\x10\x00", 6, "invalid field"}, // 2^29
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x00", 11, "invalid field"},
        {"\x0b\x0c", 2, "wire type 3"},
        {"\x0c", 1, "wire type 4"},
        {"\x0e", 1, "wire type 6"},
        {"\x0f", 1, "wire type 7"},
        {"\x0d\x00\x00\x00", 4, "expected 4 bytes, 3 are left"},
        {"\x09\x00\x00\x00\x00\x00\x00\x00", 8, "expected 8 bytes, 7 are left"},
        {"\x0a\x02\x00", 3, "expected 2 bytes, 1 are left"},
        {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "18446744073709551615 bytes"},
        {"\x0a", 1, "truncated number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct berth_error error;
        assert_int_equal(read_all(cases[i].bytes, cases[i].length, &error), BERTH_BAD_DATA);
        if (strstr(error.message, cases[i].part) == NULL || strncmp(error.message, "x: ", 3) != 0) {
            fail_msg("case %zu: %s", i, error.message);
        }
    }
    assert_int_equal(read_all("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, NULL), BERTH_OK);
    assert_int_equal(read_all("", 0, NULL), BERTH_OK);
}

// A message truncated anywhere except between its fields is an error.
static void test_every_prefix(void **state) {
    (void)state;
    static const char bytes[] = "\x08\x96\x01\x12\x03"
                                "abc\x1d\x01\x02\x03\x04\x21\x01\x02\x03\x04\x05\x06\x07\x08";
    for (size_t length = 0; length < sizeof bytes; length++) {
        int between = length == 0 || length == 3 || length == 8 || length == 13 || length == 22;
        assert_int_equal(read_all(bytes, length, NULL), between ? BERTH_OK : BERTH_BAD_DATA);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),    cmocka_unit_test(test_every_wire_type),
        cmocka_unit_test(test_round_trips), cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_malformed),   cmocka_unit_test(test_every_prefix),
    };
    return cmocka_run_group_tests_name("protobuf", tests, NULL, NULL);
}
