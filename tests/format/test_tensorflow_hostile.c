// SPDX-License-Identifier: Apache-2.0
// Truncated, damaged and malicious TensorFlow checkpoints: every prefix and every flipped bit of
// files that TensorFlow wrote, and hand-made indexes with correct checksums.
#include "core/scratch.h"
#include "format/checksum/crc32c.h"
#include "format/containers/containers.h"
#include "format/tensorflow/sorted_table.h"
#include "format/tensorflow/tensorflow.h"

#define FOLDER BERTH_TEST_FORMAT_DATA "/tensorflow"

struct bytes {
    char *begin;
    size_t length;
};

static struct bytes read_bytes(const char *path) {
    struct bytes bytes;
    assert_int_equal(file_read(path, 1 << 20, &bytes.begin, &bytes.length, NULL), BERTH_OK);
    return bytes;
}

// Opens a.index and reads every tensor.
static enum berth_status read_all(struct berth_error *error) {
    struct tensor_file file;
    char data[4096];
    *error = (struct berth_error){0};
    enum berth_status status = tensor_file_open(&file, scratch("a.index"), error);
    if (status != BERTH_OK) {
        return status;
    }
    for (size_t i = 0; i < file.count && status == BERTH_OK; i++) {
        assert_true(file.entries[i].end - file.entries[i].begin <= sizeof data);
        status = tensor_file_read(&file, &file.entries[i], data, error);
    }
    tensor_file_close(&file);
    return status;
}

static void assert_refused(const char *what, size_t offset) {
    struct berth_error error;
    if (read_all(&error) != BERTH_BAD_DATA || error.message[0] == '\0') {
        fail_msg("%s, offset %zu: accepted, or another error: %s", what, offset, error.message);
    }
}

// --- TensorFlow's files, damaged ----------------------------------------------------------------

static const char *const parts[] = {"index", "data-00000-of-00003", "data-00001-of-00003",
                                    "data-00002-of-00003"};
enum { PARTS = sizeof parts / sizeof *parts };

// a.*: the bundle with three data files.
static void copy_shards(struct bytes files[PARTS]) {
    for (size_t i = 0; i < PARTS; i++) {
        char path[512], name[64];
        snprintf(path, sizeof path, FOLDER "/shards.%s", parts[i]);
        snprintf(name, sizeof name, "a.%s", parts[i]);
        files[i] = read_bytes(path);
        scratch_write_bytes(name, files[i].begin, files[i].length);
    }
    struct berth_error error;
    assert_int_equal(read_all(&error), BERTH_OK);
}

// Damages each of them in turn; `damage` writes the damaged file and does not change *file.
static void damage_each(void (*damage)(const char *part, const char *name, struct bytes *file)) {
    struct bytes files[PARTS];
    copy_shards(files);
    for (size_t i = 0; i < PARTS; i++) {
        char name[64];
        snprintf(name, sizeof name, "a.%s", parts[i]);
        damage(parts[i], name, &files[i]);
        scratch_write_bytes(name, files[i].begin, files[i].length);
        memory_free(files[i].begin);
    }
}

static void truncate_everywhere(const char *part, const char *name, struct bytes *file) {
    for (size_t length = 0; length < file->length; length++) {
        scratch_write_bytes(name, file->begin, length);
        assert_refused(part, length);
    }
}

static void flip_every_bit(const char *part, const char *name, struct bytes *file) {
    for (size_t bit = 0; bit < 8 * file->length; bit++) {
        file->begin[bit / 8] ^= (char)(1 << bit % 8);
        scratch_write_bytes(name, file->begin, file->length);
        file->begin[bit / 8] ^= (char)(1 << bit % 8);
        assert_refused(part, bit);
    }
}

static void append_a_byte(const char *part, const char *name, struct bytes *file) {
    char *longer = memory_new(file->length + 1);
    memcpy(longer, file->begin, file->length);
    longer[file->length] = 0;
    scratch_write_bytes(name, longer, file->length + 1);
    assert_refused(part, file->length);
    memory_free(longer);
}

static void test_every_truncation(void **state) {
    (void)state;
    damage_each(truncate_everywhere);
}

