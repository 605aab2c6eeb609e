// SPDX-License-Identifier: Apache-2.0
// Files of instances: files in NVIDIA's and Habana's layouts (pretraining/, written with h5py by
// dev/fixtures/make_pretraining.py) and our own give the original instances; inconsistent files are
// refused by name.
#include "data/pretraining/pretraining_file.h"
#include "data/pretraining/pretraining_statistics.h"
#include "format/hdf5/hdf5.h"
#include "format/json/json.h"
#include "format/protobuf/protobuf.h"
#include "format/tensorflow/tfrecord.h"
#include "synthetic_documents.h"

#define FOLDER BERTH_TEST_SOURCE_DIR "/tests/data/pretraining/"
enum { LENGTH = 32, PREDICTIONS = 5 };

static struct instances make(const struct documents *documents) {
    struct instance_options options =
        complete((struct instance_options){.max_length = LENGTH,
                                           .max_predictions = PREDICTIONS,
                                           .dupe_factor = 1,
                                           .masked_lm_prob = 0.15,
                                           .short_seq_prob = 0.7,
                                           .seed = 12345,
                                           .python = 1});
    struct instances made = {0};
    assert_int_equal(instances_make(documents, &options, &made, NULL), BERTH_OK);
    return made;
}

static struct instances read_good(const char *path) {
    struct instances read = {0};
    struct berth_error error;
    if (pretraining_read_hdf5(path, VOCABULARY, LENGTH, &read, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return read;
}

static void test_reads_the_layouts_of_others(void **state) {
    (void)state;
    struct documents documents = synthetic_documents(30, 6, 5, 9);
    struct instances made = make(&documents), plain = read_good(FOLDER "nvidia.hdf5");
    struct instances packed = read_good(FOLDER "habana.hdf5");
    assert_int_equal(plain.count, made.count);
    assert_int_equal(packed.count, made.count);
    assert_int_equal(checksum(&plain), checksum(&made));
    uint64_t sum = 0, packed_sum = 0; // the rows have another order
    for (size_t i = 0; i < made.count; i++) {
        sum += checksum_one(&made, i, 0);
        packed_sum += checksum_one(&packed, i, 0);
    }
    assert_int_equal(packed_sum, sum);
    instances_done(&made);
    instances_done(&plain);
    instances_done(&packed);
    documents_done(&documents);
}

static void test_reads_its_own(void **state) {
    (void)state;
    struct documents documents = synthetic_documents(31, 60, 9, 20);
    struct instances made = make(&documents);
    assert_int_equal(pretraining_write_hdf5(scratch("a"), &made, LENGTH, PREDICTIONS, NULL),
                     BERTH_OK);
    struct instances read = read_good(scratch("a"));
    assert_int_equal(checksum(&read), checksum(&made));
    // A second file is appended.
    assert_int_equal(pretraining_read_hdf5(scratch("a"), VOCABULARY, 0, &read, NULL), BERTH_OK);
    assert_int_equal(read.count, 2 * made.count);
    assert_int_equal(checksum_one(&read, made.count, 0), checksum_one(&made, 0, 0));
    instances_done(&read);
    instances_done(&made);
    documents_done(&documents);
}

static void test_reads_its_own_packed(void **state) {
    (void)state;
    struct documents documents = synthetic_documents(30, 6, 5, 9);
    struct instances made = make(&documents);
    struct pretraining_pack packs[64];
    size_t count = 0;
    // Two where they fit, with an empty slot between them.
    for (uint32_t i = 0; i < made.count; i++, count++) {
        int two = i + 1 < made.count && made.items[i].length + made.items[i + 1].length <= LENGTH;
        packs[count] =
            (struct pretraining_pack){{i, PRETRAINING_NONE, two ? i + 1 : PRETRAINING_NONE}};
        i += (uint32_t)two;
    }
    assert_true(count < made.count && count > 1);
    assert_int_equal(pretraining_write_packed(scratch("a"), &made,
                                              (struct pretraining_packs){packs, count}, LENGTH,
                                              PREDICTIONS, NULL),
                     BERTH_OK);
    struct instances read = read_good(scratch("a"));
    assert_int_equal(read.count, made.count);
    assert_int_equal(checksum(&read), checksum(&made));
    struct hdf5_file file;
    int32_t next[192];
    assert_int_equal(hdf5_open(&file, scratch("a"), NULL), BERTH_OK);
    assert_int_equal(file.count, 9);
    assert_int_equal(hdf5_find(&file, "masked_lm_ids")->shape[1], PREDICTIONS + 3);
    assert_int_equal(hdf5_read_i32(&file, hdf5_find(&file, "next_sentence_positions"), 0,
                                   (int64_t)count, next, NULL),
                     BERTH_OK);
    assert_int_equal(next[0], 0);
    hdf5_close(&file);
    instances_done(&read);
    instances_done(&made);
    documents_done(&documents);
}

// Blocks of rows from one chunk with all rows: each chunk is decompressed less than twice.
static void test_reads_one_large_chunk(void **state) {
    (void)state;
    enum { ROWS = 20000, ROW_BYTES = 16 * (4 + 1 + 1) + 2 * (4 + 4) + 1 };
    uint64_t before = deflate_bytes_decompressed();
    struct instances read = read_good(FOLDER "one-chunk/one-chunk.hdf5");
    assert_in_range(deflate_bytes_decompressed() - before, ROWS * ROW_BYTES, 2 * ROWS * ROW_BYTES);
    assert_int_equal(read.count, ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        const int32_t *tokens = read.tokens + read.items[i].tokens;
        assert_int_equal(read.items[i].length, 13);
        assert_int_equal(read.items[i].second, 9);
        assert_int_equal(read.items[i].prediction_count, 1);
        assert_int_equal(tokens[7], 11);
        assert_int_equal(tokens[read.positions[i]], 4);
        assert_int_equal(read.labels[i], 6);
    }
    instances_done(&read);
}

static void test_rows_that_are_too_small(void **state) {
    (void)state;
    struct documents documents = synthetic_documents(30, 6, 5, 9);
    struct instances made = make(&documents);
    struct pretraining_pack pack = {{0, 1, 2}};
    struct berth_error error;
    assert_int_equal(pretraining_write_hdf5(scratch("a"), &made, 16, PREDICTIONS, &error),
                     BERTH_BAD_DATA);
    assert_int_equal(pretraining_write_packed(scratch("a"), &made,
                                              (struct pretraining_packs){&pack, 1}, 16, PREDICTIONS,
                                              &error),
                     BERTH_BAD_DATA);
    assert_message_has(&error, "packed row 0");
    assert_int_equal(pretraining_write_tfrecord(scratch("a"), &made, 16, PREDICTIONS, &error),
                     BERTH_BAD_DATA);
    assert_int_equal(scratch_count(), 0);
    assert_int_equal(pretraining_read_hdf5(FOLDER "nvidia.hdf5", VOCABULARY, 16, &made, &error),
                     BERTH_BAD_DATA);
    assert_message_has(&error, "requested is 16");
    instances_done(&made);
    documents_done(&documents);
}

static void test_tfrecord(void **state) {
    (void)state;
    struct documents documents = synthetic_documents(30, 6, 5, 9);
    struct instances made = make(&documents);
    struct tfrecord_reader reader;
    const unsigned char *bytes;
    size_t length, count = 0;
    int more = 1;
    assert_int_equal(pretraining_write_tfrecord(scratch("a"), &made, LENGTH, PREDICTIONS, NULL),
                     BERTH_OK);
    assert_int_equal(tfrecord_open(&reader, scratch("a"), NULL), BERTH_OK);
    while (tfrecord_next(&reader, &bytes, &length, &more, NULL) == BERTH_OK && more) {
        assert_non_null(memmem(bytes, length, "masked_lm_weights", 17));
        count++;
    }
    assert_int_equal(count, made.count);
    tfrecord_close(&reader);
    instances_done(&made);
    documents_done(&documents);
}

static void test_reads_its_tfrecord(void **state) {
    (void)state;
    struct documents documents = synthetic_documents(31, 60, 9, 20);
    struct instances made = make(&documents), read = {0};
    struct berth_error error;
    assert_int_equal(pretraining_write_tfrecord(scratch("a"), &made, LENGTH, PREDICTIONS, NULL),
                     BERTH_OK);
    assert_int_equal(pretraining_read_tfrecord(scratch("a"), VOCABULARY, LENGTH, &read, NULL),
                     BERTH_OK);
    assert_int_equal(read.count, made.count);
    assert_int_equal(checksum(&read), checksum(&made));
    instances_done(&read);
    assert_int_equal(pretraining_read_tfrecord(scratch("a"), VOCABULARY, 16, &read, &error),
                     BERTH_BAD_DATA);
    assert_message_has(&error, "input_ids, row 0: more tokens");
    assert_int_equal(pretraining_read_tfrecord(scratch("a"), 300, 0, &read, &error),
                     BERTH_BAD_DATA);
    assert_message_has(&error, "id outside the vocabulary");
    instances_done(&read);
    instances_done(&made);
    documents_done(&documents);
}

// Returns the TFRecord file of `made`, with its size in *length and that of its first record in
// *record.
static char *tfrecord_bytes(const struct instances *made, size_t *length, size_t *record) {
    char *bytes;
    const struct instances first = {.items = made->items,
                                    .tokens = made->tokens,
                                    .positions = made->positions,
                                    .labels = made->labels,
                                    .count = 1};
    assert_int_equal(pretraining_write_tfrecord(scratch("a"), &first, LENGTH, PREDICTIONS, NULL),
                     BERTH_OK);
    assert_int_equal(file_read(scratch("a"), 1 << 24, &bytes, record, NULL), BERTH_OK);
    memory_free(bytes);
    assert_int_equal(pretraining_write_tfrecord(scratch("a"), made, LENGTH, PREDICTIONS, NULL),
                     BERTH_OK);
    assert_int_equal(file_read(scratch("a"), 1 << 24, &bytes, length, NULL), BERTH_OK);
    return bytes;
}

// A changed byte and a file that ends within a record are errors, because of the checksums.
static void test_damaged_tfrecord(void **state) {
    (void)state;
    struct documents documents = synthetic_documents(30, 6, 5, 9);
    struct instances made = make(&documents);
    struct berth_error error;
    size_t length, record;
    char *bytes = tfrecord_bytes(&made, &length, &record);
    assert_true(length > record + 1);
    for (size_t at = 0; at < length; at += 7) {
        struct instances read = {0};
        bytes[at] ^= 4;
        scratch_write_bytes("b", bytes, length);
        bytes[at] ^= 4;
        assert_int_equal(pretraining_read_tfrecord(scratch("b"), VOCABULARY, 0, &read, &error),
                         BERTH_BAD_DATA);
        assert_message_has(&error, "/b");
        instances_done(&read);
    }
    for (size_t cut = 1; cut <= record + 1; cut++) {
        struct instances read = {0};
        scratch_write_bytes("b", bytes, cut);
        assert_int_equal(pretraining_read_tfrecord(scratch("b"), VOCABULARY, 0, &read, &error),
                         cut == record ? BERTH_OK : BERTH_BAD_DATA);
        instances_done(&read);
    }
    memory_free(bytes);
    instances_done(&made);
    documents_done(&documents);
}

// --- hand-made records ---------------------------------------------------------------------------

#define CUT INT64_MIN // a number that put_list writes as one byte among packed floats

// Appends a feature with a list of numbers, packed or not; kind 2: floats, 3: integers.
static void put_list(struct buffer *to, const char *name, uint32_t kind, int packed,
                     const int64_t *numbers, size_t count) {
    size_t entry = protobuf_begin(to, 1);
    protobuf_put_text(to, 1, name);
    size_t value = protobuf_begin(to, 2), list = protobuf_begin(to, kind);
    size_t items = packed ? protobuf_begin(to, 1) : 0;
    for (size_t i = 0; i < count; i++) {
        if (packed && (kind == 3 || numbers[i] == CUT)) {
            protobuf_raw_varint(to, numbers[i] == CUT ? 1 : (uint64_t)numbers[i]);
        } else if (packed) {
            buffer_put_number(to, numbers[i] != 0 ? 0x3f800000u : 0, 4);
        } else if (kind == 3) {
            protobuf_put_varint(to, 1, (uint64_t)numbers[i]);
        } else {
            protobuf_put_fixed32(to, 1, numbers[i] != 0 ? 0x3f800000u : 0);
        }
    }
    if (packed) {
        protobuf_end(to, items);
    }
    protobuf_put_varint(to, 2, 7); // a field that lists do not have yet
    protobuf_end(to, list);
    protobuf_end(to, value);
    protobuf_end(to, entry);
}

enum { RECORD_COLUMNS = 7 };

struct record {
    const char *name;
    uint32_t kind;
    size_t count;
    int64_t numbers[8];
};

static const struct record good_record[RECORD_COLUMNS] = {
    {"masked_lm_weights", 2, 3, {1, 0, 0}},
    {"input_ids", 3, 8, {CLS, 200, MASK, SEP, 300, SEP, 0, 0}},
    {"input_mask", 3, 8, {1, 1, 1, 1, 1, 1, 0, 0}},
    {"segment_ids", 3, 8, {0, 0, 0, 0, 1, 1, 0, 0}},
    {"masked_lm_positions", 3, 3, {2, 0, 0}},
    {"masked_lm_ids", 3, 3, {201, 0, 0}},
    {"next_sentence_labels", 3, 1, {1}}};

static void write_record(const struct record *columns, int packed) {
    struct buffer message = {0};
    struct file_writer file;
    size_t features = protobuf_begin(&message, 1);
    for (size_t i = 0; i < RECORD_COLUMNS; i++) {
        if (columns[i].name != NULL) {
            put_list(&message, columns[i].name, columns[i].kind, packed, columns[i].numbers,
                     columns[i].count);
        }
    }
    protobuf_end(&message, features);
    assert_int_equal(file_writer_open(&file, scratch("a"), NULL), BERTH_OK);
    assert_int_equal(tfrecord_put(&file, message.bytes, message.length, NULL), BERTH_OK);
    assert_int_equal(file_writer_commit(&file, NULL), BERTH_OK);
    buffer_done(&message);
}

static void test_records_of_others(void **state) {
    (void)state;
    struct record columns[RECORD_COLUMNS];
    struct instances read = {0};
    memcpy(columns, good_record, sizeof columns);
    for (int i = 0; i < 4; i++) {
        columns[0].name = i < 2 ? "masked_lm_weights" : "of_another_program";
        write_record(columns, i % 2);
        assert_int_equal(pretraining_read_tfrecord(scratch("a"), VOCABULARY, 8, &read, NULL),
                         BERTH_OK);
        const struct instance *last = &read.items[i];
        assert_int_equal(read.count, i + 1);
        assert_int_equal(last->length, 6);
        assert_int_equal(last->second, 4);
        assert_int_equal(last->is_random, 1);
        assert_int_equal(last->prediction_count, 1);
        assert_int_equal(read.tokens[last->tokens + 4], 300);
        assert_int_equal(read.positions[last->predictions], 2);
        assert_int_equal(read.labels[last->predictions], 201);
    }
    instances_done(&read);
}

static void test_bad_records(void **state) {
    (void)state;
    static const struct {
        size_t column;
        struct record record;
        const char *message;
    } cases[] = {
        {1, {NULL, 0, 0, {0}}, "input_ids, row 0: missing feature"},
        {6, {"input_ids", 3, 1, {1}}, "input_ids, row 0: duplicate feature"},
        {2, {"input_mask", 3, 7, {1, 1, 1, 1, 1, 1, 0}}, "input_mask, row 0: the number of values"},
        {2, {"input_mask", 2, 8, {1, 1, 1, 1, 1, 1, 0, 0}}, "expected integers"},
        {0, {"masked_lm_weights", 3, 3, {1, 0, 0}}, "expected floats"},
        {0,
         {"masked_lm_weights", 2, 3, {1, 1, 0}},
         "masked_lm_weights, row 0: the weights contradict"},
        {0, {"masked_lm_weights", 2, 2, {1, 0}}, "the weights contradict"},
        {6, {"next_sentence_labels", 3, 2, {1, 0}}, "expected one value"},
        {6, {"next_sentence_labels", 3, 1, {2}}, "expected 0 or 1"},
        {4, {"masked_lm_positions", 3, 3, {6, 0, 0}}, "position outside"},
        {5, {"masked_lm_ids", 3, 3, {VOCABULARY, 0, 0}}, "masked_lm_ids, row 0: id outside"},
        {5, {"masked_lm_ids", 3, 3, {INT64_MAX, 0, 0}}, "a number out of range"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int packed = 0; packed < 2; packed++) {
            struct record columns[RECORD_COLUMNS];
            struct instances read = {0};
            struct berth_error error;
            memcpy(columns, good_record, sizeof columns);
            columns[cases[i].column] = cases[i].record;
            write_record(columns, packed);
            assert_int_equal(pretraining_read_tfrecord(scratch("a"), VOCABULARY, 8, &read, &error),
                             BERTH_BAD_DATA);
            assert_message_has(&error, cases[i].message);
            instances_done(&read);
        }
    }
}

static void test_cut_floats(void **state) {
    (void)state;
    struct record columns[RECORD_COLUMNS];
    struct instances read = {0};
    struct berth_error error;
    memcpy(columns, good_record, sizeof columns);
    columns[0].numbers[2] = CUT;
    write_record(columns, 1);
    assert_int_equal(pretraining_read_tfrecord(scratch("a"), VOCABULARY, 8, &read, &error),
                     BERTH_BAD_DATA);
    assert_message_has(&error, "masked_lm_weights, row 0: truncated packed floats");
    instances_done(&read);
}

static void test_statistics(void **state) {
    (void)state;
    struct documents documents = synthetic_documents(31, 60, 9, 20);
    struct instances made = make(&documents);
    struct pretraining_statistics all = {0}, again = {0};
    json *object;
    pretraining_statistics_add(&all, &made);
    object = pretraining_statistics_to_json(&all, LENGTH);
    pretraining_statistics_add_json(&again, object);
    assert_memory_equal(&again, &all, sizeof all);
    json_free(object);
    assert_int_equal(pretraining_statistics_write(&all, LENGTH, scratch("a"), NULL), BERTH_OK);
    assert_int_equal(json_read_file(scratch("a"), &object, NULL), BERTH_OK);
    double shares = json_as_real(json_member(object, "masked")) +
                    json_as_real(json_member(object, "kept")) +
                    json_as_real(json_member(object, "replaced"));
    assert_float_equal(shares, 1, 1e-9);
    assert_int_equal(json_as_integer(json_member(object, "predictions")), made.prediction_count);
    const json *lengths = json_member(object, "lengths");
    int64_t sum = 0, tokens = 0;
    assert_int_equal(json_length(lengths), LENGTH + 1);
    for (size_t i = 0; i <= LENGTH; i++) {
        sum += json_as_integer(json_at(lengths, i));
        tokens += (int64_t)i * json_as_integer(json_at(lengths, i));
    }
    assert_int_equal(sum, made.count);
    assert_int_equal(tokens, made.token_count);
    assert_float_equal(json_as_real(json_member(object, "fill")),
                       (double)tokens / (double)(sum * LENGTH), 1e-9);
    json_free(object);
    assert_int_equal(all.random_next, made.counts.random_next);
    all = (struct pretraining_statistics){0};
    assert_int_equal(pretraining_statistics_write(&all, LENGTH, scratch("a"), NULL), BERTH_OK);
    assert_int_equal(json_read_file(scratch("a"), &object, NULL), BERTH_OK);
    assert_true(json_is_null_value(json_member(object, "masked")));
    json_free(object);
    instances_done(&made);
    documents_done(&documents);
}

// --- inconsistent files --------------------------------------------------------------------------

enum { PLAIN_COLUMNS = 6 };

static const struct hdf5_column plain_columns[PLAIN_COLUMNS] = {
    {"input_ids", TENSOR_I32, 8},     {"input_mask", TENSOR_I32, 8},
    {"segment_ids", TENSOR_I32, 8},   {"masked_lm_positions", TENSOR_I32, 3},
    {"masked_lm_ids", TENSOR_I32, 3}, {"next_sentence_labels", TENSOR_I32, 0}};

static void write_plain(const char *path, const struct hdf5_column *columns, int32_t rows[][8]) {
    struct hdf5_writer writer;
    assert_int_equal(hdf5_writer_open(&writer, columns, PLAIN_COLUMNS, 4, NULL), BERTH_OK);
    for (size_t i = 0; i < PLAIN_COLUMNS; i++) {
        assert_int_equal(hdf5_writer_put(&writer, i, rows[i], 1, NULL), BERTH_OK);
    }
    assert_int_equal(hdf5_writer_commit(&writer, path, NULL), BERTH_OK);
    hdf5_writer_done(&writer);
}

// A file of one row with one number changed.
static void write_row(const char *path, size_t column, size_t at, int32_t value) {
    int32_t rows[PLAIN_COLUMNS][8] = {{CLS, 200, MASK, SEP, 300, SEP, 0, 0},
                                      {1, 1, 1, 1, 1, 1, 0, 0},
                                      {0, 0, 0, 0, 1, 1, 0, 0},
                                      {2, 0, 0},
                                      {201, 0, 0},
                                      {1}};
    rows[column][at] = value;
    write_plain(path, plain_columns, rows);
}

// Two sequences in a packed row, with their starts in next_sentence_positions.
static void write_packed_row(const char *path, int32_t first, int32_t second, int32_t masked) {
    static const struct hdf5_column columns[] = {
        {"input_ids", TENSOR_I32, 8},
        {"input_mask", TENSOR_I32, 8},
        {"segment_ids", TENSOR_I32, 8},
        {"positions", TENSOR_I32, 8},
        {"masked_lm_positions", TENSOR_I32, 5},
        {"masked_lm_ids", TENSOR_I32, 5},
        {"next_sentence_positions", TENSOR_I32, 3},
        {"next_sentence_labels", TENSOR_I32, 3},
        {"next_sentence_weights", TENSOR_I32, 3},
    };
    const int32_t rows[9][8] = {
        {CLS, MASK, SEP, CLS, MASK, SEP, 0, 0},
        {1, 1, 1, 2, 2, 2, 0, 0},
        {0},
        {0, 1, 2, 0, 1, 2, 0, 0},
        {1, masked, 0, 0, 0},
        {200, 201, 0, 0, 0},
        {first, second, 0},
        {1, 0, 0},
        {1, 1, 0},
    };
    struct hdf5_writer writer;
    assert_int_equal(hdf5_writer_open(&writer, columns, 9, 4, NULL), BERTH_OK);
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(hdf5_writer_put(&writer, i, rows[i], 1, NULL), BERTH_OK);
    }
    assert_int_equal(hdf5_writer_commit(&writer, path, NULL), BERTH_OK);
    hdf5_writer_done(&writer);
}

static void test_where_packed_sequences_begin(void **state) {
    (void)state;
    struct instances read = {0};
    struct pretraining_size size;
    struct berth_error error;
    write_packed_row(scratch("a"), 0, 3, 4);
    uint64_t made, call = 0;
    do {
        memory_fail_at(++call, 0);
        const enum berth_status status = pretraining_measure_hdf5(scratch("a"), 0, &size, NULL);
        made = memory_fail_at(0, 0);
        assert_int_equal(status, made >= call ? BERTH_NO_MEMORY : BERTH_OK);
    } while (made >= call);
    assert_int_equal(size.sequences, 2); // in three slots
    assert_int_equal(pretraining_read_hdf5(scratch("a"), VOCABULARY, 0, &read, NULL), BERTH_OK);
    assert_int_equal(read.count, 2);
    for (int32_t wrong = 1; wrong < 8; wrong++) {
        write_packed_row(scratch("a"), wrong == 3 ? 1 : 0, wrong, 4);
        assert_int_equal(pretraining_read_hdf5(scratch("a"), VOCABULARY, 0, &read, &error),
                         BERTH_BAD_DATA);
        assert_message_has(&error, "next_sentence_positions says that it begins at");
    }
    write_packed_row(scratch("a"), 0, 3, 3); // the second's [CLS]
    assert_int_equal(pretraining_read_hdf5(scratch("a"), VOCABULARY, 0, &read, &error),
                     BERTH_BAD_DATA);
    assert_message_has(&error, "position outside its sequence: found 3, expected 4 to 5");
    instances_done(&read);
}

static void test_contradictions(void **state) {
    (void)state;
    static const struct {
        size_t column, at;
        int32_t value;
        const char *message;
    } cases[] = {
        {0, 1, VOCABULARY, "input_ids, row 0: id outside"},
        {0, 4, -1, "id outside the vocabulary: found -1, expected 0 to 999"},
        {1, 0, 0, "input_mask"},
        {1, 2, 0, "expected ones, then zeros"},
        {1, 7, 1, "ones, then zeros"},
        {1, 3, 2, "ones, then zeros"},
        {2, 1, 1, "segment_ids"},
        {2, 4, 2, "zeros, then ones"},
        {3, 0, 6, "masked_lm_positions, row 0: position outside"},
        {3, 0, -1, "position outside its sequence: found -1, expected 1 to 5"},
        {3, 1, 2, "masked_lm_positions, row 0: expected ascending positions, found 2 after 2"},
        {3, 1, 1, "found 1 after 2"},
        {4, 0, VOCABULARY, "masked_lm_ids"},
        {5, 0, 2, "next_sentence_labels, row 0: expected 0 or 1, found 2"},
    };
    struct instances read = {0};
    struct berth_error error;
    write_row(scratch("a"), 0, 0, CLS);
    assert_int_equal(pretraining_read_hdf5(scratch("a"), VOCABULARY, 0, &read, NULL), BERTH_OK);
    assert_int_equal(read.items[0].second, 4);
    assert_int_equal(read.items[0].length, 6);
    assert_int_equal(read.items[0].prediction_count, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_row(scratch("a"), cases[i].column, cases[i].at, cases[i].value);
        assert_int_equal(pretraining_read_hdf5(scratch("a"), VOCABULARY, 0, &read, &error),
                         BERTH_BAD_DATA);
        assert_message_has(&error, cases[i].message);
    }
    assert_int_equal(read.count, 1);
    instances_done(&read);
}

static void test_rows_of_other_widths(void **state) {
    (void)state;
    static const struct {
        size_t column;
        const char *message;
    } cases[] = {
        {1, "data set input_mask has 1 rows of 7 numbers, expected 1 of 8, as in input_ids"},
        {4, "masked_lm_ids has 1 rows of 2 numbers, expected 1 of 3, as in masked_lm_positions"}};
    int32_t rows[PLAIN_COLUMNS][8] = {{0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hdf5_column columns[PLAIN_COLUMNS];
        struct instances read = {0};
        struct berth_error error;
        memcpy(columns, plain_columns, sizeof columns);
        columns[cases[i].column].width--;
        write_plain(scratch("a"), columns, rows);
        assert_int_equal(pretraining_read_hdf5(scratch("a"), VOCABULARY, 0, &read, &error),
                         BERTH_BAD_DATA);
        assert_message_has(&error, cases[i].message);
        instances_done(&read);
    }
}

static void test_other_data_sets(void **state) {
    (void)state;
    enum { WIDE = INSTANCE_LENGTH_MAX + 1 };
    static const struct hdf5_column columns[][2] = {
        {{"other", TENSOR_I32, 8}, {"mask", TENSOR_I8, 8}},
        {{"input_ids", TENSOR_I32, 0}, {"input_mask", TENSOR_I8, 8}},
        {{"input_ids", TENSOR_I32, 8}, {"input_mask", TENSOR_I8, 8}},
        {{"input_ids", TENSOR_I32, WIDE}, {"input_mask", TENSOR_I8, 8}}};
    static const char *const messages[] = {
        "missing data set input_ids", "in 2 dimensions, found I32 in 1",
        "missing data set segment_ids",
        "data set input_ids: expected rows of 1 to 8192 numbers, found 8193"};
    static const int32_t row[WIDE];
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        struct hdf5_writer writer;
        struct instances read = {0};
        struct berth_error error;
        assert_int_equal(hdf5_writer_open(&writer, columns[i], 2, 4, NULL), BERTH_OK);
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(hdf5_writer_put(&writer, k, row, 1, NULL), BERTH_OK);
        }
        assert_int_equal(hdf5_writer_commit(&writer, scratch("a"), NULL), BERTH_OK);
        hdf5_writer_done(&writer);
        assert_int_equal(pretraining_read_hdf5(scratch("a"), VOCABULARY, 0, &read, &error),
                         BERTH_BAD_DATA);
        assert_message_has(&error, messages[i]);
        instances_done(&read);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_reads_the_layouts_of_others),
        SCRATCH_TEST(test_reads_its_own),
        SCRATCH_TEST(test_reads_its_own_packed),
        SCRATCH_TEST(test_reads_one_large_chunk),
        SCRATCH_TEST(test_rows_that_are_too_small),
        SCRATCH_TEST(test_tfrecord),
        SCRATCH_TEST(test_reads_its_tfrecord),
        SCRATCH_TEST(test_damaged_tfrecord),
        SCRATCH_TEST(test_records_of_others),
        SCRATCH_TEST(test_bad_records),
        SCRATCH_TEST(test_cut_floats),
        SCRATCH_TEST(test_statistics),
        SCRATCH_TEST(test_where_packed_sequences_begin),
        SCRATCH_TEST(test_contradictions),
        SCRATCH_TEST(test_rows_of_other_widths),
        SCRATCH_TEST(test_other_data_sets),
    };
    return cmocka_run_group_tests_name("pretraining_file", tests, NULL, NULL);
}
