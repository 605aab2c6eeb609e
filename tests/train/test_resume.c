// SPDX-License-Identifier: Apache-2.0
// RELIABILITY 14 and 15: a run stopped at any update boundary (mid-epoch, at an epoch's end, at the
// last update) and resumed ends with the same bytes as an uninterrupted run, in fp32 and bf16, with
// and without accumulation, with every optimizer, with kept or recomputed activations.
#include "fixture.h"
#include "format/json/json.h"
#include "settings/settings.h"

#include <math.h>
#include <unistd.h>

// Checkpoints of every update of a straight run, then a resumption from each of them.
static void resume_everywhere(enum berth_precision precision, int64_t micro) {
    struct fixture_run straight = fixture_default("straight");
    straight.config.machine.precision = precision;
    straight.config.engine.per_device_train_batch_size = micro;
    straight.config.engine.train_batch_size = micro > 0 ? 2 * micro : 11;
    straight.config.run.save_total_limit = 100;
    straight.config.task.validation_file = fixture_keep("dev.json");
    assert_int_equal(fixture_execute(&straight), BERTH_OK);
    for (int step = 1; step <= FIXTURE_UPDATES; step++) {
        char output[32];
        snprintf(output, sizeof output, "resumed-%d", step);
        fixture_copy_checkpoint("straight", output, step);
        struct fixture_run resumed = straight;
        resumed.config.run.output_dir = fixture_keep(output);
        resumed.config.run.resume_from_checkpoint = "auto";
        resumed.config.run.save_steps = 3; // when it saves changes no number
        assert_int_equal(fixture_execute(&resumed), BERTH_OK);
        assert_same_run("straight", output);
        assert_same_file(fixture_path("straight", "predictions.json"),
                         fixture_path(output, "predictions.json"));
        assert_same_file(fixture_path("straight", "nbest_predictions.json"),
                         fixture_path(output, "nbest_predictions.json"));
    }
}

static void test_fp32(void **state) {
    resume_everywhere(BERTH_FP32, 0);
}

static void test_bf16_with_accumulation(void **state) {
    resume_everywhere(BERTH_BF16, 6);
}

// Recomputing activations changes only memory use.
static void check_checkpointing(const char *name, enum berth_precision precision) {
    char kept[32], again[32], resumed[32], switched[32], from[64];
    snprintf(kept, sizeof kept, "%s-kept", name);
    snprintf(again, sizeof again, "%s-again", name);
    snprintf(resumed, sizeof resumed, "%s-resumed", name);
    snprintf(switched, sizeof switched, "%s-switched", name);
    struct fixture_run run = fixture_default(kept);
    run.config.machine.precision = precision;
    run.config.engine.train_batch_size = 12;
    run.config.engine.per_device_train_batch_size = 6;
    run.config.run.save_total_limit = 100;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    run.config.engine.gradient_checkpointing = 1;
    run.config.run.output_dir = fixture_keep(again);
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    static const char *const files[] = {"model.safetensors", "checkpoint-4/model.safetensors",
                                        "checkpoint-4/optimizer.safetensors"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        assert_same_file(fixture_path(kept, files[i]), fixture_path(again, files[i]));
    }
    snprintf(from, sizeof from, "%s/checkpoint-3", again);
    run.config.run.resume_from_checkpoint = fixture_keep(from);
    run.config.run.output_dir = fixture_keep(resumed);
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_same_run(again, resumed);
    snprintf(from, sizeof from, "%s/checkpoint-2", kept);
    run.config.run.resume_from_checkpoint = fixture_keep(from);
    run.config.run.output_dir = fixture_keep(switched);
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_same_file(fixture_path(kept, "model.safetensors"),
                     fixture_path(switched, "model.safetensors"));
}

static void test_gradient_checkpointing(void **state) {
    check_checkpointing("post-fp32", BERTH_FP32);
    check_checkpointing("post-bf16", BERTH_BF16);
    fixture_make_pre_layer_norm();
    check_checkpointing("pre-fp32", BERTH_FP32);
    check_checkpointing("pre-bf16", BERTH_BF16);
}

static void test_named_folder_and_other_settings(void **state) {
    struct fixture_run run = fixture_default("a");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    struct fixture_run resumed = fixture_default("b");
    resumed.config.run.resume_from_checkpoint = fixture_keep("a/checkpoint-7");
    assert_int_equal(fixture_execute(&resumed), BERTH_OK);
    assert_same_run("a", "b");
    resumed.config.run.output_dir = fixture_keep("c");
    resumed.config.run.seed = 12; // another order of the data
    fixture_expect(&resumed, BERTH_CONFIG, "seed");
    resumed.config.run.seed = 11;
    resumed.config.engine.train_batch_size = 9;
    fixture_expect(&resumed, BERTH_CONFIG, "train_batch_size");
}

