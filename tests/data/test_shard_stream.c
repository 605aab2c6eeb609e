// SPDX-License-Identifier: Apache-2.0
// Shards as one endless stream: every sequence once per epoch, found from its index alone, whatever
// the files' sizes and the calls; damage is reported by the call that needs the file.
#include "core/memory.h"
#include "core/scratch.h"
#include "data/pretraining/shard_stream.h"
#include "data/shard_fixture.h"
#include "format/hdf5/hdf5.h"

#define FOLDER BERTH_TEST_SOURCE_DIR "/tests/data/pretraining/"
enum { MOST = 200 };

static struct shard_stream *open_stream(const struct shard_list *list, uint64_t seed) {
    const struct shard_stream_settings settings = {
        .seed = seed, .vocab_size = WORDS, .max_predictions = 2};
    struct shard_stream *stream;
    assert_int_equal(shard_stream_open(list, &settings, &stream, NULL), BERTH_OK);
    return stream;
}

static void assert_each_once(const int *numbers, int count) {
    char seen[MOST] = {0};
    for (int i = 0; i < count; i++) {
        assert_true(numbers[i] >= 0 && numbers[i] < count && !seen[numbers[i]]);
        seen[numbers[i]] = 1;
    }
}

// Three epochs of shards of these sizes, in pieces of several sizes, and from the middle.
static void check_stream(const int *sizes, int files) {
    int total = 0, straight[3 * MOST], piece[3 * MOST];
    for (int i = 0; i < files; i++) {
        char name[32];
        snprintf(name, sizeof name, "s/%d_training.%s", i, i % 2 == 1 ? "tfrecord" : "hdf5");
        put_shard(name, total, sizes[i]);
        total += sizes[i];
    }
    struct shard_list list = open_list(scratch("s"), SHARD_TRAIN);
    assert_int_equal(list.count, files);
    assert_int_equal(list.sequences, total);
    struct shard_stream *stream = open_stream(&list, 7);
    take(stream, 0, (size_t)(3 * total), straight);
    for (int epoch = 0; epoch < 3; epoch++) {
        assert_each_once(straight + epoch * total, total);
    }
    assert_memory_not_equal(straight, straight + total, (size_t)total * sizeof(int));
    const int steps[] = {1, 3, total / 2 + 1, total, total + 5};
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
        for (int at = 0; at + steps[k] <= 3 * total; at += steps[k]) {
            take(stream, at, (size_t)steps[k], piece);
            assert_memory_equal(piece, straight + at, (size_t)steps[k] * sizeof(int));
        }
    }
    shard_stream_close(stream);
    stream = open_stream(&list, 7);
    take(stream, 2 * total - 2, 4, piece); // a resumed run may begin anywhere
    assert_memory_equal(piece, straight + 2 * total - 2, 4 * sizeof(int));
    take(stream, 1, 4, piece);
    assert_memory_equal(piece, straight + 1, 4 * sizeof(int));
    shard_stream_close(stream);
    stream = open_stream(&list, 8);
    take(stream, 0, (size_t)total, piece);
    assert_memory_not_equal(piece, straight, (size_t)total * sizeof(int));
    shard_stream_close(stream);
    shard_list_done(&list);
}

static void test_every_sequence_once_an_epoch(void **state) {
    static const int sizes[] = {40, 7, 1, 30};
    assert_int_equal(dir_make(scratch("s"), NULL), BERTH_OK);
    check_stream(sizes, 4);
}

static void test_one_shard(void **state) {
    static const int size = 60;
    assert_int_equal(dir_make(scratch("s"), NULL), BERTH_OK);
    check_stream(&size, 1);
}

// --- what is left out ----------------------------------------------------------------------------

