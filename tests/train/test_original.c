// SPDX-License-Identifier: Apache-2.0
// Tests checkpoints in the forms of the original scripts: which file is found and which are kept;
// that the moments of every parameter and the number of updates are read from an optimizer's
// state_dict in each form that the scripts write; that nothing is read, and the reason is reported,
// where the parameters are numbered otherwise; which folders are the Trainer's.
#include "core/scratch.h"
#include "device/device.h"
#include "format/torch/torch.h"
#include "format/torch/torch_nodes.h"
#include "settings/settings.h"
#include "train/checkpoint/foreign_checkpoint.h"
#include "train/checkpoint/foreign_moments.h"
#include "train/checkpoint/foreign_write.h"
#include "train/checkpoint/state_file.h"
#include "train/checkpoint/trainer_checkpoint.h"
#include "train/progress/progress.h"

#include <string.h>

enum { PARAMS = 64, MOMENTS = 2, STEP = 9 };

static struct param_table table;
static struct device *device;
static struct state numbers;

static const struct bert_config shape = {.vocab_size = 5,
                                         .hidden_size = 4,
                                         .num_hidden_layers = 1,
                                         .num_attention_heads = 2,
                                         .intermediate_size = 3,
                                         .max_position_embeddings = 6,
                                         .type_vocab_size = 2};

