// SPDX-License-Identifier: Apache-2.0
// Training on masked words, from files to files: a stopped run resumes with the same bytes, masks
// are drawn for each epoch and those of evaluations stay, what a resumed run must keep, which lines
// are held out, the written model and its scores, bad input.
#include "fixture.h"
#include "format/json/json.h"
#include "format/safetensors/safetensors.h"
#include "settings/settings.h"

#include <math.h>

enum { LINES = 40 };

static void write_lines(const char *name, int first, int count) {
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    for (int i = first; i < first + count; i++) {
        const struct fixture_words words = fixture_words(i);
        fprintf(file, i % 3 == 0 ? "the %s of %s is %s .\n" : "%s of %s : %s\n\n", words.thing,
                words.name, words.colour);
    }
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state) {
    int status = fixture_setup(state);
    write_lines("lines.txt", 0, LINES);
    write_lines("more.txt", LINES, 20);
    return status;
}

#define MLM_TEST(test) cmocka_unit_test_setup_teardown(test, setup, fixture_teardown)

// Ten updates in two epochs.
static struct fixture_run default_run(const char *output) {
    struct fixture_run run = {.job = job_train, .task = "mlm"};
    struct settings *config = &run.config;
    settings_init(config);
    config->model.model_name_or_path = fixture_keep("model");
    config->task.train_file = fixture_keep("lines.txt");
    config->task.validation_file = fixture_keep("more.txt");
    config->run.output_dir = fixture_keep(output);
    config->features.line_by_line = 1;
    config->features.max_seq_length = 24;
    config->features.masked_lm_prob = 0.3;
    config->engine.train_batch_size = 8;
    config->engine.gradient_accumulation_steps = 2;
    config->engine.num_train_epochs = 2;
    config->optimizer.learning_rate = 1e-2;
    config->run.save_steps = 1;
    config->run.save_total_limit = 100;
    config->run.logging_steps = 1;
    config->machine.precision = BERTH_FP32;
    config->machine.threads = 1;
    config->machine.device = "cpu";
    config->run.seed = 11;
    return run;
}

static void run_ok(const struct fixture_run *run) {
    assert_int_equal(fixture_execute(run), BERTH_OK);
}

static json *read_json(const char *output, const char *name) {
    json *value;
    assert_int_equal(json_read_file(fixture_path(output, name), &value, NULL), BERTH_OK);
    return value;
}

static void assert_other_model(const char *output) {
    char *a, *b;
    size_t length_a, length_b;
    const char *first = fixture_path("straight", "model.safetensors");
    assert_int_equal(file_read(first, 1 << 24, &a, &length_a, NULL), BERTH_OK);
    assert_int_equal(
        file_read(fixture_path(output, "model.safetensors"), 1 << 24, &b, &length_b, NULL),
        BERTH_OK);
    assert_int_equal(length_a, length_b);
    assert_true(memcmp(a, b, length_a) != 0);
    memory_free(a);
    memory_free(b);
}

// --- resumption ---------------------------------------------------------------------------------

static void test_resume_everywhere(void **state) {
    struct fixture_run straight = default_run("straight");
    run_ok(&straight);
    for (int step = 1; step < 10; step += 2) {
        struct fixture_run run = default_run("stopped");
        run.stop_at_step = step;
        run.stop_level = STOP_AND_SAVE;
        assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
        run.stop_at_step = 0;
        run.config.run.resume_from_checkpoint = "auto";
        run_ok(&run);
        assert_same_run("straight", "stopped");
        assert_int_equal(dir_remove(in_folder("stopped"), NULL), BERTH_OK);
    }
}

// What decides the masks decides the result, and a resumed run must keep it.
static void test_what_must_differ(void **state) {
    struct fixture_run straight = default_run("straight");
    run_ok(&straight);
    for (int i = 0; i < 4; i++) {
        struct fixture_run other = default_run("other");
        struct settings *config = &other.config;
        config->features.masked_lm_prob = i == 0 ? 0.31 : 0.3;
        config->features.whole_word_mask = i == 1;
        config->run.seed = i == 2 ? 12 : 11;
        config->features.line_by_line = i != 3;
        config->run.overwrite_output_dir = 1;
        static const char *const names[] = {"masked_lm_prob", "whole_word_mask", "seed",
                                            "train_features"}; // of blocks
        if (i != 1) { // no word of these lines has several pieces
            run_ok(&other);
            assert_other_model("other");
        }
        config->run.output_dir = fixture_keep("straight");
        config->run.overwrite_output_dir = 0;
        config->engine.num_train_epochs = 3;
        config->run.resume_from_checkpoint = "auto";
        fixture_expect(&other, BERTH_CONFIG, names[i]);
    }
}

// --- masks --------------------------------------------------------------------------------------

// Nothing is learned, so only the masks make the losses of the epochs differ. Those of an
// evaluation are always the same.
static void test_masks_of_epochs(void **state) {
    struct fixture_run run = default_run("still");
    run.config.engine.train_batch_size = LINES;
    run.config.optimizer.learning_rate = 0;
    run.config.model.hidden_dropout_prob = run.config.model.attention_probs_dropout_prob = 0;
    run_ok(&run);
    const double first = fixture_history("still", 1, "loss");
    assert_true(fabs(first - fixture_history("still", 2, "loss")) > 1e-4);
    assert_true(fixture_history("still", 1, "eval_loss") ==
                fixture_history("still", 2, "eval_loss"));
}