// An epoch of 78 sequences in updates of 25: three, whatever the sizes of the files.
static void test_the_rest_of_an_epoch_is_left_out(void **state) {
    static const int sizes[] = {40, 7, 1, 30};
    const struct shard_stream_settings settings = {.seed = 7, .batch = 25};
    int total = 0, whole[4 * 78], cut[4 * 75], piece[100];
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d.hdf5", i);
        put_shard(name, total, sizes[i]);
        total += sizes[i];
    }
    struct shard_list list = open_list(scratch("."), SHARD_TRAIN);
    assert_int_equal(shard_stream_sequences(&list, &settings), 75);
    struct shard_stream *all = open_stream(&list, 7), *some = open_with(&list, settings);
    take(all, 0, 4 * 78, whole);
    take(some, 0, 4 * 75, cut);
    for (int epoch = 0; epoch < 4; epoch++) {
        assert_memory_equal(cut + epoch * 75, whole + epoch * 78, 75 * sizeof(int));
    }
    for (int at = 0; at < 4 * 75; at += 25) {
        take(some, at, 25, piece);
        assert_memory_equal(piece, cut + at, 25 * sizeof(int));
    }
    take(some, 74, 2, piece);
    assert_memory_equal(piece, cut + 74, 2 * sizeof(int));
    shard_stream_close(all);
    shard_stream_close(some);
    shard_list_done(&list);
}

// --- positions, names and sizes
// -------------------------------------------------------------------

static void test_positions(void **state) {
    int numbers[60];
    put_shard("a.hdf5", 0, 20);
    put_shard("b.hdf5", 20, 10);
    struct shard_list list = open_list(scratch("."), SHARD_TRAIN);
    struct shard_stream *stream = open_stream(&list, 3);
    take(stream, 0, 60, numbers);
    for (int64_t i = 0; i < 60; i++) {
        struct shard_position position = shard_stream_locate(stream, i);
        assert_int_equal(position.epoch, i / 30);
        assert_int_equal(position.file, numbers[i] >= 20);
        assert_true(position.row >= 0 && position.row < (position.file == 0 ? 20 : 10));
    }
    shard_stream_close(stream);
    shard_list_done(&list);
}

// Files of the same size have different orders.
static void test_each_file_has_its_order(void **state) {
    int numbers[40], same = 0;
    put_shard("a.hdf5", 0, 20);
    put_shard("b.hdf5", 20, 20);
    struct shard_list list = open_list(scratch("."), SHARD_TRAIN);
    struct shard_stream *stream = open_stream(&list, 3);
    take(stream, 0, 40, numbers);
    for (int i = 0; i < 20; i++) {
        same += numbers[i] % 20 == numbers[20 + i] % 20;
    }
    assert_in_range(same, 0, 6);
    shard_stream_close(stream);
    shard_list_done(&list);
}

static void assert_sequences(const char *path, enum shard_use use, int64_t expected) {
    struct shard_list list = open_list(scratch(path), use);
    assert_int_equal(list.sequences, expected);
    shard_list_done(&list);
}

// What a name says of a file's use, whatever the corpus is called.
static void test_names_of_parts(void **state) {
    static const struct {
        const char *name;
        enum pretraining_part part;
    } cases[] = {{"c_training_0.hdf5", PART_TRAINING},
                 {"pretraining_0.hdf5", PART_TRAINING},
                 {"c_test_0.hdf5", PART_TEST},
                 {"test0.tfrecord", PART_TEST},
                 {"c-testing.hdf5", PART_TEST},
                 {"my_test_corpus_training_0.hdf5", PART_TRAINING},
                 {"my_training_set_test_0.hdf5", PART_TEST},
                 {"enwiki-latest_0.hdf5", PART_ANY},
                 {"other.hdf5", PART_ANY},
                 {"", PART_ANY}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(pretraining_part_of(cases[i].name), cases[i].part);
    }
}

