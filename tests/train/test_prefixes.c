// SPDX-License-Identifier: Apache-2.0
// RELIABILITY 9 for what a checkpoint is resumed from: manifest.json, trainer_state.json and
// optimizer.safetensors, cut at any length, are refused by their readers with the file's name, and
// what was in memory stays as it was.
#include "core/device.h"
#include "core/scratch.h"
#include "train/history.h"
#include "train/manifest.h"
#include "train/optimizer_file.h"

#include <unistd.h>

// --- a small state ------------------------------------------------------------------------------

static struct param_table table;
static struct device *device;
static struct state numbers;

static int setup(void **state) {
    static const struct bert_config shape = {.vocab_size = 5,
                                             .hidden_size = 4,
                                             .num_hidden_layers = 1,
                                             .num_attention_heads = 2,
                                             .intermediate_size = 3,
                                             .max_position_embeddings = 6,
                                             .type_vocab_size = 2};
    struct device_options options = {.threads = 1};
    assert_int_equal(device_cpu_open(&options, &device, NULL), BERTH_OK);
    assert_int_equal(param_table_init(&table, &shape, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    assert_int_equal(state_init(&numbers, device, &table, DTYPE_F32, 1, NULL), BERTH_OK);
    return scratch_setup(state);
}

static int teardown(void **state) {
    state_done(&numbers);
    param_table_done(&table);
    device->close(device);
    return scratch_teardown(state);
}

static void fill_moments(float value) {
    for (int64_t i = 0; i < table.total; i++) {
        numbers.moment1[i] = numbers.moment2[i] = value;
    }
}

static void assert_moments(float value) {
    for (size_t p = 0; p < table.count; p++) {
        const struct param *param = &table.params[p];
        for (int64_t i = param->offset; i < param->offset + param->rows * param->cols; i++) {
            assert_true(numbers.moment1[i] == value && numbers.moment2[i] == value);
        }
    }
}

// --- cutting ------------------------------------------------------------------------------------

// Reads the file anew after each cut; from `dense` bytes on only every 61st length is tried.
static void refuse_prefixes(const char *name, size_t dense,
                            enum berth_status (*read)(struct berth_error *error)) {
    char *bytes;
    size_t length;
    assert_int_equal(read(NULL), BERTH_OK);
    assert_int_equal(file_read(scratch(name), 1 << 24, &bytes, &length, NULL), BERTH_OK);
    scratch_write_bytes(name, bytes, length);
    size_t end = bytes[length - 1] == '\n' ? length - 1 : length; // JSON is whole without it
    for (size_t left = end; left-- > 0;) {
        if (left > dense && left % 61 != 0 && left + 1 < end) {
            continue;
        }
        struct berth_error error = {0};
        assert_int_equal(truncate(scratch(name), (off_t)left), 0);
        assert_int_equal(read(&error), BERTH_BAD_DATA);
        assert_message_has(&error, name);
    }
    scratch_write_bytes(name, bytes, length);
    assert_int_equal(read(NULL), BERTH_OK);
    memory_free(bytes);
}

static enum berth_status read_manifest(struct berth_error *error) {
    int64_t files = -1;
    enum berth_status status = manifest_verify(scratch_folder, &files, error);
    assert_int_equal(files, status == BERTH_OK ? 2 : -1);
    return status;
}

static void test_manifest(void **state) {
    scratch_write("a.txt", "some");
    scratch_write("b.txt", "more");
    assert_int_equal(manifest_write(scratch_folder, NULL), BERTH_OK);
    refuse_prefixes("manifest.json", SIZE_MAX, read_manifest);
}

static const struct batching batching = {
    .features = 7, .update_sequences = 2, .updates_per_epoch = 4, .total_steps = 8};

static enum berth_status read_history(struct berth_error *error) {
    struct berth_config config;
    struct berth_log log = {0};
    struct history history;
    berth_config_init(&config);
    assert_int_equal(history_init(&history, NULL), BERTH_OK);
    enum berth_status status =
        history_read(&history, &config, &batching, &log, scratch("trainer_state.json"), error);
    assert_int_equal(history.step, status == BERTH_OK ? 3 : 0);
    assert_int_equal(json_length(history.log), status == BERTH_OK ? 2 : 0);
    history_done(&history);
    return status;
}

static void test_trainer_state(void **state) {
    struct berth_config config;
    struct history history;
    berth_config_init(&config);
    assert_int_equal(history_init(&history, NULL), BERTH_OK);
    history.step = 3;
    history_add_step(&history, 0.5, 1.25, 1e-5, 0.1);
    history_add_evaluation(&history, 1.0, 50.0, 60.0);
    assert_int_equal(
        history_write(&history, &config, &batching, scratch("trainer_state.json"), NULL), BERTH_OK);
    history_done(&history);
    refuse_prefixes("trainer_state.json", SIZE_MAX, read_history);
}

static enum berth_status read_optimizer(struct berth_error *error) {
    fill_moments(-1.0f);
    enum berth_status status = optimizer_file_read(&numbers, scratch_folder, error);
    assert_moments(status == BERTH_OK ? 0.25f : -1.0f);
    return status;
}

static void test_optimizer_file(void **state) {
    fill_moments(0.25f);
    assert_int_equal(optimizer_file_write(&numbers, scratch_folder, NULL), BERTH_OK);
    refuse_prefixes("optimizer.safetensors", 4096, read_optimizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_manifest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_trainer_state, setup, teardown),
        cmocka_unit_test_setup_teardown(test_optimizer_file, setup, teardown),
    };
    return cmocka_run_group_tests_name("prefixes", tests, NULL, NULL);
}
