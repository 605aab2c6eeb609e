// SPDX-License-Identifier: Apache-2.0
// PyTorch's checkpoints: files that torch wrote, in both layouts, against torch's numbers; the
// other pickled values; views, also beyond their storages.
#include "format/containers/containers.h"
#include "format/pickles.h"
#include "format/safetensors/safetensors.h"
#include "format/torch/torch.h"

#define DATA BERTH_TEST_FORMAT_DATA "/"

static void open_good(struct tensor_file *file, const char *path) {
    struct berth_error error;
    if (tensor_file_open(file, path, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

static char *read_all(const struct tensor_file *file, const struct tensor_entry *entry) {
    struct berth_error error;
    char *bytes = memory_new((size_t)(entry->end - entry->begin));
    if (tensor_file_read(file, entry, bytes, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return bytes;
}

// --- torch's files ------------------------------------------------------------------------------

// Reading every range of elements equals that range of the whole tensor.
static void assert_ranges(const struct tensor_file *file, const struct tensor_entry *entry,
                          const char *whole) {
    size_t size = tensor_dtype_size(entry->dtype), bytes = (size_t)(entry->end - entry->begin);
    char part[512];
    assert_in_range(bytes, 0, sizeof part);
    for (size_t first = 0; first < bytes; first += size) {
        for (size_t length = size; length <= bytes - first; length += size) {
            assert_int_equal(file->format->read(file, entry, first, length, part, NULL), BERTH_OK);
            assert_memory_equal(part, whole + first, length);
        }
    }
}

static void assert_same_tensor(const struct tensor_file *expected,
                               const struct tensor_entry *wanted, const struct tensor_file *file) {
    const struct tensor_entry *entry = tensor_file_find(file, wanted->name);
    if (entry == NULL) {
        fail_msg("%s is missing", wanted->name);
    }
    assert_string_equal(entry->dtype_name, wanted->dtype_name);
    assert_int_equal(entry->dtype, wanted->dtype);
    assert_int_equal(entry->rank, wanted->rank);
    assert_memory_equal(entry->shape, wanted->shape, sizeof entry->shape);
    assert_int_equal(entry->end - entry->begin, wanted->end - wanted->begin);
    char *whole = read_all(file, entry), *same = read_all(expected, wanted);
    assert_memory_equal(whole, same, entry->end - entry->begin);
    assert_ranges(file, entry, whole);
    if (entry->dtype == TENSOR_F16) {
        float numbers[32], same_numbers[32];
        int64_t count = (int64_t)(entry->end - entry->begin) / 2;
        assert_int_equal(tensor_file_read_f32(file, entry, 0, count, numbers, NULL), BERTH_OK);
        assert_int_equal(tensor_file_read_f32(expected, wanted, 0, count, same_numbers, NULL),
                         BERTH_OK);
        assert_memory_equal(numbers, same_numbers, (size_t)count * sizeof(float));
    }
    memory_free(whole);
    memory_free(same);
}

static void test_against_torch(void **state) {
    (void)state;
    static const char *const paths[] = {DATA "trainer.pt", DATA "trainer_legacy.pt"};
    static const char *const formats[] = {"PyTorch", "PyTorch (before 1.6)"};
    struct tensor_file expected, file;
    open_good(&expected, DATA "trainer.safetensors");
    for (size_t i = 0; i < 2; i++) {
        open_good(&file, paths[i]);
        assert_string_equal(file.format->name, formats[i]);
        assert_int_equal(file.count, expected.count);
        assert_string_equal(file.entries[0].name, "model.f32"); // in the dictionary's order
        for (size_t k = 0; k < expected.count; k++) {
            assert_same_tensor(&expected, &expected.entries[k], &file);
        }
        tensor_file_close(&file);
    }
    tensor_file_close(&expected);
}

static void test_a_tensor_alone(void **state) {
    (void)state;
    struct tensor_file file;
    open_good(&file, DATA "alone.pt");
    assert_int_equal(file.count, 1);
    assert_string_equal(file.entries[0].name, "tensor");
    float *numbers = (float *)read_all(&file, file.entries);
    for (int i = 0; i < 24; i++) {
        assert_true(numbers[i] == (float)(i % 4 * 6 + i / 4));
    }
    memory_free(numbers);
    tensor_file_close(&file);
}

// --- other values -------------------------------------------------------------------------------

static void check_trainer(const struct torch_file *file) {
    const struct pickle *pickle = &file->pickle;
    const struct pickle_value *root = pickle->root, *value;
    static const struct {
        const char *key;
        int64_t number;
    } integers[] = {{"step", 5}, {"negative", -70000}, {"large", (int64_t)1 << 40}};
    int64_t number = 0;
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        assert_true(pickle_integer(pickle_member(pickle, root, integers[i].key), &number));
        assert_int_equal(number, integers[i].number);
    }
    assert_true(pickle_is(pickle_member(pickle, root, "rate"), PICKLE_REAL));
    assert_true(pickle_member(pickle, root, "rate")->real == 0.1);
    assert_string_equal(pickle_text(pickle, pickle_member(pickle, root, "text")), "\u00e9t\u00e9");
    assert_true(pickle_is(pickle_member(pickle, root, "none"), PICKLE_NONE));
    value = pickle_member(pickle, root, "truth");
    assert_int_equal(pickle_item(pickle, value, 0)->integer, 1);
    value = pickle_member(pickle, root, "size");
    assert_true(pickle_integer(pickle_item(pickle, value, 1), &number) && number == 3);
    value = pickle_member(pickle, pickle_member(pickle, root, "counts"), "a");
    assert_true(pickle_integer(value, &number) && number == 1);
    value = pickle_member(pickle, pickle_member(pickle, root, "optimizer"), "param_groups");
    value = pickle_member(pickle, pickle_item(pickle, value, 0), "betas");
    assert_true(pickle_item(pickle, value, 1)->real == 0.999);
    static const char *const opaque[] = {"huge", "args", "best", "device", "set"};
    for (size_t i = 0; i < sizeof opaque / sizeof *opaque; i++) {
        assert_true(pickle_is(pickle_member(pickle, root, opaque[i]), PICKLE_OPAQUE));
    }
    assert_string_equal(pickle_text(pickle, pickle_member(pickle, root, "dtype")), "torch.float16");
    value = pickle_member(pickle, pickle_member(pickle, root, "model"), "f32");
    assert_string_equal(torch_tensor(file, value)->name, "model.f32");
    assert_null(torch_tensor(file, root));
    assert_null(torch_tensor(file, NULL));
}

static void test_values(void **state) {
    (void)state;
    static const char *const paths[] = {DATA "trainer.pt", DATA "trainer_legacy.pt"};
    for (size_t i = 0; i < 2; i++) {
        struct torch_file file;
        struct berth_error error;
        assert_int_equal(torch_open(&file, paths[i], PICKLE_OBJECTS, NULL), BERTH_OK);
        check_trainer(&file);
        torch_close(&file);
        assert_int_equal(torch_open(&file, paths[i], PICKLE_KNOWN_NAMES, &error), BERTH_BAD_DATA);
        assert_message_has(&error,
                           "GLOBAL: refused: checkpoints do not need the name argparse.Namespace");
        assert_null(file.entries);
    }
}

// DeepSpeed's shards hold objects of its classes; one is the call of an enumeration.
static void test_shard(void **state) {
    (void)state;
    struct torch_file file;
    struct berth_error error;
    float numbers[4];
    int64_t number = 0;
    assert_int_equal(torch_open(&file, DATA "shard.pt", PICKLE_OBJECTS, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "data.pkl byte ");
    assert_message_has(&error, "REDUCE: refused: checkpoints do not need to call "
                               "deepspeed.runtime.zero.config.ZeroStageEnum");
    assert_int_equal(torch_open(&file, DATA "shard.pt", PICKLE_CALLS, NULL), BERTH_OK);
    const struct pickle *pickle = &file.pickle;
    const struct pickle_value *shard = pickle_member(pickle, pickle->root, "optimizer_state_dict");
    assert_true(pickle_is(pickle_member(pickle, shard, "loss_scaler"), PICKLE_OPAQUE));
    const struct pickle_value *stage = pickle_member(pickle, shard, "zero_stage");
    assert_true(pickle_integer(pickle_item(pickle, pickle_arguments(pickle, stage), 0), &number));
    assert_int_equal(number, 2);
    const struct pickle_value *groups =
        pickle_member(pickle, shard, "single_partition_of_fp32_groups");
    const struct tensor_entry *group = torch_tensor(&file, pickle_item(pickle, groups, 0));
    assert_int_equal(torch_read(&file, group, 0, sizeof numbers, numbers, NULL), BERTH_OK);
    assert_true(numbers[3] == 3.0F);
    const struct pickle_value *shapes =
        pickle_item(pickle, pickle_member(pickle, shard, "param_shapes"), 0);
    const struct pickle_value *weight = pickle_member(pickle, shapes, "weight");
    assert_int_equal(pickle_length(weight), 2);
    assert_true(pickle_integer(pickle_item(pickle, weight, 1), &number) && number == 3);
    torch_close(&file);
}

// --- views --------------------------------------------------------------------------------------

#define DICT_OF(tensor) PROTO "}" TEXT("\1", "t") tensor "s."
#define SIX "\0\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40" // 0 to 5
#define KEYS                                                                                       \
    PROTO "]U\1"                                                                                   \
          "0a."
#define LEGACY_FLOATS(numel) STORAGE_ID("Float", "0", numel) "NtQ"
#define ALL_ONES "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f" // 2^63 - 1

static void assert_view_refused(struct raw pickle, const char *part) {
    struct torch_file file;
    struct berth_error error;
    write_zip("a.pt", pickle, (struct raw)RAW(SIX));
    assert_int_equal(torch_open(&file, scratch("a.pt"), PICKLE_OBJECTS, &error), BERTH_BAD_DATA);
    assert_message_has(&error, scratch("a.pt"));
    assert_message_has(&error, part);
    assert_null(file.entries);
    assert_int_equal(file.archive.file.descriptor, -1);
}

static void test_views_beyond_their_storage(void **state) {
    (void)state;
    static const struct {
        struct raw pickle;
        const char *part;
    } cases[] = {
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\0", "K\7\x85", "K\1\x85"))), "beyond its storage"},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\1", "K\6\x85", "K\1\x85"))), "beyond its storage"},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\6", ")", ")"))), "beyond its storage"},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\0", "K\2K\3\x86", "K\4K\1\x86"))), "beyond its"},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\0", "K\2K\3\x86", "K\1K\4\x86"))), "beyond its"},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), ALL_ONES, ")", ")"))), "beyond its storage"},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), ALL_ONES, "K\2\x85", "K\1\x85"))), "beyond its"},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\0", "K\3\x85", ALL_ONES "\x85"))), "beyond its"},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\0", ALL_ONES "\x85", "K\1\x85"))), "beyond its"},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\0", ALL_ONES ALL_ONES "\x86", "K\0K\0\x86"))),
         "beyond its storage"},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\0", ALL_ONES "\x85", "K\0\x85"))),
         "more elements than the file has bytes for"},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\0", "M\xe8\x03\x85", "K\0\x85"))),
         "more elements than the file has bytes for"},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\0", ALL_ONES "K\2\x86", "K\0K\0\x86"))),
         "beyond its storage"},
        {RAW(DICT_OF(TENSOR(FLOATS("\5"), "K\0", "K\5\x85", "K\1\x85"))),
         "the size of its storage"},
        {RAW(DICT_OF(TENSOR(FLOATS("\7"), "K\0", "K\5\x85", "K\1\x85"))),
         "the size of its storage"},
        {RAW(DICT_OF(TENSOR(STORAGE_ID("Half", "0", "\6") "tQ", "K\0", ")", ")"))),
         "the size of its storage"},
        {RAW(DICT_OF(TENSOR(STORAGE_ID("Float", "1", "\6") "tQ", "K\0", ")", ")"))),
         "tensor \"t\": its data is missing from the file"},
        {RAW(PROTO "}" TEXT("\2", "a\0") TENSOR(FLOATS("\6"), "K\0", ")", ")") "s."),
         "a key in it contains a NUL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_view_refused(cases[i].pickle, cases[i].part);
    }
}