// A folder of held-out files only is said to be one.
static void test_only_held_out(void **state) {
    struct berth_error error;
    struct shard_list list;
    (void)state;
    put_shard("c_test_0.hdf5", 0, 3);
    assert_int_equal(shard_list_open(&list, scratch("."), SHARD_TRAIN, 16, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "all 1 files are held out, because their names contain \"test\"");
    shard_list_done(&list);
}

// The files of a folder are selected by name.
static void test_names(void **state) {
    put_shard("c_training_0.hdf5", 0, 3);
    put_shard("c_test_0.hdf5", 3, 4);
    put_shard("other.hdf5", 7, 5);
    scratch_write("notes.txt", "no shard");
    assert_sequences(".", SHARD_TRAIN, 3);
    assert_sequences(".", SHARD_TEST, 4);
    assert_sequences(".", SHARD_ANY, 12);
    assert_int_equal(file_remove(scratch("c_training_0.hdf5"), NULL), BERTH_OK);
    assert_sequences(".", SHARD_TRAIN, 5);
    assert_sequences("other.hdf5", SHARD_TRAIN, 5);
    assert_sequences("other.hdf5", SHARD_TEST, 0);
}

static void test_names_of_files(void **state) {
    static const struct {
        const char *name;
        int is;
    } names[] = {{"a.hdf5", 1},
                 {"a.h5", 1},
                 {"a.tfrecord", 1},
                 {"a.tf_record", 1},
                 {"part-00000-of-00500", 1},
                 {"train.tfrecord-00000-of-00500", 1},
                 {"part-00000-of-00500.tfrecord", 1},
                 {".a.hdf5", 0},
                 {"a.hdf5.12.0.tmp", 0},
                 {"model.ckpt-7.data-00000-of-00001", 0},
                 {"model-00001-of-00002.safetensors", 0},
                 {"pytorch_model-00001-of-00002.bin", 0},
                 {"one-of-1", 0},
                 {"1-of-", 0}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (pretraining_is_file(names[i].name) != names[i].is) {
            fail_msg("%s", names[i].name);
        }
    }
}

// Packed rows count their sequences, before they are read.
static void test_packed_rows_count_as_sequences(void **state) {
    struct shard_list plain = open_list(FOLDER "nvidia.hdf5", SHARD_ANY);
    struct shard_list packed = open_list(FOLDER "habana.hdf5", SHARD_ANY);
    assert_true(plain.sequences > 0);
    assert_int_equal(packed.sequences, plain.sequences);
    const struct shard_stream_settings settings = {.vocab_size = 30522, .max_predictions = 2};
    struct shard_stream *stream;
    struct shard_taken taken;
    assert_int_equal(shard_stream_open(&packed, &settings, &stream, NULL), BERTH_OK);
    size_t twice = (size_t)(2 * packed.sequences);
    assert_int_equal(shard_stream_take(stream, 0, twice, &taken, NULL), BERTH_OK);
    shard_stream_close(stream);
    shard_list_done(&plain);
    shard_list_done(&packed);
}

// A shard with all rows in one chunk is decompressed less than twice, including its measurement.
static void test_one_large_chunk(void **state) {
    (void)state;
    enum { ROWS = 20000, ROW_BYTES = 16 * (4 + 1 + 1) + 2 * (4 + 4) + 1 };
    uint64_t before = deflate_bytes_decompressed();
    struct shard_list list = open_list(FOLDER "one-chunk/one-chunk.hdf5", SHARD_ANY);
    assert_int_equal(list.sequences, ROWS);
    struct shard_stream *stream = open_stream(&list, 7);
    for (int64_t first = 0; first < ROWS; first += ROWS / 4) {
        struct shard_taken taken;
        assert_int_equal(shard_stream_take(stream, first, ROWS / 4, &taken, NULL), BERTH_OK);
    }
    shard_stream_close(stream);
    shard_list_done(&list);
    assert_in_range(deflate_bytes_decompressed() - before, ROWS * ROW_BYTES, 2 * ROWS * ROW_BYTES);
}

// A pattern matches files of any name.
static void test_patterns(void **state) {
    put_shard("c_training_0.hdf5", 0, 3);
    put_shard("part_0.tfrecord", 3, 4);
    put_shard("part_1.tfrecord", 7, 5);
    struct shard_list list = open_list(scratch("part_*"), SHARD_TRAIN);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.sequences, 9);
    assert_int_equal(list.length, LENGTH);
    assert_int_equal(list.predictions, SYNTHETIC_PREDICTIONS);
    shard_list_done(&list);
    list = open_list(scratch("*_[01].*"), SHARD_ANY);
    assert_int_equal(list.sequences, 12);
    shard_list_done(&list);
    list = open_list(scratch("part_*"), SHARD_TEST);
    assert_int_equal(list.count, 0);
    shard_list_done(&list);
}