// Writes the training file with another question of the same length.
static void change_a_question(const char *name) {
    static const char before[] = "what colour", after[] = "what is    ";
    char *text = fixture_text(in_folder("train.json"));
    char *at = strstr(text, before);
    assert_non_null(at);
    memcpy(at, after, sizeof after - 1);
    assert_int_equal(file_write(in_folder(name), text, strlen(text), NULL), BERTH_OK);
    memory_free(text);
}

static void test_other_examples_are_noted(void **state) {
    struct fixture_run run = fixture_default("a");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    run.config.run.resume_from_checkpoint = fixture_keep("a/checkpoint-7");
    run.config.run.output_dir = fixture_keep("b");
    fixture_expect(&run, BERTH_OK, "note: resumed from");
    fixture_assert_not_logged("have changed");
    change_a_question("other.json");
    run.config.task.train_file = fixture_keep("other.json");
    run.config.run.output_dir = fixture_keep("c");
    fixture_expect(&run, BERTH_OK, "the training examples have changed since");
}

// Half-way through the first epoch and at its end, with the settings that are most demanding.
static void test_every_optimizer(void **state) {
    static const char *const names[] = {"adam", "adam_weight_decay", "bertadam", "nvlamb", "lamb"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char resumed[32], from[64];
        struct fixture_run straight = fixture_default(names[i]);
        straight.config.optimizer.optimizer = names[i];
        straight.config.optimizer.clip_by = "both";
        straight.config.optimizer.max_grad_norm = 0.5;
        straight.config.run.save_total_limit = 100;
        assert_int_equal(fixture_execute(&straight), BERTH_OK);
        for (int step = 2; step <= 5; step += 3) {
            snprintf(resumed, sizeof resumed, "%s-from-%d", names[i], step);
            fixture_copy_checkpoint(names[i], resumed, step);
            struct fixture_run run = straight;
            run.config.run.output_dir = fixture_keep(resumed);
            run.config.run.resume_from_checkpoint = "auto";
            assert_int_equal(fixture_execute(&run), BERTH_OK);
            assert_same_run(names[i], resumed);
        }
        // The moments are of no use to AdamW.
        snprintf(from, sizeof from, "%s/checkpoint-5", names[i]);
        struct fixture_run other = fixture_default("other");
        other.config.run.resume_from_checkpoint = fixture_keep(from);
        fixture_expect(&other, BERTH_CONFIG, "optimizer");
    }
}

// A scale that is doubled until it overflows (by then it is not a finite number of single
// precision), repeatedly: skipped updates and the scale continue from any update.
static struct fixture_run overflowing(const char *output) {
    struct fixture_run run = fixture_default(output);
    run.config.optimizer.loss_scale = "dynamic";
    run.config.optimizer.init_loss_scale = 0x1p126;
    run.config.optimizer.loss_scale_window = 1;
    run.config.run.save_total_limit = 100;
    return run;
}

static void test_skipped_updates(void **state) {
    struct fixture_run straight = overflowing("straight");
    straight.config.optimizer.hysteresis = 1;
    fixture_expect(&straight, BERTH_OK,
                   "update 4 skipped: the gradient overflows at loss scale 6.805647338e+38; it is "
                   "lowered: 3.402823669e+38");
    fixture_assert_holds(fixture_path("straight", "trainer_state.json"), "\"skipped_steps\": 3");
    fixture_assert_not_logged("loss=nan");
    for (int step = 2; step < FIXTURE_UPDATES; step++) {
        char output[32];
        snprintf(output, sizeof output, "resumed-%d", step);
        fixture_copy_checkpoint("straight", output, step);
        struct fixture_run resumed = straight;
        resumed.config.run.output_dir = fixture_keep(output);
        resumed.config.run.resume_from_checkpoint = "auto";
        assert_int_equal(fixture_execute(&resumed), BERTH_OK);
        assert_same_run("straight", output);
    }
}

static void test_static_scale(void **state) {
    struct fixture_run plain = fixture_default("plain"), fixed = fixture_default("static");
    fixed.config.optimizer.loss_scale = "1024";
    assert_int_equal(fixture_execute(&plain), BERTH_OK);
    assert_int_equal(fixture_execute(&fixed), BERTH_OK);
    assert_same_file(fixture_path("plain", "model.safetensors"),
                     fixture_path("static", "model.safetensors"));
    fixed.config.run.output_dir = fixture_keep("bad");
    fixed.config.optimizer.loss_scale = "much";
    fixture_expect(&fixed, BERTH_USAGE, "\"much\"");
}