static void test_views_that_fit(void **state) {
    (void)state;
    static const struct {
        struct raw pickle;
        size_t count;
        float numbers[12];
    } cases[] = {
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\5", ")", ")"))), 1, {5}},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\6", "K\0\x85", "K\1\x85"))), 0, {0}},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\0", "K\0K\7\x86", "K\7K\1\x86"))), 0, {0}},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\0", "K\0" ALL_ONES "K\2\x87", "K\1K\0K\0\x87"))),
         0,
         {0}},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\1", "K\2K\2\x86", "K\2K\2\x86"))), 4, {1, 3, 3, 5}},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\0", "K\1K\6\x86", ALL_ONES "K\1\x86"))),
         6,
         {0, 1, 2, 3, 4, 5}},
        {RAW(DICT_OF(TENSOR(FLOATS("\6"), "K\4", "K\2K\3K\2\x87", "K\0K\0K\1\x87"))),
         12,
         {4, 5, 4, 5, 4, 5, 4, 5, 4, 5, 4, 5}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tensor_file file;
        write_zip("a.pt", cases[i].pickle, (struct raw)RAW(SIX));
        open_good(&file, scratch("a.pt"));
        assert_int_equal(file.count, 1);
        assert_int_equal(file.entries->end - file.entries->begin, cases[i].count * sizeof(float));
        char *bytes = read_all(&file, file.entries);
        assert_memory_equal(bytes, cases[i].numbers, cases[i].count * sizeof(float));
        memory_fail_at(1, 0);
        const enum berth_status status = tensor_file_read(&file, file.entries, bytes, NULL);
        assert_int_equal(status, memory_fail_at(0, 0) > 0 ? BERTH_NO_MEMORY : BERTH_OK);
        memory_free(bytes);
        tensor_file_close(&file);
    }
}