static void test_every_flipped_bit(void **state) {
    (void)state;
    damage_each(flip_every_bit);
}

static void test_an_appended_byte(void **state) {
    (void)state;
    damage_each(append_a_byte);
}

static void test_a_missing_file_of_data(void **state) {
    (void)state;
    struct bytes files[PARTS];
    struct berth_error error;
    copy_shards(files);
    assert_int_equal(unlink(scratch("a.data-00001-of-00003")), 0);
    assert_int_equal(read_all(&error), BERTH_NO_INPUT);
    assert_message_has(&error, "a.data-00001-of-00003");
    for (size_t i = 0; i < PARTS; i++) {
        memory_free(files[i].begin);
    }
}

// --- hand-made indexes --------------------------------------------------------------------------

// The message of a valid entry: F32, shape [1], 4 bytes "abcd"; cases replace parts of it.
static void put_entry(struct buffer *message) {
    buffer_clear(message);
    protobuf_put_varint(message, 1, 1);
    size_t shape = protobuf_begin(message, 2), dimension = protobuf_begin(message, 2);
    protobuf_put_varint(message, 1, 1);
    protobuf_end(message, dimension);
    protobuf_end(message, shape);
    protobuf_put_varint(message, 5, 4);
    protobuf_put_fixed32(message, 6, crc32c_mask(crc32c(0, "abcd", 4)));
}

static void put_header(struct sorted_table_writer *table, const char *bytes, size_t length) {
    sorted_table_put(table, "", bytes, length);
}

#define GOOD_HEADER "\x08\x01\x1a\x02\x08\x01"

static void write_index(struct sorted_table_writer *table) {
    sorted_table_finish(table);
    assert_false(table->bytes.failed);
    scratch_write_bytes("a.index", table->bytes.bytes, table->bytes.length);
    scratch_write("a.data-00000-of-00001", "abcd");
    sorted_table_writer_done(table);
}

static void assert_message(const char *part) {
    struct berth_error error;
    enum berth_status status = read_all(&error);
    if (part == NULL) {
        assert_string_equal(error.message, "");
        assert_int_equal(status, BERTH_OK);
    } else {
        assert_int_equal(status, BERTH_BAD_DATA);
        assert_message_has(&error, part);
    }
}

static void write_one(const char *name, const struct buffer *message) {
    struct sorted_table_writer table = {0};
    put_header(&table, GOOD_HEADER, 6);
    sorted_table_put(&table, name, message->bytes, message->length);
    write_index(&table);
}

static void test_headers(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *part; // NULL: good
    } cases[] = {
        {GOOD_HEADER, 6, NULL},
        {"\x08\x01", 2, NULL},
        {"\x08\x01\x10\x00\x22\x00", 6, NULL},
        {"", 0, "data files, found 0"},
        {"\x08\x00", 2, "data files, found 0"},
        {"\x08\xe9\x07", 3, "data files, found 1001"},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "found 18446744073709551615"},
        {"\x08\x01\x08\x01", 4, "duplicate field 1"},
        {"\x08\x01\x10\x01", 4, "big-endian"},
        {"\x08\x01\x12\x00", 4, "big-endian"},
        {"\x08\x01\x1a\x02\x10\x01", 6, NULL},
        {"\x08\x01\x1a\x02\x10\x02", 6, "requires format version 2"},
        {"\x08\x01\x1a\x02\x12\x00", 6, "requires format version"},
        {"\x08\x01\x1a\x02\x10", 5, "expected 2 bytes, 1 are left"},
        {"\x0a\x00", 2, "expected wire type 0"},
        {"\x08", 1, "truncated number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sorted_table_writer table = {0};
        struct buffer message = {0};
        put_entry(&message);
        put_header(&table, cases[i].bytes, cases[i].length);
        sorted_table_put(&table, "x", message.bytes, message.length);
        write_index(&table);
        assert_message(cases[i].part);
        buffer_done(&message);
    }
    struct sorted_table_writer table = {0};
    write_index(&table);
    assert_message("missing header");
    struct buffer message = {0};
    put_entry(&message);
    sorted_table_put(&table, "x", message.bytes, message.length);
    write_index(&table);
    assert_message("missing header");
    buffer_done(&message);
}