// A report without an update that was applied has no loss: neither NaN nor the one before.
static void test_a_report_of_skipped_updates(void **state) {
    struct fixture_run run = overflowing("out");
    run.config.optimizer.hysteresis = 1;
    run.config.run.logging_steps = 1;
    fixture_expect(&run, BERTH_OK, "update 4 skipped: the gradient overflows");
    fixture_assert_holds(fixture_path("out", "trainer_state.json"), "\"skipped_steps\": 3");
    fixture_assert_not_logged("loss=nan");
    char *text = fixture_text(fixture_path("out", "trainer_state.json"));
    int losses = 0;
    for (const char *at = text; (at = strstr(at, "\"loss\":")) != NULL; at++) {
        losses++;
    }
    memory_free(text);
    assert_int_equal(losses, FIXTURE_UPDATES - 3);
}

static void test_hysteresis(void **state) {
    struct fixture_run run = overflowing("tolerant");
    fixture_expect(&run, BERTH_OK, "hysteresis tolerates it");
}

// Weights that are not finite after the first update with a rate: no scale helps.
static void test_the_floor_ends_the_run(void **state) {
    struct fixture_run run = overflowing("floor");
    run.config.optimizer.learning_rate = 1e38;
    run.config.optimizer.hysteresis = 1;
    run.config.optimizer.init_loss_scale = 2;
    run.config.optimizer.loss_scale_window = 1000;
    fixture_expect(&run, BERTH_FAILURE, "loss scale 1 is already at its minimum");
    fixture_assert_logged("it is lowered: 1");
    int64_t newest;
    assert_true(fixture_good_checkpoints("floor", &newest) > 0);
    assert_int_equal(fixture_temporaries("floor"), 0);
    run.config.run.output_dir = fixture_keep("plain");
    run.config.optimizer.loss_scaler = "plain";
    fixture_expect(&run, BERTH_OK, "it is at min_loss_scale: 1");
    run.config.run.output_dir = fixture_keep("stuck");
    run.config.engine.max_steps = 60;
    run.config.run.save_steps = 100;
    fixture_expect(&run, BERTH_FAILURE,
                   "50 updates in a row overflowed at loss scale 1, which is min_loss_scale: ");
    run.config.run.output_dir = fixture_keep("fixed");
    run.config.optimizer.loss_scale = "4";
    fixture_expect(&run, BERTH_FAILURE,
                   "50 updates in a row overflowed at loss scale 4, which is static: ");
    run.config.run.output_dir = fixture_keep("none");
    run.config.optimizer.loss_scale = "none";
    fixture_expect(&run, BERTH_FAILURE, "not finite");
}

// A schedule that restarts in a resumed run, and continues when that run is itself resumed.
static void test_rewarmup(void **state) {
    struct fixture_run first = fixture_default("first"), second = fixture_default("second");
    first.config.engine.max_steps = 4;
    first.config.optimizer.warmup_proportion = 0.5;
    assert_int_equal(fixture_execute(&first), BERTH_OK);
    second.config.optimizer.warmup_proportion = 0.5;
    second.config.optimizer.rewarmup = 1;
    second.config.run.save_total_limit = 100;
    second.config.run.logging_steps = 1;
    second.config.run.resume_from_checkpoint = fixture_keep("first/checkpoint-4");
    fixture_expect(&second, BERTH_OK, "the schedule restarts after 4 updates");
    fixture_assert_logged("step=5 total_steps=8 epoch=1.25");
    fixture_assert_holds(fixture_path("second", "trainer_state.json"), "\"schedule_start\": 4");
    // Of the four updates that are left the first two warm up.
    static const double of_the_peak[] = {0, 0.5, 1, 0.5};
    for (int i = 0; i < 4; i++) {
        const double rate = fixture_history("second", 5 + i, "learning_rate");
        assert_true(fabs(rate - of_the_peak[i] * second.config.optimizer.learning_rate) < 1e-12);
    }
    fixture_copy_checkpoint("second", "third", 6);
    struct fixture_run third = second;
    third.config.run.output_dir = fixture_keep("third");
    third.config.run.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&third), BERTH_OK);
    assert_same_run("second", "third");
}

static void test_auto_without_checkpoints_starts_anew(void **state) {
    struct fixture_run run = fixture_default("fresh");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    struct fixture_run again = fixture_default("auto");
    again.config.run.resume_from_checkpoint = "auto";
    again.config.optimizer.rewarmup = 1;
    fixture_expect(&again, BERTH_OK, "note: rewarmup has no effect: the run does not resume");
    assert_same_run("fresh", "auto");
}