// Two elements at the ends of a storage are read separately, not with everything between them.
static void test_far_strides(void **state) {
    (void)state;
    enum { COUNT = 6 << 20 };
    float *numbers = memory_array_zeroed(COUNT, sizeof *numbers), read[4];
    numbers[0] = 1;
    numbers[1] = 2;
    numbers[COUNT - 2] = 3;
    numbers[COUNT - 1] = 4;
    static const float expected[2][4] = {{1, 2, 3, 4}, {1, 3, 2, 4}};
    struct raw storage = {(const char *)numbers, COUNT * sizeof *numbers};
    for (size_t i = 0; i < 2; i++) {
        struct tensor_file file;
        struct buffer bytes = {0};
        buffer_put(&bytes, PROTO "}" TEXT("\1", "t"), 3 + 6);
        buffer_put_text(&bytes, "ctorch._utils\n_rebuild_tensor_v2\n(");
        static const char id[] = "(" TEXT("\7", "storage") "ctorch\nFloatStorage\n" TEXT("\1", "0")
            TEXT("\3", "cpu") "J\0\0\x60\0tQK\0K\2K\2\x86";
        buffer_put(&bytes, id, sizeof id - 1);
        if (i == 0) {
            buffer_put(&bytes, "J\xfe\xff\x5f\0K\1\x86", 8);
        } else {
            buffer_put(&bytes, "K\1J\xfe\xff\x5f\0\x86", 8);
        }
        buffer_put_text(&bytes, "tRs.");
        write_zip("a.pt", (struct raw){bytes.bytes, bytes.length}, storage);
        buffer_done(&bytes);
        open_good(&file, scratch("a.pt"));
        memory_fail_at(1, 1); // no memory for anything in between
        enum berth_status status = tensor_file_read(&file, file.entries, read, NULL);
        memory_fail_at(0, 0);
        assert_int_equal(status, BERTH_OK);
        assert_memory_equal(read, expected[i], sizeof read);
        tensor_file_close(&file);
    }
    memory_free(numbers);
}

