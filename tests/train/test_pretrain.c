// SPDX-License-Identifier: Apache-2.0
// Tests pre-training runs on small shards: stopped, killed and resumed in either phase they end
// with the same bytes as an uninterrupted run (RELIABILITY 1, 14, 15); also phases, bad shards, and
// the resulting model.
#include "core/memory.h"
#include "data/synthetic_shards.h"
#include "fixture.h"
#include "format/json/json.h"
#include "format/safetensors/safetensors.h"
#include "settings/settings.h"
#include "train/checkpoint/checkpoint.h"
#include "train/progress/progress.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>

enum { WORDS = 29, KILLED = -SIGKILL };

static void put_shard(const char *name, int first, int count, int length) {
    const struct synthetic_shard shard = {first, count, WORDS, length};
    make_shard(in_folder(name), &shard);
}

// The first phase's shards with a held-out one, the second's with longer rows.
static int setup(void **state) {
    int status = fixture_setup(state);
    assert_int_equal(dir_make(in_folder("short"), NULL), BERTH_OK);
    assert_int_equal(dir_make(in_folder("long"), NULL), BERTH_OK);
    put_shard("short/a_training_0.hdf5", 0, 13, 16);
    put_shard("short/a_training_1.hdf5", 13, 4, 16);
    put_shard("short/a_training_2.hdf5", 17, 9, 16);
    put_shard("short/a_test_0.hdf5", 50, 12, 16);
    put_shard("long/b.hdf5", 0, 11, 40);
    put_shard("long/c.hdf5", 11, 11, 40);
    return status;
}

#define PRETRAIN_TEST(test) cmocka_unit_test_setup_teardown(test, setup, fixture_teardown)

// Six updates of ten sequences over 26: updates span files and epochs.
static struct fixture_run default_run(const char *output) {
    struct fixture_run run = {.job = job_train, .task = "pretrain"};
    struct settings *config = &run.config;
    settings_init(config);
    config->task.input_dir = fixture_keep("short");
    config->model.config_file = fixture_keep("model/config.json");
    config->run.output_dir = fixture_keep(output);
    config->engine.train_batch_size = 10;
    config->engine.gradient_accumulation_steps = 2;
    config->engine.max_steps = 6;
    config->optimizer.learning_rate = 2e-2;
    config->run.save_steps = 2;
    config->run.save_total_limit = 100;
    config->run.eval_steps = 3;
    config->machine.precision = BERTH_FP32;
    config->machine.threads = 1;
    config->machine.device = "cpu";
    config->run.seed = 11;
    return run;
}

static struct fixture_run second_phase(const char *output, const char *from) {
    struct fixture_run run = default_run(output);
    run.config.task.input_dir = fixture_keep("long");
    run.config.engine.train_batch_size = 8;
    run.config.engine.max_steps = 4;
    run.config.run.phase2 = 1;
    run.config.run.resume_from_checkpoint = from;
    return run;
}

static json *state_of(const char *output) {
    json *state;
    assert_int_equal(json_read_file(fixture_path(output, "trainer_state.json"), &state, NULL),
                     BERTH_OK);
    return state;
}

static int64_t number_of(const json *object, const char *key) {
    assert_non_null(json_member(object, key));
    return json_as_integer(json_member(object, key));
}

// --- stopping and resuming ----------------------------------------------------------------------

// Stopped after each update in turn.
static void resume_everywhere(const struct fixture_run *straight, int first, int last) {
    assert_int_equal(fixture_execute(straight), BERTH_OK);
    for (int step = first; step <= last; step++) {
        char output[32];
        snprintf(output, sizeof output, "stopped-%d", step);
        struct fixture_run run = *straight;
        run.config.run.output_dir = fixture_keep(output);
        run.stop_at_step = step;
        run.stop_level = STOP_AND_SAVE;
        assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
        run.stop_at_step = 0;
        run.config.run.resume_from_checkpoint = "auto";
        assert_int_equal(fixture_execute(&run), BERTH_OK);
        assert_same_run("straight", output);
        assert_int_equal(dir_remove(in_folder(output), NULL), BERTH_OK);
    }
}

static void test_resume_everywhere(void **state) {
    struct fixture_run straight = default_run("straight");
    resume_everywhere(&straight, 1, 5);
}