// Entries with the given bytes as fields; the checksum of "abcd" is appended.
static void test_entries(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *part;
    } cases[] = {
        // type, shape [1], size 4
        {"\x08\x01\x12\x04\x12\x02\x08\x01\x28\x04", 10, NULL},
        {"\x08\x01\x12\x09\x12\x07\x12\x01\x61\x08\x01\x18\x00\x28\x04", 15, NULL}, // names
        {"\x08\x01\x28\x04", 4, NULL},                                              // a scalar
        {"\x12\x04\x12\x02\x08\x01\x28\x04", 8, "missing data type"},
        {"\x08\x00\x28\x04", 4, "number 0 is not supported"},
        {"\x08\x0b\x28\x04", 4, "number 11 is not supported"},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "18446744073709551615"},
        {"\x08\x01\x08\x01\x28\x04", 6, "duplicate field 1"},
        {"\x08\x01\x12\x00\x12\x00\x28\x04", 8, "duplicate field 2"},
        {"\x0a\x00\x28\x04", 4, "expected wire type 0"},
        {"\x08\x01\x10\x01\x28\x04", 6, "expected wire type 2"},
        {"\x08\x01\x12\x02\x18\x01\x28\x04", 8, "unknown shape"},
        {"\x08\x01\x12\x02\x10\x01\x28\x04", 8, "expected wire type 2"},
        {"\x08\x01\x12\x04\x12\x02\x08\x02\x28\x04", 10, "2 elements of type F32 need 8"},
        {"\x08\x01\x12\x04\x12\x02\x08\x01\x28\x05", 10, "5 bytes, but 1 elements of type F32"},
        {"\x08\x01\x12\x0d\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x28\x04", 19,
         "a dimension of -1 elements"},
        {"\x08\x01\x12\x06\x12\x04\x08\x01\x08\x01\x28\x04", 12, "duplicate field 1"},
        // 2^62 elements
        {"\x08\x01\x12\x0c\x12\x0a\x08\x80\x80\x80\x80\x80\x80\x80\x80\x40", 16,
         "more elements than can be counted"},
        // 2^32 x 2^32
        {"\x08\x01\x12\x10\x12\x06\x08\x80\x80\x80\x80\x10\x12\x06\x08\x80\x80\x80\x80\x10", 20,
         "more elements than can be counted"},
        {"\x08\x01\x12\x24\x12\x02\x08\x01\x12\x02\x08\x01\x12\x02\x08\x01\x12\x02\x08\x01\x12\x02"
         "\x08\x01\x12\x02\x08\x01\x12\x02\x08\x01\x12\x02\x08\x01\x12\x02\x08\x01\x28\x04",
         42, "more than 8 dimensions"},
        {"\x08\x01\x18\x01\x28\x04", 6,
         "refers to data file 1 (counted from 0), but the checkpoint has only 1"},
        {"\x08\x01\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x28\x04", 15,
         "but the checkpoint has only 1"},
        {"\x08\x01\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x28\x04", 15, "beyond any file"},
        {"\x08\x01\x20\xfc\xff\xff\xff\xff\xff\xff\xff\x7f\x28\x04", 14, "beyond any file"},
        {"\x08\x01\x20\x01\x28\x04", 6, "the tensors need 5 bytes, the file has 4: it is trunc"},
        {"\x08\x04\x28\x01", 4, "need 1 bytes, the file has 4: it is followed"},
        {"\x08\x01\x28\x04\x3a\x00", 6, "tensor \"x\": partitioned variables are not supported"},
        {"\x08\x07\x12\x04\x12\x02\x08\x05\x28\x04", 10, "5 elements of type STRING need 5"},
        {"\x08\x01\x28\x04\x35\0\0\0\0", 9, "duplicate field 6"},
        {"\x08\x01\x28\x04\x32\x00", 6, "expected wire type 5"},
        {"\x08\x01\x12\xff\xff\xff\xff\x0f", 8, "expected 4294967295 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer message = {0};
        buffer_put(&message, cases[i].bytes, cases[i].length);
        protobuf_put_fixed32(&message, 6, crc32c_mask(crc32c(0, "abcd", 4)));
        write_one("x", &message);
        assert_message(cases[i].part);
        buffer_done(&message);
    }
    struct buffer message = {0};
    buffer_put(&message, "\x08\x01\x28\x04", 4);
    write_one("x", &message);
    assert_message("missing data type or checksum");
    buffer_done(&message);
}

