// SPDX-License-Identifier: Apache-2.0
// bzip2 files written by libbz2: read as a whole, with any number of threads, and from any block;
// truncated at every length, with every bit flipped, and out of memory.
#include "core/buffer.h"
#include "core/scratch.h"
#include "wiki/bzip2.h"

#include <bzlib.h>

#define BLOCKS_MAX 64

static int is_bzip2(const char *name, enum berth_status expected) {
    int is;
    assert_int_equal(bzip2_recognise(scratch(name), &is, NULL), expected);
    return is;
}

enum content { NOISE, ONE_LETTER, WORDS, CONTENTS };

static void put_content(struct buffer *to, size_t length, enum content content) {
    uint32_t state = 12345;
    for (size_t i = 0; i < length; i++) {
        state = state * 1664525 + 1013904223;
        buffer_put_byte(to, content == NOISE        ? (char)(state >> 24)
                            : content == ONE_LETTER ? 'a'
                                                    : "etaoin shrdlu\n"[(state >> 24) % 14]);
    }
}

static void put_stream(struct buffer *to, const char *bytes, size_t length, int level) {
    unsigned size = (unsigned)(length + length / 50 + 700);
    assert_true(buffer_reserve(to, size));
    assert_int_equal(BZ2_bzBuffToBuffCompress(to->bytes + to->length, &size, (char *)bytes,
                                              (unsigned)length, level, 0, 0),
                     BZ_OK);
    to->length += size;
}

// Reads everything from `bit`; records the bit offsets of the blocks and the offsets of their
// contents.
static enum berth_status read_from(uint64_t bit, int threads, struct buffer *content,
                                   uint64_t bits[BLOCKS_MAX], size_t begins[BLOCKS_MAX],
                                   size_t *count, struct berth_error *error) {
    struct bzip2_reader *reader;
    const char *bytes;
    size_t length = 1;
    uint64_t at;
    *count = 0;
    buffer_clear(content);
    enum berth_status status = bzip2_open(scratch("x.bz2"), bit, threads, &reader, error);
    while (status == BERTH_OK && length > 0) {
        status = bzip2_next(reader, &bytes, &length, &at, error);
        if (status == BERTH_OK && length > 0) {
            assert_true(*count < BLOCKS_MAX);
            bits[*count] = at;
            begins[(*count)++] = content->length;
            buffer_put(content, bytes, length);
        }
    }
    if (status == BERTH_OK) {
        assert_int_equal(bzip2_position(reader), bzip2_size(reader));
    }
    bzip2_close(reader);
    return status;
}

static enum berth_status read_all(int threads, struct buffer *content, struct berth_error *error) {
    uint64_t bits[BLOCKS_MAX];
    size_t begins[BLOCKS_MAX], count;
    return read_from(0, threads, content, bits, begins, &count, error);
}

static void assert_same(const struct buffer *a, const struct buffer *b) {
    assert_int_equal(a->length, b->length);
    assert_memory_equal(a->bytes != NULL ? a->bytes : "", b->bytes != NULL ? b->bytes : "",
                        a->length);
}

static void test_reads_streams(void **state) {
    (void)state;
    // Lengths below, at and above a block of level 1 (100,000 bytes), with empty streams between.
    static const size_t lengths[] = {1, 0, 99980, 99981, 0, 350000, 0, 1000000};
    struct buffer wanted = {0}, file = {0}, got = {0};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t from = wanted.length;
        put_content(&wanted, lengths[i], (enum content)((i + 1) % CONTENTS));
        put_stream(&file, wanted.bytes + from, lengths[i], i == 5 ? 9 : 1);
    }
    scratch_write_bytes("x.bz2", file.bytes, file.length);
    assert_true(is_bzip2("x.bz2", BERTH_OK));
    for (int threads = 1; threads <= 5; threads++) {
        assert_int_equal(read_all(threads, &got, NULL), BERTH_OK);
        assert_same(&got, &wanted);
    }
    uint64_t bits[BLOCKS_MAX], other_bits[BLOCKS_MAX];
    size_t begins[BLOCKS_MAX], other[BLOCKS_MAX], count, rest;
    assert_int_equal(read_from(0, 2, &got, bits, begins, &count, NULL), BERTH_OK);
    assert_true(count > 8);
    for (size_t i = 0; i < count; i++) {
        struct buffer tail = {.bytes = wanted.bytes + begins[i],
                              .length = wanted.length - begins[i]};
        assert_int_equal(read_from(bits[i], 3, &got, other_bits, other, &rest, NULL), BERTH_OK);
        assert_same(&got, &tail);
        assert_int_equal(rest, count - i);
        assert_int_equal(other_bits[0], bits[i]);
    }
    buffer_done(&wanted);
    buffer_done(&file);
    buffer_done(&got);
}

