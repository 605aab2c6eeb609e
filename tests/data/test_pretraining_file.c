// SPDX-License-Identifier: Apache-2.0
// Files of instances: what NVIDIA's and Habana's layouts hold (pretraining/, written with h5py by
// dev/fixtures/make_pretraining.py) comes back as the instances they were made of, so does what is
// written here, and contradictions are refused by name.
#include "data/pretraining_file.h"
#include "data/pretraining_statistics.h"
#include "format/hdf5.h"
#include "format/json.h"
#include "format/tfrecord.h"
#include "made_up.h"

#define FOLDER BERTH_TEST_SOURCE_DIR "/tests/data/pretraining/"
enum { LENGTH = 32, PREDICTIONS = 5 };

static struct instances make(const struct documents *documents) {
    struct instance_options options =
        complete((struct instance_options){.max_seq_length = LENGTH,
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
    struct documents documents = made_up(30, 6, 5, 9);
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
    struct documents documents = made_up(31, 60, 9, 20);
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
    struct documents documents = made_up(30, 6, 5, 9);
    struct instances made = make(&documents);
    struct pretraining_pack packs[64];
    size_t count = 0;
    for (uint32_t i = 0; i < made.count;
         i++, count++) { // two where they fit, an empty place between
        int two = i + 1 < made.count && made.items[i].length + made.items[i + 1].length <= LENGTH;
        packs[count] =
            (struct pretraining_pack){{i, PRETRAINING_NONE, two ? i + 1 : PRETRAINING_NONE}};
        i += (uint32_t)two;
    }
    assert_true(count < made.count && count > 1);
    assert_int_equal(
        pretraining_write_packed(scratch("a"), &made, packs, count, LENGTH, PREDICTIONS, NULL),
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

static void test_rows_that_are_too_small(void **state) {
    (void)state;
    struct documents documents = made_up(30, 6, 5, 9);
    struct instances made = make(&documents);
    struct pretraining_pack pack = {{0, 1, 2}};
    struct berth_error error;
    assert_int_equal(pretraining_write_hdf5(scratch("a"), &made, 16, PREDICTIONS, &error),
                     BERTH_BAD_DATA);
    assert_int_equal(
        pretraining_write_packed(scratch("a"), &made, &pack, 1, 16, PREDICTIONS, &error),
        BERTH_BAD_DATA);
    assert_message_has(&error, "packed row 0");
    assert_int_equal(pretraining_write_tfrecord(scratch("a"), &made, 16, PREDICTIONS, &error),
                     BERTH_BAD_DATA);
    assert_int_equal(scratch_count(), 0);
    assert_int_equal(pretraining_read_hdf5(FOLDER "nvidia.hdf5", VOCABULARY, 16, &made, &error),
                     BERTH_BAD_DATA);
    assert_message_has(&error, "at most 16");
    instances_done(&made);
    documents_done(&documents);
}

static void test_tfrecord(void **state) {
    (void)state;
    struct documents documents = made_up(30, 6, 5, 9);
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

static void test_statistics(void **state) {
    (void)state;
    struct documents documents = made_up(31, 60, 9, 20);
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

// --- contradictions
// -------------------------------------------------------------------------------

// A file of one row with one number changed.
static void write_row(const char *path, size_t column, size_t at, int32_t value) {
    static const struct hdf5_column columns[] = {
        {"input_ids", TENSOR_I32, 8},     {"input_mask", TENSOR_I32, 8},
        {"segment_ids", TENSOR_I32, 8},   {"masked_lm_positions", TENSOR_I32, 3},
        {"masked_lm_ids", TENSOR_I32, 3}, {"next_sentence_labels", TENSOR_I32, 0}};
    int32_t rows[6][8] = {{CLS, 200, MASK, SEP, 300, SEP, 0, 0},
                          {1, 1, 1, 1, 1, 1, 0, 0},
                          {0, 0, 0, 0, 1, 1, 0, 0},
                          {2, 0, 0},
                          {201, 0, 0},
                          {1}};
    struct hdf5_writer writer;
    rows[column][at] = value;
    assert_int_equal(hdf5_writer_open(&writer, columns, 6, 4, NULL), BERTH_OK);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(hdf5_writer_put(&writer, i, rows[i], 1, NULL), BERTH_OK);
    }
    assert_int_equal(hdf5_writer_commit(&writer, path, NULL), BERTH_OK);
    hdf5_writer_done(&writer);
}

static void test_contradictions(void **state) {
    (void)state;
    static const struct {
        size_t column, at;
        int32_t value;
        const char *message;
    } cases[] = {
        {0, 1, VOCABULARY, "input_ids, row 0: an id outside"},
        {0, 4, -1, "an id outside"},
        {1, 0, 0, "input_mask"},
        {1, 2, 0, "expected ones, then zeros"},
        {1, 7, 1, "ones, then zeros"},
        {1, 3, 2, "ones, then zeros"},
        {2, 1, 1, "segment_ids"},
        {2, 4, 2, "zeros, then ones"},
        {3, 0, 6, "masked_lm_positions, row 0: a position outside"},
        {3, 0, -1, "a position outside"},
        {4, 0, VOCABULARY, "masked_lm_ids"},
        {5, 0, 2, "next_sentence_labels, row 0: expected 0 or 1"},
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

static void test_other_data_sets(void **state) {
    (void)state;
    static const struct hdf5_column columns[][2] = {
        {{"other", TENSOR_I32, 8}, {"mask", TENSOR_I8, 8}},
        {{"input_ids", TENSOR_I32, 0}, {"input_mask", TENSOR_I8, 8}},
        {{"input_ids", TENSOR_I32, 8}, {"input_mask", TENSOR_I8, 8}}};
    static const char *const messages[] = {
        "no data set input_ids", "in 2 dimensions, found I32 in 1", "no data set segment_ids"};
    static const int32_t row[8];
    for (size_t i = 0; i < 3; i++) {
        struct hdf5_writer writer;
        struct instances read = {0};
        struct berth_error error;
        assert_int_equal(hdf5_writer_open(&writer, columns[i], 2, 4, NULL), BERTH_OK);
        hdf5_writer_put(&writer, 0, row, 1, NULL);
        hdf5_writer_put(&writer, 1, row, 1, NULL);
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
        SCRATCH_TEST(test_rows_that_are_too_small),
        SCRATCH_TEST(test_tfrecord),
        SCRATCH_TEST(test_statistics),
        SCRATCH_TEST(test_contradictions),
        SCRATCH_TEST(test_other_data_sets),
    };
    return cmocka_run_group_tests_name("pretraining_file", tests, NULL, NULL);
}