static void test_read_beyond_the_end(void **state) {
    (void)state;
    struct tensor_file file;
    char byte[8];
    open_good(&file, DATA "trainer.pt");
    const struct tensor_entry *entry = tensor_file_find(&file, "model.scalar");
    assert_int_equal(file.format->read(&file, entry, 4, 4, byte, NULL), BERTH_INTERNAL);
    assert_int_equal(file.format->read(&file, entry, 0, 8, byte, NULL), BERTH_INTERNAL);
    tensor_file_close(&file);
}

// --- shared and nested values -------------------------------------------------------------------

static void assert_refused(struct raw pickle, const char *part) {
    struct torch_file file;
    struct berth_error error;
    write_legacy("a.pt", pickle, (struct raw)RAW(KEYS), (struct raw)RAW("\6\0\0\0\0\0\0\0" SIX));
    assert_int_equal(torch_open(&file, scratch("a.pt"), PICKLE_CALLS, &error), BERTH_BAD_DATA);
    assert_message_has(&error, part);
}

#define ONE TENSOR(LEGACY_FLOATS("\6"), "K\0", ")", ")")

static void test_cycles_and_bombs(void **state) {
    (void)state;
    assert_refused((struct raw)RAW(PROTO "]q\0(h\0" ONE "e."), "nested deeper than 64");
    // Ten lists, each with ten references to the previous one: 10^10 paths to one tensor.
    struct buffer bytes = {0};
    buffer_put(&bytes, PROTO, 2);
    buffer_put(&bytes, ONE "q\0", sizeof ONE "q\0" - 1);
    for (unsigned char i = 0; i < 10; i++) {
        unsigned char list[] = {'(', 'h', i, 'h', i, 'h', i,   'h',
                                i,   'h', i, 'h', i, 'h', i,   'h',
                                i,   'h', i, 'h', i, 't', 'q', (unsigned char)(i + 1)};
        buffer_put(&bytes, list, sizeof list);
    }
    buffer_put(&bytes, "\x86", 1); // the last two, and the others below them
    for (int i = 0; i < 9; i++) {
        buffer_put(&bytes, "\x86", 1);
    }
    buffer_put(&bytes, ".", 1);
    assert_refused((struct raw){bytes.bytes, bytes.length}, "too many references");
    buffer_done(&bytes);
    // A chain of lists, made from its inner end without a deep stack.
    buffer_put(&bytes, PROTO, 2);
    buffer_put(&bytes, ONE, sizeof ONE - 1);
    for (int i = 0; i < 5000; i++) {
        buffer_put(&bytes, "\x85", 1);
    }
    buffer_put(&bytes, ".", 1);
    assert_refused((struct raw){bytes.bytes, bytes.length}, "nested deeper than 64");
    buffer_done(&bytes);
}

