// SPDX-License-Identifier: Apache-2.0
// Checkpoints that deepspeed_write.h writes: the reader of DeepSpeed's own files finds the master
// weights in the shards of any number of ranks, and the moments are where its engine looks for
// them.
#include "core/scratch.h"
#include "format/containers/containers.h"
#include "format/deepspeed/deepspeed.h"
#include "format/deepspeed/deepspeed_write.h"
#include "format/torch/torch.h"

enum { PARAMS = 3, ELEMENTS = 6 + 5 + 4 };

// numbers[s][i] is 100 s + i + 1. The tensors "a" and "b" are the first group, "c" the second.
static float numbers[DEEPSPEED_STATE_COUNT][ELEMENTS];
static struct tensor_out states[DEEPSPEED_STATE_COUNT][PARAMS], module[PARAMS + 1];
static struct deepspeed_group groups[2];
static const struct deepspeed_tie tie = {"z", "a"};

static void set_up(void) {
    const struct tensor_out shapes[PARAMS] = {
        {.name = "a", .dtype = TENSOR_F32, .rank = 2, .shape = {2, 3}},
        {.name = "b", .dtype = TENSOR_F32, .rank = 1, .shape = {5}},
        {.name = "c", .dtype = TENSOR_F32, .rank = 1, .shape = {4}}};
    const int firsts[PARAMS] = {0, 6, 11};
    for (int s = 0; s < DEEPSPEED_STATE_COUNT; s++) {
        for (int i = 0; i < ELEMENTS; i++) {
            numbers[s][i] = (float)(s * 100 + i + 1);
        }
        for (int i = 0; i < PARAMS; i++) {
            states[s][i] = shapes[i];
            states[s][i].data = &numbers[s][firsts[i]];
        }
        groups[0].states[s] = states[s];
        groups[1].states[s] = states[s] + 2;
    }
    groups[0].count = 2;
    groups[0].weight_decay = 0.25;
    groups[1].count = 1;
    memcpy(module, states[DEEPSPEED_MASTER], sizeof states[DEEPSPEED_MASTER]);
    module[PARAMS] = module[0];
    module[PARAMS].name = "z";
}

