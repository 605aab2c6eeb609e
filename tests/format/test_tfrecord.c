// SPDX-License-Identifier: Apache-2.0
// TFRecord files: TensorFlow's (data/tensorflow, made by dev/fixtures/make_tensorflow.py) read and
// written byte for byte, records of every size, and truncated, damaged or growing files.
#include "core/scratch.h"
#include "format/checksum/crc32c.h"
#include "format/tensorflow/tfrecord.h"

#define REFERENCE BERTH_TEST_FORMAT_DATA "/tensorflow/records.tfrecord"

static int is_tfrecord(const char *path) {
    int is;
    assert_int_equal(tfrecord_recognise(path, &is, NULL), BERTH_OK);
    return is;
}

static void open_good(struct tfrecord_reader *reader, const char *path) {
    struct berth_error error;
    if (tfrecord_open(reader, path, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

// Reads to the end or the first error; *count: the number of valid records.
static enum berth_status count_records(const char *path, int may_be_torn, size_t *count,
                                       uint64_t *torn, struct berth_error *error) {
    struct tfrecord_reader reader;
    const unsigned char *bytes;
    size_t length;
    int more = 1;
    *count = 0;
    open_good(&reader, path);
    reader.may_be_torn = may_be_torn;
    enum berth_status status = tfrecord_next(&reader, &bytes, &length, &more, error);
    while (status == BERTH_OK && more) {
        ++*count;
        status = tfrecord_next(&reader, &bytes, &length, &more, error);
    }
    *torn = reader.torn;
    tfrecord_close(&reader);
    return status;
}

static void test_reads_tensorflows(void **state) {
    (void)state;
    static const size_t lengths[] = {5, 0, 256};
    struct tfrecord_reader reader;
    const unsigned char *bytes;
    size_t length;
    int more;
    open_good(&reader, REFERENCE);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tfrecord_next(&reader, &bytes, &length, &more, NULL), BERTH_OK);
        assert_true(more);
        assert_int_equal(length, lengths[i]);
        if (i == 0) {
            assert_memory_equal(bytes, "first", 5);
        }
    }
    for (int i = 0; i < 256; i++) {
        assert_int_equal(bytes[i], i);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tfrecord_next(&reader, &bytes, &length, &more, NULL), BERTH_OK);
        assert_false(more);
    }
    tfrecord_close(&reader);
    tfrecord_close(&reader);
}

static void test_writes_tensorflows_bytes(void **state) {
    (void)state;
    unsigned char all[256];
    for (int i = 0; i < 256; i++) {
        all[i] = (unsigned char)i;
    }
    struct file_writer writer;
    assert_int_equal(file_writer_open(&writer, scratch("a"), NULL), BERTH_OK);
    assert_int_equal(tfrecord_put(&writer, "first", 5, NULL), BERTH_OK);
    assert_int_equal(tfrecord_put(&writer, "", 0, NULL), BERTH_OK);
    assert_int_equal(tfrecord_put(&writer, all, sizeof all, NULL), BERTH_OK);
    assert_int_equal(file_writer_commit(&writer, NULL), BERTH_OK);
    assert_same_file(scratch("a"), REFERENCE);
}

// Records below, at and above the reader's buffer, in an order that makes it move and grow.
static void test_records_of_every_size(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 65524, 1, 65536, 200000, 7, 65520, 40000, 40000, 300001, 0};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    unsigned char *data = memory_new(300001);
    struct file_writer writer;
    assert_int_equal(file_writer_open(&writer, scratch("a"), NULL), BERTH_OK);
    for (size_t i = 0; i < COUNT; i++) {
        memset(data, (int)i + 1, sizes[i]);
        assert_int_equal(tfrecord_put(&writer, data, sizes[i], NULL), BERTH_OK);
    }
    assert_int_equal(file_writer_commit(&writer, NULL), BERTH_OK);
    struct tfrecord_reader reader;
    const unsigned char *bytes;
    size_t length;
    int more;
    open_good(&reader, scratch("a"));
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(tfrecord_next(&reader, &bytes, &length, &more, NULL), BERTH_OK);
        assert_true(more);
        assert_int_equal(length, sizes[i]);
        memset(data, (int)i + 1, sizes[i]);
        assert_memory_equal(bytes, data, length);
    }
    assert_int_equal(tfrecord_next(&reader, &bytes, &length, &more, NULL), BERTH_OK);
    assert_false(more);
    tfrecord_close(&reader);
    open_good(&reader, scratch("a")); // every other one
    for (size_t i = 0; i + 1 < COUNT; i += 2) {
        assert_int_equal(tfrecord_skip(&reader, &more, NULL), BERTH_OK);
        assert_true(more);
        assert_int_equal(tfrecord_next(&reader, &bytes, &length, &more, NULL), BERTH_OK);
        assert_int_equal(length, sizes[i + 1]);
        memset(data, (int)i + 2, sizes[i + 1]);
        assert_memory_equal(bytes, data, length);
    }
    assert_int_equal(tfrecord_skip(&reader, &more, NULL), BERTH_OK);
    assert_true(more);
    assert_int_equal(tfrecord_skip(&reader, &more, NULL), BERTH_OK);
    assert_false(more);
    tfrecord_close(&reader);
    memory_free(data);
}

