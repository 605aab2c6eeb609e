// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's checkpoints: files that DeepSpeed wrote give the same bits as its zero_to_fp32.py
// (dev/fixtures/make_deepspeed.py); inconsistent shards and damaged or forged files are refused.
#include "core/scratch.h"
#include "format/containers/containers.h"
#include "format/deepspeed/deepspeed.h"
#include "format/deepspeed/deepspeed_internal.h"
#include "format/safetensors/safetensors.h"
#include "format/torch/torch.h"
#include "format/torch/torch_nodes.h"

#include <errno.h>
#include <unistd.h>

#define DATA BERTH_TEST_FORMAT_DATA "/deepspeed/"
#define SHARD "zero_pp_rank_%zu_mp_rank_00_optim_states.pt"

static const char *const fp16_files[] = {"mp_rank_00_model_states.pt",
                                         "zero_pp_rank_0_mp_rank_00_optim_states.pt",
                                         "zero_pp_rank_1_mp_rank_00_optim_states.pt"};

static void *read_tensor(const struct tensor_file *file, const struct tensor_entry *entry,
                         enum berth_status *status, struct berth_error *error) {
    void *bytes = memory_new((size_t)(entry->end - entry->begin));
    *status = tensor_file_read(file, entry, bytes, error);
    return bytes;
}

// 1: all tensors of DeepSpeed's script have the same bits; 0: reading is refused.
static int matches(const struct tensor_file *file, const struct safetensors *expected) {
    for (size_t i = 0; i < expected->count; i++) {
        char name[256];
        struct berth_error error = {0};
        const struct tensor_entry *wanted = &expected->entries[i];
        snprintf(name, sizeof name, "module.%s", wanted->name);
        const struct tensor_entry *entry = tensor_file_find(file, name);
        assert_non_null(entry);
        size_t bytes = (size_t)(wanted->end - wanted->begin);
        if (strstr(name, "position_ids") == NULL) { // a buffer
            assert_int_equal(entry->dtype, TENSOR_F32);
        }
        assert_int_equal(entry->end - entry->begin, bytes);
        assert_memory_equal(entry->shape, wanted->shape, (size_t)wanted->rank * sizeof(int64_t));
        enum berth_status status;
        char *theirs = memory_new(bytes), *ours = read_tensor(file, entry, &status, &error);
        assert_int_equal(safetensors_read_raw(expected, wanted, 0, bytes, theirs, NULL), BERTH_OK);
        if (status == BERTH_OK && memcmp(ours, theirs, bytes) != 0) {
            fail_msg("%s differs", name);
        }
        memory_free(theirs);
        memory_free(ours);
        if (status != BERTH_OK) {
            assert_int_equal(status, BERTH_BAD_DATA);
            return 0;
        }
    }
    return 1;
}

static void test_what_deepspeed_wrote(void **state) {
    (void)state;
    static const char *const names[] = {"bf16", "bf16_optimizer", "fp16"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char folder[512], wanted[512], *path;
        struct tensor_file file;
        struct safetensors expected;
        struct berth_error error;
        snprintf(folder, sizeof folder, DATA "%s", names[i]);
        snprintf(wanted, sizeof wanted, DATA "%s.safetensors", names[i]);
        assert_int_equal(tensor_file_find_in(folder, &path, NULL), BERTH_OK);
        assert_non_null(path);
        if (tensor_file_open(&file, path, &error) != BERTH_OK) {
            fail_msg("%s", error.message);
        }
        assert_string_equal(file.format->name, "DeepSpeed");
        assert_int_equal(safetensors_open(&expected, wanted, NULL), BERTH_OK);
        assert_int_equal(file.count, expected.count);
        assert_true(matches(&file, &expected));
        safetensors_close(&expected);
        tensor_file_close(&file);
        memory_free(path);
    }
}