static void test_unknown_fields_are_counted(void **state) {
    (void)state;
    struct buffer message = {0};
    struct tensor_file file;
    put_entry(&message);
    protobuf_put_varint(&message, 8, 1);
    protobuf_put_text(&message, 9, "x");
    write_one("x", &message);
    assert_int_equal(tensor_file_open(&file, scratch("a.index"), NULL), BERTH_OK);
    assert_int_equal(file.ignored_keys, 2);
    tensor_file_close(&file);
    buffer_done(&message);
}

static void test_keys(void **state) {
    (void)state;
    static const struct {
        const char *first, *second, *part;
    } cases[] = {
        {"x", "y", NULL},
        {"x", "x/a", NULL},
        {"x", "x", "not greater than the previous one"},
        {"y", "x", "not greater than the previous one"},
        {"x/a", "x", "not greater than the previous one"},
        {"x", "", "not greater than the previous one"},
        {"x\x1b[2J", "y", "control character 27 at offset 1"},
        {"x", "x\x7f", "control character 127"},
    };
    struct buffer message = {0};
    put_entry(&message);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sorted_table_writer table = {0};
        put_header(&table, GOOD_HEADER, 6);
        sorted_table_put(&table, cases[i].first, message.bytes, message.length);
        sorted_table_put(&table, cases[i].second, message.bytes, message.length);
        write_index(&table);
        assert_message(cases[i].part);
    }
    buffer_done(&message);
}

// --- hand-made tables ---------------------------------------------------------------------------

// Appends a block to the table, with the correct checksum.
static void put_block(struct buffer *table, const void *bytes, size_t length, char type) {
    size_t begin = table->length;
    buffer_put(table, bytes, length);
    buffer_put(table, &type, 1);
    buffer_put_number(table, crc32c_mask(crc32c(0, table->bytes + begin, table->length - begin)),
                      4);
}

static void put_footer(struct buffer *table, const void *handles, size_t length) {
    static const char zeros[40];
    buffer_put(table, handles, length);
    buffer_put(table, zeros, sizeof zeros - length);
    buffer_put_number(table, 0x8b80fb57u, 4);
    buffer_put_number(table, 0xdb477524u, 4);
}

#define NO_ENTRIES "\0\0\0\0\1\0\0\0" // a block without entries

// A table of one data block of up to 100 bytes, with its index.
static void write_table(const void *block, size_t length, char type) {
    struct buffer table = {0}, index = {0}, footer = {0};
    put_block(&table, block, length, type);
    size_t empty = table.length;
    put_block(&table, NO_ENTRIES, 8, 0);
    buffer_put(&index, "\0\1\2\x7e\0", 5);
    index.bytes[4] = (unsigned char)length;
    buffer_put(&index, "\0", 1);
    index.bytes[4] = 0; // the handle: begin, size
    index.bytes[5] = (unsigned char)length;
    buffer_put(&index, NO_ENTRIES, 8);
    size_t begin = table.length;
    put_block(&table, index.bytes, index.length, 0);
    protobuf_raw_varint(&footer, empty);
    protobuf_raw_varint(&footer, 8);
    protobuf_raw_varint(&footer, begin);
    protobuf_raw_varint(&footer, index.length);
    put_footer(&table, footer.bytes, footer.length);
    scratch_write_bytes("a.index", table.bytes, table.length);
    buffer_done(&table);
    buffer_done(&index);
    buffer_done(&footer);
}

#define HEADER_ENTRY "\0\0\2\x08\1" // the key "", a bundle of one file

