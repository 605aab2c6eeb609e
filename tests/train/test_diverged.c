// SPDX-License-Identifier: Apache-2.0
// RELIABILITY 25: models and updates with numbers that are not finite: what is refused, what is
// named, and which checkpoints stay.
#include "fixture.h"
#include "format/safetensors/safetensors.h"
#include "train/checkpoint/checkpoint_manifest.h"

#include <math.h>

// Sets the first element of a tensor of a folder's weights.
static void spoil(const char *folder, const char *tensor, float value) {
    const char *path = fixture_path(folder, "model.safetensors");
    struct safetensors file;
    assert_int_equal(safetensors_open(&file, path, NULL), BERTH_OK);
    const struct tensor_entry *entry = safetensors_find(&file, tensor);
    assert_non_null(entry);
    long place = (long)(file.data_begin + entry->begin);
    safetensors_close(&file);
    FILE *raw = fopen(path, "r+b");
    assert_non_null(raw);
    assert_int_equal(fseek(raw, place, SEEK_SET), 0);
    assert_int_equal(fwrite(&value, sizeof value, 1, raw), 1);
    assert_int_equal(fclose(raw), 0);
}

static void test_nan_names_step_and_layer(void **state) {
    spoil("model", "bert.encoder.layer.1.attention.self.query.bias", 3e38f);
    struct fixture_run run = fixture_default("out");
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_FAILURE);
    fixture_assert_logged("update 1");
    fixture_assert_logged("the output of bert.encoder.layer.1 is the first that is not finite");
    fixture_assert_logged("as this run has no checkpoint, start again with a lower "
                          "learning_rate, or check the data");
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 0);
}

static void test_nan_in_a_model_is_refused(void **state) {
    spoil("model", "bert.encoder.layer.1.intermediate.dense.bias", NAN);
    struct fixture_run run = fixture_default("out");
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_BAD_DATA);
    fixture_assert_logged(
        "/model: element 1 of the weight bert.encoder.layer.1.intermediate.dense.bias is "
        "not finite (nan)");
    assert_false(dir_exists(in_folder("out")));
}

static void assert_finite(const char *folder) {
    struct safetensors file;
    const char *path = fixture_path(folder, "model.safetensors");
    assert_int_equal(safetensors_open(&file, path, NULL), BERTH_OK);
    for (size_t i = 0; i < file.count; i++) {
        const int64_t count = (int64_t)(file.entries[i].end - file.entries[i].begin) / 4;
        float *values = memory_array((size_t)count, sizeof *values);
        assert_int_equal(safetensors_read_f32(&file, &file.entries[i], 0, count, values, NULL),
                         BERTH_OK);
        for (int64_t k = 0; k < count; k++) {
            assert_true(isfinite(values[k]));
        }
        memory_free(values);
    }
    safetensors_close(&file);
}

// A rate that makes the weights diverge: earlier checkpoints stay intact and finite.
static void test_divergence_keeps_the_last_good_state(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.optimizer.learning_rate = 1e38;
    run.config.optimizer.schedule = "constant";
    run.config.engine.max_steps = 50;
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_FAILURE);
    fixture_assert_logged("not finite");
    int64_t newest;
    char name[64];
    assert_true(fixture_good_checkpoints("out", &newest) >= 1);
    snprintf(name, sizeof name, "out/checkpoint-%d", (int)newest);
    assert_finite(name);
}

// The message names the newest checkpoint, which may be older than the last good update.
static void test_divergence_between_checkpoints(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.run.save_steps = 2;
    run.config.engine.max_steps = 2;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    run.config.engine.max_steps = 50;
    run.config.run.save_steps = 100;
    run.config.optimizer.learning_rate = 1e38;
    run.config.optimizer.schedule = "constant";
    run.config.run.resume_from_checkpoint = "auto";
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_FAILURE);
    fixture_assert_logged("resume from checkpoint-2 with a lower learning_rate, or check the data");
    fixture_assert_not_logged("-nan");
}

// A run that keeps one checkpoint, that of update 2, and whose third update divides by 0.
static struct fixture_run last_update_diverges(void) {
    struct fixture_run run = fixture_default("out");
    run.config.engine.max_steps = 2;
    run.config.run.save_total_limit = 1;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    run.config.run.resume_from_checkpoint = "auto";
    run.config.engine.max_steps = 3;
    run.config.optimizer.adam_epsilon = 0;
    run.config.run.do_eval = 0;
    run.log_file = fixture_keep("log");
    return run;
}

// RELIABILITY 25: loss and gradient of the last update are finite, and only its weights are not.
// They are not saved, whatever --on_save_error says, and what was saved before stays.
static void test_the_last_update_may_diverge(void **state) {
    struct fixture_run run = last_update_diverges();
    for (int i = 0; i < 3; i++) {
        run.config.run.async_save = i == 1;
        run.config.run.on_save_error = i == 2 ? "continue" : "stop";
        assert_int_equal(fixture_execute(&run), BERTH_FAILURE);
        fixture_assert_logged("checkpoint of step 3 not saved: element 1 of the weight ");
        fixture_assert_logged("is not finite");
        int64_t newest;
        assert_int_equal(fixture_good_checkpoints("out", &newest), 1);
        assert_int_equal(newest, 2);
        assert_finite("out/checkpoint-2");
        assert_finite("out");
        assert_int_equal(fixture_temporaries("out"), 0);
        assert_int_equal(file_remove(in_folder("log"), NULL), BERTH_OK);
    }
}

static void test_no_model_without_checkpoints_either(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.engine.max_steps = 1;
    run.config.optimizer.adam_epsilon = 0;
    run.config.run.do_eval = 0;
    run.config.run.skip_checkpoint = 1;
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_FAILURE);
    fixture_assert_logged("adam_epsilon 0: as in PyTorch, weights without a gradient");
    fixture_assert_logged("is not finite");
    assert_false(file_exists(in_folder("out/model.safetensors")));
    assert_int_equal(fixture_temporaries("out"), 0);
}

// Of a program that did not look: intact, but of no use.
static void test_resume_names_weights_that_are_not_finite(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.engine.max_steps = 2;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    spoil("out/checkpoint-2", "qa_outputs.bias", NAN);
    assert_int_equal(checkpoint_manifest_write(in_folder("out/checkpoint-2"), NULL), BERTH_OK);
    run.config.engine.max_steps = 3;
    run.config.run.resume_from_checkpoint = "auto";
    run.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&run), BERTH_BAD_DATA);
    fixture_assert_logged(
        "out/checkpoint-2: element 1 of the weight qa_outputs.bias is not finite (nan)");
    fixture_assert_logged("use another model or an earlier checkpoint");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_nan_names_step_and_layer),
        FIXTURE_TEST(test_nan_in_a_model_is_refused),
        FIXTURE_TEST(test_the_last_update_may_diverge),
        FIXTURE_TEST(test_no_model_without_checkpoints_either),
        FIXTURE_TEST(test_resume_names_weights_that_are_not_finite),
        FIXTURE_TEST(test_divergence_keeps_the_last_good_state),
        FIXTURE_TEST(test_divergence_between_checkpoints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