// A tensor in the maximum number of tuples, and in one more.
static void test_the_deepest(void **state) {
    (void)state;
    for (unsigned depth = TORCH_MAX_DEPTH; depth <= TORCH_MAX_DEPTH + 1; depth++) {
        struct torch_file file;
        struct buffer bytes = {0};
        buffer_put(&bytes, PROTO ONE, sizeof PROTO ONE - 1);
        for (unsigned i = 0; i < depth; i++) {
            buffer_put(&bytes, "\x85", 1);
        }
        buffer_put(&bytes, ".", 1);
        write_legacy("a.pt", (struct raw){bytes.bytes, bytes.length}, (struct raw)RAW(KEYS),
                     (struct raw)RAW("\6\0\0\0\0\0\0\0" SIX));
        buffer_done(&bytes);
        enum berth_status status = torch_open(&file, scratch("a.pt"), PICKLE_OBJECTS, NULL);
        assert_int_equal(status, depth > TORCH_MAX_DEPTH ? BERTH_BAD_DATA : BERTH_OK);
        torch_close(&file);
    }
}

static void test_too_many_tensors(void **state) {
    (void)state;
    struct buffer bytes = {0};
    buffer_put(&bytes, PROTO "]" ONE "q\0a", sizeof PROTO "]" ONE "q\0a" - 1);
    for (unsigned i = 0; i < TORCH_MAX_TENSORS; i++) {
        buffer_put(&bytes, "h\0a", 3);
    }
    buffer_put(&bytes, ".", 1);
    assert_refused((struct raw){bytes.bytes, bytes.length}, "too many tensors");
    buffer_done(&bytes);
}

// The same list twice is read under both names.
static void test_shared_lists(void **state) {
    (void)state;
    struct tensor_file file;
    write_legacy("a.pt", (struct raw)RAW(PROTO "}(U\1a]q\0" ONE "aU\1bh\0u."),
                 (struct raw)RAW(KEYS), (struct raw)RAW("\6\0\0\0\0\0\0\0" SIX));
    open_good(&file, scratch("a.pt"));
    assert_int_equal(file.count, 2);
    assert_string_equal(file.entries[0].name, "a.0");
    assert_string_equal(file.entries[1].name, "b.0");
    tensor_file_close(&file);
}

// A file with only a pickled module is refused; next to tensors an object is ignored.
static void test_pickled_modules(void **state) {
    (void)state;
#define MODULE "ctorch.nn.modules.linear\nLinear\n)\x81}U\6weight" ONE "sb"
    static const struct raw modules[] = {RAW(PROTO MODULE "."), RAW(PROTO "}U\5model" MODULE "s.")};
    struct tensor_file file;
    struct berth_error error;
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        write_legacy("a.pt", modules[i], (struct raw)RAW(KEYS),
                     (struct raw)RAW("\6\0\0\0\0\0\0\0" SIX));
        assert_int_equal(tensor_file_open(&file, scratch("a.pt"), &error), BERTH_BAD_DATA);
        assert_message_has(&error, "of class torch.nn.modules.linear.Linear");
        assert_message_has(&error, "state_dict");
    }
    write_legacy("a.pt", (struct raw)RAW(PROTO "}U\1a" MODULE "sU\1b" ONE "s."),
                 (struct raw)RAW(KEYS), (struct raw)RAW("\6\0\0\0\0\0\0\0" SIX));
    open_good(&file, scratch("a.pt"));
    assert_int_equal(file.count, 1);
    tensor_file_close(&file);
}