static void expect_list_error(const char *path, enum berth_status expected, const char *part) {
    struct shard_list list;
    struct berth_error error = {0};
    assert_int_equal(shard_list_open(&list, path, SHARD_TRAIN, 16, &error), expected);
    assert_message_has(&error, part);
    shard_list_done(&list);
}

// Files, patterns and folders, separated by commas; out of memory nothing of it is kept.
static void test_lists_with_commas(void **state) {
    (void)state;
    char path[4096];
    uint64_t n = 0, made;
    put_shard("a_training.hdf5", 0, 3);
    put_shard("b_training.tfrecord", 3, 4);
    put_shard("c_training.hdf5", 7, 5);
    char *a = memory_string(scratch("a_training.hdf5")), *b = memory_string(scratch("b*"));
    snprintf(path, sizeof path, "%s,%s,%s", a, b, scratch("c_training.hdf5"));
    struct shard_list list = open_list(path, SHARD_TRAIN);
    assert_int_equal(list.count, 3);
    assert_int_equal(list.sequences, 12);
    assert_string_equal(list.items[1].name, "b_training.tfrecord");
    shard_list_done(&list);
    do {
        memory_fail_at(++n, 0);
        const enum berth_status status = shard_list_open(&list, path, SHARD_TRAIN, 0, NULL);
        made = memory_fail_at(0, 0);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
        shard_list_done(&list);
    } while (made >= n);
    assert_true(n > 6);
    struct berth_error error;
    snprintf(path, sizeof path, "%s,%s", a, scratch("none"));
    assert_int_equal(shard_list_open(&list, path, SHARD_TRAIN, 0, &error), BERTH_NO_INPUT);
    assert_message_has(&error, scratch("none"));
    shard_list_done(&list);
    memory_free(a);
    memory_free(b);
}

static void test_lists_that_cannot_be(void **state) {
    assert_int_equal(dir_make(scratch("empty"), NULL), BERTH_OK);
    expect_list_error(scratch("empty"), BERTH_NO_INPUT, "no shards found");
    expect_list_error(scratch("nowhere"), BERTH_NO_INPUT, "nowhere");
    scratch_write("bad.hdf5", "no HDF5 at all");
    expect_list_error(scratch("bad.hdf5"), BERTH_BAD_DATA, "bad.hdf5");
    put_shard("long.hdf5", 0, 3);
    expect_list_error(scratch("long.hdf5"), BERTH_BAD_DATA, "the maximum requested is 16");
    put_shard("long.tfrecord", 0, 3);
    expect_list_error(scratch("long.tfrecord"), BERTH_BAD_DATA,
                      "more tokens than the maximum requested");
    expect_list_error(scratch("none*.hdf5"), BERTH_NO_INPUT, "no shards found");
}

// Damages the file's ids, so that they cannot be decompressed; its metadata stays valid.
static void damage(const char *name) {
    struct hdf5_file shard;
    assert_int_equal(hdf5_open(&shard, scratch(name), NULL), BERTH_OK);
    long at = (long)hdf5_find(&shard, "input_ids")->chunks[0].address;
    hdf5_close(&shard);
    FILE *file = fopen(scratch(name), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at + 20, SEEK_SET), 0);
    assert_int_equal(fwrite("damaged", 1, 7, file), 7);
    assert_int_equal(fclose(file), 0);
}