// Puts words of exactly those 24 byte values that make the block's map of used bytes spell `mark`:
// its first 16 bits are the used groups of 16 values, then 16 bits per group are the used values.
static void put_marked(struct buffer *to, size_t length, uint64_t mark) {
    char used[48];
    size_t count = 0;
    uint32_t state = 99;
    for (unsigned bit = 0; bit < 48; bit++) {
        if ((mark >> (47 - bit) & 1) != 0) {
            used[count++] = (char)bit; // group bit / 16
        }
    }
    buffer_put(to, used, count);
    for (size_t i = count; i < length; i++) {
        state = state * 1664525 + 1013904223;
        buffer_put_byte(to, used[(state >> 16) % count]);
    }
}

// Blocks that happen to contain the mark of a block, or of an end: alone, between others and last.
static void test_marks_by_chance(void **state) {
    (void)state;
    static const uint64_t marks[] = {UINT64_C(0x314159265359), UINT64_C(0x177245385090)};
    for (int variant = 0; variant < 16; variant++) {
        struct buffer wanted = {0}, file = {0}, got = {0};
        int before = variant & 1, after = variant >> 1 & 1, streams = variant >> 2 & 1;
        put_content(&wanted, before ? 250000 : 0, NOISE);
        size_t begin = wanted.length;
        if (streams && before) {
            put_stream(&file, wanted.bytes, begin, 1);
        } else {
            begin = 0;
        }
        put_marked(&wanted, before && !streams ? 150000 : 90000, marks[variant >> 3]);
        put_content(&wanted, after && !streams ? 300000 : 0, NOISE);
        put_stream(&file, wanted.bytes + begin, wanted.length - begin, 1);
        begin = wanted.length;
        if (streams && after) {
            put_content(&wanted, 120000, NOISE);
            put_stream(&file, wanted.bytes + begin, wanted.length - begin, 1);
        }
        scratch_write_bytes("x.bz2", file.bytes, file.length);
        for (int threads = 1; threads <= 5; threads++) {
            struct berth_error error = {0};
            if (read_all(threads, &got, &error) != BERTH_OK) {
                fail_msg("variant %d, %d threads: %s", variant, threads, error.message);
            }
            assert_same(&got, &wanted);
        }
        buffer_done(&wanted);
        buffer_done(&file);
        buffer_done(&got);
    }
}

// A block of 900,000 bytes after run-length coding can have 51 times as many.
static void test_reads_a_long_run(void **state) {
    (void)state;
    struct buffer wanted = {0}, file = {0}, got = {0};
    put_content(&wanted, 30000000, ONE_LETTER);
    put_stream(&file, wanted.bytes, wanted.length, 9);
    scratch_write_bytes("x.bz2", file.bytes, file.length);
    assert_int_equal(read_all(2, &got, NULL), BERTH_OK);
    assert_same(&got, &wanted);
    buffer_done(&wanted);
    buffer_done(&file);
    buffer_done(&got);
}

// A small file of two streams; *boundary: offset of the second.
static void make_small(struct buffer *wanted, struct buffer *file, size_t *boundary) {
    put_content(wanted, 300, WORDS);
    put_stream(file, wanted->bytes, 200, 9);
    *boundary = file->length;
    put_stream(file, wanted->bytes + 200, 100, 9);
}

static void test_cut_at_every_length(void **state) {
    (void)state;
    struct buffer wanted = {0}, file = {0}, got = {0};
    size_t boundary;
    make_small(&wanted, &file, &boundary);
    for (size_t length = 1; length < file.length; length++) {
        struct berth_error error;
        scratch_write_bytes("x.bz2", file.bytes, length);
        enum berth_status status = read_all(2, &got, &error);
        if (length == boundary) { // a shorter, valid file
            assert_int_equal(status, BERTH_OK);
            assert_int_equal(got.length, 200);
            continue;
        }
        assert_int_equal(status, BERTH_BAD_DATA);
        assert_message_has(&error, "x.bz2: byte ");
        assert_memory_equal(got.bytes, wanted.bytes, got.length);
    }
    buffer_done(&wanted);
    buffer_done(&file);
    buffer_done(&got);
}

// With a flipped bit the content is right, or there is an error; only the padding bits at the end
// of a stream and the level have no effect.
static void test_every_bit_flipped(void **state) {
    (void)state;
    struct buffer wanted = {0}, file = {0}, got = {0};
    size_t boundary, unnoticed = 0;
    make_small(&wanted, &file, &boundary);
    for (size_t bit = 0; bit < file.length * 8; bit++) {
        struct berth_error error;
        file.bytes[bit / 8] = (char)(file.bytes[bit / 8] ^ 0x80 >> bit % 8);
        scratch_write_bytes("x.bz2", file.bytes, file.length);
        file.bytes[bit / 8] = (char)(file.bytes[bit / 8] ^ 0x80 >> bit % 8);
        enum berth_status status = read_all(1, &got, &error);
        assert_true(status == BERTH_OK || status == BERTH_BAD_DATA);
        if (status == BERTH_OK) {
            assert_same(&got, &wanted);
            unnoticed++;
        } else {
            assert_message_has(&error, "x.bz2: byte ");
            assert_true(got.length <= wanted.length);
            assert_memory_equal(got.bytes != NULL ? got.bytes : "", wanted.bytes, got.length);
        }
    }
    assert_true(unnoticed < 2 * (7 + 8));
    buffer_done(&wanted);
    buffer_done(&file);
    buffer_done(&got);
}

