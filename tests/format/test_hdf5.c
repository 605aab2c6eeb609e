// SPDX-License-Identifier: Apache-2.0
// HDF5 files that h5py wrote (data/hdf5, made by dev/fixtures/make_hdf5.py) in the oldest and the
// newest format, our own files with one and with many chunks, and truncated or damaged files.
// others_hdf5 (dev/others) reads our files with h5py.
#include "core/scratch.h"
#include "format/hdf5/hdf5.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define DATA BERTH_TEST_FORMAT_DATA "/hdf5/"

static void open_good(struct hdf5_file *file, const char *path) {
    struct berth_error error;
    if (hdf5_open(file, path, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

static int value_of(const char *name, int64_t index) {
    return (int)((7 * index + (int64_t)strlen(name)) % 97);
}

struct expected {
    const char *name;
    enum tensor_dtype dtype;
    int rank;
    int64_t shape[2];
};

// All rows, and each single one.
static void check_values(struct hdf5_file *file, const struct hdf5_dataset *set) {
    int32_t all[256], row[64];
    int64_t rows = set->rank > 0 ? set->shape[0] : 1, width = set->rank > 1 ? set->shape[1] : 1;
    struct berth_error error;
    if (hdf5_read_i32(file, set, 0, rows, all, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    for (int64_t i = 0; i < rows; i++) {
        assert_int_equal(hdf5_read_i32(file, set, i, 1, row, NULL), BERTH_OK);
        for (int64_t j = 0; j < width; j++) {
            assert_int_equal(all[i * width + j], value_of(set->name, i * width + j));
            assert_int_equal(row[j], all[i * width + j]);
        }
    }
}

static void check_sets(const char *path, const struct expected *expected, size_t count) {
    struct hdf5_file file;
    open_good(&file, path);
    assert_int_equal(file.count, count);
    for (size_t i = 0; i < count; i++) {
        const struct hdf5_dataset *set = hdf5_find(&file, expected[i].name);
        assert_non_null(set);
        assert_int_equal(set->dtype, expected[i].dtype);
        assert_int_equal(set->rank, expected[i].rank);
        for (int j = 0; j < set->rank; j++) {
            assert_int_equal(set->shape[j], expected[i].shape[j]);
        }
        if (set->dtype != TENSOR_F32) {
            check_values(&file, set);
        }
    }
    assert_null(hdf5_find(&file, "nothing"));
    hdf5_close(&file);
    hdf5_close(&file);
}

static void test_reads_unpacked(void **state) {
    (void)state;
    static const struct expected sets[] = {
        {"input_ids", TENSOR_I32, 2, {5, 16}},          {"input_mask", TENSOR_I8, 2, {5, 16}},
        {"segment_ids", TENSOR_I8, 2, {5, 16}},         {"masked_lm_ids", TENSOR_I32, 2, {5, 4}},
        {"masked_lm_positions", TENSOR_I32, 2, {5, 4}}, {"next_sentence_labels", TENSOR_I8, 1, {5}},
    };
    check_sets(DATA "unpacked.hdf5", sets, 6);
    check_sets(DATA "unpacked-latest.hdf5", sets, 6);
}

static void test_reads_packed(void **state) {
    (void)state;
    static const struct expected sets[] = {
        {"input_ids", TENSOR_I32, 2, {3, 16}},
        {"input_mask", TENSOR_I32, 2, {3, 16}},
        {"segment_ids", TENSOR_I8, 2, {3, 16}},
        {"positions", TENSOR_I32, 2, {3, 16}},
        {"masked_lm_ids", TENSOR_I32, 2, {3, 7}},
        {"masked_lm_positions", TENSOR_I32, 2, {3, 7}},
        {"next_sentence_positions", TENSOR_I32, 2, {3, 3}},
        {"next_sentence_labels", TENSOR_I8, 2, {3, 3}},
        {"next_sentence_weights", TENSOR_I32, 2, {3, 3}},
    };
    check_sets(DATA "packed.hdf5", sets, 9);
}

// Chunks that split the columns and do not divide the shape, no filter, shuffled, no chunks, one
// number; next to a group and an attribute.
static void test_reads_other_kinds(void **state) {
    (void)state;
    static const struct expected sets[] = {
        {"cut", TENSOR_I16, 2, {7, 10}},     {"plain", TENSOR_U32, 2, {4, 3}},
        {"shuffled", TENSOR_I64, 2, {9, 5}}, {"stored", TENSOR_U16, 2, {6, 4}},
        {"real", TENSOR_F32, 2, {3, 2}},     {"one", TENSOR_U8, 0, {0}},
    };
    check_sets(DATA "kinds.hdf5", sets, 6);
    check_sets(DATA "kinds-latest.hdf5", sets, 6);
    struct hdf5_file file;
    float numbers[6];
    struct berth_error error;
    open_good(&file, DATA "kinds.hdf5");
    const struct hdf5_dataset *real = hdf5_find(&file, "real");
    assert_int_equal(hdf5_read(&file, real, 0, 3, numbers, NULL), BERTH_OK);
    assert_float_equal(numbers[5], value_of("real", 5), 0);
    assert_int_equal(hdf5_read_i32(&file, real, 0, 3, (int32_t *)numbers, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "expected integers, found F32");
    assert_int_equal(hdf5_read(&file, real, 2, 2, numbers, &error), BERTH_INTERNAL);
    hdf5_close(&file);
}

static void test_says_what_it_cannot_read(void **state) {
    (void)state;
    struct hdf5_file file;
    struct berth_error error;
    assert_int_equal(hdf5_open(&file, DATA "packed-latest.hdf5", &error), BERTH_BAD_DATA);
    assert_message_has(&error, "default libver");
    scratch_write("a", "{\"no\": \"HDF5 file at all, though long enough to be one\"}");
    assert_int_equal(hdf5_open(&file, scratch("a"), &error), BERTH_BAD_DATA);
    assert_message_has(&error, "signature");
    scratch_write("a", "");
    assert_int_equal(hdf5_open(&file, scratch("a"), &error), BERTH_BAD_DATA);
    assert_int_equal(hdf5_open(&file, scratch("none"), &error), BERTH_NO_INPUT);
}

// A user block before the file: addresses count from the signature.
static void test_reads_after_a_user_block(void **state) {
    (void)state;
    static const struct expected sets[] = {
        {"input_ids", TENSOR_I32, 2, {5, 16}},    {"input_mask", TENSOR_I8, 2, {5, 16}},
        {"segment_ids", TENSOR_I8, 2, {5, 16}},   {"masked_lm_positions", TENSOR_I32, 2, {5, 4}},
        {"masked_lm_ids", TENSOR_I32, 2, {5, 4}}, {"next_sentence_labels", TENSOR_I8, 1, {5}}};
    check_sets(DATA "user-block.hdf5", sets, 6);
    int is;
    assert_int_equal(hdf5_recognise(DATA "user-block.hdf5", &is, NULL), BERTH_OK);
    assert_true(is);
}

static void test_names_data_that_was_never_written(void **state) {
    (void)state;
    static const char *const paths[] = {DATA "never-contiguous.hdf5", DATA "never-chunked.hdf5"};
    for (size_t i = 0; i < 2; i++) {
        struct hdf5_file file;
        struct berth_error error;
        assert_int_equal(hdf5_open(&file, paths[i], &error), BERTH_BAD_DATA);
        assert_message_has(&error, "never written");
        assert_null(strstr(error.message, "18446744073709551615"));
    }
}

static long resident_kilobytes(void) {
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

// 32 MiB of numbers in one chunk: a few rows of it take little memory.
static void test_a_chunk_larger_than_its_rows(void **state) {
    (void)state;
    static const char *const names[] = {"plain", "shuffled"};
    static const int64_t firsts[] = {0, 4095, 8191, (1 << 19) - 3};
    struct hdf5_file file;
    struct berth_error error;
    long before = resident_kilobytes();
    open_good(&file, DATA "large-chunk.hdf5");
    for (size_t i = 0; i < 2 * sizeof firsts / sizeof *firsts; i++) {
        int32_t rows[3][16];
        int64_t first = firsts[i / 2];
        const struct hdf5_dataset *set = hdf5_find(&file, names[i % 2]);
        assert_int_equal(hdf5_read(&file, set, first, 3, rows, &error), BERTH_OK);
        for (int64_t row = 0; row < 3; row++) {
            assert_int_equal(rows[row][0], (first + row) / 4096);
            assert_int_equal(rows[row][15], 0);
        }
    }
    hdf5_close(&file);
    assert_true(resident_kilobytes() - before < 16 << 10);
}

// Reading a chunk from its first to its last row in batches decompresses it less than twice; an
// earlier row can be read again.
static void test_a_chunk_in_batches(void **state) {
    (void)state;
    enum { ROWS = 1 << 19, BATCH = 8000, WIDTH = 16 };
    static const char *const names[] = {"plain", "shuffled"};
    static int32_t rows[BATCH][WIDTH];
    struct hdf5_file file;
    open_good(&file, DATA "large-chunk.hdf5");
    for (size_t i = 0; i < 2; i++) {
        const struct hdf5_dataset *set = hdf5_find(&file, names[i]);
        uint64_t before = deflate_bytes_decompressed();
        for (int64_t first = 0; first < ROWS; first += BATCH) {
            int64_t count = ROWS - first < BATCH ? ROWS - first : BATCH;
            assert_int_equal(hdf5_read(&file, set, first, count, rows, NULL), BERTH_OK);
            for (int64_t row = 0; row < count; row++) {
                assert_int_equal(rows[row][0], (first + row) / 4096);
                assert_int_equal(rows[row][WIDTH - 1], 0);
            }
        }
        assert_in_range(deflate_bytes_decompressed() - before, set->bytes, 2 * set->bytes);
        static const int64_t rows_again[] = {500000, 500004, 500003, 400000, ROWS - 1, 3};
        for (size_t k = 0; k < sizeof rows_again / sizeof *rows_again; k++) {
            assert_int_equal(hdf5_read(&file, set, rows_again[k], 1, rows, NULL), BERTH_OK);
            assert_int_equal(rows[0][0], rows_again[k] / 4096);
        }
    }
    assert_in_range(file.readers, 1, 1 + sizeof(int32_t)); // after row 3 of each
    hdf5_close(&file);
    assert_int_equal(file.readers, 0);
}

// --- our files ----------------------------------------------------------------------------------

// `rows` rows of three columns, written in unequal portions.
static void write_ours(const char *path, int64_t rows, int64_t width) {
    const struct hdf5_column columns[] = {
        {"wide", TENSOR_I32, width}, {"label", TENSOR_I8, 0}, {"mask", TENSOR_U16, 3}};
    struct hdf5_writer writer;
    int32_t *wide = memory_array_zeroed((size_t)width * 2, sizeof *wide);
    assert_int_equal(hdf5_writer_open(&writer, columns, 3, 1, NULL), BERTH_OK);
    for (int64_t i = 0; i < rows;) {
        int64_t now = i % 3 == 0 && i + 1 < rows ? 2 : 1;
        for (int64_t j = 0; j < now; j++, i++) {
            int8_t label = (int8_t)(i % 100);
            uint16_t mask[3] = {(uint16_t)i, (uint16_t)(i + 1), (uint16_t)(i + 2)};
            wide[j * width] = (int32_t)i;
            wide[j * width + width - 1] = -(int32_t)i;
            assert_int_equal(hdf5_writer_put(&writer, 1, &label, 1, NULL), BERTH_OK);
            assert_int_equal(hdf5_writer_put(&writer, 2, mask, 1, NULL), BERTH_OK);
        }
        assert_int_equal(hdf5_writer_put(&writer, 0, wide, (size_t)now, NULL), BERTH_OK);
    }
    assert_int_equal(hdf5_writer_commit(&writer, path, NULL), BERTH_OK);
    hdf5_writer_done(&writer);
    memory_free(wide);
}

static void check_ours(const char *path, int64_t rows, int64_t width) {
    struct hdf5_file file;
    open_good(&file, path);
    assert_int_equal(file.count, 3);
    int32_t *wide = memory_array((size_t)width, sizeof *wide), mask[3], label;
    for (int64_t i = 0; i < rows; i++) {
        assert_int_equal(hdf5_read_i32(&file, hdf5_find(&file, "wide"), i, 1, wide, NULL),
                         BERTH_OK);
        assert_int_equal(hdf5_read_i32(&file, hdf5_find(&file, "label"), i, 1, &label, NULL),
                         BERTH_OK);
        assert_int_equal(hdf5_read_i32(&file, hdf5_find(&file, "mask"), i, 1, mask, NULL),
                         BERTH_OK);
        assert_int_equal(wide[0], width > 1 ? i : -i);
        assert_int_equal(wide[width - 1], -i);
        assert_int_equal(label, i % 100);
        assert_int_equal(mask[2], i + 2);
    }
    memory_free(wide);
    hdf5_close(&file);
}

// One chunk, several, and enough for a B-tree of two levels.
static void test_reads_ours(void **state) {
    (void)state;
    write_ours(scratch("a"), 1, 8);
    check_ours(scratch("a"), 1, 8);
    write_ours(scratch("a"), 40, 8192);
    check_ours(scratch("a"), 40, 8192);
    write_ours(scratch("a"), 150, 32768);
    check_ours(scratch("a"), 150, 32768);
    assert_int_equal(scratch_count(), 1);
}

// The first filter, shuffle, made a second gzip.
static void test_a_filter_twice(void **state) {
    (void)state;
    struct hdf5_file file;
    struct berth_error error;
    char *bytes;
    size_t length;
    write_ours(scratch("a"), 5, 4);
    assert_int_equal(file_read(scratch("a"), 1 << 20, &bytes, &length, NULL), BERTH_OK);
    char *name = memmem(bytes, length, "shuffle", 7);
    assert_non_null(name);
    name[-8] = HDF5_DEFLATE; // its id is 8 bytes before its name
    scratch_write_bytes("a", bytes, length);
    assert_int_equal(hdf5_open(&file, scratch("a"), &error), BERTH_BAD_DATA);
    assert_message_has(&error, "duplicate filter");
    name = memmem(bytes, length, "deflate", 7);
    assert_non_null(name);
    name[-8] = HDF5_SHUFFLE; // of what is compressed
    scratch_write_bytes("a", bytes, length);
    assert_int_equal(hdf5_open(&file, scratch("a"), &error), BERTH_BAD_DATA);
    assert_message_has(&error, "gzip before shuffle");
    memory_free(bytes);
}

static void test_more_data_sets_than_a_node_holds(void **state) {
    (void)state;
    struct hdf5_column columns[HDF5_COLUMNS_MAX + 1];
    char names[HDF5_COLUMNS_MAX + 1][8];
    struct hdf5_writer writer;
    struct hdf5_file file;
    for (int i = 0; i <= HDF5_COLUMNS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "n%d", 99 - i);
        columns[i] = (struct hdf5_column){names[i], TENSOR_I64, 0};
    }
    assert_int_equal(hdf5_writer_open(&writer, columns, HDF5_COLUMNS_MAX + 1, 4, NULL),
                     BERTH_INTERNAL);
    assert_int_equal(hdf5_writer_open(&writer, columns, HDF5_COLUMNS_MAX, 4, NULL), BERTH_OK);
    for (size_t i = 0; i < HDF5_COLUMNS_MAX; i++) {
        int64_t number = (int64_t)i;
        assert_int_equal(hdf5_writer_put(&writer, i, &number, 1, NULL), BERTH_OK);
    }
    assert_int_equal(hdf5_writer_commit(&writer, scratch("a"), NULL), BERTH_OK);
    hdf5_writer_done(&writer);
    open_good(&file, scratch("a"));
    assert_int_equal(file.count, HDF5_COLUMNS_MAX);
    for (int i = 0; i < HDF5_COLUMNS_MAX; i++) {
        int32_t number;
        assert_int_equal(hdf5_read_i32(&file, hdf5_find(&file, names[i]), 0, 1, &number, NULL),
                         BERTH_OK);
        assert_int_equal(number, i);
    }
    hdf5_close(&file);
}

// Many links may refer to one name, so long names would take much memory.
static void test_long_names(void **state) {
    (void)state;
    for (size_t length = 1024; length <= 1025; length++) {
        char name[1026] = "";
        const struct hdf5_column column = {memset(name, 'n', length), TENSOR_I8, 0};
        struct hdf5_writer writer;
        struct hdf5_file file;
        struct berth_error error = {0};
        assert_int_equal(hdf5_writer_open(&writer, &column, 1, 4, NULL), BERTH_OK);
        assert_int_equal(hdf5_writer_put(&writer, 0, "x", 1, NULL), BERTH_OK);
        assert_int_equal(hdf5_writer_commit(&writer, scratch("a"), NULL), BERTH_OK);
        hdf5_writer_done(&writer);
        assert_int_equal(hdf5_open(&file, scratch("a"), &error),
                         length == 1024 ? BERTH_OK : BERTH_BAD_DATA);
        assert_true(length == 1024 || strstr(error.message, "more than 1,024 bytes") != NULL);
        hdf5_close(&file);
    }
}

static void test_unequal_columns(void **state) {
    (void)state;
    const struct hdf5_column columns[] = {{"a", TENSOR_I8, 0}, {"b", TENSOR_I8, 0}};
    struct hdf5_writer writer;
    struct berth_error error;
    assert_int_equal(hdf5_writer_open(&writer, columns, 2, 4, NULL), BERTH_OK);
    assert_int_equal(hdf5_writer_put(&writer, 0, "x", 1, NULL), BERTH_OK);
    assert_int_equal(hdf5_writer_commit(&writer, scratch("a"), &error), BERTH_INTERNAL);
    assert_message_has(&error, "the same number");
    hdf5_writer_done(&writer);
    assert_int_equal(scratch_count(), 0);
}

// --- damage -------------------------------------------------------------------------------------

// The path of a memory file with the bytes: thousands of files on a disk would be slow.
static const char *in_memory(const char *bytes, size_t length) {
    static int file = -1;
    static char path[64];
    if (file < 0) {
        file = memfd_create("hdf5", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    assert_true(file >= 0 && ftruncate(file, (off_t)length) == 0);
    assert_int_equal(pwrite(file, bytes, length, 0), length);
    return path;
}

// Opens and reads everything; 1 on success.
static int reads_well(const char *path) {
    struct hdf5_file file;
    struct berth_error error = {0};
    int good = 1;
    if (hdf5_open(&file, path, &error) != BERTH_OK) {
        assert_int_equal(error.status, BERTH_BAD_DATA);
        assert_message_has(&error, path);
        return 0;
    }
    for (size_t i = 0; i < file.count; i++) {
        const struct hdf5_dataset *set = &file.sets[i];
        int64_t rows = set->rank > 0 ? set->shape[0] : 1;
        assert_true(set->bytes <= file.file.size * DEFLATE_RATIO_LIMIT);
        if (rows == 0 || set->bytes == 0) {
            continue;
        }
        char *bytes = memory_new((size_t)set->bytes);
        good &= hdf5_read(&file, set, 0, rows, bytes, NULL) == BERTH_OK;
        memory_free(bytes);
    }
    hdf5_close(&file);
    return good;
}

static void test_every_truncation(void **state) {
    (void)state;
    static const char *const names[] = {DATA "unpacked.hdf5", DATA "unpacked-latest.hdf5",
                                        DATA "kinds-latest.hdf5"};
    for (size_t i = 0; i < 3; i++) {
        char *bytes;
        size_t length;
        assert_int_equal(file_read(names[i], 1 << 20, &bytes, &length, NULL), BERTH_OK);
        const size_t step = length > 8192 ? 7 : 1;
        for (size_t cut = 0; cut < length; cut += step) {
            assert_false(reads_well(in_memory(bytes, cut)));
        }
        memory_free(bytes);
    }
}

// No flipped bit crashes or needs much memory. The limit allows the undetected ones: in
// uncompressed numbers, unused space and fields that are not read.
static void test_every_flipped_bit(void **state) {
    (void)state;
    static const char *const names[] = {DATA "unpacked-latest.hdf5", DATA "kinds-latest.hdf5"};
    static const size_t limits[] = {11415, 72870};
    for (size_t i = 0; i < 2; i++) {
        char *bytes;
        size_t length, unnoticed = 0;
        assert_int_equal(file_read(names[i], 1 << 20, &bytes, &length, NULL), BERTH_OK);
        for (size_t bit = 0; bit < 8 * length; bit++) {
            bytes[bit / 8] ^= (char)(1 << bit % 8);
            unnoticed += (size_t)reads_well(in_memory(bytes, length));
            bytes[bit / 8] ^= (char)(1 << bit % 8);
        }
        assert_in_range(unnoticed, 1, limits[i]);
        memory_free(bytes);
    }
}

// All except the padding bits of the last byte before the checksum.
static void test_flipped_bits_of_packed_data(void **state) {
    (void)state;
    struct hdf5_file file;
    char *bytes;
    size_t length, unnoticed = 0;
    open_good(&file, DATA "unpacked.hdf5");
    assert_int_equal(file_read(DATA "unpacked.hdf5", 1 << 20, &bytes, &length, NULL), BERTH_OK);
    struct hdf5_chunk chunk = hdf5_find(&file, "input_ids")->chunks[0];
    hdf5_close(&file);
    for (size_t bit = 0; bit < 8 * chunk.size; bit++) {
        char *byte = &bytes[chunk.address + bit / 8];
        *byte ^= (char)(1 << bit % 8);
        unnoticed += (size_t)reads_well(in_memory(bytes, length));
        *byte ^= (char)(1 << bit % 8);
    }
    assert_true(unnoticed < 8);
    memory_free(bytes);
}

static void put_number(char *bytes, size_t offset, uint64_t number) {
    memcpy(bytes + offset, &number, sizeof number);
}

// A group whose B-tree has the same symbol node five hundred times; a data set whose B-tree lost
// its only chunk.
static void test_cycles_and_gaps(void **state) {
    (void)state;
    enum {
        END_OFFSET = 0x28,
        TREE_OFFSET = 0x78,
        ENTRIES = 0x430,
        CHUNKS_USED = 0x57e,
        CHILDREN = 500
    };
    char *read;
    size_t length, extra = 24 + 16 * CHILDREN + 8;
    struct hdf5_file file;
    struct berth_error error;
    assert_int_equal(file_read(DATA "unpacked.hdf5", 1 << 20, &read, &length, NULL), BERTH_OK);
    char *bytes = memory_resize(read, length + extra, 1);
    memset(bytes + length, 0, extra);
    memcpy(bytes + length, "TREE\0\0", 6);
    put_number(bytes, length + 6, CHILDREN);
    for (size_t i = 0; i < CHILDREN; i++) {
        put_number(bytes, length + 24 + 16 * i + 8, ENTRIES);
    }
    bytes[CHUNKS_USED] = 0;
    assert_int_equal(hdf5_open(&file, in_memory(bytes, length), &error), BERTH_BAD_DATA);
    assert_message_has(&error, "missing chunks");
    bytes[CHUNKS_USED] = 1;
    put_number(bytes, END_OFFSET, length + extra);
    put_number(bytes, TREE_OFFSET, length);
    assert_int_equal(hdf5_open(&file, in_memory(bytes, length + extra), &error), BERTH_BAD_DATA);
    assert_message_has(&error, "overlaps or forms cycles");
    bytes[length] = 'F';
    assert_int_equal(hdf5_open(&file, in_memory(bytes, length + extra), &error), BERTH_BAD_DATA);
    assert_message_has(&error, "expected a B-tree node of a group");
    memory_free(bytes);
}

// A soft link in place of the first data set is none.
static void test_a_soft_link(void **state) {
    (void)state;
    enum { ENTRIES = 0x430, CACHE_TYPE = 8 + 16 };
    struct hdf5_file file;
    char *bytes;
    size_t length;
    open_good(&file, DATA "unpacked.hdf5");
    const size_t count = file.count;
    hdf5_close(&file);
    assert_int_equal(file_read(DATA "unpacked.hdf5", 1 << 20, &bytes, &length, NULL), BERTH_OK);
    bytes[ENTRIES + CACHE_TYPE] = 2;
    assert_int_equal(hdf5_open(&file, in_memory(bytes, length), NULL), BERTH_OK);
    assert_int_equal(file.count, count - 1);
    hdf5_close(&file);
    memory_free(bytes);
}

// Changes a number of the first B-tree of chunks, of 2 rows each in three chunks.
static void refuse_tree(size_t offset, size_t size, uint64_t number, const char *message) {
    enum { ROWS = 6, WIDTH = 12288 };
    struct hdf5_file file;
    struct berth_error error;
    char *bytes;
    size_t length;
    write_ours(scratch("a"), ROWS, WIDTH);
    check_ours(scratch("a"), ROWS, WIDTH);
    assert_int_equal(file_read(scratch("a"), 1 << 20, &bytes, &length, NULL), BERTH_OK);
    char *tree = memmem(bytes, length, "TREE\1", 5);
    assert_non_null(tree);
    memcpy(tree + offset, &number, size);
    if (hdf5_open(&file, in_memory(bytes, length), &error) != BERTH_BAD_DATA) {
        fail_msg("accepted: expected \"%s\"", message);
    }
    assert_message_has(&error, message);
    memory_free(bytes);
}

static void test_offsets_of_chunks(void **state) {
    (void)state;
    enum { USED = 6, KEYS = 24, OFFSETS = 8, ENTRY = 40 };
    const char *damaged = "the chunk index is damaged";
    refuse_tree(0, 4, 0, "expected a B-tree node of chunks");
    refuse_tree(USED, 2, 2, "missing chunks");
    refuse_tree(KEYS + OFFSETS, 8, 1, damaged);         // within a chunk
    refuse_tree(KEYS + ENTRY + OFFSETS, 8, 0, damaged); // two with the same offset
    refuse_tree(KEYS + ENTRY + OFFSETS, 8, 6, damaged); // after the last row
    refuse_tree(KEYS + ENTRY + OFFSETS + 8, 8, 1, damaged);
    refuse_tree(KEYS + OFFSETS + 16, 8, 1, damaged); // within a number
    refuse_tree(KEYS, 4, 0, damaged);                // no bytes
}

static void test_memory_runs_out(void **state) {
    (void)state;
    enum berth_status status = BERTH_NO_MEMORY;
    uint64_t call;
    for (call = 1; status == BERTH_NO_MEMORY; call++) {
        struct hdf5_file file;
        memory_fail_at(call, 0);
        status = hdf5_open(&file, DATA "kinds-latest.hdf5", NULL);
        if (status == BERTH_OK) {
            hdf5_close(&file);
        }
    }
    assert_int_equal(status, BERTH_OK);
    assert_true(call > 5);
    status = BERTH_NO_MEMORY;
    for (call = 1; status == BERTH_NO_MEMORY; call++) {
        const struct hdf5_column column = {"a", TENSOR_I32, 4};
        const int32_t row[4] = {1, 2, 3, 4};
        struct hdf5_writer writer;
        memory_fail_at(call, 0);
        status = hdf5_writer_open(&writer, &column, 1, 4, NULL);
        status = status == BERTH_OK ? hdf5_writer_put(&writer, 0, row, 1, NULL) : status;
        status = status == BERTH_OK ? hdf5_writer_commit(&writer, scratch("a"), NULL) : status;
        memory_fail_at(0, 0);
        hdf5_writer_done(&writer);
        assert_int_equal(scratch_count(), status == BERTH_OK);
    }
    assert_int_equal(status, BERTH_OK);
    assert_true(call > 5);
}

// Rows of a shuffled chunk, two in order and then an earlier one, with every allocation failing in
// turn; afterwards the file is still readable.
static void test_memory_runs_out_within_a_chunk(void **state) {
    (void)state;
    enum { WIDTH = 5 };
    enum berth_status status = BERTH_NO_MEMORY;
    uint64_t call;
    for (call = 1; status == BERTH_NO_MEMORY; call++) {
        static const int64_t firsts[] = {1, 2, 0};
        struct hdf5_file file;
        int64_t row[WIDTH];
        int32_t small[WIDTH];
        open_good(&file, DATA "kinds.hdf5");
        const struct hdf5_dataset *set = hdf5_find(&file, "shuffled");
        memory_fail_at(call, 0);
        status = BERTH_OK;
        for (size_t i = 0; i < 3 && status == BERTH_OK; i++) {
            status = hdf5_read(&file, set, firsts[i], 1, row, NULL);
        }
        status = status == BERTH_OK ? hdf5_read_i32(&file, set, 3, 1, small, NULL) : status;
        status = status == BERTH_OK ? hdf5_read(&file, set, 0, 0, NULL, NULL) : status;
        memory_fail_at(0, 0);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
        for (int64_t i = 0; i < 4; i++) {
            assert_int_equal(hdf5_read(&file, set, i, 1, row, NULL), BERTH_OK);
            assert_int_equal(row[WIDTH - 1], value_of("shuffled", i * WIDTH + WIDTH - 1));
        }
        assert_int_equal(file.readers, 0); // its last row was read
        hdf5_close(&file);
    }
    assert_int_equal(status, BERTH_OK);
    assert_true(call > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_reads_unpacked),
        SCRATCH_TEST(test_reads_packed),
        SCRATCH_TEST(test_reads_other_kinds),
        SCRATCH_TEST(test_says_what_it_cannot_read),
        SCRATCH_TEST(test_reads_after_a_user_block),
        SCRATCH_TEST(test_names_data_that_was_never_written),
        SCRATCH_TEST(test_a_chunk_larger_than_its_rows),
        SCRATCH_TEST(test_a_chunk_in_batches),
        SCRATCH_TEST(test_reads_ours),
        SCRATCH_TEST(test_a_filter_twice),
        SCRATCH_TEST(test_more_data_sets_than_a_node_holds),
        SCRATCH_TEST(test_long_names),
        SCRATCH_TEST(test_unequal_columns),
        SCRATCH_TEST(test_every_truncation),
        SCRATCH_TEST(test_a_soft_link),
        SCRATCH_TEST(test_every_flipped_bit),
        SCRATCH_TEST(test_flipped_bits_of_packed_data),
        SCRATCH_TEST(test_cycles_and_gaps),
        SCRATCH_TEST(test_offsets_of_chunks),
        SCRATCH_TEST(test_memory_runs_out),
        SCRATCH_TEST(test_memory_runs_out_within_a_chunk),
    };
    return cmocka_run_group_tests_name("hdf5", tests, NULL, NULL);
}