// Both losses are in the history, and add up to the whole.
static void test_the_history_has_both_losses(void **state) {
    struct fixture_run run = default_run("out");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    const double whole = fixture_history("out", 6, "loss"),
                 masked = fixture_history("out", 6, "masked_lm_loss"),
                 next = fixture_history("out", 6, "next_sentence_loss");
    assert_true(masked > 0 && next > 0 && fabs(masked + next - whole) < 1e-12);
}

static void test_resume_everywhere_in_bf16_by_tokens(void **state) {
    struct fixture_run straight = default_run("straight");
    straight.config.machine.precision = BERTH_BF16;
    straight.config.engine.gradient_accumulation_steps = 0;
    straight.config.engine.gradient_checkpointing = 1;
    straight.config.optimizer.optimizer = "lamb";
    straight.config.task.input_dir =
        fixture_keep("short/a_training_1.hdf5"); // fewer than an update
    resume_everywhere(&straight, 2, 4);
}

static void test_resume_everywhere_in_the_second_phase(void **state) {
    struct fixture_run first = default_run("first");
    assert_int_equal(fixture_execute(&first), BERTH_OK);
    struct fixture_run straight = second_phase("straight", fixture_keep("first/checkpoint-6"));
    resume_everywhere(&straight, 7, 9);
}

// In the folder of the first phase, whose checkpoints stay.
static void test_a_second_phase_in_the_same_folder(void **state) {
    struct fixture_run first = default_run("both");
    first.config.run.save_total_limit = 1;
    assert_int_equal(fixture_execute(&first), BERTH_OK);
    struct fixture_run second = second_phase("both", fixture_keep("both/checkpoint-6"));
    second.config.run.save_total_limit = 1;
    assert_int_equal(fixture_execute(&second), BERTH_OK);
    int64_t *steps;
    size_t count;
    assert_int_equal(checkpoint_list(in_folder("both"), &steps, &count, NULL), BERTH_OK);
    assert_int_equal(count, 2);
    assert_true(steps[0] == 6 && steps[1] == 10);
    memory_free(steps);
}

// Resumes from the newest intact checkpoint, if any, without faults.
static void resume_or_begin(struct fixture_run run, const char *output) {
    int64_t newest;
    fixture_good_checkpoints(output, &newest);
    run.fail_at = 0;
    if (newest >= 0) {
        run.config.run.resume_from_checkpoint = "auto";
    } else {
        run.config.run.overwrite_output_dir = 1;
    }
    fixture_expect(&run, BERTH_OK, "result: 0");
}

// Kills before every n-th call of the file layer, in both phases, so that it hits reads of shards,
// saves and rotations.
static void kill_everywhere(const struct fixture_run *straight, int stride) {
    int points = 0;
    assert_int_equal(fixture_execute(straight), BERTH_OK);
    for (uint64_t call = 5;; call += (uint64_t)stride, points++) {
        struct fixture_run run = *straight;
        run.config.run.output_dir = fixture_keep("killed");
        run.fail_at = call;
        run.fail_errno = -1;
        int status = fixture_execute(&run);
        if (status == BERTH_OK) {
            break;
        }
        assert_int_equal(status, KILLED);
        resume_or_begin(run, "killed");
        assert_int_equal(fixture_temporaries("killed"), 0);
        assert_same_run("straight", "killed");
        assert_int_equal(dir_remove(in_folder("killed"), NULL), BERTH_OK);
    }
    assert_true(points > 3);
}

static void test_kills_in_the_first_phase(void **state) {
    struct fixture_run straight = default_run("straight");
    straight.config.run.save_total_limit = 1;
    kill_everywhere(&straight, getenv("BERTH_KILLS") != NULL ? 1 : 97);
}

static void test_kills_in_the_second_phase(void **state) {
    struct fixture_run first = default_run("first");
    assert_int_equal(fixture_execute(&first), BERTH_OK);
    struct fixture_run straight = second_phase("straight", fixture_keep("first/checkpoint-6"));
    straight.config.run.save_total_limit = 1;
    kill_everywhere(&straight, getenv("BERTH_KILLS") != NULL ? 1 : 97);
}