static void test_other_files(void **state) {
    (void)state;
    struct berth_error error;
    struct buffer got = {0}, file = {0};
    assert_false(is_bzip2("absent", BERTH_NO_INPUT));
    scratch_write("x.bz2", "BZ");
    assert_false(is_bzip2("x.bz2", BERTH_OK));
    put_stream(&file, "text", 4, 1);
    buffer_put_text(&file, "garbage after the stream");
    scratch_write_bytes("x.bz2", file.bytes, file.length);
    assert_int_equal(read_all(1, &got, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "x.bz2: byte ");
    // Endless marks: reading ends, and memory does not grow.
    file.length = 0;
    buffer_put_text(&file, "BZh9");
    for (int i = 0; i < 5000000 / 6; i++) {
        buffer_put(&file, "\x31\x41\x59\x26\x53\x58", 6);
    }
    memcpy(file.bytes + 4, "\x31\x41\x59\x26\x53\x59", 6);
    scratch_write_bytes("x.bz2", file.bytes, file.length);
    assert_int_equal(read_all(1, &got, &error), BERTH_BAD_DATA);
    struct bzip2_reader *reader;
    assert_int_equal(bzip2_open(scratch("x.bz2"), UINT64_C(1) << 50, 1, &reader, &error),
                     BERTH_BAD_DATA);
    assert_int_equal(bzip2_open(scratch("absent"), 0, 1, &reader, &error), BERTH_NO_INPUT);
    buffer_done(&file);
    buffer_done(&got);
}

// Half a million empty streams before and between others: more than is searched at a time. The end
// of a stream is at every position around the end of what is searched.
static void test_many_empty_streams(void **state) {
    (void)state;
    const size_t searched = (size_t)6 << 20; // by two threads
    struct buffer empty = {0}, wanted = {0}, file = {0}, last = {0}, got = {0};
    put_stream(&empty, "", 0, 9);
    for (size_t before = 0; before < 40; before++) {
        struct berth_error error = {0};
        file.length = last.length = wanted.length = 0;
        put_content(&wanted, before + 200, NOISE);
        if (before > 0) {
            put_stream(&file, wanted.bytes, before, 9);
        }
        put_stream(&last, wanted.bytes + before, 200, 9);
        while (file.length + last.length <= searched) {
            buffer_put(&file, empty.bytes, empty.length);
        }
        buffer_put(&file, last.bytes, last.length);
        put_stream(&file, wanted.bytes, 100, 9);
        put_content(&wanted, 100, NOISE);
        scratch_write_bytes("x.bz2", file.bytes, file.length);
        for (int threads = 1; threads <= 2; threads++) {
            if (read_all(threads, &got, &error) != BERTH_OK) {
                fail_msg("%zu bytes before, %d threads: %s", before, threads, error.message);
            }
            assert_same(&got, &wanted);
        }
    }
    buffer_done(&empty);
    buffer_done(&wanted);
    buffer_done(&file);
    buffer_done(&last);
    buffer_done(&got);
}

static void test_without_memory(void **state) {
    (void)state;
    struct buffer wanted = {0}, file = {0}, got = {0};
    size_t boundary;
    make_small(&wanted, &file, &boundary);
    scratch_write_bytes("x.bz2", file.bytes, file.length);
    assert_true(buffer_reserve(&got, 4096));
    memory_fail_at(0, 0);
    assert_int_equal(read_all(1, &got, NULL), BERTH_OK);
    uint64_t calls = memory_fail_at(0, 0);
    assert_true(calls > 8);
    for (uint64_t i = 1; i <= calls; i++) {
        struct berth_error error;
        memory_fail_at(i, 0);
        enum berth_status status = read_all(1, &got, &error);
        memory_fail_at(0, 0);
        assert_int_equal(status, BERTH_NO_MEMORY);
    }
    buffer_done(&wanted);
    buffer_done(&file);
    buffer_done(&got);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_reads_streams),      SCRATCH_TEST(test_reads_a_long_run),
        SCRATCH_TEST(test_marks_by_chance),    SCRATCH_TEST(test_cut_at_every_length),
        SCRATCH_TEST(test_every_bit_flipped),  SCRATCH_TEST(test_other_files),
        SCRATCH_TEST(test_many_empty_streams), SCRATCH_TEST(test_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