static void test_blocks(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        char type;
        const char *part;
    } cases[] = {
        {HEADER_ENTRY NO_ENTRIES, 13, 0, NULL},
        {HEADER_ENTRY NO_ENTRIES, 13, 1, "Snappy"},
        {HEADER_ENTRY NO_ENTRIES, 13, 2, "unknown type"},
        {"", 0, 0, "without restart points"},
        {"\0\0\0", 3, 0, "without restart points"},
        {"\0\0\0\0", 4, 0, "without restart points"},
        {"\1\0\0\0", 4, 0, "without restart points"},
        {"\0\0\0\0\xff\xff\xff\xff", 8, 0, "without restart points"},
        {"\0\0\0\0\0\0\0\x40", 8, 0, "without restart points"},
        {NO_ENTRIES, 8, 0, "a data block without entries"},
        {HEADER_ENTRY "\1\0\0\0\1\0\0\0", 13, 0, "not the first restart"},
        {HEADER_ENTRY "\0\0\0\0\1\0\0\0\2\0\0\0", 17, 0, "not the offset of an entry"},
        {HEADER_ENTRY "\0\0\0\0\5\0\0\0\2\0\0\0", 17, 0, "not the offset of an entry"},
        {HEADER_ENTRY "\0\0\0\0\0\0\0\0\2\0\0\0", 17, 0, "not the offset of an entry"},
        {HEADER_ENTRY "\1\1\0y\0\0\0\0\5\0\0\0\2\0\0\0", 21, 0, "a restart point that shares"},
        {"\1\0\2\x08\1" NO_ENTRIES, 13, 0, "a restart point that shares"},
        {"\0\3\2\x08\1" NO_ENTRIES, 13, 0, "extends beyond its block"},
        {"\0\0\3\x08\1" NO_ENTRIES, 13, 0, "a value that extends beyond its block"},
        {"\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\1" NO_ENTRIES, 20, 0, "a value that extends"},
        {"\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\0" NO_ENTRIES, 20, 0,
         "extends beyond its block"},
        {"\0\0\x82" NO_ENTRIES, 11, 0, "truncated number"},
        {HEADER_ENTRY "\2\0\0" NO_ENTRIES, 16, 0, "extends beyond its block"},
        {HEADER_ENTRY "\0\1\0\x7f" NO_ENTRIES, 17, 0, "control character"},
        {HEADER_ENTRY "\0\4\0\0abc" NO_ENTRIES, 20, 0,
         "\"abc\": partitioned variables are not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_table(cases[i].bytes, cases[i].length, cases[i].type);
        assert_message(cases[i].part);
    }
}

// Footers and indexes with wrong handles.
static void write_handles(const void *index, size_t index_length, const void *footer,
                          size_t footer_length) {
    struct buffer table = {0};
    put_block(&table, HEADER_ENTRY NO_ENTRIES, 13, 0); // 0 to 18
    put_block(&table, NO_ENTRIES, 8, 0);               // 18 to 31
    put_block(&table, index, index_length, 0);         // 31 to 36 + its length
    put_footer(&table, footer, footer_length);
    scratch_write_bytes("a.index", table.bytes, table.length);
    buffer_done(&table);
}