// The tied decoder has the offset of the embeddings.
static void test_ties(void **state) {
    (void)state;
    struct tensor_file file;
    assert_int_equal(tensor_file_open(&file, DATA "bf16/global_step1/" DEEPSPEED_MODEL_FILE, NULL),
                     BERTH_OK);
    const struct tensor_entry *words =
        tensor_file_find(&file, "module.bert.embeddings.word_embeddings.weight");
    const struct tensor_entry *decoder =
        tensor_file_find(&file, "module.cls.predictions.decoder.weight");
    assert_int_equal(words->begin, decoder->begin);
    assert_int_equal(words->end, decoder->end);
    for (size_t i = 0; i < file.count; i++) { // no other pair
        for (size_t k = 0; k < i; k++) {
            int tied = strstr(file.entries[i].name, ".decoder.") != NULL ||
                       strstr(file.entries[k].name, ".decoder.") != NULL;
            assert_true(tied || file.entries[i].begin != file.entries[k].begin);
        }
    }
    tensor_file_close(&file);
}

// A single shard lists its tensors.
static void test_shard_alone(void **state) {
    (void)state;
    struct tensor_file file;
    assert_int_equal(
        tensor_file_open(&file, DATA "fp16/global_step5/zero_pp_rank_1_mp_rank_00_optim_states.pt",
                         NULL),
        BERTH_OK);
    assert_int_equal(file.count, 2);
    assert_string_equal(file.entries[0].name,
                        "optimizer_state_dict.single_partition_of_fp32_groups.0");
    assert_int_equal(file.entries[0].shape[0], 10);
    tensor_file_close(&file);
}

// --- damage -------------------------------------------------------------------------------------

struct fp16 {
    char *bytes[3];
    size_t lengths[3];
    struct safetensors expected;
};

static void load_fp16(struct fp16 *fp16) {
    for (size_t i = 0; i < 3; i++) {
        char path[512];
        snprintf(path, sizeof path, DATA "fp16/global_step5/%s", fp16_files[i]);
        assert_int_equal(file_read(path, 1 << 20, &fp16->bytes[i], &fp16->lengths[i], NULL),
                         BERTH_OK);
        scratch_write_bytes(fp16_files[i], fp16->bytes[i], fp16->lengths[i]);
    }
    assert_int_equal(safetensors_open(&fp16->expected, DATA "fp16.safetensors", NULL), BERTH_OK);
}

static void free_fp16(struct fp16 *fp16) {
    for (size_t i = 0; i < 3; i++) {
        memory_free(fp16->bytes[i]);
    }
    safetensors_close(&fp16->expected);
}

// Opens the checkpoint in the scratch folder and reads all of it.
static int is_refused(const struct fp16 *fp16) {
    struct tensor_file file;
    struct berth_error error = {0};
    enum berth_status status = tensor_file_open(&file, scratch(DEEPSPEED_MODEL_FILE), &error);
    if (status != BERTH_OK) {
        assert_int_equal(status, BERTH_BAD_DATA);
        assert_message_has(&error, scratch_folder);
        return 1;
    }
    int refused = !matches(&file, &fp16->expected);
    tensor_file_close(&file);
    return refused;
}

static void test_every_prefix_is_refused(void **state) {
    (void)state;
    struct fp16 fp16;
    load_fp16(&fp16);
    assert_false(is_refused(&fp16));
    for (size_t i = 0; i < 3; i++) {
        for (size_t length = 0; length < fp16.lengths[i]; length++) {
            scratch_write_bytes(fp16_files[i], fp16.bytes[i], length);
            if (!is_refused(&fp16)) {
                fail_msg("%s of %zu bytes is accepted", fp16_files[i], length);
            }
        }
        scratch_write_bytes(fp16_files[i], fp16.bytes[i], fp16.lengths[i]);
    }
    free_fp16(&fp16);
}

// A flipped bit is detected, or changes nothing that is read (the module's fp16 copies, unused
// fields of an archive).
static void test_flips(void **state) {
    (void)state;
    struct fp16 fp16;
    size_t refused = 0, all = 0;
    load_fp16(&fp16);
    for (size_t i = 0; i < 3; i++) {
        for (size_t index = 0; index < fp16.lengths[i]; index++, all++) {
            fp16.bytes[i][index] ^= (char)(1 << index % 8);
            scratch_write_bytes(fp16_files[i], fp16.bytes[i], fp16.lengths[i]);
            refused += is_refused(&fp16);
            fp16.bytes[i][index] ^= (char)(1 << index % 8);
        }
        scratch_write_bytes(fp16_files[i], fp16.bytes[i], fp16.lengths[i]);
    }
    assert_true(refused > all / 2);
    free_fp16(&fp16);
}