// "auto,DIR" is DIR if the output folder has no checkpoint.
static void test_auto_or_a_named_checkpoint(void **state) {
    struct fixture_run run = fixture_default("first");
    run.config.run.save_total_limit = 100;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    char from[256];
    snprintf(from, sizeof from, "auto,%s", in_folder("first/checkpoint-3"));
    run.config.run.output_dir = fixture_keep("second");
    run.config.run.resume_from_checkpoint = from;
    run.log_file = fixture_keep("log");
    run.stop_at_step = 4; // after the next update
    run.stop_level = STOP_AND_SAVE;
    fixture_expect(&run, BERTH_INTERRUPTED, "resumed from ");
    fixture_assert_logged("second: starting from ");
    run.stop_at_step = 0;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    fixture_assert_logged("second/checkpoint-5");
    assert_same_run("first", "second");
}

// The model or the checkpoints of another run are not overwritten by one that starts elsewhere.
static void test_another_run_in_the_output_folder(void **state) {
    struct fixture_run run = fixture_default("first");
    run.config.engine.max_steps = 2;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    run.config.run.output_dir = fixture_keep("used");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    run.config.run.resume_from_checkpoint = fixture_keep("first/checkpoint-1");
    for (int i = 0; i < 2; i++) { // a finished run, and one without a model
        fixture_expect(&run, BERTH_CANT_CREATE, "has a model or checkpoints, and ");
        assert_int_equal(file_remove(in_folder("used/model.safetensors"), NULL), BERTH_OK);
    }
    run.config.run.resume_from_checkpoint = fixture_keep("used/checkpoint-1/");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_same_run("first", "used");
    run.config.run.resume_from_checkpoint = fixture_keep("first/checkpoint-1");
    run.config.run.overwrite_output_dir = 1;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
}

// Exchanges the first two words of model/vocab.txt after [MASK], and ends its lines with `end`.
static void write_vocabulary(int exchange, const char *end) {
    char *text = fixture_text(in_folder("model/vocab.txt")), *rest = NULL;
    FILE *file = fopen(in_folder("model/vocab.txt"), "w");
    assert_non_null(file);
    char held[64] = "";
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (exchange > 0 && exchange-- == 2 && line[0] != '[') {
            snprintf(held, sizeof held, "%s", line);
            continue;
        }
        fprintf(file, "%s%s", line, end);
        if (held[0] != '\0') {
            fprintf(file, "%s%s", held, end);
            held[0] = '\0';
        }
        exchange += exchange == 1 && line[0] == '[';
    }
    assert_int_equal(fclose(file), 0);
    memory_free(text);
}

// A vocabulary of other words with the same size is refused; the form of its file does not count.
static void test_another_vocabulary(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.engine.max_steps = 2;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    run.config.run.resume_from_checkpoint = "auto";
    write_vocabulary(0, "\r\n");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    write_vocabulary(2, "\n");
    fixture_expect(&run, BERTH_CONFIG, "model/vocab.txt has other words than ");
    fixture_assert_logged("out/checkpoint-2/vocab.txt");
}

// A finished run that is resumed does no update and leaves the same files.
static void test_finished_run(void **state) {
    struct fixture_run run = fixture_default("done");
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    fixture_copy(fixture_path("done", "checkpoint-8"), in_folder("before"));
    run.config.run.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_same_file(fixture_path("done", "checkpoint-8/model.safetensors"),
                     fixture_path("before", "model.safetensors"));
    assert_same_file(fixture_path("done", "model.safetensors"),
                     fixture_path("before", "model.safetensors"));
}

// The number after the last `key` in the log.
static double logged_number(const char *key) {
    char *log = fixture_text(in_folder("log"));
    double number = NAN;
    for (const char *at = strstr(log, key); at != NULL; at = strstr(at + 1, key)) {
        number = strtod(at + strlen(key), NULL);
    }
    memory_free(log);
    return number;
}

// An evaluation after every update, none of which gains enough: the run ends after the second,
// which is saved, so that nothing is trained again.
static void test_early_stop_is_saved(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.task.validation_file = fixture_keep("dev.json");
    run.config.run.eval_steps = 1;
    run.config.run.early_stopping_patience = 1;
    run.config.run.early_stopping_threshold = 1000;
    run.config.run.save_steps = run.config.run.logging_steps = 100;
    fixture_expect(&run, BERTH_OK, "early stopping after update 2");
    const double loss = fixture_number("out", "train_results.json", "train_loss");
    assert_true(fabs(logged_number("final_loss=") - loss) < 1e-4 * loss); // of both updates
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 1);
    assert_int_equal(newest, 2);
    run.config.run.resume_from_checkpoint = "auto";
    fixture_expect(&run, BERTH_OK, "early stopping after update 2");
    assert_int_equal(fixture_good_checkpoints("out", &newest), 1);
    run.config.run.save_strategy = "no";
    run.config.run.resume_from_checkpoint = NULL;
    run.config.run.output_dir = fixture_keep("none");
    fixture_expect(&run, BERTH_OK, "early stopping after update 2");
    assert_int_equal(fixture_good_checkpoints("none", &newest), 0);
}