// --- numbers stored as another type -------------------------------------------------------------

#define BYTES(numel, last)                                                                         \
    "(" TEXT("\7", "storage") "ctorch.storage\nUntypedStorage\n" TEXT("\1", "0")                   \
        TEXT("\3", "cpu") "K" numel last
// As torch saves a tensor of a type without a class of storages.
#define TYPED(storage, offset, shape, strides, type)                                               \
    "ctorch._utils\n_rebuild_tensor_v3\n(" storage offset shape strides "\x89"                     \
    "ccollections\nOrderedDict\n)Rctorch\n" type "\ntR"
#define WITH_METADATA(metadata)                                                                    \
    "ctorch._utils\n_rebuild_tensor_v2\n(" LEGACY_FLOATS(                                          \
        "\6") "K\0K\6\x85K\1\x85\x89"                                                              \
              "ccollections\nOrderedDict\n)R}" metadata "tR"

// Writes the pickle and 24 bytes in the layout `i`.
static void write_layout(int i, struct raw pickle, struct raw storages) {
    if (i == 0) {
        write_zip("a.pt", pickle, (struct raw)RAW(SIX));
    } else {
        write_legacy("a.pt", pickle, (struct raw)RAW(KEYS), storages);
    }
}

// The numbers are types of two bytes and of one; the storage counts bytes.
static void test_types_without_storages(void **state) {
    (void)state;
    static const struct raw shorts[] = {
        RAW(DICT_OF(TYPED(BYTES("\30", "tQ"), "K\2", "K\5\x85", "K\2\x85", "uint16"))),
        RAW(DICT_OF(TYPED(BYTES("\30", "NtQ"), "K\2", "K\5\x85", "K\2\x85", "uint16")))};
    static const struct raw storages = RAW("\30\0\0\0\0\0\0\0" SIX);
    struct tensor_file file;
    for (int i = 0; i < 2; i++) {
        uint16_t numbers[5];
        write_layout(i, shorts[i], storages);
        open_good(&file, scratch("a.pt"));
        assert_int_equal(file.entries->dtype, TENSOR_U16);
        assert_int_equal(tensor_file_read(&file, file.entries, numbers, NULL), BERTH_OK);
        for (size_t k = 0; k < 5; k++) {
            uint16_t number;
            memcpy(&number, &SIX[4 + 4 * k], sizeof number);
            assert_int_equal(numbers[k], number);
        }
        tensor_file_close(&file);
    }
    write_zip("a.pt",
              (struct raw)RAW(DICT_OF(
                  TYPED(BYTES("\30", "tQ"), "K\0", "K\30\x85", "K\1\x85", "float8_e4m3fn"))),
              (struct raw)RAW(SIX));
    open_good(&file, scratch("a.pt"));
    assert_string_equal(file.entries->dtype_name, "F8_E4M3");
    assert_int_equal(file.entries->dtype, TENSOR_OTHER);
    tensor_file_close(&file);
    assert_view_refused(
        (struct raw)RAW(DICT_OF(TYPED(BYTES("\30", "tQ"), "K\0", "K\15\x85", "K\1\x85", "uint16"))),
        "tensor \"t\": it extends beyond its storage");
    assert_view_refused((struct raw)RAW(DICT_OF(
                            TYPED(BYTES("\30", "tQ"), "K\0", "K\1\x85", "K\1\x85", "complex32"))),
                        "tensor \"t\": unknown data type torch.complex32");
}