// Every n-th call of the file layer fails, in reading a shard or in saving. Either the run ends
// with an error, leaves nothing half-written and resumes to the same bytes, or nothing depended on
// the call and the run ends as without the fault. After three such runs in a row no calls are left.
static void fail_everywhere(int errno_value, const char *words) {
    struct fixture_run straight = default_run("straight");
    assert_int_equal(fixture_execute(&straight), BERTH_OK);
    int failed = 0, passed = 0;
    for (uint64_t call = 5; passed < 3; call += getenv("BERTH_KILLS") != NULL ? 1 : 97) {
        struct fixture_run run = default_run("faulty");
        run.fail_at = call;
        run.fail_errno = errno_value;
        run.log_file = fixture_keep("log");
        remove(run.log_file);
        const int status = fixture_execute(&run);
        fixture_assert_holds(run.log_file, status == BERTH_OK ? "result: 0" : words);
        if (status != BERTH_OK) {
            resume_or_begin(run, "faulty");
            failed++;
        }
        passed = status != BERTH_OK ? 0 : passed + 1;
        assert_int_equal(fixture_temporaries("faulty"), 0);
        assert_same_run("straight", "faulty");
        assert_int_equal(dir_remove(in_folder("faulty"), NULL), BERTH_OK);
    }
    assert_true(failed > 3);
}

static void test_a_full_disk_anywhere(void **state) {
    fail_everywhere(ENOSPC, "No space left on device");
}

static void test_a_broken_disk_anywhere(void **state) {
    fail_everywhere(EIO, "Input/output error");
}

// --steps_this_run, --resume_step, --skip_checkpoint.
static void test_parts_of_a_run(void **state) {
    struct fixture_run straight = default_run("straight");
    assert_int_equal(fixture_execute(&straight), BERTH_OK);
    struct fixture_run part = default_run("parts");
    part.config.run.steps_this_run = 3;
    assert_int_equal(fixture_execute(&part), BERTH_OK);
    assert_true(dir_exists(fixture_path("parts", "checkpoint-3")));
    assert_false(dir_exists(fixture_path("parts", "checkpoint-4")));
    part.config.run.steps_this_run = -1;
    part.config.run.resume_step = 2;
    fixture_expect(&part, BERTH_OK, "parts/checkpoint-2");
    assert_same_run("straight", "parts");
    part.config.run.resume_step = 5;
    fixture_expect(&part, BERTH_NO_INPUT, "checkpoint-5");
    part.config.run.resume_from_checkpoint = fixture_keep("straight/checkpoint-6");
    part.config.run.output_dir = fixture_keep("named");
    fixture_expect(&part, BERTH_OK, "resume_step has no effect: resume_from_checkpoint names");
    struct fixture_run alone = default_run("alone");
    alone.config.run.save_strategy = "no";
    alone.config.run.steps_this_run = 3;
    assert_int_equal(fixture_execute(&alone), BERTH_OK);
    assert_true(dir_exists(fixture_path("alone", "checkpoint-3")));
    alone.config.run.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&alone), BERTH_OK);
    assert_same_file(fixture_path("straight", "model.safetensors"),
                     fixture_path("alone", "model.safetensors"));
    struct fixture_run none = default_run("none");
    none.config.run.skip_checkpoint = 1;
    fixture_expect(&none, BERTH_OK, "result: 0");
    fixture_assert_not_logged("steps_this_run");
    assert_same_file(fixture_path("straight", "model.safetensors"),
                     fixture_path("none", "model.safetensors"));
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("none", &newest), 0);
    none.config.run.steps_this_run = 3;
    none.config.run.output_dir = fixture_keep("lost");
    fixture_expect(&none, BERTH_OK, "steps_this_run saves no checkpoint with skip_checkpoint");
    assert_int_equal(fixture_good_checkpoints("lost", &newest), 0);
}

// The checkpoint has a larger vocabulary than config_file: --vocab_multiple.
static void test_resume_with_a_padded_vocabulary(void **state) {
    struct fixture_run straight = default_run("straight");
    straight.config.model.vocab_multiple = 8;
    resume_everywhere(&straight, 3, 3);
    fixture_assert_holds(fixture_path("straight", "config.json"), "\"vocab_size\": 32");
    struct fixture_run second = second_phase("second", fixture_keep("straight/checkpoint-6"));
    fixture_expect(&second, BERTH_OK, "result: 0");
    fixture_assert_not_logged("config_file is ignored");
    second.config.run.overwrite_output_dir = 1;
    second.config.model.config_file = fixture_keep("other.json");
    json *other;
    assert_int_equal(json_read_file(in_folder("model/config.json"), &other, NULL), BERTH_OK);
    json_set(other, "hidden_dropout_prob", json_new_real(0.25));
    assert_int_equal(
        json_write_file(other, JSON_INDENT_2_SORTED, second.config.model.config_file, NULL),
        BERTH_OK);
    json_free(other);
    fixture_expect(&second, BERTH_OK,
                   "note: config_file is ignored: a resumed run keeps the model of");
}