// Texts that are all the same have no correlation, so that no evaluation has a score.
static void test_no_score_is_a_number(void **state) {
    static const char table[] = "sentence1,sentence2,score\nanna,anna,0.1\nanna,anna,0.9\n";
    const char *path = fixture_keep("same.csv");
    struct fixture_run run = fixture_default("out");
    assert_int_equal(file_write(path, table, strlen(table), NULL), BERTH_OK);
    run.task = "embed";
    run.config.task.train_file = run.config.task.validation_file = path;
    run.config.engine.max_steps = 6;
    run.config.run.eval_steps = 1;
    run.config.run.early_stopping_patience = 2;
    run.config.run.load_best_model_at_end = 1;
    run.config.run.metric_for_best_model = "spearman";
    fixture_expect(&run, BERTH_OK,
                   "early stopping after update 2: in 2 evaluations in a row the score by which "
                   "models are compared was not a number");
    fixture_assert_logged("the result is the last model, not the best");
}

// The score of the best model is not compared with those of another metric, in another direction or
// on other examples.
static void test_another_comparison(void **state) {
    struct fixture_run first = fixture_default("first");
    first.config.task.validation_file = fixture_keep("dev.json");
    first.config.run.eval_steps = 1;
    first.config.engine.max_steps = 4;
    assert_int_equal(fixture_execute(&first), BERTH_OK);
    struct fixture_run same = first, metric = first, direction = first, examples = first;
    same.config.run.resume_from_checkpoint = fixture_keep("first/checkpoint-3");
    same.config.run.output_dir = fixture_keep("same");
    fixture_expect(&same, BERTH_OK, "resumed from");
    fixture_assert_not_logged("is forgotten");
    assert_same_run("first", "same");
    metric.config.run.metric_for_best_model = "exact_match";
    direction.config.run.greater_is_better = 0;
    examples.config.features.max_eval_samples = 2;
    struct {
        struct fixture_run *run;
        const char *name, *says;
    } others[] = {
        {&metric, "metric", "note: evaluations are now of exact_match (higher is better)"},
        {&direction, "direction", "evaluations are now of f1 (lower is better): the best score"},
        {&examples, "examples", "f1 (higher is better) on other examples: the best score"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct settings *config = &others[i].run->config;
        config->run.output_dir = fixture_keep(others[i].name);
        config->run.resume_from_checkpoint = same.config.run.resume_from_checkpoint;
        config->engine.max_steps = 3; // evaluates the checkpoint
        fixture_expect(others[i].run, BERTH_OK, others[i].says);
        assert_true(fixture_number(others[i].name, "trainer_state.json", "best_global_step") == 3);
    }
}

// A checkpoint beyond the run's end.
static void test_beyond_the_end(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.engine.max_steps = 3;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    run.config.engine.max_steps = 2;
    run.config.run.resume_from_checkpoint = "auto";
    fixture_expect(&run, BERTH_CONFIG,
                   "update 3 is beyond the end of this run, update 2; increase max_steps");
}

// The results in a folder are those of its run: not those of a shorter run that was then extended
// and killed before its end, nor those of a run that another one has left behind.
static void test_results_of_another_run(void **state) {
    static const char *const names[] = {"train_results.json", "all_results.json"};
    struct fixture_run run = fixture_default("out");
    run.config.engine.max_steps = 4;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    for (int i = 0; i < 2; i++) {
        char *to = memory_string(in_folder(names[i]));
        assert_int_equal(file_copy(fixture_path("out", names[i]), to, NULL), BERTH_OK);
        memory_free(to);
    }
    run.config.engine.max_steps = FIXTURE_UPDATES;
    run.config.run.resume_from_checkpoint = "auto";
    run.stop_at_step = 5;
    run.stop_level = STOP_AND_SAVE;
    assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
    assert_false(file_exists(fixture_path("out", "train_results.json")));
    assert_false(file_exists(fixture_path("out", "all_results.json")));
    run.stop_at_step = 0;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_true(fixture_number("out", "train_results.json", "global_step") == FIXTURE_UPDATES);
    // As if the results were older than the checkpoint.
    for (int i = 0; i < 2; i++) {
        char *to = memory_string(fixture_path("out", names[i]));
        assert_int_equal(file_copy(in_folder(names[i]), to, NULL), BERTH_OK);
        memory_free(to);
    }
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_true(fixture_number("out", "train_results.json", "global_step") == FIXTURE_UPDATES);
    assert_true(fixture_number("out", "all_results.json", "global_step") == FIXTURE_UPDATES);
    // As if it had been killed between the two files.
    assert_int_equal(file_remove(fixture_path("out", "all_results.json"), NULL), BERTH_OK);
    fixture_expect(&run, BERTH_OK, "train_results.json is unchanged");
    assert_true(fixture_number("out", "all_results.json", "global_step") == FIXTURE_UPDATES);
}

// The work of all processes of a run, as transformers counts it.
static void test_total_flos(void **state) {
    struct fixture_run whole = fixture_default("whole"), parts = fixture_default("parts");
    assert_int_equal(fixture_execute(&whole), BERTH_OK);
    parts.config.run.resume_from_checkpoint = "auto";
    parts.stop_at_step = 3;
    parts.stop_level = STOP_AND_SAVE;
    assert_int_equal(fixture_execute(&parts), BERTH_INTERRUPTED);
    parts.stop_at_step = 0;
    assert_int_equal(fixture_execute(&parts), BERTH_OK);
    const double total = fixture_number("whole", "train_results.json", "total_flos");
    assert_true(total > fixture_number("whole", "checkpoint-7/trainer_state.json", "total_flos"));
    assert_true(fixture_number("parts", "train_results.json", "total_flos") == total);
    assert_true(fixture_number("parts", "trainer_state.json", "total_flos") == total);
    assert_true(fixture_number("whole", "checkpoint-8/trainer_state.json", "total_flos") == total);
}

// The speeds of a run's last process are over its own updates.
static void assert_speeds(const char *output, double updates, double sequences) {
    const double seconds = fixture_number(output, "train_results.json", "train_runtime");
    const double steps = fixture_number(output, "train_results.json", "train_steps_per_second");
    const double samples = fixture_number(output, "train_results.json", "train_samples_per_second");
    assert_true(fabs(steps * seconds - updates) < 1e-6);
    assert_true(fabs(samples * seconds - sequences) < 1e-6);
}

// As transformers' Trainer has them: the loss is the mean over all updates, however they are logged
// and wherever the run was resumed.
static void test_train_loss(void **state) {
    struct fixture_run whole = fixture_default("whole"), parts = fixture_default("parts");
    whole.config.run.logging_steps = 1;
    assert_int_equal(fixture_execute(&whole), BERTH_OK);
    parts.config.run.logging_steps = 3;
    parts.config.run.resume_from_checkpoint = "auto";
    parts.stop_at_step = 3;
    parts.stop_level = STOP_AND_SAVE;
    assert_int_equal(fixture_execute(&parts), BERTH_INTERRUPTED);
    parts.stop_at_step = 0;
    assert_int_equal(fixture_execute(&parts), BERTH_OK);
    json *history;
    assert_int_equal(json_read_file(fixture_path("whole", "trainer_state.json"), &history, NULL),
                     BERTH_OK);
    const json *log = json_member(history, "log_history");
    double sum = 0;
    size_t updates = 0;
    for (size_t i = 0; i < json_length(log); i++) {
        const json *loss = json_member(json_at(log, i), "loss");
        sum += loss != NULL ? json_as_real(loss) : 0;
        updates += loss != NULL;
    }
    json_free(history);
    assert_int_equal(updates, FIXTURE_UPDATES);
    const double found = fixture_number("whole", "train_results.json", "train_loss");
    assert_true(fabs(found - sum / FIXTURE_UPDATES) < 1e-12);
    assert_true(fixture_number("parts", "train_results.json", "train_loss") == found);
    assert_true(fixture_number("parts", "train_results.json", "epoch") == 2);
    assert_speeds("whole", FIXTURE_UPDATES, 70); // twice 11, 11, 11 and 2 of 35
    assert_speeds("parts", 4, 35);               // it stopped after its fourth
}

// A run that goes back leaves a branch behind, from which it is not resumed after a kill.
static void test_going_back(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.run.save_total_limit = 100;
    run.config.run.save_format = "nvidia";
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    fixture_copy(fixture_path("out", "checkpoint-8"), in_folder("left"));
    struct fixture_run back = run;
    back.config.run.resume_from_checkpoint = fixture_keep("out/checkpoint-3");
    back.config.optimizer.learning_rate = 2e-3;
    back.stop_at_start = 1;
    back.stop_level = STOP_AND_SAVE;
    assert_int_equal(fixture_execute(&back), BERTH_INTERRUPTED); // nothing was saved
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 8);
    back.stop_at_start = 0;
    back.stop_at_step = 4; // after the next update
    fixture_expect(&back, BERTH_INTERRUPTED, "this run continues from update 3 without it");
    assert_int_equal(fixture_good_checkpoints("out", &newest), 5);
    assert_int_equal(newest, 5);
    assert_same_file(fixture_path("out", "checkpoint-8.abandoned/model.safetensors"),
                     in_folder("left/model.safetensors"));
    assert_true(file_exists(fixture_path("out", "ckpt_8.pt.abandoned")));
    struct fixture_run straight = back;
    straight.config.run.output_dir = fixture_keep("straight");
    straight.stop_at_step = back.stop_at_step = 0;
    assert_int_equal(fixture_execute(&straight), BERTH_OK);
    back.config.run.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&back), BERTH_OK);
    assert_same_run("straight", "out");
}