// A file is recognised by its first frame alone; other and shorter files are not.
static void test_recognised_by_the_first_frame(void **state) {
    (void)state;
    char *bytes;
    size_t length;
    assert_true(is_tfrecord(REFERENCE));
    assert_int_equal(file_read(REFERENCE, 4096, &bytes, &length, NULL), BERTH_OK);
    for (size_t cut = 0; cut < 30; cut++) {
        scratch_write_bytes("a", bytes, cut);
        assert_int_equal(is_tfrecord(scratch("a")), cut >= 21);
    }
    scratch_write("a", "no frame at all, but long enough to be one");
    assert_false(is_tfrecord(scratch("a")));
    assert_false(is_tfrecord(scratch("nowhere")));
    memory_free(bytes);
}

// --- damage -------------------------------------------------------------------------------------

static void test_every_truncation(void **state) {
    (void)state;
    char *bytes;
    size_t length, count;
    uint64_t torn;
    assert_int_equal(file_read(REFERENCE, 4096, &bytes, &length, NULL), BERTH_OK);
    for (size_t cut = 0; cut < length; cut++) {
        struct berth_error error;
        scratch_write_bytes("a", bytes, cut);
        size_t whole = (cut >= 21) + (cut >= 37), end = whole == 0 ? 0 : whole == 1 ? 21 : 37;
        enum berth_status status = count_records(scratch("a"), 0, &count, &torn, &error);
        assert_int_equal(count, whole);
        assert_int_equal(status, cut == end ? BERTH_OK : BERTH_BAD_DATA);
        if (cut != end) {
            assert_message_has(&error, "truncated");
        }
        assert_int_equal(count_records(scratch("a"), 1, &count, &torn, NULL), BERTH_OK);
        assert_int_equal(count, whole);
        assert_int_equal(torn, cut - end);
    }
    memory_free(bytes);
}

static void test_every_flipped_bit(void **state) {
    (void)state;
    char *bytes;
    size_t length, count;
    uint64_t torn;
    assert_int_equal(file_read(REFERENCE, 4096, &bytes, &length, NULL), BERTH_OK);
    for (size_t bit = 0; bit < 8 * length; bit++) {
        struct berth_error error;
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        scratch_write_bytes("a", bytes, length);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(count_records(scratch("a"), 1, &count, &torn, &error), BERTH_BAD_DATA);
        assert_message_has(&error, "checksum");
    }
    memory_free(bytes);
}

// A length that no file has, with the correct checksum.
static void test_announced_lengths(void **state) {
    (void)state;
    static const uint64_t lengths[] = {1, 5, UINT32_MAX, UINT64_MAX - 16, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        unsigned char bytes[20] = {0};
        size_t count;
        uint64_t torn;
        memcpy(bytes, &lengths[i], 8);
        uint32_t masked = crc32c_mask(crc32c(0, bytes, 8));
        memcpy(bytes + 8, &masked, 4);
        scratch_write_bytes("a", bytes, lengths[i] == 1 ? 16 : 20);
        struct berth_error error;
        assert_int_equal(count_records(scratch("a"), 0, &count, &torn, &error), BERTH_BAD_DATA);
        assert_message_has(&error, "truncated");
    }
}

static void test_memory_runs_out(void **state) {
    (void)state;
    struct tfrecord_reader reader;
    const unsigned char *bytes;
    size_t length;
    int more;
    memory_fail_at(1, 0);
    assert_int_equal(tfrecord_open(&reader, REFERENCE, NULL), BERTH_NO_MEMORY);
    tfrecord_close(&reader);
    open_good(&reader, REFERENCE);
    memory_fail_at(1, 0);
    assert_int_equal(tfrecord_next(&reader, &bytes, &length, &more, NULL), BERTH_NO_MEMORY);
    tfrecord_close(&reader);
    assert_int_equal(tfrecord_open(&reader, scratch("none"), NULL), BERTH_NO_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_reads_tensorflows),
        SCRATCH_TEST(test_writes_tensorflows_bytes),
        SCRATCH_TEST(test_records_of_every_size),
        SCRATCH_TEST(test_every_truncation),
        SCRATCH_TEST(test_recognised_by_the_first_frame),
        SCRATCH_TEST(test_every_flipped_bit),
        SCRATCH_TEST(test_announced_lengths),
        SCRATCH_TEST(test_memory_runs_out),
    };
    return cmocka_run_group_tests_name("tfrecord", tests, NULL, NULL);
}