static int setup(void **state) {
    const struct device_options options = {.threads = 1};
    assert_int_equal(device_cpu_open(&options, &device, NULL), BERTH_OK);
    assert_int_equal(param_table_init(&table, &shape, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    assert_int_equal(state_init(&numbers, device, &table, DTYPE_F32, 1, NULL), BERTH_OK);
    assert_true(table.count <= PARAMS);
    return scratch_setup(state);
}

static int teardown(void **state) {
    state_done(&numbers);
    param_table_done(&table);
    device->close(device);
    return scratch_teardown(state);
}

#define ORIGINAL_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

// --- a file of an optimizer ----------------------------------------------------------------------

enum step_form { STEP_OF_GROUP, STEP_OF_STATE, STEP_AS_TENSOR, STEP_AS_I64, STEP_AS_TWO, NO_STEP };
enum damage { WHOLE, NO_MOMENT, OTHER_RANK, OTHER_SHAPE, OTHER_TYPE };

struct form {
    const char *undecayed; // parts of names that the groups are divided by
    size_t groups;         // 0: no optimizer
    enum step_form step;
    float updates;
    enum damage damage;
    const char *missing; // part of the reason why nothing is read; NULL: all is
    int64_t found;       // updates
};

static struct file {
    float values[MOMENTS][PARAMS][64];
    struct tensor_out model[PARAMS], moments[PARAMS][MOMENTS], step;
    struct torch_node members[PARAMS][MOMENTS + 1], states[PARAMS], indexes[PARAMS];
    struct torch_node groups[3][2], group_list[3];
} file;

static int has_part(const char *name, const char *parts) {
    char part[16];
    size_t length;
    for (; *parts != '\0'; parts += length + (parts[length] == ',')) {
        length = strcspn(parts, ",");
        snprintf(part, sizeof part, "%.*s", (int)length, parts);
        if (strstr(name, part) != NULL) {
            return 1;
        }
    }
    return 0;
}

static float value_of(size_t param, size_t moment) {
    return (float)(1 + 2 * param + moment);
}

static struct tensor_out tensor_of(const struct param *param, const char *name, const void *data) {
    struct tensor_out tensor = {
        .name = name, .dtype = TENSOR_F32, .rank = param->rank, .data = data};
    tensor.shape[0] = param->rank == 2 ? param->rows : param->cols;
    tensor.shape[1] = param->rank == 2 ? param->cols : 0;
    return tensor;
}

static void damage_moment(struct tensor_out *moment, enum damage damage) {
    if (damage == OTHER_RANK) {
        moment->shape[0] *= moment->shape[1];
        moment->shape[1] = 0;
        moment->rank = 1;
    } else if (damage == OTHER_SHAPE) {
        moment->shape[0]--;
    } else if (damage == OTHER_TYPE) {
        moment->dtype = TENSOR_BOOL;
    }
}

// The state of the parameter with that number.
static void put_state(const struct form *form, size_t number, size_t param) {
    static const char *const names[MOMENTS] = {"exp_avg", "exp_avg_sq"};
    size_t count = 0;
    for (size_t k = 0; k < MOMENTS; k++) {
        for (size_t i = 0; i < 64; i++) {
            file.values[k][param][i] = value_of(param, k);
        }
        file.moments[param][k] = tensor_of(&table.params[param], names[k], file.values[k][param]);
        if (number == 1 && k == 1) {
            damage_moment(&file.moments[param][k], form->damage);
        }
        if (number != 1 || k != 1 || form->damage != NO_MOMENT) {
            file.members[number][count++] = node_tensor(names[k], &file.moments[param][k]);
        }
    }
    file.step = (struct tensor_out){.name = "step", .dtype = TENSOR_F32, .data = &form->updates};
    file.step.dtype = form->step == STEP_AS_I64 ? TENSOR_I64 : TENSOR_F32;
    if (form->step == STEP_AS_I64 || form->step == STEP_AS_TWO) {
        static const float two[2] = {3, 3};
        file.step.data = two;
        file.step.rank = form->step == STEP_AS_TWO;
        file.step.shape[0] = form->step == STEP_AS_TWO ? 2 : 0;
    }
    if (form->step == STEP_OF_STATE) {
        file.members[number][count++] = node_integer("step", (int64_t)form->updates);
    } else if (form->step != STEP_OF_GROUP && form->step != NO_STEP) {
        file.members[number][count++] = node_tensor("step", &file.step);
    }
    file.states[number] = node_many(NULL, TORCH_DICT, file.members[number], count);
    file.indexes[number] = node_integer(NULL, (int64_t)number);
}

// Numbers the parameters, those that decay first. Returns how many decay.
static size_t put_states(const struct form *form) {
    size_t number = 0, decaying = 0;
    for (int group = form->groups == 1 ? 0 : 1; group >= 0; group--) {
        for (size_t i = 0; i < table.count; i++) {
            const int decays = !has_part(table.params[i].name, form->undecayed);
            if (form->groups == 1 || decays == group) {
                put_state(form, number++, i);
            }
        }
        decaying = group == 1 ? number : decaying;
    }
    return decaying;
}

static struct torch_node group_node(const struct form *form, size_t g, size_t first, size_t end) {
    file.groups[g][0] = node_many("params", TORCH_LIST, file.indexes + first, end - first);
    file.groups[g][1] = node_integer("step", (int64_t)form->updates);
    return node_many(NULL, TORCH_DICT, file.groups[g], form->step == STEP_OF_GROUP ? 2 : 1);
}

static void write_form(const struct form *form) {
    static const float zeros[64];
    const size_t decaying = put_states(form);
    const size_t ends[] = {form->groups == 1 ? table.count : decaying, table.count, table.count};
    for (size_t i = 0; i < table.count; i++) {
        file.model[i] = tensor_of(&table.params[i], table.params[i].name, zeros);
    }
    for (size_t g = 0; g < form->groups; g++) {
        file.group_list[g] = group_node(form, g, g == 0 ? 0 : ends[g - 1], ends[g]);
    }
    const struct torch_node parts[] = {
        node_many("state", TORCH_DICT, file.states, table.count),
        node_many("param_groups", TORCH_LIST, file.group_list, form->groups)};
    const struct torch_node children[] = {
        {.key = "model", .kind = TORCH_TENSORS, .count = table.count, .tensors = file.model},
        node_many("optimizer", TORCH_DICT, parts, form->groups > 0 ? 2 : 0)};
    const struct torch_node root = node_many(NULL, TORCH_DICT, children, 2);
    struct berth_error error;
    if (torch_write(scratch("ckpt_9.pt"), &root, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

static void assert_moments(int are_read) {
    for (size_t p = 0; p < table.count; p++) {
        const struct param *param = &table.params[p];
        for (int64_t i = param->offset; i < param->offset + param->rows * param->cols; i++) {
            assert_true(numbers.moment1[i] == (are_read ? value_of(p, 0) : -1));
            assert_true(numbers.moment2[i] == (are_read ? value_of(p, 1) : -1));
        }
    }
}

static enum berth_status read_moments(const struct weights *weights, int64_t *updates,
                                      const char **missing) {
    const struct optimizer optimizer = {.no_decay = "bias"};
    const struct foreign_moments from = {weights, &weights->file, &optimizer, STEP};
    struct foreign_moments_found found;
    const enum berth_status status = foreign_moments_read(&from, &numbers, &found, NULL);
    *updates = found.updates;
    *missing = found.missing;
    return status;
}

static void read_form(const struct form *form) {
    struct weights weights;
    const char *missing;
    int64_t updates;
    for (int64_t i = 0; i < table.total; i++) {
        numbers.moment1[i] = numbers.moment2[i] = -1;
    }
    assert_int_equal(weights_open(&weights, scratch("ckpt_9.pt"), 5, NULL), BERTH_OK);
    assert_int_equal(read_moments(&weights, &updates, &missing), BERTH_OK);
    weights_close(&weights);
    if (form->missing == NULL) {
        assert_null(missing);
        assert_int_equal(updates, form->found);
    } else {
        assert_non_null(missing);
        assert_non_null(strstr(missing, form->missing));
    }
    assert_moments(form->missing == NULL);
}

// --- moments -------------------------------------------------------------------------------------

static void test_moments_of_every_form(void **state) {
    static const char run[] = "bias", script[] = "bias,gamma,beta,LayerNorm";
    static const char other[] = "numbered in an unknown way";
    static const struct form forms[] = {
        {run, 2, STEP_OF_GROUP, 7, WHOLE, NULL, 7},
        {script, 2, STEP_OF_GROUP, 7, WHOLE, NULL, 7},
        {run, 2, STEP_OF_GROUP, -1, WHOLE, NULL, STEP},
        {"", 1, STEP_OF_STATE, 5, WHOLE, NULL, 5},
        {run, 2, STEP_AS_TENSOR, 6, WHOLE, NULL, 6},
        {run, 2, STEP_AS_TENSOR, -6, WHOLE, NULL, STEP},
        {run, 2, STEP_AS_TENSOR, 2e9F, WHOLE, NULL, STEP},
        {run, 2, STEP_AS_I64, 6, WHOLE, NULL, STEP},
        {run, 2, STEP_AS_TWO, 6, WHOLE, NULL, STEP},
        {run, 2, NO_STEP, 0, WHOLE, NULL, STEP},
        {run, 0, NO_STEP, 0, WHOLE, "which it does not have", 0},
        {run, 3, STEP_OF_GROUP, 7, WHOLE, other, 0},
        {"embeddings", 2, STEP_OF_GROUP, 7, WHOLE, other, 0},
        {run, 2, STEP_OF_GROUP, 7, NO_MOMENT, other, 0},
        {run, 2, STEP_OF_GROUP, 7, OTHER_RANK, other, 0},
        {run, 2, STEP_OF_GROUP, 7, OTHER_SHAPE, other, 0},
        {run, 2, STEP_OF_GROUP, 7, OTHER_TYPE, other, 0},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        write_form(&forms[i]);
        read_form(&forms[i]);
    }
}

// A run that goes on without moments, because there was no memory for them, would be another run.
static void test_moments_without_memory(void **state) {
    static const struct form form = {"bias", 2, STEP_OF_GROUP, 7, WHOLE, NULL, 7};
    struct weights weights;
    uint64_t made, call = 0;
    int64_t updates;
    const char *missing;
    write_form(&form);
    assert_int_equal(weights_open(&weights, scratch("ckpt_9.pt"), 5, NULL), BERTH_OK);
    do {
        memory_fail_at(++call, 0);
        const enum berth_status status = read_moments(&weights, &updates, &missing);
        made = memory_fail_at(0, 0);
        assert_int_equal(status, made >= call ? BERTH_NO_MEMORY : BERTH_OK);
    } while (made >= call);
    assert_true(call > 3);
    assert_int_equal(updates, 7);
    assert_moments(1);
    weights_close(&weights);
}

// --- written in the form of the scripts ---------------------------------------------------------

static void make_checkpoint(void) {
    const struct batching batching = {
        .features = 7, .update_sequences = 2, .updates_per_epoch = 4, .total_steps = 8};
    struct settings config;
    struct progress progress;
    settings_init(&config);
    assert_int_equal(progress_init(&progress, NULL), BERTH_OK);
    progress.jobs = JOB_PRETRAIN;
    progress.step = STEP;
    assert_int_equal(
        progress_write(&progress, &config, &batching, scratch("trainer_state.json"), NULL),
        BERTH_OK);
    progress_done(&progress);
    for (enum state_file f = STATE_FILE_WEIGHTS; f <= STATE_FILE_MOMENTS; f++) {
        assert_int_equal(state_file_make(f, &table, scratch_folder, NULL), BERTH_OK);
        assert_int_equal(state_file_fill(f, &numbers, scratch_folder, NULL), BERTH_OK);
    }
}

static enum berth_status write_original(struct berth_error *error) {
    const char *paths[] = {"a.hdf5", "b.hdf5"};
    const struct feed_files files = {.paths = paths, .count = 2};
    return foreign_write(scratch_folder, scratch_folder, &files, error);
}

static void test_written_without_memory(void **state) {
    uint64_t made, call = 0;
    make_checkpoint();
    assert_int_equal(write_original(NULL), BERTH_OK);
    assert_int_equal(rename(scratch("ckpt_9.pt"), scratch("whole.pt")), 0);
    do {
        memory_fail_at(++call, 0);
        const enum berth_status status = write_original(NULL);
        made = memory_fail_at(0, 0);
        assert_int_equal(status, made >= call ? BERTH_NO_MEMORY : BERTH_OK);
        assert_int_equal(file_exists(scratch("ckpt_9.pt")), status == BERTH_OK);
    } while (made >= call);
    assert_true(call > 20);
    assert_same_file(scratch("ckpt_9.pt"), scratch("whole.pt"));
}

static void test_written_without_a_moment(void **state) {
    struct berth_error error;
    struct param_table less;
    make_checkpoint();
    assert_int_equal(param_table_init(&less, &shape, PARAM_HEAD_PRETRAINING, NULL), BERTH_OK);
    assert_int_equal(unlink(scratch("model.safetensors")), 0);
    assert_int_equal(state_file_make(STATE_FILE_WEIGHTS, &less, scratch_folder, NULL), BERTH_OK);
    param_table_done(&less);
    assert_int_equal(write_original(&error), BERTH_BAD_DATA);
    assert_message_has(&error, "optimizer.safetensors: missing tensor exp_avg.");
    assert_false(file_exists(scratch("ckpt_9.pt")));
}

// --- which file is found -------------------------------------------------------------------------

static void assert_found(const char *path, const char *file_name, int64_t step) {
    char *found;
    int64_t number;
    assert_int_equal(foreign_locate(path, &found, &number, NULL), BERTH_OK);
    assert_int_equal(number, step);
    if (file_name == NULL) {
        assert_null(found);
    } else {
        assert_string_equal(found, file_name);
    }
    memory_free(found);
}

static void test_a_named_file(void **state) {
    char *torch = memory_string(scratch("ckpt_20.pt"));
    char *index = memory_string(scratch("model.ckpt-30.index"));
    scratch_write("ckpt_20.pt", "");
    scratch_write("ckpt_x.pt", "");
    scratch_write("ckpt_99999999999999999999.pt", "");
    scratch_write("model.ckpt-30.index", "");
    assert_found(torch, torch, 20);
    assert_found(index, index, 30);
    assert_found(scratch("model.ckpt-30"), index, 30);
    assert_found(scratch("ckpt_21.pt"), NULL, -1);
    assert_found(scratch("ckpt_x.pt"), NULL, -1);
    assert_found(scratch("ckpt_99999999999999999999.pt"), NULL, -1);
    assert_found("ckpt_20.pt", NULL, -1);
    memory_free(torch);
    memory_free(index);
}

static void assert_newest(int64_t wanted, const char *name, int64_t step) {
    char *found;
    int64_t number;
    assert_int_equal(foreign_find(scratch_folder, wanted, &found, &number, NULL), BERTH_OK);
    assert_int_equal(number, step);
    assert_true((found != NULL) == (name != NULL));
    if (name != NULL) {
        assert_string_equal(found, scratch(name));
    }
    memory_free(found);
}

static void test_the_newest_file(void **state) {
    char *found;
    int64_t step;
    assert_newest(-1, NULL, -1);
    scratch_write("ckpt_20.pt", "");
    scratch_write("ckpt_8.pt", "");
    scratch_write("model.ckpt-30.index", "");
    scratch_write("ckpt_40.pt.tmp", "");
    scratch_write("ckpt_.pt", "");
    assert_newest(-1, "model.ckpt-30.index", 30);
    assert_newest(8, "ckpt_8.pt", 8);
    assert_newest(9, NULL, -1);
    assert_int_equal(foreign_find(scratch("none"), -1, &found, &step, NULL), BERTH_OK);
    assert_null(found);
}

// --- the Trainer's folders -----------------------------------------------------------------------

static void assert_trainers(int64_t step) {
    int64_t found;
    assert_int_equal(trainer_find_step(scratch_folder, &found, NULL), BERTH_OK);
    assert_int_equal(found, step);
}

static void test_the_trainers_folder(void **state) {
    static const struct {
        const char *state;
        int64_t step;
    } files[] = {
        {"{\"global_step\": 7, \"stateful_callbacks\": {\"TrainerControl\": {}}}", 7},
        {"{\"global_step\": 0}", 0},
        {"{\"epoch\": 1.0}", -1},
        {"{\"global_step\": \"7\"}", -1},
        {"{\"global_step\": 7, \"format_version\": 1}", -1},
        {"{\"global_step\": 7, \"stateful_callbacks\": {\"Berth\": {\"attributes\": "
         "{\"format_version\": 2}}}}",
         -1},
        {"{\"global_step\": 7", -1},
        {"[7]", -1},
    };
    assert_trainers(-1);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        scratch_write("trainer_state.json", files[i].state);
        assert_trainers(files[i].step);
    }
    scratch_write("optimizer.pt", ""); // of a Trainer that has resumed from Berth's
    scratch_write("trainer_state.json", files[5].state);
    assert_trainers(7);
    scratch_write("manifest.json", "{}");
    assert_trainers(-1);
}

static void test_the_trainers_folder_without_memory(void **state) {
    uint64_t made, call = 0;
    int64_t step;
    scratch_write("trainer_state.json", "{\"global_step\": 7}");
    do {
        memory_fail_at(++call, 0);
        const enum berth_status status = trainer_find_step(scratch_folder, &step, NULL);
        made = memory_fail_at(0, 0);
        assert_int_equal(status, made >= call ? BERTH_NO_MEMORY : BERTH_OK);
    } while (made >= call);
    assert_true(call > 2);
    assert_int_equal(step, 7);
}

// Keeps the files of these steps, of 2, 4, ... 14, of which 2 is of an earlier phase and 14 is
// newer than the checkpoint just written.
static void assert_rotation(int64_t limit, int64_t best, const char *kept) {
    const struct foreign_limits limits = {.after = 2, .newest = 12, .limit = limit, .best = best};
    char name[32], found[64] = "";
    for (int step = 2; step <= 14; step += 2) {
        snprintf(name, sizeof name, "ckpt_%d.pt", step);
        scratch_write(name, "");
    }
    assert_int_equal(foreign_rotate(scratch_folder, &limits, NULL), BERTH_OK);
    for (int step = 2; step <= 14; step += 2) {
        snprintf(name, sizeof name, "ckpt_%d.pt", step);
        if (file_exists(scratch(name))) {
            const size_t used = strlen(found);
            snprintf(found + used, sizeof found - used, " %d", step);
        }
    }
    assert_string_equal(found, kept);
}

// As many stay as of the folders: the best one counts, but the newest always stays.
static void test_rotation(void **state) {
    assert_rotation(2, -1, " 2 10 12 14");
    assert_rotation(2, 6, " 2 6 12 14");
    assert_rotation(2, 10, " 2 10 12 14");
    assert_rotation(2, 12, " 2 10 12 14");
    assert_rotation(3, 6, " 2 6 10 12 14");
    assert_rotation(1, 6, " 2 6 12 14");
    assert_rotation(1, 12, " 2 12 14");
    assert_rotation(9, 6, " 2 4 6 8 10 12 14");
    struct berth_error error;
    const struct foreign_limits limits = {.newest = 12, .limit = 2, .best = -1};
    assert_int_equal(foreign_rotate(scratch("none"), &limits, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "none");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ORIGINAL_TEST(test_moments_of_every_form),
        ORIGINAL_TEST(test_moments_without_memory),
        ORIGINAL_TEST(test_written_without_memory),
        ORIGINAL_TEST(test_written_without_a_moment),
        ORIGINAL_TEST(test_a_named_file),
        ORIGINAL_TEST(test_the_newest_file),
        ORIGINAL_TEST(test_the_trainers_folder),
        ORIGINAL_TEST(test_the_trainers_folder_without_memory),
        ORIGINAL_TEST(test_rotation),
    };
    return cmocka_run_group_tests_name("original checkpoints", tests, NULL, NULL);
}