// A run that was killed between its last save and the rotation removes the old checkpoints when it
// is resumed, even if no update is left to do. A run that goes back to one of them keeps them.
static void test_late_rotation(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.run.save_total_limit = 100;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    run.config.run.save_total_limit = 2;
    run.config.run.resume_from_checkpoint = fixture_keep("out/checkpoint-6");
    run.stop_at_start = 1;
    run.stop_level = STOP_AND_SAVE;
    assert_int_equal(fixture_execute(&run), BERTH_INTERRUPTED);
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 4); // 5 to 8
    run.stop_at_start = 0;
    run.config.run.skip_checkpoint = 1;
    run.config.run.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_int_equal(fixture_good_checkpoints("out", &newest), 4);
    run.config.run.skip_checkpoint = 0;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_int_equal(fixture_good_checkpoints("out", &newest), 2);
    assert_int_equal(newest, 8);
}

// A checkpoint that was moved to another disk is no reason to end a run.
static void test_moved_checkpoints(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.engine.max_steps = 3;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    for (int step = 1; step <= 3; step++) {
        char name[32], moved[32];
        snprintf(name, sizeof name, "out/checkpoint-%d", step);
        snprintf(moved, sizeof moved, "moved-%d", step);
        assert_int_equal(rename(in_folder(name), in_folder(moved)), 0);
        assert_int_equal(symlink(in_folder(moved), in_folder(name)), 0);
    }
    run.config.engine.max_steps = FIXTURE_UPDATES;
    run.config.run.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    int64_t newest;
    assert_int_equal(fixture_good_checkpoints("out", &newest), 3);
    assert_int_equal(newest, 8);
    assert_true(file_exists(in_folder("moved-1/model.safetensors")));
}