// Read ahead or not, a damaged file is an error only for calls that need it, each time.
static void test_damage_is_told_when_needed(void **state) {
    int numbers[100];
    put_shard("a.hdf5", 0, 100);
    put_shard("b.hdf5", 100, 100);
    struct shard_list list = open_list(scratch("."), SHARD_TRAIN);
    struct shard_stream *stream = open_stream(&list, 5);
    size_t second = shard_stream_locate(stream, 100).file;
    damage(second == 0 ? "a.hdf5" : "b.hdf5");
    take(stream, 0, 50, numbers);
    take(stream, 50, 50, numbers);
    for (int again = 0; again < 2; again++) {
        struct shard_taken taken;
        struct berth_error error = {0};
        assert_int_equal(shard_stream_take(stream, 99, 2, &taken, &error), BERTH_BAD_DATA);
        assert_message_has(&error, second == 0 ? "a.hdf5" : "b.hdf5");
    }
    take(stream, 0, 50, numbers);
    shard_stream_close(stream);
    shard_list_done(&list);
}

static void expect_take_error(const struct shard_list *list, int32_t vocab_size, const char *part) {
    const struct shard_stream_settings settings = {.vocab_size = vocab_size, .max_predictions = 2};
    struct shard_stream *stream;
    struct shard_taken taken;
    struct berth_error error = {0};
    assert_int_equal(shard_stream_open(list, &settings, &stream, NULL), BERTH_OK);
    assert_int_equal(shard_stream_take(stream, 0, 1, &taken, &error), BERTH_BAD_DATA);
    assert_message_has(&error, part);
    shard_stream_close(stream);
}

static void test_ids_and_changes_are_reported(void **state) {
    put_shard("a.hdf5", 0, 30);
    struct shard_list list = open_list(scratch("."), SHARD_TRAIN);
    expect_take_error(&list, 20, "a.hdf5: input_ids, row 5: id outside the vocabulary");
    put_shard("a.hdf5", 0, 29);
    expect_take_error(&list, WORDS, "30 sequences when the run began, 29 now");
    shard_list_done(&list);
}

// Only the first record of a TFRecord file is read before the run.
static void test_a_longer_record_behind_is_reported(void **state) {
    put_shard("a.tfrecord", 0, 3);
    const struct synthetic_shard wide = {20, 8, WORDS, 2 * LENGTH};
    make_shard(scratch("b.tfrecord"), &wide);
    size_t size;
    char *longer;
    assert_int_equal(file_read(scratch("b.tfrecord"), 1 << 20, &longer, &size, NULL), BERTH_OK);
    FILE *file = fopen(scratch("a.tfrecord"), "ab");
    assert_non_null(file);
    assert_int_equal(fwrite(longer, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(file_remove(scratch("b.tfrecord"), NULL), BERTH_OK);
    struct shard_list list = open_list(scratch("a.tfrecord"), SHARD_TRAIN);
    assert_int_equal(list.sequences, 11);
    assert_int_equal(list.length, LENGTH);
    expect_take_error(&list, WORDS, "the first records of the files have at most 20 and 3");
    shard_list_done(&list);
    memory_free(longer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_every_sequence_once_an_epoch),
        SCRATCH_TEST(test_one_shard),
        SCRATCH_TEST(test_each_file_has_its_order),
        SCRATCH_TEST(test_the_rest_of_an_epoch_is_left_out),
        SCRATCH_TEST(test_positions),
        SCRATCH_TEST(test_names_of_parts),
        SCRATCH_TEST(test_only_held_out),
        SCRATCH_TEST(test_names),
        SCRATCH_TEST(test_names_of_files),
        SCRATCH_TEST(test_packed_rows_count_as_sequences),
        SCRATCH_TEST(test_one_large_chunk),
        SCRATCH_TEST(test_patterns),
        SCRATCH_TEST(test_lists_with_commas),
        SCRATCH_TEST(test_lists_that_cannot_be),
        SCRATCH_TEST(test_damage_is_told_when_needed),
        SCRATCH_TEST(test_ids_and_changes_are_reported),
        SCRATCH_TEST(test_a_longer_record_behind_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