static void read_numbers(const char *path, const char *name, float *values, int64_t count) {
    struct safetensors file;
    assert_int_equal(safetensors_open(&file, path, NULL), BERTH_OK);
    const struct tensor_entry *entry = safetensors_find(&file, name);
    assert_non_null(entry);
    assert_int_equal(safetensors_read_f32(&file, entry, 0, count, values, NULL), BERTH_OK);
    safetensors_close(&file);
}

// Whether a model of this rule begins with values beyond two deviations.
static int exceeds_two_deviations(const char *initializer) {
    struct fixture_run run = default_run(initializer);
    run.config.model.initializer = initializer;
    run.config.engine.max_steps = 1;
    run.config.optimizer.learning_rate = 1e-12;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    const double range = fixture_number(initializer, "config.json", "initializer_range");
    float words[WORDS * 16];
    read_numbers(fixture_path(initializer, "model.safetensors"),
                 "bert.embeddings.word_embeddings.weight", words, WORDS * 16);
    int count = 0;
    for (int i = 0; i < WORDS * 16; i++) {
        count += fabs((double)words[i]) > 2.0001 * range;
    }
    return count > 0;
}

static void test_initial_values(void **state) {
    assert_true(exceeds_two_deviations("normal"));
    assert_false(exceeds_two_deviations("truncated_normal"));
}

// --pre_layer_norm decides for a new model, whatever its configuration says, and again when the run
// is resumed.
static void test_norms_of_a_new_model(void **state) {
    struct fixture_run run = default_run("before");
    run.config.model.pre_layer_norm = 1;
    fixture_expect(&run, BERTH_OK, "result: 0");
    fixture_assert_holds(fixture_path("before", "config.json"), "\"pre_layer_norm\": true");
    fixture_make_pre_layer_norm();
    run.config.run.output_dir = fixture_keep("after");
    run.config.model.pre_layer_norm = 0;
    run.config.run.steps_this_run = 3;
    fixture_expect(&run, BERTH_OK, "result: 0");
    char *written = fixture_text(fixture_path("after", "config.json"));
    assert_null(strstr(written, "pre_layer_norm"));
    memory_free(written);
    run.config.run.resume_from_checkpoint = "auto";
    run.config.run.steps_this_run = 1;
    fixture_expect(&run, BERTH_OK, "result: 0");
    fixture_assert_not_logged("config_file is ignored");
    run.config.model.pre_layer_norm = -1;
    fixture_expect(&run, BERTH_OK,
                   "note: config_file is ignored: a resumed run keeps the model of");
}

// --- phases -------------------------------------------------------------------------------------

static void read_bias(const char *path, const char *name, float values[WORDS]) {
    read_numbers(path, name, values, WORDS);
}

// The first update of the second phase corrects the old moments as a first update does; no trust
// scales a bias, so its rate shows it.
static void assert_corrections_begin_anew(const char *output) {
    static const char bias[] = "cls.predictions.bias";
    float before[WORDS], after[WORDS], first[WORDS], second[WORDS];
    read_bias(fixture_path(output, "checkpoint-6/model.safetensors"), bias, before);
    read_bias(fixture_path(output, "checkpoint-7/model.safetensors"), bias, after);
    const char *moments = fixture_path(output, "checkpoint-7/optimizer.safetensors");
    read_bias(moments, "exp_avg.cls.predictions.bias", first);
    read_bias(moments, "exp_avg_sq.cls.predictions.bias", second);
    for (int i = 0; i < WORDS; i++) {
        double m = (double)first[i] / (1 - 0.9), v = (double)second[i] / (1 - 0.999);
        double step = 2e-2 * sqrt(0.75) * m / (sqrt(v) + 1e-6);
        assert_true(fabs((double)before[i] - (double)after[i] - step) < 1e-6);
    }
}

