// SPDX-License-Identifier: Apache-2.0
// TensorFlow's checkpoints: reading files that TensorFlow wrote (data/tensorflow, made by
// dev/fixtures/make_tensorflow.py) and writing them byte for byte; the newest bundle of a folder;
// round trips and failing writes. test_tensorflow_hostile.c tests damaged files.
#include "core/rng.h"
#include "core/scratch.h"
#include "format/containers/containers.h"
#include "format/tensorflow/sorted_table.h"
#include "format/tensorflow/tensorflow.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define FOLDER BERTH_TEST_FORMAT_DATA "/tensorflow"

static void open_good(struct tensor_file *file, const char *path) {
    struct berth_error error;
    if (tensor_file_open(file, path, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

static void assert_status(enum berth_status status, enum berth_status expected,
                          const struct berth_error *error) {
    if (status != expected) {
        fail_msg("status %d, expected %d: %s", status, expected,
                 status != BERTH_OK ? error->message : "");
    }
}

// --- TensorFlow's files -------------------------------------------------------------------------

static void assert_floats(const struct tensor_file *file) {
    static const float values[] = {0.0f,  -0.0f,    1.0f,     -2.5f,
                                   65504, 0x1p-14f, 0x1p-24f, 0.333251953125f};
    static const char *const names[] = {"layer/f32", "layer/f16", "layer/f64", "layer/bf16"};
    for (size_t i = 0; i < 4; i++) {
        float read[8];
        const struct tensor_entry *entry = tensor_file_find(file, names[i]);
        assert_non_null(entry);
        assert_int_equal(tensor_file_read_f32(file, entry, 0, 8, read, NULL), BERTH_OK);
        for (size_t k = 0; k < 8; k++) { // bf16 has 8 bits of mantissa
            assert_true(fabsf(read[k] - values[k]) <= (i == 3 ? fabsf(values[k]) / 256 : 0));
        }
        assert_int_equal(tensor_file_read_f32(file, entry, 5, 2, read, NULL), BERTH_OK);
        assert_true(read[0] == values[5]);
    }
    const struct tensor_entry *cube = tensor_file_find(file, "layer/f64");
    assert_int_equal(cube->rank, 3);
    assert_true(cube->shape[0] == 2 && cube->shape[1] == 1 && cube->shape[2] == 4);
    float half;
    const struct tensor_entry *scalar = tensor_file_find(file, "scale");
    assert_int_equal(scalar->rank, 0);
    assert_int_equal(tensor_file_read_f32(file, scalar, 0, 1, &half, NULL), BERTH_OK);
    assert_true(half == 0.5f);
}

static void assert_integers(const struct tensor_file *file) {
    static const struct {
        const char *name, *type;
        int is_signed;
    } cases[] = {{"layer/i64", "I64", 1}, {"layer/i32", "I32", 1}, {"layer/i16", "I16", 1},
                 {"layer/i8", "I8", 1},   {"layer/u64", "U64", 0}, {"layer/u32", "U32", 0},
                 {"layer/u16", "U16", 0}, {"layer/u8", "U8", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tensor_entry *entry = tensor_file_find(file, cases[i].name);
        unsigned char bytes[64];
        assert_string_equal(entry->dtype_name, cases[i].type);
        size_t size = tensor_dtype_size(entry->dtype), count = cases[i].is_signed ? 5 : 4;
        assert_int_equal(entry->end - entry->begin, count * size);
        assert_int_equal(tensor_file_read(file, entry, bytes, NULL), BERTH_OK);
        for (size_t k = 0; k < count; k++) {
            int64_t value = cases[i].is_signed ? (int64_t)k - 2 : (int64_t)k;
            assert_memory_equal(bytes + k * size, &value, size);
        }
    }
    int64_t step;
    assert_int_equal(tensor_file_read(file, tensor_file_find(file, "global_step"), &step, NULL),
                     BERTH_OK);
    assert_int_equal(step, 1234567);
    char truth[3];
    assert_int_equal(tensor_file_read(file, tensor_file_find(file, "layer/bool"), truth, NULL),
                     BERTH_OK);
    assert_memory_equal(truth, "\1\0\1", 3);
    assert_string_equal(tensor_file_find(file, "layer/complex")->dtype_name, "C64");
    const struct tensor_entry *empty = tensor_file_find(file, "layer/empty");
    assert_true(empty->rank == 2 && empty->shape[0] == 0 && empty->shape[1] == 3);
    assert_int_equal(tensor_file_read(file, empty, truth, NULL), BERTH_OK);
}

// Equal offsets would mean shared data, as of tied weights.
static void assert_no_overlap(const struct tensor_file *file) {
    for (size_t i = 0; i < file->count; i++) {
        for (size_t k = 0; k < i; k++) {
            const struct tensor_entry *a = &file->entries[i], *b = &file->entries[k];
            assert_true(a->end <= b->begin || b->end <= a->begin);
        }
    }
}

// One data file, and three.
static void test_reads_tensorflows(void **state) {
    (void)state;
    static const char *const paths[] = {FOLDER "/numbers.index", FOLDER "/shards.index"};
    for (size_t i = 0; i < 2; i++) {
        struct tensor_file file;
        open_good(&file, paths[i]);
        assert_string_equal(file.format->name, "tensorflow");
        assert_int_equal(file.count, 17);
        assert_int_equal(file.ignored_keys, 0);
        assert_floats(&file);
        assert_integers(&file);
        assert_no_overlap(&file);
        tensor_file_close(&file);
    }
}

static void test_text_is_listed_only(void **state) {
    (void)state;
    struct tensor_file file;
    struct berth_error error;
    char bytes[64];
    float one;
    open_good(&file, FOLDER "/text.index");
    const struct tensor_entry *text = tensor_file_find(&file, "graph");
    assert_string_equal(text->dtype_name, "STRING");
    assert_int_equal(tensor_file_read(&file, text, bytes, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "\"graph\": expected numbers, found strings");
    assert_int_equal(tensor_file_read_f32(&file, text, 0, 1, &one, &error), BERTH_BAD_DATA);
    assert_int_equal(tensor_file_read_f32(&file, tensor_file_find(&file, "x"), 0, 1, &one, NULL),
                     BERTH_OK);
    assert_true(one == 1);
    tensor_file_close(&file);
}

static void test_slices_are_refused_by_name(void **state) {
    (void)state;
    struct tensor_file file;
    struct berth_error error;
    assert_int_equal(tensor_file_open(&file, FOLDER "/slices.index", &error), BERTH_BAD_DATA);
    assert_message_has(&error, "\"table\": partitioned variables are not supported");
}

// Reads a bundle and writes its tensors that have a C type, given in reverse order if `last_first`.
static enum berth_status copy_bundle(const char *from, const char *prefix, int last_first) {
    struct tensor_file file;
    size_t count = 0;
    open_good(&file, from);
    struct tensor_out *tensors = memory_array_zeroed(file.count, sizeof *tensors);
    for (size_t i = 0; i < file.count; i++) {
        const struct tensor_entry *entry = &file.entries[last_first ? file.count - 1 - i : i];
        if (entry->dtype != TENSOR_OTHER) {
            void *data = memory_new((size_t)(entry->end - entry->begin));
            assert_int_equal(tensor_file_read(&file, entry, data, NULL), BERTH_OK);
            struct tensor_out *tensor = &tensors[count++];
            *tensor = (struct tensor_out){
                .name = entry->name, .dtype = entry->dtype, .rank = entry->rank, .data = data};
            memcpy(tensor->shape, entry->shape, sizeof tensor->shape);
        }
    }
    enum berth_status status = tensorflow_write(prefix, tensors, count, NULL);
    for (size_t i = 0; i < count; i++) {
        memory_free((void *)tensors[i].data);
    }
    memory_free(tensors);
    tensor_file_close(&file);
    return status;
}

// The tiny BERT's tensors are sorted by name, as in TensorFlow's files.
static void test_writes_tensorflows_bytes(void **state) {
    (void)state;
    assert_int_equal(copy_bundle(FOLDER "/bert/model.ckpt-7.index", scratch("model.ckpt-7"), 0),
                     BERTH_OK);
    assert_same_file(scratch("model.ckpt-7.index"), FOLDER "/bert/model.ckpt-7.index");
    assert_same_file(scratch("model.ckpt-7.data-00000-of-00001"),
                     FOLDER "/bert/model.ckpt-7.data-00000-of-00001");
    assert_same_file(scratch("checkpoint"), FOLDER "/bert/checkpoint");
    assert_int_equal(scratch_count(), 3);
}

// --- round trips --------------------------------------------------------------------------------

static void test_order_does_not_matter(void **state) {
    (void)state;
    struct tensor_file file;
    assert_int_equal(copy_bundle(FOLDER "/numbers.index", scratch("a"), 1), BERTH_OK);
    open_good(&file, scratch("a.index"));
    assert_int_equal(file.count, 16); // without the complex one
    for (size_t i = 1; i < file.count; i++) {
        assert_true(strcmp(file.entries[i - 1].name, file.entries[i].name) < 0);
        assert_int_equal(file.entries[i].begin, file.entries[i - 1].end);
    }
    assert_floats(&file);
    tensor_file_close(&file);
}

// Enough names for several index blocks and restarts; bytes of every value in names.
static void test_large_index(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    struct tensor_out *tensors = memory_array_zeroed(COUNT, sizeof *tensors);
    char(*names)[64] = memory_array(COUNT, sizeof *names);
    int32_t *values = memory_array(COUNT, sizeof *values);
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "\xff\xff%c layer_%d/\xc3\xa9/kernel", 0x80 + i % 128,
                 i * 7919 % COUNT);
        values[i] = i;
        tensors[i] = (struct tensor_out){
            .name = names[i], .dtype = TENSOR_I32, .rank = 2, .shape = {1, 1}, .data = &values[i]};
    }
    assert_int_equal(tensorflow_write(scratch("a"), tensors, COUNT, NULL), BERTH_OK);
    struct tensor_file file;
    open_good(&file, scratch("a.index"));
    assert_int_equal(file.count, COUNT);
    for (int i = 0; i < COUNT; i += 37) {
        int32_t value;
        const struct tensor_entry *entry = tensor_file_find(&file, names[i]);
        assert_non_null(entry);
        assert_int_equal(tensor_file_read(&file, entry, &value, NULL), BERTH_OK);
        assert_int_equal(value, i);
    }
    tensor_file_close(&file);
    struct stat stats;
    assert_int_equal(stat(scratch("a.index"), &stats), 0);
    assert_true(stats.st_size > 3 * (256 << 10));
    memory_free(values);
    memory_free(names);
    memory_free(tensors);
}

static size_t count_of(const struct buffer *bytes, const char *text) {
    const char *at = (const char *)bytes->bytes, *end = at + bytes->length;
    size_t count = 0;
    while ((at = memmem(at, (size_t)(end - at), text, strlen(text))) != NULL) {
        count++;
        at++;
    }
    return count;
}

// The index has no whole key where a part of it is between two blocks, or after the last.
static void test_index_keys_are_short(void **state) {
    (void)state;
    enum { LARGE = 300 << 10 };
    struct sorted_table_writer writer = {0};
    char *value = memory_array_zeroed(LARGE, 1);
    sorted_table_put(&writer, "aaaa", value, LARGE);
    sorted_table_put(&writer, "azzz", value, LARGE);
    sorted_table_put(&writer, "azzzz", value, LARGE);
    sorted_table_put(&writer, "b", value, LARGE);
    sorted_table_finish(&writer);
    assert_false(writer.bytes.failed);
    assert_int_equal(count_of(&writer.bytes, "aaaa"), 1);
    assert_int_equal(count_of(&writer.bytes, "azzz"), 4); // nothing shorter is below "azzzz", "b"
    sorted_table_writer_done(&writer);
    memory_free(value);
}

static void test_no_tensors(void **state) {
    (void)state;
    struct tensor_file file;
    assert_int_equal(tensorflow_write(scratch("a"), NULL, 0, NULL), BERTH_OK);
    open_good(&file, scratch("a.index"));
    assert_int_equal(file.count, 0);
    tensor_file_close(&file);
}

static void test_as_many_dimensions_as_may_be(void **state) {
    (void)state;
    static const float number = 3;
    struct tensor_out tensor = {
        .name = "x", .dtype = TENSOR_F32, .rank = TENSOR_MAX_RANK, .data = &number};
    struct tensor_file file;
    float read;
    for (int i = 0; i < TENSOR_MAX_RANK; i++) {
        tensor.shape[i] = 1;
    }
    assert_int_equal(tensorflow_write(scratch("a"), &tensor, 1, NULL), BERTH_OK);
    open_good(&file, scratch("a.index"));
    assert_int_equal(file.entries[0].rank, TENSOR_MAX_RANK);
    assert_int_equal(tensor_file_read(&file, &file.entries[0], &read, NULL), BERTH_OK);
    assert_true(read == number);
    tensor_file_close(&file);
}

// A tensor larger than the buffer, read from the middle first: its checksum covers all of it.
static void test_a_part_is_verified_by_the_whole(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    uint16_t *halves = memory_array(COUNT, sizeof *halves);
    for (int i = 0; i < COUNT; i++) {
        halves[i] = (uint16_t)(0x3F80 + i % 128);
    }
    struct tensor_out tensor = {
        .name = "x", .dtype = TENSOR_BF16, .rank = 1, .shape = {COUNT}, .data = halves};
    assert_int_equal(tensorflow_write(scratch("a"), &tensor, 1, NULL), BERTH_OK);
    struct tensor_file file;
    float read[3];
    open_good(&file, scratch("a.index"));
    assert_int_equal(tensor_file_read_f32(&file, &file.entries[0], 50001, 3, read, NULL), BERTH_OK);
    assert_true(read[0] == 1 + (float)(50001 % 128) / 128);
    tensor_file_close(&file);
    halves[COUNT - 1] ^= 1;
    scratch_write_bytes("a.data-00000-of-00001", halves, COUNT * sizeof *halves);
    open_good(&file, scratch("a.index"));
    struct berth_error error;
    assert_int_equal(tensor_file_read_f32(&file, &file.entries[0], 50001, 3, read, &error),
                     BERTH_BAD_DATA);
    assert_message_has(&error, "a.data-00000-of-00001: tensor \"x\": wrong checksum");
    tensor_file_close(&file);
    memory_free(halves);
}

// --- the newest of a folder ----------------------------------------------------------------------

static void assert_found(const char *expected) {
    char *path;
    struct berth_error error;
    assert_status(tensorflow_find(scratch_folder, &path, &error), BERTH_OK, &error);
    if (expected == NULL) {
        assert_null(path);
    } else {
        assert_string_equal(path, scratch(expected));
    }
    memory_free(path);
}

static void test_find(void **state) {
    (void)state;
    struct berth_error error;
    char *path;
    assert_found(NULL);
    scratch_write("model.safetensors.index.json", "{}");
    assert_found(NULL);
    scratch_write("bert_model.ckpt.index", "");
    assert_found("bert_model.ckpt.index");
    scratch_write("model.ckpt-20.index", "");
    assert_int_equal(tensorflow_find(scratch_folder, &path, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "bert_model.ckpt.index and model.ckpt-20.index");
    scratch_write("checkpoint", "all_model_checkpoint_paths: \"bert_model.ckpt\"\n"
                                "model_checkpoint_path: \"/home/a b/run/model.ckpt-20\"\n");
    assert_found("model.ckpt-20.index");
    scratch_write("checkpoint", "model_checkpoint_path: \"bert_model.ckpt\"");
    assert_found("bert_model.ckpt.index");
    static const char *const useless[] = {"",
                                          "model_checkpoint_path: \"gone\"\n",
                                          "\n\n{",
                                          "model_checkpoint_path:",
                                          "model_checkpoint_path: x",
                                          "model_checkpoint_path: \"\"",
                                          "model_checkpoint_path: \"a/\"",
                                          "\"",
                                          "model_checkpoint"};
    for (size_t i = 0; i < sizeof useless / sizeof *useless; i++) {
        scratch_write("checkpoint", useless[i]);
        assert_int_equal(tensorflow_find(scratch_folder, &path, NULL), BERTH_NO_INPUT);
    }
    scratch_write("a \"\\.index", "");
    scratch_write("checkpoint", "model_checkpoint_path: \"a \\\"\\\\\"\n");
    assert_found("a \"\\.index");
    scratch_write("\xC3\xA9\\7.index", "");
    scratch_write("checkpoint", "model_checkpoint_path: \"\\303\\251\\\\\\067\"\n");
    assert_found("\xC3\xA9\\7.index");
    scratch_write("checkpoint", "model_checkpoint_path: \"\xC3\xA9\\\\7\"\n");
    assert_found("\xC3\xA9\\7.index");
}

static void test_find_reads_what_is_written(void **state) {
    (void)state;
    assert_int_equal(tensorflow_write(scratch("first"), NULL, 0, NULL), BERTH_OK);
    assert_int_equal(tensorflow_write(scratch("second \"\\"), NULL, 0, NULL), BERTH_OK);
    assert_found("second \"\\.index");
}

// --- failing writes -----------------------------------------------------------------------------

static void test_what_cannot_be_written(void **state) {
    (void)state;
    static char long_name[SORTED_TABLE_KEY_LIMIT + 2];
    memset(long_name, 'x', sizeof long_name - 1);
    struct berth_error error;
    struct tensor_out twice[2] = {{.name = "x", .dtype = TENSOR_F32, .data = "1234"},
                                  {.name = "x", .dtype = TENSOR_F32, .data = "1234"}};
    assert_int_equal(tensorflow_write(scratch("a"), twice, 2, &error), BERTH_INTERNAL);
    assert_message_has(&error, "duplicate tensor \"x\"");
    struct tensor_out tensor = {.name = "", .dtype = TENSOR_F32, .data = "1234"};
    assert_int_equal(tensorflow_write(scratch("a"), &tensor, 1, &error), BERTH_CANT_CREATE);
    tensor.name = long_name;
    assert_int_equal(tensorflow_write(scratch("a"), &tensor, 1, &error), BERTH_CANT_CREATE);
    assert_message_has(&error, "1025 bytes");
    tensor = (struct tensor_out){.name = "x", .dtype = TENSOR_OTHER, .data = ""};
    assert_int_equal(tensorflow_write(scratch("a"), &tensor, 1, &error), BERTH_CANT_CREATE);
    assert_message_has(&error, "TensorFlow lacks");
    assert_int_equal(scratch_count(), 0);
    long_name[SORTED_TABLE_KEY_LIMIT] = '\0';
    tensor = (struct tensor_out){.name = long_name, .dtype = TENSOR_F32, .data = "1234"};
    assert_int_equal(tensorflow_write(scratch("a"), &tensor, 1, NULL), BERTH_OK);
    struct tensor_file file;
    open_good(&file, scratch("a.index"));
    assert_string_equal(file.entries[0].name, long_name);
    tensor_file_close(&file);
}

static enum berth_status write_value(float value, struct berth_error *error) {
    struct tensor_out tensors[2] = {
        {.name = "x", .dtype = TENSOR_F32, .data = &value},
        {.name = "y", .dtype = TENSOR_F32, .rank = 1, .shape = {1}, .data = &value}};
    return tensorflow_write(scratch("a"), tensors, 2, error);
}

// After an interrupted write of 2 over 1 the bundle is 1, 2, or cannot be opened; it never has the
// data of the other.
static void assert_whole_or_nothing(void) {
    struct tensor_file file;
    float value;
    if (!file_exists(scratch("a.index"))) {
        return;
    }
    open_good(&file, scratch("a.index"));
    assert_int_equal(tensor_file_read_f32(&file, &file.entries[0], 0, 1, &value, NULL), BERTH_OK);
    assert_true(value == 1 || value == 2);
    tensor_file_close(&file);
}

static void test_every_system_call_fails(void **state) {
    (void)state;
    file_fail_at(0, 0);
    assert_int_equal(write_value(1, NULL), BERTH_OK);
    uint64_t calls = file_fail_at(0, 0);
    assert_true(calls > 10);
    for (uint64_t call = 1; call <= calls; call++) {
        struct berth_error error = {0};
        assert_int_equal(write_value(1, NULL), BERTH_OK);
        file_fail_at(call, ENOSPC);
        enum berth_status status = write_value(2, &error);
        file_fail_at(0, 0);
        if (status == BERTH_OK || error.message[0] == '\0') {
            fail_msg("call %d of %d: status %d", (int)call, (int)calls, status);
        }
        assert_whole_or_nothing();
        assert_no_temporary(scratch_folder);
    }
}

static void test_killed_at_every_system_call(void **state) {
    (void)state;
    file_fail_at(0, 0);
    assert_int_equal(write_value(1, NULL), BERTH_OK);
    uint64_t calls = file_fail_at(0, 0);
    for (uint64_t call = 1; call <= calls; call++) {
        assert_int_equal(write_value(1, NULL), BERTH_OK);
        pid_t child = fork();
        if (child == 0) {
            file_fail_at(call, -1);
            write_value(2, NULL);
            _exit(0);
        }
        int result;
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFSIGNALED(result) && WTERMSIG(result) == SIGKILL);
        assert_whole_or_nothing();
    }
}

static void test_every_allocation_fails(void **state) {
    (void)state;
    for (uint64_t call = 1;; call++) {
        struct berth_error error = {0};
        memory_fail_at(call, 0);
        enum berth_status status = write_value(1, &error);
        if (memory_fail_at(0, 0) < call) {
            assert_status(status, BERTH_OK, &error);
            assert_true(call > 5);
            break;
        }
        assert_status(status, BERTH_NO_MEMORY, &error);
        assert_true(error.message[0] != '\0');
    }
    for (uint64_t call = 1;; call++) {
        struct tensor_file file;
        struct berth_error error = {0};
        memory_fail_at(call, 0);
        enum berth_status status = tensor_file_open(&file, scratch("a.index"), &error);
        if (memory_fail_at(0, 0) < call) {
            assert_status(status, BERTH_OK, &error);
            assert_true(call > 5);
            tensor_file_close(&file);
            break;
        }
        assert_status(status, BERTH_NO_MEMORY, &error);
    }
    for (uint64_t call = 1;; call++) {
        char *path;
        memory_fail_at(call, 0);
        enum berth_status status = tensorflow_find(scratch_folder, &path, NULL);
        memory_free(path);
        if (memory_fail_at(0, 0) < call) {
            assert_int_equal(status, BERTH_OK);
            assert_true(call > 2);
            break;
        }
        assert_int_equal(status, BERTH_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_reads_tensorflows),
        SCRATCH_TEST(test_text_is_listed_only),
        SCRATCH_TEST(test_slices_are_refused_by_name),
        SCRATCH_TEST(test_writes_tensorflows_bytes),
        SCRATCH_TEST(test_order_does_not_matter),
        cmocka_unit_test(test_index_keys_are_short),
        SCRATCH_TEST(test_large_index),
        SCRATCH_TEST(test_no_tensors),
        SCRATCH_TEST(test_as_many_dimensions_as_may_be),
        SCRATCH_TEST(test_a_part_is_verified_by_the_whole),
        SCRATCH_TEST(test_find),
        SCRATCH_TEST(test_find_reads_what_is_written),
        SCRATCH_TEST(test_what_cannot_be_written),
        SCRATCH_TEST(test_every_system_call_fails),
        SCRATCH_TEST(test_killed_at_every_system_call),
        SCRATCH_TEST(test_every_allocation_fails),
    };
    return cmocka_run_group_tests_name("tensorflow", tests, NULL, NULL);
}