static void test_memory_and_calls_fail(void **state) {
    (void)state;
    struct fp16 fp16;
    load_fp16(&fp16);
    for (int files = 0; files < 2; files++) {
        enum berth_status status = BERTH_NO_MEMORY;
        for (uint64_t n = 1; status != BERTH_OK; n++) {
            struct tensor_file file;
            struct berth_error error = {0};
            assert_true(n < 2000);
            if (files) {
                file_fail_at(n, EIO);
            } else {
                memory_fail_at(n, 0);
            }
            status = tensor_file_open(&file, scratch(DEEPSPEED_MODEL_FILE), &error);
            file_fail_at(0, 0);
            memory_fail_at(0, 0);
            if (status == BERTH_OK) {
                assert_true(n > 5 && matches(&file, &fp16.expected));
                tensor_file_close(&file);
            } else {
                assert_int_not_equal(error.message[0], '\0');
            }
        }
    }
    free_fp16(&fp16);
}

// --- inconsistent shards ------------------------------------------------------------------------

// A checkpoint of two ranks that a test changes before it is written: "a" [3, 2] and "b" [5] in one
// group of 11 numbers, padded to 12.
enum counts { ONE_COUNT, LIST_OF_COUNTS, LIST_OF_TEXTS, NO_COUNTS };
struct small {
    int64_t stage, partitions, parallel, a_rows, paddings[2];
    size_t ranks, groups, numbers; // in each shard
    int has_shapes, has_paddings;
    enum tensor_dtype dtype;
    enum counts counts; // how the shards give `partitions`
    int odd_stage, odd_groups, no_shape_groups, two_dimensions;
    const char *b_name, *copy; // "b" in param_shapes; what "c" is shared with
};

static const struct small usual = {.stage = 2,
                                   .partitions = 2,
                                   .parallel = 1,
                                   .a_rows = 3,
                                   .ranks = 2,
                                   .groups = 1,
                                   .numbers = 6,
                                   .has_shapes = 1,
                                   .dtype = TENSOR_F32,
                                   .b_name = "b",
                                   .copy = "b"};

static void write_model(const struct small *small) {
    static const uint16_t zeros[8];
    const int64_t a_shape[] = {small->a_rows, 2}, b_shape[] = {5};
    const struct tensor_out tensors[] = {
        {.name = "a", .dtype = TENSOR_F16, .rank = 2, .shape = {3, 2}, .data = zeros},
        {.name = "b", .dtype = TENSOR_F16, .rank = 1, .shape = {5}, .data = zeros},
        {.name = "c", .dtype = TENSOR_F16, .rank = 1, .shape = {5}, .data = zeros},
        {.name = "own", .dtype = TENSOR_F16, .rank = 1, .shape = {2}, .data = zeros},
    };
    const struct torch_node shapes[] = {
        {.key = "a", .kind = TORCH_SIZE, .count = 2, .shape = a_shape},
        {.key = small->b_name, .kind = TORCH_SIZE, .count = 1, .shape = b_shape}};
    const struct torch_node group = {.kind = TORCH_DICT, .count = 2, .children = shapes};
    const struct torch_node shared = {.key = "c", .kind = TORCH_TEXT, .text = small->copy};
    const struct torch_node members[] = {
        {.key = "module", .kind = TORCH_TENSORS, .count = 4, .tensors = tensors},
        {.key = "mp_world_size", .kind = TORCH_INTEGER, .integer = small->parallel},
        {.key = "shared_params", .kind = TORCH_DICT, .count = 1, .children = &shared},
        {.key = "param_shapes",
         .kind = TORCH_LIST,
         .count = small->no_shape_groups ? 0 : 1,
         .children = &group},
    };
    const struct torch_node root = {
        .kind = TORCH_DICT, .count = small->has_shapes ? 4 : 3, .children = members};
    assert_int_equal(torch_write(scratch(DEEPSPEED_MODEL_FILE), &root, NULL), BERTH_OK);
}