// Every checkpoint that is written beside the updates has the bytes of one that they wait for.
static void test_async_saves_have_the_same_bytes(void **state) {
    struct fixture_run waits = fixture_default("waits"), beside = fixture_default("beside");
    waits.config.run.save_total_limit = beside.config.run.save_total_limit = FIXTURE_UPDATES;
    waits.config.run.async_save = 0;
    beside.config.run.async_save = 1;
    beside.log_file = fixture_keep("log");
    assert_int_equal(fixture_execute(&waits), BERTH_OK);
    assert_int_equal(fixture_execute(&beside), BERTH_OK);
    for (int step = 1; step <= FIXTURE_UPDATES; step++) {
        static const char *const names[] = {"model.safetensors", "optimizer.safetensors",
                                            "config.json"};
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            char name[64];
            snprintf(name, sizeof name, "checkpoint-%d/%s", step, names[i]);
            assert_same_file(fixture_path("waits", name), fixture_path("beside", name));
        }
    }
    assert_same_run("waits", "beside");
}

// A run resumed from nothing but a file in NVIDIA's form ends as the run that was not interrupted.
// The newest of these files are kept.
static void resume_from_nvidias_form(const char *optimizer, enum berth_precision precision,
                                     const char *then, const char *now) {
    char kept[64], again[64], file[96];
    snprintf(kept, sizeof kept, "%s-kept", optimizer);
    snprintf(again, sizeof again, "%s-again", optimizer);
    snprintf(file, sizeof file, "%s/ckpt_6.pt", kept);
    struct fixture_run run = fixture_default(kept);
    run.config.optimizer.optimizer = optimizer;
    run.config.machine.precision = precision;
    run.config.optimizer.no_decay = then;
    run.config.optimizer.weight_decay = then != NULL ? 0 : run.config.optimizer.weight_decay;
    run.config.run.save_format = "torch,nvidia";
    run.config.run.save_total_limit = 3;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    assert_true(file_exists(fixture_path(kept, "pytorch_model.bin")));
    for (int step = 1; step <= FIXTURE_UPDATES; step++) {
        char name[32];
        snprintf(name, sizeof name, "ckpt_%d.pt", step);
        assert_int_equal(file_exists(fixture_path(kept, name)), step > FIXTURE_UPDATES - 3);
    }
    assert_int_equal(dir_make(in_folder("alone"), NULL), BERTH_OK);
    assert_int_equal(rename(in_folder(file), in_folder("alone/ckpt_6.pt")), 0);
    struct fixture_run resumed = run;
    resumed.config.run.output_dir = fixture_keep(again);
    resumed.config.optimizer.no_decay = now;
    resumed.config.run.resume_from_checkpoint = fixture_keep("alone/ckpt_6.pt");
    assert_int_equal(fixture_execute(&resumed), BERTH_OK);
    assert_same_run(kept, again);
}