static void test_handles(void **state) {
    (void)state;
#define INDEX "\0\1\2x\0\x0d" NO_ENTRIES // 14 bytes: ends at 50
#define FOOTER "\x12\x08\x1f\x0e"
    static const struct {
        const char *index;
        size_t index_length;
        const char *footer;
        size_t footer_length;
        const char *part;
    } cases[] = {
        {INDEX, 14, FOOTER, 4, NULL},
        {INDEX, 14, "\x12\x88\0\x1f\x0e", 5, "overlong varint"},
        {INDEX, 14, "\x12\x08\x1f\x8e\0", 5, "overlong varint"},
        {INDEX, 14, FOOTER "\1", 5, "expected zeros"},
        {INDEX, 14, "\x12\x08\x1f\x0d", 4, "unused bytes between"},
        {INDEX, 14, "\x12\x07\x1f\x0e", 4, "unused bytes between"},
        {INDEX, 14, "\x12\x08\x1f\x0f", 4, "expected a block that ends"},
        {INDEX, 14, "\x12\x09\x1f\x0e", 4, "expected a block that ends"},
        {INDEX, 14, "\x20\x08\x1f\x0e", 4, "out of order"},
        {INDEX, 14, "\x12\x08\x34\x0e", 4, "begins after its end"},
        {INDEX, 14, "\x12\x08\x31\x0e", 4, "expected a block that ends"},
        {INDEX, 14, "\x12\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\x0e", 13, "after its end"},
        {INDEX, 14, "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\x1f\x0e", 13, "expected a block"},
        // The empty block's handle points to the data: the block has an entry, and 18 bytes are in
        // no block.
        {INDEX, 14, "\0\x1a\x1f\x0e", 4, "checksum of the block"},
        {NO_ENTRIES, 8, "\x12\x08\x1f\x08", 4, "not in the index"},
        {"\0\1\2x\0\x0e" NO_ENTRIES, 14, FOOTER, 4, "expected a block that ends"},
        {"\0\1\2x\1\x0c" NO_ENTRIES, 14, FOOTER, 4, "expected a block that ends"},
        {"\0\1\2x\0\x0c" NO_ENTRIES, 14, FOOTER, 4, "checksum of the block"},
        {"\0\1\1x\0" NO_ENTRIES, 13, "\x12\x08\x1f\x0d", 4, "truncated number"},
        {"\0\1\3x\0\x0d\0" NO_ENTRIES, 15, "\x12\x08\x1f\x0f", 4, "too long"},
        {"\0\1\2x\0\x0d\0\1\2y\0\x0d\0\0\0\0\6\0\0\0\2\0\0\0", 24, "\x12\x08\x1f\x18", 4,
         "expected a block that ends"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_handles(cases[i].index, cases[i].index_length, cases[i].footer,
                      cases[i].footer_length);
        assert_message(cases[i].part);
    }
}

// Two data blocks of one entry without data (shape [0]), and the index keys after them.
static void write_two(const char *first, const char *separator, const char *second,
                      const char *last) {
    static const char entry[] = "\x08\x01\x12\x04\x12\x02\x08\x00\x35\xd8\xea\x82\xa2";
    struct buffer table = {0}, block = {0}, footer = {0};
    buffer_put(&block, HEADER_ENTRY "\0\1\x0d", 8);
    buffer_put(&block, first, 1);
    buffer_put(&block, entry, 13);
    buffer_put(&block, NO_ENTRIES, 8);
    put_block(&table, block.bytes, block.length, 0);
    size_t first_size = block.length, second_begin = table.length;
    buffer_clear(&block);
    buffer_put(&block, "\0\1\x0d", 3);
    buffer_put(&block, second, 1);
    buffer_put(&block, entry, 13);
    buffer_put(&block, NO_ENTRIES, 8);
    put_block(&table, block.bytes, block.length, 0);
    size_t second_size = block.length, empty = table.length;
    put_block(&table, NO_ENTRIES, 8, 0);
    buffer_clear(&block);
    buffer_put(&block, "\0\1\2", 3);
    buffer_put(&block, separator, 1);
    protobuf_raw_varint(&block, 0);
    protobuf_raw_varint(&block, first_size);
    buffer_put(&block, "\0\1\2", 3);
    buffer_put(&block, last, 1);
    protobuf_raw_varint(&block, second_begin);
    protobuf_raw_varint(&block, second_size);
    buffer_put(&block, NO_ENTRIES, 8);
    size_t index = table.length;
    put_block(&table, block.bytes, block.length, 0);
    protobuf_raw_varint(&footer, empty);
    protobuf_raw_varint(&footer, 8);
    protobuf_raw_varint(&footer, index);
    protobuf_raw_varint(&footer, block.length);
    put_footer(&table, footer.bytes, footer.length);
    scratch_write_bytes("a.index", table.bytes, table.length);
    scratch_write("a.data-00000-of-00001", "");
    buffer_done(&table);
    buffer_done(&block);
    buffer_done(&footer);
}

static void test_separators(void **state) {
    (void)state;
    static const struct {
        const char *first, *separator, *second, *last, *part;
    } cases[] = {
        {"b", "c", "d", "e", NULL},
        {"b", "b", "d", "d", NULL},
        {"b", "a", "d", "e", "less than the last key of its block"},
        {"b", "c", "d", "c", "greater than the previous one"}, // between the index keys
        {"b", "d", "d", "e", "greater than the previous block"},
        {"b", "c", "b", "e", "greater than the previous block"},
        {"b", "c", "f", "e", "less than the last key of its block"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_two(cases[i].first, cases[i].separator, cases[i].second, cases[i].last);
        assert_message(cases[i].part);
    }
}

// --- excessive sizes ----------------------------------------------------------------------------

// Keys that share all but their end with the previous one: a small file with very long names.
static void test_names_without_end(void **state) {
    (void)state;
    enum { COUNT = 70000 };
    struct sorted_table_writer table = {0};
    struct buffer message = {0};
    char name[1024];
    put_entry(&message);
    put_header(&table, GOOD_HEADER, 6);
    memset(name, 'x', sizeof name);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name + 1000, sizeof name - 1000, "%08d", i);
        sorted_table_put(&table, name, message.bytes, message.length);
    }
    write_index(&table);
    assert_message("the names of the tensors exceed");
    buffer_done(&message);
}