// torch keeps the sign of torch.complex(x, x).conj().imag as a bit beside the numbers.
static void test_negated_numbers(void **state) {
    (void)state;
    static const struct raw refused[] = {RAW(DICT_OF(WITH_METADATA(TEXT("\3", "neg") "\x88s"))),
                                         RAW(DICT_OF(WITH_METADATA(TEXT("\4", "conj") "\x88s")))};
    static const struct raw storages = RAW("\6\0\0\0\0\0\0\0" SIX);
    struct tensor_file file;
    struct berth_error error;
    for (int i = 0; i < 4; i++) {
        write_layout(i / 2, refused[i % 2], storages);
        assert_int_equal(tensor_file_open(&file, scratch("a.pt"), &error), BERTH_BAD_DATA);
        assert_message_has(&error, "tensor \"t\": torch's bit \"neg\" or \"conj\" is set");
    }
    write_layout(1, (struct raw)RAW(DICT_OF(WITH_METADATA(TEXT("\3", "neg") "\x89s"))), storages);
    open_good(&file, scratch("a.pt"));
    tensor_file_close(&file);
}

static void test_long_names(void **state) {
    (void)state;
    struct buffer bytes = {0};
    char key[4096];
    memset(key, 'k', sizeof key);
    buffer_put(&bytes, PROTO "}X\0\x10\0\0", 8);
    buffer_put(&bytes, key, sizeof key);
    buffer_put(&bytes, ONE "s.", sizeof ONE "s." - 1);
    assert_refused((struct raw){bytes.bytes, bytes.length}, "longer than 4,095 bytes");
    buffer_done(&bytes);
    // 300,000 names of 90 bytes.
    buffer_put(&bytes, PROTO "}X\x58\0\0\0", 8);
    buffer_put(&bytes, key, 0x58);
    buffer_put(&bytes, "]" ONE "q\0a", sizeof "]" ONE "q\0a" - 1);
    for (int i = 0; i < 300000; i++) {
        buffer_put(&bytes, "h\0a", 3);
    }
    buffer_put(&bytes, "s.", 2);
    assert_refused((struct raw){bytes.bytes, bytes.length}, "16 MiB of names");
    buffer_done(&bytes);
}

static void test_two_tensors_of_one_name(void **state) {
    (void)state;
    struct tensor_file file;
    struct berth_error error;
    write_legacy("a.pt", (struct raw)RAW(PROTO "}(U\3a.b" ONE "q\0U\1a}U\1bh\0su."),
                 (struct raw)RAW(KEYS), (struct raw)RAW("\6\0\0\0\0\0\0\0" SIX));
    assert_int_equal(tensor_file_open(&file, scratch("a.pt"), &error), BERTH_BAD_DATA);
    assert_message_has(&error, "duplicate tensor \"a.b\"");
}

// --- the newest of a folder ---------------------------------------------------------------------

static void test_the_newest(void **state) {
    (void)state;
    static const struct {
        const char *name; // added to the previous ones
        const char *newest;
    } steps[] = {
        {"ckpt_x.pt", NULL},
        {"ckpt_.pt", NULL},
        {"ckpt_+7.pt", NULL},
        {"ckpt_1234567890123456789.pt", NULL}, // more digits than any step has
        {"xckpt_7.pt", NULL},
        {"ckpt_7.pt.tmp", NULL},
        {"ckpt_9.pt", "ckpt_9.pt"},
        {"ckpt_10.pt", "ckpt_10.pt"},
        {"ckpt_8.pt", "ckpt_10.pt"},
        {"ckpt_123456789012345678.pt", "ckpt_123456789012345678.pt"},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char *path;
        scratch_write(steps[i].name, "");
        assert_int_equal(torch_find(scratch_folder, &path, NULL), BERTH_OK);
        if (steps[i].newest == NULL) {
            assert_null(path);
        } else {
            assert_string_equal(path, scratch(steps[i].newest));
        }
        memory_free(path);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_torch),
        cmocka_unit_test(test_a_tensor_alone),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_shard),
        SCRATCH_TEST(test_views_beyond_their_storage),
        SCRATCH_TEST(test_views_that_fit),
        SCRATCH_TEST(test_far_strides),
        cmocka_unit_test(test_read_beyond_the_end),
        SCRATCH_TEST(test_cycles_and_bombs),
        SCRATCH_TEST(test_the_deepest),
        SCRATCH_TEST(test_too_many_tensors),
        SCRATCH_TEST(test_shared_lists),
        SCRATCH_TEST(test_pickled_modules),
        SCRATCH_TEST(test_types_without_storages),
        SCRATCH_TEST(test_negated_numbers),
        SCRATCH_TEST(test_long_names),
        SCRATCH_TEST(test_two_tensors_of_one_name),
        SCRATCH_TEST(test_the_newest),
    };
    return cmocka_run_group_tests_name("torch", tests, NULL, NULL);
}