static void write_checkpoint(int stage, int64_t ranks) {
    const struct deepspeed_optimizer optimizer = {.stage = stage,
                                                  .groups = groups,
                                                  .group_count = 2,
                                                  .updates = 7,
                                                  .rate = 0.5,
                                                  .beta1 = 0.9,
                                                  .beta2 = 0.999,
                                                  .epsilon = 1e-6,
                                                  .max_grad_norm = 2};
    const struct deepspeed_out out = {.module = module,
                                      .count = PARAMS + 1,
                                      .ties = &tie,
                                      .tie_count = 1,
                                      .step = 9,
                                      .skipped = 2,
                                      .samples = 72,
                                      .ranks = ranks,
                                      .optimizer = &optimizer};
    struct berth_error error;
    set_up();
    assert_int_equal(dir_make(scratch("ds"), NULL), BERTH_OK);
    if (deepspeed_write(scratch("ds"), &out, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

static void expect_master(void) {
    struct tensor_file file;
    struct berth_error error;
    float found[ELEMENTS];
    if (tensor_file_open(&file, scratch("ds/global_step9/" DEEPSPEED_MODEL_FILE), &error) !=
        BERTH_OK) {
        fail_msg("%s", error.message);
    }
    for (int i = 0; i <= PARAMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "module.%s", module[i].name);
        const struct tensor_entry *entry = tensor_file_find(&file, name);
        assert_non_null(entry);
        const size_t count = (size_t)(entry->end - entry->begin) / sizeof(float);
        assert_int_equal(tensor_file_read_f32(&file, entry, 0, (int64_t)count, found, NULL),
                         BERTH_OK);
        assert_memory_equal(found, module[i].data, count * sizeof *found);
    }
    tensor_file_close(&file);
}

static const struct pickle_value *member(const struct torch_file *file, const char *path) {
    const struct pickle_value *value = file->pickle.root;
    char part[64];
    while (*path != '\0' && value != NULL) {
        size_t length = strcspn(path, ".");
        snprintf(part, sizeof part, "%.*s", (int)length, path);
        const int is_number = part[0] >= '0' && part[0] <= '9';
        value = is_number ? pickle_item(&file->pickle, value, (size_t)atoi(part))
                          : pickle_member(&file->pickle, value, part);
        path += length + (path[length] == '.');
    }
    return value;
}

static int64_t integer_at(const struct torch_file *file, const char *path) {
    int64_t number = -1;
    assert_true(pickle_integer(member(file, path), &number));
    return number;
}

static void open_file(struct torch_file *file, const char *name) {
    char path[128];
    struct berth_error error;
    snprintf(path, sizeof path, "ds/global_step9/%s", name);
    // Nothing in it is more than torch's restricted loader allows.
    if (torch_open(file, scratch(path), PICKLE_KNOWN_NAMES, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

// Reads the tensor at `path` to `to` and returns its elements.
static size_t read_partition(const struct torch_file *file, const char *path, float *to) {
    const struct tensor_entry *entry = torch_tensor(file, member(file, path));
    assert_non_null(entry);
    assert_int_equal(torch_read(file, entry, 0, (size_t)(entry->end - entry->begin), to, NULL),
                     BERTH_OK);
    return (size_t)(entry->end - entry->begin) / sizeof *to;
}

static const size_t group_first[2] = {0, 11}, group_count[2] = {11, 4};

// Both moments of a group, padded to equal partitions of an even number of elements.
static void expect_states(int64_t ranks, int group) {
    float found[DEEPSPEED_STATE_COUNT][64] = {0};
    const size_t count = group_count[group];
    const size_t partition = (count + 2 * (size_t)ranks - 1) / (2 * (size_t)ranks) * 2;
    size_t master = 0;
    for (int64_t rank = 0; rank < ranks; rank++) {
        struct torch_file file;
        char name[64], path[96];
        static const char state[] = "optimizer_state_dict.base_optimizer_state.state";
        snprintf(name, sizeof name, "zero_pp_rank_%d_mp_rank_00_optim_states.pt", (int)rank);
        open_file(&file, name);
        for (int s = DEEPSPEED_EXP_AVG; s < DEEPSPEED_STATE_COUNT; s++) {
            snprintf(path, sizeof path, "%s.%d.%s", state, group,
                     s == DEEPSPEED_EXP_AVG ? "exp_avg" : "exp_avg_sq");
            assert_int_equal(read_partition(&file, path, &found[s][(size_t)rank * partition]),
                             partition);
        }
        snprintf(path, sizeof path, "optimizer_state_dict.single_partition_of_fp32_groups.%d",
                 group);
        const size_t used = read_partition(&file, path, &found[DEEPSPEED_MASTER][master]);
        master += used;
        snprintf(path, sizeof path, "optimizer_state_dict.group_paddings.%d", group);
        assert_int_equal(integer_at(&file, path), partition - used);
        snprintf(path, sizeof path, "%s.%d.step", state, group);
        assert_int_equal(integer_at(&file, path), 7);
        torch_close(&file);
    }
    assert_int_equal(master, count);
    for (int s = 0; s < DEEPSPEED_STATE_COUNT; s++) {
        for (size_t i = 0; i < partition * (size_t)ranks; i++) {
            assert_true(found[s][i] == (i < count ? numbers[s][group_first[group] + i] : 0));
        }
    }
}

static void test_shards_of_any_number_of_ranks(void **state) {
    for (int64_t ranks = 1; ranks <= 7; ranks++) {
        write_checkpoint(1 + (int)ranks % 2, ranks);
        expect_master();
        expect_states(ranks, 0);
        expect_states(ranks, 1);
        struct torch_file file;
        open_file(&file, "zero_pp_rank_0_mp_rank_00_optim_states.pt");
        assert_int_equal(integer_at(&file, "optimizer_state_dict.zero_stage"), 1 + ranks % 2);
        assert_int_equal(integer_at(&file, "optimizer_state_dict.partition_count.1"), ranks);
        torch_close(&file);
        assert_int_equal(dir_remove(scratch("ds"), NULL), BERTH_OK);
    }
}

static void test_without_zero_the_model_has_the_optimizer(void **state) {
    struct torch_file file;
    float found[ELEMENTS];
    write_checkpoint(0, 1);
    expect_master();
    open_file(&file, DEEPSPEED_MODEL_FILE);
    assert_int_equal(read_partition(&file, "optimizer.state.1.exp_avg_sq", found), 5);
    assert_memory_equal(found, states[DEEPSPEED_EXP_AVG_SQ][1].data, 5 * sizeof *found);
    assert_int_equal(read_partition(&file, "optimizer.state.2.exp_avg", found), 4);
    assert_memory_equal(found, states[DEEPSPEED_EXP_AVG][2].data, 4 * sizeof *found);
    assert_int_equal(integer_at(&file, "optimizer.param_groups.0.params.1"), 1);
    assert_int_equal(integer_at(&file, "optimizer.param_groups.1.params.0"), 2);
    assert_int_equal(integer_at(&file, "optimizer.state.0.step"), 7);
    assert_int_equal(integer_at(&file, "global_steps"), 9);
    assert_int_equal(integer_at(&file, "skipped_steps"), 2);
    assert_int_equal(integer_at(&file, "global_samples"), 72);
    assert_int_equal(integer_at(&file, "lr_scheduler.last_batch_iteration"), 8);
    // The keys of `state` are numbers.
    int64_t key;
    assert_true(
        pickle_integer(pickle_key(&file.pickle, member(&file, "optimizer.state"), 1), &key));
    assert_int_equal(key, 1);
    const struct pickle_value *decay = member(&file, "optimizer.param_groups.0.weight_decay");
    assert_true(pickle_is(decay, PICKLE_REAL) && decay->real == 0.25);
    decay = member(&file, "optimizer.param_groups.1.weight_decay");
    assert_true(pickle_is(decay, PICKLE_REAL) && decay->real == 0);
    torch_close(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_shards_of_any_number_of_ranks),
        SCRATCH_TEST(test_without_zero_the_model_has_the_optimizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