static void test_learns(void **state) {
    struct fixture_run run = default_run("learned");
    run.config.engine.num_train_epochs = 30;
    run.config.run.save_steps = 1000;
    run.config.run.evaluate_every_epoch = 0;
    run_ok(&run);
    const double perplexity = fixture_number("learned", "eval_results.json", "eval_perplexity");
    const double loss = fixture_number("learned", "eval_results.json", "eval_loss");
    print_message("perplexity %.2f\n", perplexity);
    assert_true(perplexity < 8); // 29 words
    assert_true(fabs(perplexity - exp(loss)) < 1e-9 * perplexity);
}

// --- the written model --------------------------------------------------------------------------

static int has_tensor(const char *output, const char *name) {
    struct safetensors file;
    const char *path = fixture_path(output, "model.safetensors");
    assert_int_equal(safetensors_open(&file, path, NULL), BERTH_OK);
    const int found = safetensors_find(&file, name) != NULL;
    safetensors_close(&file);
    return found;
}

static void test_the_model(void **state) {
    struct fixture_run run = default_run("run"), scored = default_run("scored");
    run_ok(&run);
    json *config = read_json("run", "config.json");
    assert_string_equal(json_text(json_at(json_member(config, "architectures"), 0)),
                        "BertForMaskedLM");
    json_free(config);
    assert_true(has_tensor("run", "cls.predictions.transform.dense.weight"));
    assert_true(has_tensor("run", "cls.predictions.bias"));
    assert_false(has_tensor("run", "cls.seq_relationship.weight"));
    assert_false(has_tensor("run", "bert.pooler.dense.weight"));
    scored.job = job_evaluate;
    scored.config.model.model_name_or_path = fixture_keep("run");
    scored.config.task.train_file = NULL;
    run_ok(&scored);
    char *a, *b;
    size_t length;
    assert_int_equal(file_read(fixture_path("run", "eval_results.txt"), 4096, &a, &length, NULL),
                     BERTH_OK);
    assert_int_equal(file_read(fixture_path("scored", "eval_results.txt"), 4096, &b, &length, NULL),
                     BERTH_OK);
    const char *step = strstr(a, "global_step"); // an evaluation has none
    assert_memory_equal(a, b, (size_t)(step - a));
    assert_string_equal(strchr(step, '\n') + 1, b + (step - a));
    memory_free(a);
    memory_free(b);
}

// --- data ---------------------------------------------------------------------------------------

// Without a file to evaluate on, the first lines are held out. A new model in blocks.
static void test_held_out_lines(void **state) {
    struct fixture_run run = default_run("split");
    run.config.model.model_name_or_path = NULL;
    run.config.model.config_file = fixture_keep("model/config.json");
    run.config.task.validation_file = NULL;
    run.config.features.validation_split_percentage = 25;
    run.config.engine.max_steps = 1;
    fixture_expect(&run, BERTH_OK, "lines.txt: lines 1 to 16, 10 sequences");
    assert_true(fixture_number("split", "all_results.json", "train_samples") == LINES - 10);
    run.config.features.line_by_line = 0;
    run.config.run.output_dir = fixture_keep("blocks");
    fixture_expect(&run, BERTH_OK,
                   "lines.txt: lines 17 to 66, 11 sequences, 264 tokens, 6 tokens left out");
    run.config.features.validation_split_percentage = 0;
    run.config.run.output_dir = fixture_keep("none");
    fixture_expect(&run, BERTH_OK, "lines.txt: lines 1 to 66, ");
    assert_false(file_exists(fixture_path("none", "eval_results.txt")));
    char *log = fixture_text(in_folder("log"));
    assert_null(strstr(log, "has no effect"));
    memory_free(log);
    run.config.task.validation_file = fixture_keep("more.txt");
    run.config.features.validation_split_percentage = 7;
    run.config.run.output_dir = fixture_keep("both");
    fixture_expect(&run, BERTH_OK,
                   "validation_split_percentage has no effect with validation_file");
}

static void test_bad_input(void **state) {
    struct fixture_run run = default_run("bad");
    run.config.task.train_file = NULL;
    fixture_expect(&run, BERTH_USAGE, "train_file is missing");
    run.config.task.train_file = fixture_keep("nothing.txt");
    fixture_expect(&run, BERTH_NO_INPUT, "nothing.txt");
    run.config.task.train_file = fixture_keep("lines.txt");
    run.config.task.validation_file = fixture_keep("nothing.txt");
    fixture_expect(&run, BERTH_NO_INPUT, "nothing.txt: no such file; expected text");
    run.config.task.validation_file = fixture_keep("more.txt");
    write_lines("short.txt", 0, 1);
    run.config.task.train_file = fixture_keep("short.txt");
    run.config.features.line_by_line = 0;
    fixture_expect(
        &run, BERTH_BAD_DATA,
        "lines 1 to 1: fewer than the 24 tokens of a sequence; use a smaller max_seq_length");
    write_lines("few.txt", 0, 3);
    run.config.task.train_file = fixture_keep("few.txt");
    run.config.task.validation_file = NULL;
    run.config.features.line_by_line = 1;
    fixture_expect(&run, BERTH_BAD_DATA,
                   "validation_split_percentage 5 leaves no line to evaluate on");
    run.config.features.validation_split_percentage = 99;
    fixture_expect(&run, BERTH_BAD_DATA,
                   "validation_split_percentage 99 leaves no line to train on");
    assert_false(dir_exists(in_folder("bad")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        MLM_TEST(test_resume_everywhere), MLM_TEST(test_what_must_differ),
        MLM_TEST(test_masks_of_epochs),   MLM_TEST(test_learns),
        MLM_TEST(test_the_model),         MLM_TEST(test_held_out_lines),
        MLM_TEST(test_bad_input),
    };
    return cmocka_run_group_tests_name("mlm", tests, NULL, NULL);
}