static void test_from_nvidias_form(void **state) {
    resume_from_nvidias_form("nvlamb", BERTH_FP32, NULL, NULL);
    resume_from_nvidias_form("adamw", BERTH_BF16, NULL, NULL);
    resume_from_nvidias_form("adam", BERTH_FP32, NULL, NULL); // in which everything decays
}

// The list of parameters that do not decay, which numbers them in the file, is the writer's.
static void test_from_nvidias_form_with_another_list(void **state) {
    (void)state;
    resume_from_nvidias_form("adamw", BERTH_FP32, "query.weight", "key.weight");
    resume_from_nvidias_form("bertadam", BERTH_FP32, "none", NULL);
}

// A finished run's result in another form is no checkpoint.
static void test_result_in_nvidias_form(void **state) {
    struct fixture_run run = fixture_default("out");
    run.config.run.save_strategy = "no";
    run.config.run.save_format = "nvidia";
    run.config.run.resume_from_checkpoint = "auto";
    assert_int_equal(fixture_execute(&run), BERTH_OK);
    fixture_expect(&run, BERTH_CANT_CREATE, "contains a model and no checkpoint to resume from");
    run.config.run.overwrite_output_dir = 1;
    fixture_expect(&run, BERTH_OK, "starting from the beginning");
    run.config.run.overwrite_output_dir = 0;
    run.config.run.resume_from_checkpoint = fixture_keep("out/ckpt_8.pt"); // named
    run.config.engine.num_train_epochs = 3;
    assert_int_equal(fixture_execute(&run), BERTH_OK);
}

// Refused before anything is computed.
static void test_unknown_format(void **state) {
    struct fixture_run run = fixture_default("none");
    run.config.run.save_format = "hf,h5";
    fixture_expect(&run, BERTH_USAGE, "h5");
    assert_false(dir_exists(in_folder("none")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_async_saves_have_the_same_bytes),
        FIXTURE_TEST(test_fp32),
        FIXTURE_TEST(test_bf16_with_accumulation),
        FIXTURE_TEST(test_gradient_checkpointing),
        FIXTURE_TEST(test_named_folder_and_other_settings),
        FIXTURE_TEST(test_other_examples_are_noted),
        FIXTURE_TEST(test_every_optimizer),
        FIXTURE_TEST(test_skipped_updates),
        FIXTURE_TEST(test_static_scale),
        FIXTURE_TEST(test_a_report_of_skipped_updates),
        FIXTURE_TEST(test_hysteresis),
        FIXTURE_TEST(test_the_floor_ends_the_run),
        FIXTURE_TEST(test_rewarmup),
        FIXTURE_TEST(test_auto_without_checkpoints_starts_anew),
        FIXTURE_TEST(test_auto_or_a_named_checkpoint),
        FIXTURE_TEST(test_another_run_in_the_output_folder),
        FIXTURE_TEST(test_another_vocabulary),
        FIXTURE_TEST(test_finished_run),
        FIXTURE_TEST(test_early_stop_is_saved),
        FIXTURE_TEST(test_no_score_is_a_number),
        FIXTURE_TEST(test_another_comparison),
        FIXTURE_TEST(test_beyond_the_end),
        FIXTURE_TEST(test_results_of_another_run),
        FIXTURE_TEST(test_total_flos),
        FIXTURE_TEST(test_train_loss),
        FIXTURE_TEST(test_going_back),
        FIXTURE_TEST(test_late_rotation),
        FIXTURE_TEST(test_moved_checkpoints),
        FIXTURE_TEST(test_from_nvidias_form),
        FIXTURE_TEST(test_from_nvidias_form_with_another_list),
        FIXTURE_TEST(test_result_in_nvidias_form),
        FIXTURE_TEST(test_unknown_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