static void write_shard(const struct small *small, size_t rank) {
    float numbers[64];
    char name[128];
    for (size_t i = 0; i < 64; i++) {
        numbers[i] = (float)(rank * small->numbers + i);
    }
    const struct tensor_out partition = {.dtype = small->dtype,
                                         .rank = small->two_dimensions ? 2 : 1,
                                         .shape = {(int64_t)small->numbers, 1},
                                         .data = numbers};
    const struct torch_node counts[] = {node_integer(NULL, 1),
                                        small->counts == LIST_OF_TEXTS
                                            ? node_text(NULL, "2")
                                            : node_integer(NULL, small->partitions)};
    struct torch_node groups[2], paddings[2], optimizer[4];
    for (size_t i = 0; i < 2; i++) {
        paddings[i] = (struct torch_node){.kind = TORCH_INTEGER, .integer = small->paddings[i]};
        groups[i] = small->odd_groups
                        ? node_text(NULL, "row")
                        : (struct torch_node){.kind = TORCH_TENSOR, .tensors = &partition};
    }
    const struct torch_node group = {.kind = TORCH_LIST, .count = 2, .children = paddings};
    optimizer[0] =
        (struct torch_node){.key = "zero_stage", .kind = TORCH_INTEGER, .integer = small->stage};
    optimizer[1] = (struct torch_node){
        .key = "partition_count", .kind = TORCH_INTEGER, .integer = small->partitions};
    if (small->counts != ONE_COUNT) {
        optimizer[1] =
            node_many("partition_count", TORCH_LIST, counts, small->counts == NO_COUNTS ? 0 : 2);
    }
    if (small->odd_stage) {
        optimizer[0] = node_text("zero_stage", "2");
    }
    optimizer[2] = (struct torch_node){.key = "single_partition_of_fp32_groups",
                                       .kind = TORCH_LIST,
                                       .count = small->groups,
                                       .children = groups};
    optimizer[3] = (struct torch_node){
        .key = "param_alignment_paddings", .kind = TORCH_LIST, .count = 1, .children = &group};
    const struct torch_node state = {.key = "optimizer_state_dict",
                                     .kind = TORCH_DICT,
                                     .count = small->has_paddings ? 4 : 3,
                                     .children = optimizer};
    const struct torch_node root = {.kind = TORCH_DICT, .count = 1, .children = &state};
    snprintf(name, sizeof name, SHARD, rank);
    assert_int_equal(torch_write(scratch(name), &root, NULL), BERTH_OK);
}

static void write_small(const struct small *small) {
    write_model(small);
    for (size_t rank = 0; rank < small->ranks; rank++) {
        write_shard(small, rank);
    }
}