// The second phase continues the numbers of the checkpoints, and restarts schedule, corrections and
// data.
static void test_what_a_phase_counts(void **state) {
    struct fixture_run first = default_run("both");
    assert_int_equal(fixture_execute(&first), BERTH_OK);
    struct fixture_run second = second_phase("both", "auto");
    second.config.run.save_steps = 1;
    second.config.optimizer.rewarmup = 1;
    fixture_expect(&second, BERTH_OK, "note: second phase, after 6 updates of the first");
    fixture_assert_logged("note: rewarmup has no effect: the schedule of the second phase begins");
    assert_true(dir_exists(fixture_path("both", "checkpoint-10")));
    json *state_file = state_of("both");
    assert_int_equal(number_of(state_file, "global_step"), 10);
    assert_int_equal(number_of(progress_own_keys(state_file), "phase_start"), 6);
    assert_int_equal(number_of(progress_own_keys(state_file), "train_features"), 22);
    assert_true(json_as_real(json_member(state_file, "total_flos")) >
                fixture_number("both", "checkpoint-6/trainer_state.json", "total_flos"));
    json_free(state_file);
    // p = 1 / 4 is beyond the warm-up: (1 - p)^0.5
    assert_true(fabs(fixture_history("both", 7, "learning_rate") - 2e-2 * sqrt(0.75)) < 1e-9);
    assert_corrections_begin_anew("both");
    second.config.run.phase1_end_step = 6; // resumes at its end: nothing to do
    assert_int_equal(fixture_execute(&second), BERTH_OK);
}

static void test_phases_that_cannot_be(void **state) {
    struct fixture_run first = default_run("first");
    assert_int_equal(fixture_execute(&first), BERTH_OK);
    const char *from = fixture_keep("first/checkpoint-4");
    struct fixture_run second = second_phase("second", from);
    second.config.run.phase1_end_step = 6;
    fixture_expect(&second, BERTH_CONFIG,
                   "phase1_end_step is 6, but the first phase ended with update 4");
    second.config.run.phase1_end_step = 4;
    second.config.run.steps_this_run = 1;
    assert_int_equal(fixture_execute(&second), BERTH_OK);
    struct fixture_run back = default_run("back");
    back.config.run.resume_from_checkpoint = fixture_keep("second/checkpoint-5");
    fixture_expect(&back, BERTH_CONFIG, "add phase2");
    struct fixture_run alone = second_phase("alone", NULL);
    fixture_expect(&alone, BERTH_CONFIG, "phase2 continues from a checkpoint");
    alone.config.run.resume_from_checkpoint = "auto"; // no random weights if no checkpoint is found
    fixture_expect(&alone, BERTH_CONFIG, "phase2 continues from a checkpoint");
    alone.config.run.resume_from_checkpoint = fixture_keep("none");
    fixture_expect(&alone, BERTH_NO_INPUT, "none: no such checkpoint: expected a folder");
    assert_false(dir_exists(in_folder("alone")));
}

// --- data ---------------------------------------------------------------------------------------

static void test_changed_shards_are_refused(void **state) {
    struct fixture_run run = default_run("run");
    run.stop_at_step = 3;
    run.stop_level = STOP_AND_SAVE;
    assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
    run.stop_at_step = 0;
    run.config.run.resume_from_checkpoint = "auto";
    struct fixture_run masks = run;
    masks.config.features.max_predictions_per_seq = 3;
    fixture_expect(&masks, BERTH_CONFIG,
                   "had max_predictions_per_seq as in the shards, not 3; resume with the same");
    put_shard("short/a_training_3.hdf5", 14, 1, 16);
    fixture_expect(&run, BERTH_CONFIG, "the run to resume had 3 shards, and there are now 4");
    assert_int_equal(file_remove(in_folder("short/a_training_3.hdf5"), NULL), BERTH_OK);
    put_shard("short/a_training_0.hdf5", 0, 12, 16); // as many sequences in all
    put_shard("short/a_training_1.hdf5", 12, 5, 16);
    fixture_expect(&run, BERTH_CONFIG, "shard 1 of the run to resume was a_training_0.hdf5");
}