static void test_a_key_that_is_too_long(void **state) {
    (void)state;
    struct buffer block = {0}, table = {0};
    buffer_put(&block, HEADER_ENTRY "\0\x81\x08\0", 9); // 1025 bytes
    for (int i = 0; i < 1025; i++) {
        buffer_put(&block, "x", 1);
    }
    buffer_put(&block, NO_ENTRIES, 8);
    put_block(&table, block.bytes, block.length, 0);
    size_t empty = table.length;
    put_block(&table, NO_ENTRIES, 8, 0);
    size_t index = table.length, block_length = block.length;
    buffer_clear(&block);
    buffer_put(&block, "\0\1\3z\0", 5);
    protobuf_raw_varint(&block, block_length);
    buffer_put(&block, NO_ENTRIES, 8);
    put_block(&table, block.bytes, block.length, 0);
    struct buffer footer = {0};
    protobuf_raw_varint(&footer, empty);
    protobuf_raw_varint(&footer, 8);
    protobuf_raw_varint(&footer, index);
    protobuf_raw_varint(&footer, block.length);
    put_footer(&table, footer.bytes, footer.length);
    scratch_write_bytes("a.index", table.bytes, table.length);
    assert_message("longer than 1024 bytes");
    buffer_done(&footer);
    buffer_done(&table);
    buffer_done(&block);
}

static void test_an_index_that_is_too_large(void **state) {
    (void)state;
    scratch_write("a.index", "");
    assert_int_equal(truncate(scratch("a.index"), (16 << 20) + 1), 0);
    assert_message("the limit is 16777216");
}

// Sizes without data cost nothing: the entry claims 2^40 bytes.
static void test_announced_sizes(void **state) {
    (void)state;
    struct buffer message = {0};
    buffer_put(&message, "\x08\x04\x12\x09\x12\x07\x08\x80\x80\x80\x80\x80\x20", 13);
    protobuf_put_varint(&message, 5, (uint64_t)1 << 40);
    protobuf_put_fixed32(&message, 6, 0);
    write_one("x", &message);
    assert_message("the tensors need 1099511627776 bytes, the file has 4");
    buffer_done(&message);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_every_truncation),
        SCRATCH_TEST(test_every_flipped_bit),
        SCRATCH_TEST(test_an_appended_byte),
        SCRATCH_TEST(test_a_missing_file_of_data),
        SCRATCH_TEST(test_headers),
        SCRATCH_TEST(test_entries),
        SCRATCH_TEST(test_unknown_fields_are_counted),
        SCRATCH_TEST(test_keys),
        SCRATCH_TEST(test_blocks),
        SCRATCH_TEST(test_handles),
        SCRATCH_TEST(test_separators),
        SCRATCH_TEST(test_names_without_end),
        SCRATCH_TEST(test_a_key_that_is_too_long),
        SCRATCH_TEST(test_an_index_that_is_too_large),
        SCRATCH_TEST(test_announced_sizes),
    };
    return cmocka_run_group_tests_name("tensorflow_hostile", tests, NULL, NULL);
}