// The tensor's numbers count up from `first`.
static void expect_numbers(const char *name, float first, size_t count) {
    struct tensor_file file;
    struct berth_error error;
    float numbers[16];
    if (tensor_file_open(&file, scratch(DEEPSPEED_MODEL_FILE), &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    const struct tensor_entry *entry = tensor_file_find(&file, name);
    assert_int_equal(entry->dtype, TENSOR_F32);
    assert_int_equal(entry->end - entry->begin, count * sizeof(float));
    for (size_t begin = 0; begin < count; begin++) { // in parts, too
        size_t rest = count - begin;
        assert_int_equal(
            tensor_file_read_f32(&file, entry, (int64_t)begin, (int64_t)rest, numbers, NULL),
            BERTH_OK);
        for (size_t i = 0; i < rest; i++) {
            assert_true(numbers[i] == first + (float)(begin + i));
        }
    }
    assert_int_equal(file.format->read(&file, entry, 4, count * sizeof(float), numbers, NULL),
                     BERTH_INTERNAL);
    tensor_file_close(&file);
}

static void test_offsets_of_parameters(void **state) {
    (void)state;
    struct small small = usual;
    write_small(&small);
    expect_numbers("module.a", 0, 6);
    expect_numbers("module.b", 6, 5);
    expect_numbers("module.c", 6, 5);
    small.has_paddings = 1;
    small.paddings[0] = 3;
    small.paddings[1] = 2;
    small.numbers = 8;
    write_small(&small);
    expect_numbers("module.a", 0, 6);
    expect_numbers("module.b", 9, 5);
    small = usual;
    small.copy = "own"; // frozen: DeepSpeed skips it
    write_small(&small);
    expect_numbers("module.b", 6, 5);
}

// A list of the ranks of each group; a folder without a name.
static void test_other_forms(void **state) {
    (void)state;
    struct small small = usual;
    struct tensor_file file;
    char before[4096];
    small.counts = LIST_OF_COUNTS;
    small.copy = "none";
    write_small(&small);
    expect_numbers("module.b", 6, 5);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(scratch_folder), 0);
    assert_int_equal(tensor_file_open(&file, DEEPSPEED_MODEL_FILE, NULL), BERTH_OK);
    assert_int_equal(chdir(before), 0);
    tensor_file_close(&file);
}

// The ranks in the names of shards; -1: another file.
static void test_names_of_shards(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t rank;
    } cases[] = {{"zero_pp_rank_7_mp_rank_00_optim_states.pt", 7},
                 {"bf16_zero_pp_rank_10_mp_rank_00_optim_states.pt", 10},
                 {"zero_pp_rank_7_mp_rank_00_optim_states.pth", -1},
                 {"zero_pp_rank__mp_rank_00_optim_states.pt", -1},
                 {"zero_pp_rank_mp_rank_00_optim_states.pt", -1},
                 {"zero_pp_rank_x_mp_rank_00_optim_states.pt", -1},
                 {"zero_pp_rank_-1_mp_rank_00_optim_states.pt", -1},
                 {"zero_pp_rank_1234567890123456789_mp_rank_00_optim_states.pt", -1},
                 {"mp_rank_00_optim_states.pt", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(deepspeed_rank_of(cases[i].name), cases[i].rank);
    }
}

static void test_too_many_shards(void **state) {
    (void)state;
    char name[128];
    struct tensor_file file;
    struct berth_error error;
    write_small(&usual);
    for (size_t rank = 2; rank <= DEEPSPEED_MAX_RANKS; rank++) {
        snprintf(name, sizeof name, SHARD, rank);
        scratch_write(name, "");
    }
    assert_int_equal(tensor_file_open(&file, scratch(DEEPSPEED_MODEL_FILE), &error),
                     BERTH_BAD_DATA);
    assert_message_has(&error, "1001 ZeRO shards; the limit is 1000");
}

static void test_module_alone(void **state) {
    (void)state;
    struct tensor_file file;
    struct small small = usual;
    small.has_shapes = 0;
    write_model(&small);
    assert_int_equal(tensor_file_open(&file, scratch(DEEPSPEED_MODEL_FILE), NULL), BERTH_OK);
    assert_int_equal(file.count, 4);
    assert_int_equal(tensor_file_find(&file, "module.a")->dtype, TENSOR_F16);
    tensor_file_close(&file);
}

static void expect_refused(const struct small *small, const char *message) {
    struct tensor_file file;
    struct berth_error error = {0};
    write_small(small);
    if (tensor_file_open(&file, scratch(DEEPSPEED_MODEL_FILE), &error) != BERTH_BAD_DATA) {
        fail_msg("not refused: %s", message);
    }
    assert_message_has(&error, message);
    assert_message_has(&error, scratch_folder);
}

static void test_what_does_not_fit(void **state) {
    (void)state;
    struct small small = usual;
    small.stage = 3;
    expect_refused(&small, "found stage 3");
    small.stage = -1;
    expect_refused(&small, "zero_stage");
    small = usual;
    small.partitions = 3;
    expect_refused(&small, "partition_count");
    small = usual;
    small.parallel = 2;
    expect_refused(&small, "mp_world_size");
    small = usual;
    small.has_shapes = 0;
    expect_refused(&small, "param_shapes");
    small = usual;
    small.groups = 2;
    expect_refused(&small, "as many groups");
    small = usual;
    small.dtype = TENSOR_I32;
    expect_refused(&small, "a one-dimensional F32 tensor");
    small = usual;
    small.numbers = 5;
    expect_refused(&small, "extends beyond");
    small.numbers = 8;
    expect_refused(&small, "11 numbers, but the ZeRO shards hold 16");
    small = usual;
    small.a_rows = 2;
    expect_refused(&small, "\"a\"");
    small = usual;
    small.b_name = "other";
    expect_refused(&small, "\"other\"");
    small.b_name = NULL;
    expect_refused(&small, "\"(no text)\"");
    small = usual;
    small.odd_stage = 1;
    expect_refused(&small, "zero_stage");
    small = usual;
    small.odd_groups = 1;
    expect_refused(&small, "a one-dimensional F32 tensor");
    small = usual;
    small.two_dimensions = 1;
    expect_refused(&small, "a one-dimensional F32 tensor");
    small = usual;
    small.no_shape_groups = 1;
    expect_refused(&small, "param_shapes");
    small = usual;
    small.counts = LIST_OF_TEXTS;
    expect_refused(&small, "partition_count");
    small.counts = NO_COUNTS;
    expect_refused(&small, "partition_count");
    small = usual;
    small.copy = "a";
    expect_refused(&small, "shared_params");
    small = usual;
    small.has_paddings = 1;
    small.paddings[0] = -1;
    expect_refused(&small, "param_alignment_paddings");
    small.paddings[0] = INT64_MAX;
    expect_refused(&small, "param_alignment_paddings");
}

static void test_ranks(void **state) {
    (void)state;
    struct small small = usual;
    char from[128], to[128];
    small.ranks = 1;
    expect_refused(&small, "partition_count");
    snprintf(to, sizeof to, SHARD, (size_t)0);
    snprintf(from, sizeof from, SHARD, (size_t)1);
    write_small(&usual);
    assert_int_equal(file_remove(scratch(to), NULL), BERTH_OK);
    small.ranks = 0;
    expect_refused(&small, "missing ZeRO shard of rank 0");
    write_small(&usual);
    snprintf(to, sizeof to, "bf16_" SHARD, (size_t)1);
    assert_int_equal(rename(scratch(from), scratch(to)), 0);
    expect_refused(&usual, "duplicate ZeRO shard of rank 1");
}

// --- the tag ------------------------------------------------------------------------------------

static void expect_tag(const char *latest, enum berth_status expected, const char *message) {
    char *path = NULL;
    struct berth_error error = {0};
    scratch_write("latest", latest);
    assert_int_equal(deepspeed_find(scratch_folder, &path, &error), expected);
    if (expected == BERTH_OK) {
        assert_non_null(strstr(path, message));
        memory_free(path);
    } else {
        assert_null(path);
        assert_message_has(&error, message);
    }
}

static void test_tag(void **state) {
    (void)state;
    char *path = NULL, text[8192];
    assert_int_equal(deepspeed_find(scratch_folder, &path, NULL), BERTH_OK);
    assert_null(path);
    assert_int_equal(dir_make(scratch("step 1"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("tag"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("zero3"), NULL), BERTH_OK);
    scratch_write("tag/" DEEPSPEED_MODEL_FILE, "x");
    scratch_write("zero3/zero_pp_rank_0_mp_rank_00_model_states.pt", "x");
    expect_tag("tag", BERTH_OK, "/tag/" DEEPSPEED_MODEL_FILE);
    expect_tag(" tag\r\n", BERTH_OK, "/tag/" DEEPSPEED_MODEL_FILE);
    expect_tag("other", BERTH_NO_INPUT, "\"other\"");
    expect_tag("zero3", BERTH_BAD_DATA, "stage 3");
    expect_tag("", BERTH_BAD_DATA, "latest");
    expect_tag("..", BERTH_BAD_DATA, "\"..\"");
    expect_tag("../tag", BERTH_BAD_DATA, "\"../tag\"");
    expect_tag("/etc", BERTH_BAD_DATA, "\"/etc\"");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    expect_tag(text, BERTH_BAD_DATA, "latest");
    assert_int_equal(deepspeed_find(scratch("tag"), &path, NULL), BERTH_OK);
    assert_non_null(path);
    memory_free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_deepspeed_wrote),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_shard_alone),
        SCRATCH_TEST(test_every_prefix_is_refused),
        SCRATCH_TEST(test_flips),
        SCRATCH_TEST(test_memory_and_calls_fail),
        SCRATCH_TEST(test_offsets_of_parameters),
        SCRATCH_TEST(test_module_alone),
        SCRATCH_TEST(test_other_forms),
        cmocka_unit_test(test_names_of_shards),
        SCRATCH_TEST(test_too_many_shards),
        SCRATCH_TEST(test_what_does_not_fit),
        SCRATCH_TEST(test_ranks),
        SCRATCH_TEST(test_tag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