// A shard that is damaged during the run: the last checkpoint remains, and the run can resume once
// the shard is repaired.
static void test_a_damaged_shard_ends_the_run(void **state) {
    struct fixture_run straight = default_run("straight");
    assert_int_equal(fixture_execute(&straight), BERTH_OK);
    struct fixture_run run = default_run("run");
    run.stop_at_step = 2;
    run.stop_level = STOP_AND_SAVE;
    assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
    run.stop_at_step = 0;
    run.config.run.resume_from_checkpoint = "auto";
    char *bytes;
    size_t length;
    const char *path = fixture_keep("short/a_training_2.hdf5");
    assert_int_equal(file_read(path, 1 << 20, &bytes, &length, NULL), BERTH_OK);
    char *other = memory_string_of(bytes, length);
    char *data = memmem(other, length, "TREE", 4); // of the first data set: its chunk is before it
    assert_non_null(data);
    memset(data - 60, 0x5a, 40);
    assert_int_equal(file_write(path, other, length, NULL), BERTH_OK);
    fixture_expect(&run, BERTH_BAD_DATA, "a_training_2.hdf5");
    int64_t newest;
    fixture_good_checkpoints("run", &newest);
    assert_true(newest >= 2);
    assert_int_equal(file_write(path, bytes, length, NULL), BERTH_OK);
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_same_run("straight", "run");
    memory_free(bytes);
    memory_free(other);
}

static void test_data_that_does_not_fit(void **state) {
    struct fixture_run run = default_run("run");
    run.config.features.max_seq_length = 12;
    fixture_expect(&run, BERTH_BAD_DATA, "rows have 16 tokens; the maximum requested is 12");
    run = default_run("run");
    run.config.task.input_dir = fixture_keep("model");
    fixture_expect(&run, BERTH_NO_INPUT, "no shards found");
    const struct synthetic_shard strange = {30, 9, 60, 16};
    make_shard(in_folder("strange.hdf5"), &strange);
    run = default_run("run");
    run.config.task.input_dir = fixture_keep("strange.hdf5");
    fixture_expect(&run, BERTH_BAD_DATA, "strange.hdf5: input_ids, row");
    assert_false(dir_exists(fixture_path("run", "checkpoint-2")));
}

// --- results -------------------------------------------------------------------------------------

// The loss falls, the held-out one too, and fine-tuning starts from the model.
static void test_learns_and_hands_on(void **state) {
    struct fixture_run run = default_run("run");
    run.config.engine.max_steps = 60;
    run.config.run.save_steps = 1000;
    run.config.run.eval_steps = 0;
    run.config.model.hidden_dropout_prob = run.config.model.attention_probs_dropout_prob = 0;
    fixture_expect(&run, BERTH_OK, "masked_lm_accuracy");
    json *state_file = state_of("run");
    const json *log = json_member(state_file, "log_history");
    size_t count = json_length(log);
    double first = json_as_real(json_member(json_at(log, 0), "masked_lm_loss"));
    double loss = json_as_real(json_member(json_at(log, count - 2), "masked_lm_loss"));
    double held_out = json_as_real(json_member(json_at(log, count - 1), "eval_masked_lm_loss"));
    print_message("masked_lm_loss %.3f, then %.3f, held-out %.3f\n", first, loss, held_out);
    assert_true(loss < 0.7 * first && held_out < 0.85 * first);
    json_free(state_file);
    struct fixture_run tuned = fixture_default("tuned");
    tuned.config.model.model_name_or_path = fixture_keep("run");
    tuned.config.engine.max_steps = 1;
    fixture_expect(&tuned, BERTH_OK,
                   "newly initialised, to be trained: qa_outputs.weight, qa_outputs.bias");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PRETRAIN_TEST(test_resume_everywhere),
        PRETRAIN_TEST(test_the_history_has_both_losses),
        PRETRAIN_TEST(test_resume_everywhere_in_bf16_by_tokens),
        PRETRAIN_TEST(test_resume_everywhere_in_the_second_phase),
        PRETRAIN_TEST(test_a_second_phase_in_the_same_folder),
        PRETRAIN_TEST(test_kills_in_the_first_phase),
        PRETRAIN_TEST(test_kills_in_the_second_phase),
        PRETRAIN_TEST(test_a_full_disk_anywhere),
        PRETRAIN_TEST(test_a_broken_disk_anywhere),
        PRETRAIN_TEST(test_parts_of_a_run),
        PRETRAIN_TEST(test_resume_with_a_padded_vocabulary),
        PRETRAIN_TEST(test_initial_values),
        PRETRAIN_TEST(test_norms_of_a_new_model),
        PRETRAIN_TEST(test_what_a_phase_counts),
        PRETRAIN_TEST(test_phases_that_cannot_be),
        PRETRAIN_TEST(test_changed_shards_are_refused),
        PRETRAIN_TEST(test_a_damaged_shard_ends_the_run),
        PRETRAIN_TEST(test_data_that_does_not_fit),
        PRETRAIN_TEST(test_learns_and_hands_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
