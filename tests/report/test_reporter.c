// SPDX-License-Identifier: Apache-2.0
// Tests the reporter on a pseudo-terminal, on a pipe and in a file: what people and their scripts
// read.
#include "core/clock.h"
#include "core/harness.h"
#include "core/json_line.h"
#include "core/log.h"
#include "core/scratch.h"
#include "core/terminal.h"
#include "core/text_util.h"
#include "report/keys.h"
#include "report/lines.h"
#include "report/reporter.h"
#include "settings/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

struct output {
    char text[1 << 16];
};

// Reads what is available now; the descriptor does not block.
static enum berth_status open_reporter_of(const struct settings *config, int descriptor,
                                          struct berth_reporter **reporter,
                                          struct berth_error *error) {
    const struct reported_run run = {
        .resumes = settings_resume(config),
        .has_deepspeed = config->run.deepspeed_config != NULL,
        .adam_betas = {config->optimizer.adam_beta1, config->optimizer.adam_beta2}};
    return reporter_open(&config->report, &run, descriptor, reporter, error);
}

static void drain(int descriptor, struct output *output) {
    size_t used = 0;
    ssize_t got;
    while ((got = read(descriptor, output->text + used, sizeof output->text - 1 - used)) > 0) {
        used += (size_t)got;
    }
    output->text[used] = '\0';
}

static struct settings brief_config(void) {
    struct settings config;
    settings_init(&config);
    return config;
}

static struct settings plain_config(void) {
    struct settings config = brief_config();
    config.report.verbose = 1;
    return config;
}

// Runs `act` with a log whose lines go to a pipe or a pseudo-terminal.
static void capture(const struct settings *config, int terminal, void (*act)(struct berth_log),
                    struct output *output) {
    int ends[2];
    if (terminal) {
        struct winsize size = {.ws_row = 24, .ws_col = 60};
        assert_int_equal(openpty(&ends[0], &ends[1], NULL, NULL, &size), 0);
    } else {
        assert_int_equal(pipe(ends), 0);
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    struct berth_reporter *reporter;
    struct berth_error error = {0};
    assert_int_equal(open_reporter_of(config, ends[1], &reporter, &error), BERTH_OK);
    act(reporter_log(reporter));
    reporter_close(reporter);
    drain(ends[0], output);
    close(ends[0]);
    close(ends[1]);
}

static void expect(const struct output *output, const char *fragment) {
    if (strstr(output->text, fragment) == NULL) {
        fail_msg("\"%s\" is missing in:\n%s", fragment, output->text);
    }
}

static void expect_no(const struct output *output, const char *fragment) {
    if (strstr(output->text, fragment) != NULL) {
        fail_msg("\"%s\" should not be in:\n%s", fragment, output->text);
    }
}

static void train_a_little(struct berth_log log) {
    struct berth_field plan[] = {log_integer("parameters", 22713986),
                                 log_integer("plan_bytes", (int64_t)3 << 29),
                                 log_text("precision", "bf16")};
    struct berth_field step[] = {
        log_integer("step", 20),         log_integer("total_steps", 487),
        log_real("epoch", 0.08),         log_real("loss", 1.23456),
        log_real("learning_rate", 5e-5), log_real("samples_per_second", 41.25)};
    struct berth_field eval[] = {log_real("exact_match", 55.546), log_real("f1", 67.1)};
    struct berth_field summary[] = {log_real("mfu", 0.7123), log_real("exact_match", NAN)};
    log_note(&log, "reading %s", "train.json");
    log_warning(&log, "a %s", "warning");
    log_fields(&log, BERTH_PLAN, "memory", plan, 3);
    log_progress(&log, "train", 0, 487);
    log_fields(&log, BERTH_STEP, NULL, step, 6);
    log_progress(&log, "train", 20, 487);
    log_fields(&log, BERTH_EVAL, NULL, eval, 2);
    log_progress(&log, "train", 487, 487);
    log_fields(&log, BERTH_SUMMARY, "done", summary, 2);
}

// A hundred and one updates of a run, as a task that logs each of them reports them.
static void train_longer(struct berth_log log) {
    struct berth_field model[] = {
        log_text("model_name_or_path", "a-folder-with-a-name-that-is-long"),
        log_integer("parameters", 22713986), log_integer("hidden_size", 384),
        log_text("precision", "bf16")};
    struct berth_field data[] = {log_text("train_file", "train.json"),
                                 log_text("validation_file", NULL)};
    struct berth_field batches[] = {log_integer("train_batch_size", 32),
                                    log_integer("processes", 1), log_integer("total_steps", 101)};
    log_detail(&log, "device: %s", "cpu");
    log_note(&log, "%s has no effect", "a setting");
    log_fields(&log, BERTH_PLAN, "model", model, 4);
    log_fields(&log, BERTH_PLAN, "data", data, 2);
    log_fields(&log, BERTH_PLAN, "batches", batches, 3);
    log_fields(&log, BERTH_PLAN, "workspace", &(struct berth_field){.key = "weights_bytes"}, 1);
    for (int64_t step = 1; step <= 101; step++) {
        LOG_RECORD(&log, BERTH_STEP, NULL, log_integer("step", step),
                   log_integer("total_steps", 101), log_real("epoch", 0.5), log_real("loss", 1.5),
                   log_real("learning_rate", 1.23456e-5), log_real("grad_norm", 2.5),
                   log_real("samples_per_second", 12345.6), log_real("tokens_per_second", 123456.7),
                   log_integer("skipped", 0));
        log_progress(&log, "train", step, 101);
    }
    LOG_RECORD(&log, BERTH_SUMMARY, "finetune squad", log_integer("steps", 101),
               log_real("f1", 67.1), log_real("best_metric", 67.1), log_real("model_flops", 1e12));
}

static size_t count_of(const struct output *output, const char *fragment) {
    size_t count = 0;
    for (const char *at = output->text; (at = strstr(at, fragment)) != NULL; at++) {
        count++;
    }
    return count;
}

static void what_nobody_asked_for_is_left_out(void **state) {
    static struct output output;
    struct settings config = brief_config();
    capture(&config, 0, train_longer, &output);
    expect_no(&output, "device");
    expect(&output, "a setting has no effect\n"
                    "model       a-folder-with-a-name-that-is-long\n"
                    "            22,713,986 parameters  precision bf16\n"
                    "data        train.json\n"
                    "batches     32 per update  101 updates\n");
    expect(&output, "\nstep 6/101  loss 1.5000  lr 1.235e-05  12345.6 samples/s\n");
    expect(&output, "\nstep 101/101  loss 1.5000");
    expect(&output, "\nfinetune squad  101 updates  F1 67.10\n");
    expect_no(&output, "workspace");
    expect_no(&output, "done in");
    assert_int_equal(count_of(&output, "\nstep "), 20);
    config.report.verbose = 1;
    capture(&config, 0, train_longer, &output);
    expect(&output, "device: cpu\na setting has no effect\nmodel\n");
    expect(&output, "  weights_bytes ");
    assert_int_equal(count_of(&output, "\nstep "), 101);
}

static void a_pipe_gets_plain_lines(void **state) {
    static struct output output;
    struct settings config = plain_config();
    capture(&config, 0, train_a_little, &output);
    expect(&output, "reading train.json\n");
    expect(&output, "berth: warning: a warning\n");
    expect(&output, "  parameters                             22,713,986\n");
    expect(&output, "  plan_bytes                               1.50 GiB\n");
    expect(&output, "  precision                        bf16\n");
    expect(&output, "step 20/487  epoch 0.08  loss 1.2346  lr 5e-05  41.2 samples/s\n");
    expect(&output, "evaluation:  EM 55.55  F1 67.10\n");
    expect(&output, "train: 487 done in 0:0");
    expect(&output, "  mfu                                         0.712\n");
    expect_no(&output, "exact_match"); // unknown: left out of the summary
    expect_no(&output, "\033");
    expect_no(&output, "\r");
}

// Percentages have two digits, and fractions of 1 four.
static void evaluate_a_bad_model(struct berth_log log) {
    const struct berth_field squad[] = {log_real("exact", 0), log_real("f1", 0),
                                        log_real("HasAns_f1", 0.75), log_real("NoAns_f1", 0),
                                        log_real("best_f1", 1)};
    const struct berth_field glue[] = {log_real("accuracy", 0.5), log_real("f1", 0.75)};
    log_fields(&log, BERTH_EVAL, NULL, squad, 5);
    log_fields(&log, BERTH_EVAL, NULL, glue, 2);
}

static void scores_have_the_digits_of_their_scale(void **state) {
    static struct output output;
    struct settings config = plain_config();
    capture(&config, 0, evaluate_a_bad_model, &output);
    expect(&output, "EM 0.00  F1 0.00  HasAns_f1 0.75  NoAns_f1 0.00  best_f1 1.00\n");
    expect(&output, "accuracy 0.5000  F1 0.7500\n");
}

// An evaluation between two updates does not set the clock of training back.
static void evaluate_between(struct berth_log log) {
    log_progress(&log, "train", 0, 3);
    usleep(600000); // shown as 0:01
    log_progress(&log, "train", 2, 3);
    log_progress(&log, "predict", 0, 9);
    log_progress(&log, "predict", 9, 9);
    log_progress(&log, "train", 3, 3);
}

// N of "WORDS0:N"; -1 without it.
static int seconds_after(const struct output *output, const char *words) {
    const char *found = strstr(output->text, words);
    int seconds = -1;
    return found != NULL && sscanf(found + strlen(words), "0:%d", &seconds) == 1 ? seconds : -1;
}

static void a_phase_that_is_interrupted_keeps_its_clock(void **state) {
    static struct output output;
    struct settings config = plain_config();
    capture(&config, 0, evaluate_between, &output);
    const int predict = seconds_after(&output, "predict: 9 done in ");
    const int train = seconds_after(&output, "train: 3 done in ");
    assert_true(predict >= 0 && train >= predict && train >= 1);
}

static void a_terminal_gets_a_bar_that_fits(void **state) {
    static struct output output;
    struct settings config = plain_config();
    capture(&config, 1, train_a_little, &output);
    expect(&output, "train   0% [");
    expect(&output, "\033[K");
    expect(&output, "step 20/487");
    for (const char *at = strchr(output.text, '\r'); at != NULL; at = strchr(at + 1, '\r')) {
        size_t width = strcspn(at + 1, "\r\n\033");
        assert_true(width < 60);
    }
}

static void download_a_little(struct berth_log log) {
    log_progress_bytes(&log, "model.safetensors", 0, 90 << 20);
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    log_progress_bytes(&log, "model.safetensors", 22 << 20, 90 << 20);
}

static void a_long_bar_loses_no_facts(void **state) {
    static struct output output;
    struct settings config = plain_config();
    capture(&config, 1, download_a_little, &output); // 60 columns
    expect(&output, "\rmodel.safetensors   0% [...");
    expect(&output, "  24% 22.00 MiB/90.00 MiB  ");
    expect(&output, "  ETA 0:");
    expect_no(&output, "...\033[K");
}

static void train_with_facts(struct berth_log log) {
    struct berth_field step[] = {log_integer("step", 1), log_real("loss", 0.5)};
    log_progress(&log, "train", 0, 4870000);
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    log_fields(&log, BERTH_STEP, NULL, step, 2);
    log_progress(&log, "train", 3, 4870000);
}

// Facts are left out whole, the last ones first.
static void a_narrow_bar_has_whole_facts(void **state) {
    static struct output output;
    static const char *const widths[] = {"60", "40", "25"};
    static const char *const ends[] = {"  loss 0.5000\033[K", "/s\033[K", "3/4870000\033[K"};
    struct settings config = plain_config();
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        setenv("COLUMNS", widths[i], 1);
        capture(&config, 1, train_with_facts, &output);
        expect(&output, ends[i]);
    }
    unsetenv("COLUMNS");
}

// TERM says that lines cannot be erased there, or nothing.
static void a_terminal_that_cannot_erase_gets_lines(void **state) {
    static struct output output;
    static const char *const terms[] = {"dumb", "", NULL};
    struct settings config = plain_config();
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
        if (terms[i] != NULL) {
            setenv("TERM", terms[i], 1);
        } else {
            unsetenv("TERM");
        }
        capture(&config, 1, train_a_little, &output);
        expect_no(&output, "\033");
        expect_no(&output, "train   0%");
        expect(&output, "step 20/487");
    }
    setenv("TERM", "xterm", 1);
}

static void a_long_step(struct berth_log log) {
    struct berth_field step[] = {log_integer("step", 20),
                                 log_integer("total_steps", 487),
                                 log_real("epoch", 0.08),
                                 log_real("loss", 1.23456),
                                 log_real("learning_rate", 5e-5),
                                 log_real("grad_norm", 12.3456),
                                 log_real("samples_per_second", 41.25),
                                 log_real("tokens_per_second", 7000)};
    struct berth_field eval[] = {log_integer("step", 20), log_real("epoch", 0.08),
                                 log_real("exact_match", 55.5), log_real("f1", 67.1),
                                 log_real("samples_per_second", 41.25)};
    log_fields(&log, BERTH_STEP, NULL, step, 8);
    log_fields(&log, BERTH_EVAL, "eval", eval, 5);
}

static void a_narrow_terminal_gets_short_lines(void **state) {
    static struct output output;
    struct settings config = plain_config();
    capture(&config, 1, a_long_step, &output); // 60 columns
    expect(&output, "step 20/487  epoch 0.08  loss 1.2346  lr 5e-05\r\n");
    expect(&output, "eval:  step 20  epoch 0.08  EM 55.50  F1 67.10\r\n");
    setenv("COLUMNS", "20", 1);
    capture(&config, 1, a_long_step, &output);
    expect(&output, "step 20/487\r\n");
    setenv("COLUMNS", "200", 1);
    capture(&config, 1, a_long_step, &output);
    expect(&output, "lr 5e-05  grad_norm 12.346  41.2 samples/s  7000 tokens/s\r\n");
    setenv("COLUMNS", "20", 1);
    capture(&config, 0, a_long_step, &output); // a pipe
    expect(&output, "lr 5e-05  grad_norm 12.346  41.2 samples/s  7000 tokens/s\n");
    expect(&output, "F1 67.10  41.2 samples/s\n");
    config.report.log_format = "deepspeed";
    capture(&config, 1, a_long_step, &output);
    expect(&output, "[Rank 0] step=20, skipped=0, lr=[5e-05], mom=[(0.9, 0.999)]\r\n");
    expect(&output, "F1 67.10  41.2 samples/s\r\n");
    unsetenv("COLUMNS");
}

static void many_updates(struct berth_log log) {
    for (int64_t done = 0; done < 100000; done++) {
        log_progress(&log, "train", done, 100000);
    }
}

static void the_bar_is_redrawn_ten_times_a_second(void **state) {
    static struct output output;
    struct settings config = plain_config();
    double start = clock_now();
    capture(&config, 1, many_updates, &output);
    double seconds = clock_now() - start;
    int draws = 0;
    for (const char *at = output.text; (at = strstr(at, "train ")) != NULL; at++) {
        draws++;
    }
    assert_true(draws >= 1);
    assert_true(draws <= (int)(seconds * 10.0) + 2);
}

static void no_progress_means_no_bar(void **state) {
    static struct output output;
    struct settings config = plain_config();
    config.report.no_progress = 1;
    capture(&config, 1, train_a_little, &output);
    expect_no(&output, "train ");
    expect(&output, "step 20/487");
}

static void quiet_keeps_warnings_only(void **state) {
    static struct output output;
    struct settings config = plain_config();
    config.report.quiet = 1;
    capture(&config, 0, train_a_little, &output);
    assert_string_equal(output.text, "berth: warning: a warning\n");
}

static void warnings_are_coloured_where_colours_are_on(void **state) {
    static struct output output;
    struct settings config = plain_config();
    setenv("FORCE_COLOR", "1", 1);
    capture(&config, 0, train_a_little, &output);
    expect(&output, "\033[1;33mwarning:\033[0m");
    setenv("NO_COLOR", "1", 1);
    capture(&config, 0, train_a_little, &output);
    expect_no(&output, "\033");
    unsetenv("NO_COLOR");
    setenv("TERM", "dumb", 1);
    capture(&config, 0, train_a_little, &output);
    expect_no(&output, "\033");
    unsetenv("TERM");
    unsetenv("FORCE_COLOR");
}

static void deepspeed_steps(struct berth_log log) {
    static const double rates[] = {1.0, 2.0, 230.0, 232.5}, means[] = {NAN, NAN, 229.125, 231.0};
    static const char *const tasks[] = {"squad", "classify", "pretrain", "pretrain"};
    for (int i = 0; i < 4; i++) {
        struct berth_field step[] = {log_integer("step", 10 * (i + 1)),
                                     log_integer("skipped", 17),
                                     log_real("epoch", 0.5),
                                     log_real("learning_rate", i == 3 ? 0.0 : 5e-5),
                                     log_real("samples_per_second", 230.0),
                                     log_real("average_samples_per_second", means[i]),
                                     log_real("last_samples_per_second", rates[i]),
                                     log_real("forward_ms", 12.5),
                                     log_real("backward_ms", 25.0),
                                     log_real("step_ms", 1.0),
                                     log_real("micro_batches_per_update", 2.5),
                                     log_real("comm_exposed_seconds", 0.035),
                                     log_text("task", tasks[i]),
                                     log_integer("updates", 10),
                                     log_integer("sample_count", 320 * (i + 1)),
                                     log_real("loss", 2.0),
                                     log_real("train_ema_loss", 2.5)};
        log_fields(&log, BERTH_STEP, NULL, step, sizeof step / sizeof *step);
    }
    struct berth_field skip[] = {log_integer("step", 41), log_real("attempted_loss_scale", 65536),
                                 log_real("loss_scale", 32768),
                                 log_integer("attempted_hysteresis", 1),
                                 log_integer("hysteresis", 1)};
    log_fields(&log, BERTH_NOTE, "update 41 skipped", skip, 5);
    skip[2].real = 65536;
    skip[3].integer = 2;
    log_fields(&log, BERTH_NOTE, "update 41 skipped", skip, 5);
    struct berth_field coefficients[] = {log_integer("step", 40), log_real("a.weight", 0.125)};
    log_fields(&log, BERTH_VALUES, "lamb_coeffs", coefficients, 2);
    log_fields(&log, BERTH_SUMMARY, NULL, NULL, 0);
    const struct berth_field predicted = log_real("predict_seconds", 8);
    log_fields(&log, BERTH_SUMMARY, "predict squad", &predicted, 1);
}

static void deepspeed_lines_can_be_grepped(void **state) {
    static struct output output;
    struct settings config = plain_config();
    config.report.log_format = "deepspeed";
    capture(&config, 0, deepspeed_steps, &output);
    expect_no(&output, "progress: ");
    expect_no(&output, "throughput");
    config.report.log_format = "deepspeed-bert";
    config.run.deepspeed_config = "ds_config.json";
    capture(&config, 0, deepspeed_steps, &output);
    expect(&output, "[Rank 0] step=10, skipped=17, lr=[5e-05], mom=[(0.9, 0.999)]\n");
    expect(&output, "step=40, skipped=17, lr=[0.0], mom=[(0.9, 0.999)]\n");
    expect(&output, "] [INFO] [timer.py:198:stop] 0/30, RunningAvgSamplesPerSec=229.125, "
                    "CurrSamplesPerSec=230.0, MemAllocated=0.");
    expect(&output, "] 0/40, RunningAvgSamplesPerSec=231.0, CurrSamplesPerSec=232.5, ");
    expect_no(&output, "0/20"); // before the third update
    expect(&output, "] [INFO] [logging.py:68:log_dist] [Rank 0] rank=0 time (ms) | "
                    "forward_microstep: 5.00 | backward_microstep: 13.50 | "
                    "backward_inner_microstep: 10.00 | backward_allreduce_microstep: 3.50 | "
                    "step_microstep: 1.00\n");
    expect(&output, "] [Rank 0] rank=0 time (ms) | forward: 12.50 | backward: 28.50 | "
                    "backward_inner: 25.00 | backward_allreduce: 3.50 | step: 1.00\n");
    expect(&output, "[Rank 0] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: "
                    "65536, reducing to 32768\n");
    expect(&output, "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, but "
                    "hysteresis is 2. Reducing hysteresis to 1\n");
    expect(&output, "\nbert_squad_progress: step=10 lr=5e-05 loss=2.5\n"
                    " At step 10, averaged throughput for 10 rounds is: 230 Samples/s\n");
    expect(&output, "\nbing_bert_progress: step=30, loss=2.0, lr=5e-05, sample_count=960\n"
                    " At step 30, the throughput is 230 Samples/s\n");
    expect_no(&output, "step=20 lr"); // they have no classifier
    expect_no(&output, "a.weight");
    expect(&output, "\nFinished Training\n");
    const char *first = strstr(output.text, "Finished Training");
    assert_null(strstr(first + 1, "Finished Training"));
    int year, month, day, hour, minute, second, millisecond, end = 0;
    sscanf(output.text, "[%4d-%2d-%2d %2d:%2d:%2d,%3d] [INFO] [%n", &year, &month, &day, &hour,
           &minute, &second, &millisecond, &end);
    assert_true(end == (int)strlen("[2026-01-31 12:00:00,123] [INFO] ["));
    config.run.deepspeed_config = NULL; // a program without the engine
    capture(&config, 0, deepspeed_steps, &output);
    expect_no(&output, "[Rank 0]");
    expect(&output, "\nbert_squad_progress: step=10 lr=5e-05 loss=2.5\n");
}

static void read_file(const char *path, struct output *output) {
    int descriptor = open(path, O_RDONLY);
    assert_true(descriptor >= 0);
    drain(descriptor, output);
    close(descriptor);
}

static void json_lines_hold_every_record(void **state) {
    static struct output output;
    const char *path = scratch("summary.jsonl");
    struct settings config = plain_config();
    config.report.json_summary = path;
    capture(&config, 0, train_a_little, &output);
    read_file(path, &output);
    expect(&output, "\"kind\":\"note\",\"text\":\"reading train.json\"}\n");
    expect(&output, "\"kind\":\"step\",\"step\":20,\"total_steps\":487,\"epoch\":0.08,"
                    "\"loss\":1.23456,\"learning_rate\":5e-05,\"samples_per_second\":41.25}\n");
    expect(&output, "\"exact_match\":null}\n"); // NaN is no JSON
    expect_no(&output, "progress");
    int lines = 0;
    for (const char *at = output.text; *at != '\0'; at += strcspn(at, "\n") + 1) {
        assert_memory_equal(at, "{\"time\":", 8);
        lines++;
    }
    assert_int_equal(lines, 6);
    for (int resumed = 1; resumed <= 2; resumed++) { // appends at the end of the file
        config.run.resume_from_checkpoint = resumed == 1 ? "auto" : NULL;
        config.run.resume_step = resumed == 1 ? -1 : 20;
        capture(&config, 0, train_a_little, &output);
        read_file(path, &output);
        lines = 0;
        for (const char *at = output.text; *at != '\0'; at += strcspn(at, "\n") + 1) {
            lines++;
        }
        assert_int_equal(lines, 6 + 6 * resumed);
    }
}

// A run that was killed, or a full disk, left half a line: what a resumed run appends stays apart.
static void half_a_line_is_ended(void **state) {
    static const char half[] = "{\"time\":1,\"kind\":\"st";
    static struct output output;
    const char *path = scratch("summary.jsonl");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fputs(half, file) < 0, 0);
    assert_int_equal(fclose(file), 0);
    struct settings config = plain_config();
    config.report.json_summary = path;
    config.run.resume_from_checkpoint = "auto";
    capture(&config, 0, train_a_little, &output);
    read_file(path, &output);
    expect(&output, "{\"time\":1,\"kind\":\"st\n{\"time\":");
}

static void a_json_file_that_cannot_be_made_is_an_error(void **state) {
    struct settings config = plain_config();
    struct berth_reporter *reporter;
    struct berth_error error = {0};
    config.report.json_summary = "/dev/null/at/all.json";
    assert_int_equal(open_reporter_of(&config, 2, &reporter, &error), BERTH_CANT_CREATE);
    assert_non_null(strstr(error.message, "/dev/null"));
    assert_non_null(strstr(error.message, "json_summary"));
    assert_null(reporter);
}

static void skip_without_full_disk(void) {
    if (access("/dev/full", W_OK) != 0) {
        print_message("no /dev/full here\n");
        skip();
    }
}

static void a_full_disk_is_told_once(void **state) {
    static struct output output;
    struct settings config = plain_config();
    skip_without_full_disk();
    config.report.json_summary = "/dev/full";
    config.run.resume_from_checkpoint = "auto"; // a device has no last line
    capture(&config, 0, train_a_little, &output);
    expect(&output, "json_summary: writing failed");
    const char *first = strstr(output.text, "json_summary");
    assert_null(strstr(first + 1, "json_summary"));
}

static void a_reader_that_went_away_is_no_crash(void **state) {
    int ends[2];
    struct berth_reporter *reporter;
    struct berth_error error;
    struct settings config = plain_config();
    signal(SIGPIPE, SIG_IGN); // as the program does
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_int_equal(open_reporter_of(&config, ends[1], &reporter, &error), BERTH_OK);
    train_a_little(reporter_log(reporter));
    reporter_close(reporter);
    config.report.json_summary = "-";
    config.report.quiet = 1;
    int own = dup(STDOUT_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    assert_int_equal(open_reporter_of(&config, STDOUT_FILENO, &reporter, &error), BERTH_OK);
    train_a_little(reporter_log(reporter));
    assert_int_equal(reporter_check(reporter, &error), BERTH_OK);
    reporter_close(reporter);
    dup2(own, STDOUT_FILENO);
    close(own);
    close(ends[1]);
}

// Returns reporter_check's result after a run whose lines go to `descriptor`, with `path` as
// standard output.
static enum berth_status check_with_output(const struct settings *config, const char *path,
                                           int descriptor) {
    struct berth_reporter *reporter;
    struct berth_error error = {0};
    fflush(stdout);
    int own = dup(STDOUT_FILENO), output = open(path, O_WRONLY);
    assert_true(own >= 0 && output >= 0);
    dup2(output, STDOUT_FILENO);
    close(output);
    enum berth_status status = open_reporter_of(config, descriptor, &reporter, &error);
    if (status == BERTH_OK) {
        train_a_little(reporter_log(reporter));
        status = reporter_check(reporter, &error);
        reporter_close(reporter);
    }
    dup2(own, STDOUT_FILENO);
    close(own);
    return status;
}

static void what_standard_output_lost_is_an_error(void **state) {
    struct settings config = plain_config();
    skip_without_full_disk();
    int full = open("/dev/full", O_WRONLY);
    assert_int_equal(check_with_output(&config, "/dev/null", STDOUT_FILENO), BERTH_OK);
    assert_int_equal(check_with_output(&config, "/dev/full", STDOUT_FILENO), BERTH_IO);
    // Lines elsewhere are for people to watch.
    assert_int_equal(check_with_output(&config, "/dev/null", full), BERTH_OK);
    config.report.json_summary = "-";
    assert_int_equal(check_with_output(&config, "/dev/null", full), BERTH_OK);
    assert_int_equal(check_with_output(&config, "/dev/full", -1), BERTH_IO);
    config.report.json_summary = "/dev/full";
    assert_int_equal(check_with_output(&config, "/dev/null", full), BERTH_OK);
    close(full);
}

static void long_texts_are_cut_not_overrun(void **state) {
    static struct output output;
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct berth_field fields[] = {log_text("a_long_text", text), log_text("another", text)};
    struct berth_record record = {
        .kind = BERTH_STEP, .text = text, .fields = fields, .field_count = 2};
    char line[LINES_SIZE];
    lines_plain(&record, LINES_ALL, SIZE_MAX, line, sizeof line);
    assert_true(strlen(line) < sizeof line);
    lines_row(&fields[0], line, sizeof line);
    assert_true(strlen(line) < sizeof line);
    console_duration(NAN, output.text, sizeof output.text);
    assert_string_equal(output.text, "0:00");
    console_duration(3723.0, output.text, sizeof output.text);
    assert_string_equal(output.text, "1:02:03");
}

// Each key is in one row, tags have a row of their own, and dllogger's names say where they are
// meant.
static void the_table_of_keys_is_sound(void **state) {
    static const char places[] = "plan step note eval summary finetune pretrain predict evaluate";
    for (size_t i = 0; i < key_row_count; i++) {
        const struct key_row *row = &key_rows[i];
        const char *keys = row->keys, *names = row->dllogger;
        char word[KEY_WORD_SIZE];
        size_t count = 0;
        for (; key_next_word(&keys, word); count++) {
            assert_ptr_equal(key_row(word), row);
        }
        assert_true(count > 0 && (count == 1 || (row->tags == NULL && names == NULL)));
        while (key_next_word(&names, word)) {
            char *colon = strchr(word, ':');
            assert_non_null(colon);
            *colon = '\0';
            assert_true(words_contain(places, ' ', word) && colon[1] != '\0');
        }
        const char *slot = row->line != NULL ? strchr(row->line, '%') : NULL;
        assert_true(row->line == NULL || *row->line == '\0' || slot != NULL);
        assert_true(slot == NULL || (slot[1] == 's' && strchr(slot + 1, '%') == NULL));
    }
    const struct key_row *loss = key_row("loss");
    assert_ptr_equal(key_form("eval_masked_lm_loss"), loss); // the longest that it ends with
    assert_ptr_equal(key_form("eval_best_f1"), key_row("best_f1"));
    assert_ptr_not_equal(key_row("masked_lm_loss"), loss);
    assert_ptr_equal(key_row("of another program"), key_row("unknown"));
    assert_null(key_form("unknown")->format);
}

static void json_text_is_escaped_and_repaired(void **state) {
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    json_line_text(&line, "a\"b", "tab\tquote\"back\\nul\001 \xC3\xA4 \xF0\x9F\x98\x80");
    json_line_text(&line, "bad", "x\xFFy\xC3");
    json_line_text(&line, "none", NULL);
    json_line_open(&line, "list", '[');
    json_line_integer(&line, NULL, -5);
    json_line_boolean(&line, NULL, 1);
    json_line_close(&line, ']');
    json_line_close(&line, '}');
    assert_string_equal(line.text, "{\"a\\\"b\":\"tab\\tquote\\\"back\\\\nul\\u0001 \xC3\xA4 "
                                   "\xF0\x9F\x98\x80\",\"bad\":\"x\xEF\xBF\xBDy\xEF\xBF\xBD\","
                                   "\"none\":null,\"list\":[-5,true]}");
    json_line_done(&line);
}

// Terminal control sequences in a name from a file.
#define HOSTILE                                                                                    \
    "a\033]0;owned\a\033[2Jb\x7F\rc\nd\xC2\x9B"                                                    \
    "31m\xE2\x80\xAE\xFF\x80"
#define HARMLESS                                                                                   \
    "a\\x1b]0;owned\\x07\\x1b[2Jb\\x7f\\x0dc\\x0ad\\xc2\\x9b31m\\xe2\\x80\\xae\\xff\\x80"

static void name_things(struct berth_log log) {
    struct berth_field fields[] = {log_text("name", HOSTILE)};
    log_note(&log, "note %s", HOSTILE);
    log_warning(&log, "warning %s", HOSTILE);
    log_fields(&log, BERTH_EVENT, HOSTILE, fields, 1);
    log_fields(&log, BERTH_SUMMARY, HOSTILE, fields, 1);
    log_fields(&log, BERTH_PLAN, HOSTILE, fields, 1);
    log_fields(&log, BERTH_STEP, HOSTILE, fields, 1);
    for (int i = 0; i < 3; i++) {
        log_progress(&log, HOSTILE, i, 2);
    }
}

static void foreign_names_do_not_steer_the_terminal(void **state) {
    static struct output output;
    static const char *const raw[] = {"\033]",    "\033[2J",      "\a",  "\x7F",
                                      "\xC2\x9B", "\xE2\x80\xAE", "\xFF"};
    static const char *const formats[] = {"human", "deepspeed"};
    for (size_t i = 0; i < 4; i++) {
        struct settings config = plain_config();
        config.report.log_format = formats[i / 2];
        capture(&config, i % 2 == 1, name_things, &output);
        expect(&output, "note " HARMLESS);
        expect(&output, "warning");
        for (size_t r = 0; r < sizeof raw / sizeof *raw; r++) {
            expect_no(&output, raw[r]);
        }
    }
    struct berth_error error;
    error_set(&error, BERTH_BAD_DATA, "%s", HOSTILE);
    error_prefix(&error, BERTH_BAD_DATA, "%s", HOSTILE);
    assert_string_equal(error.message, HARMLESS ": " HARMLESS);
    struct json_line line = {0};
    json_line_text(&line, NULL, "\x7F\xC2\x9B\xC2\xA0");
    assert_string_equal(line.text, "\"\\u007f\\u009b\xC2\xA0\"");
    json_line_done(&line);
}

// Cut anywhere on the way, and at the end of the room.
static void escapes_fit(void **state) {
    char shown[256], filtered[256];
    for (size_t size = 1; size < sizeof HARMLESS + 4; size++) {
        size_t length = terminal_escape(shown, size, HOSTILE, "");
        assert_true(length < size);
        assert_int_equal(strncmp(shown, HARMLESS, length), 0);
        assert_int_equal(strlen(shown), length);
    }
    assert_string_equal(shown, HARMLESS);
    static const char text[] = "\xE2\x82\xAC\033\xE2\x82x\xF0\x9F\x98\x80\0\xC3";
    struct terminal_filter filter = {.count = 0};
    size_t used = 0;
    for (size_t i = 0; i < sizeof text - 1; i++) {
        used += terminal_filter_put(&filter, text[i], filtered + used);
    }
    used += terminal_filter_end(&filter, filtered + used);
    filtered[used] = '\0';
    assert_string_equal(filtered, "\xE2\x82\xAC\\x1b\\xe2\\x82x\xF0\x9F\x98\x80\\x00\\xc3");
}

static void columns_count_wide_and_combining_characters(void **state) {
    assert_int_equal(terminal_columns("abc", 3), 3);
    assert_int_equal(terminal_columns("日本", 6), 4);
    assert_int_equal(terminal_columns("e\xCC\x81", 3), 1);
    assert_int_equal(terminal_columns("🤖", 4), 2);
    assert_int_equal(terminal_columns("\xFF\xFE", 2), 2);
}

int main(void) {
    unsetenv("NO_COLOR");
    unsetenv("FORCE_COLOR");
    unsetenv("COLUMNS");
    setenv("TERM", "xterm", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipe_gets_plain_lines),
        cmocka_unit_test(what_nobody_asked_for_is_left_out),
        cmocka_unit_test(scores_have_the_digits_of_their_scale),
        cmocka_unit_test(a_phase_that_is_interrupted_keeps_its_clock),
        cmocka_unit_test(a_terminal_gets_a_bar_that_fits),
        cmocka_unit_test(a_long_bar_loses_no_facts),
        cmocka_unit_test(a_narrow_bar_has_whole_facts),
        cmocka_unit_test(a_terminal_that_cannot_erase_gets_lines),
        cmocka_unit_test(a_narrow_terminal_gets_short_lines),
        cmocka_unit_test(the_bar_is_redrawn_ten_times_a_second),
        cmocka_unit_test(no_progress_means_no_bar),
        cmocka_unit_test(quiet_keeps_warnings_only),
        cmocka_unit_test(warnings_are_coloured_where_colours_are_on),
        cmocka_unit_test(deepspeed_lines_can_be_grepped),
        SCRATCH_TEST(json_lines_hold_every_record),
        SCRATCH_TEST(half_a_line_is_ended),
        cmocka_unit_test(a_json_file_that_cannot_be_made_is_an_error),
        cmocka_unit_test(a_full_disk_is_told_once),
        cmocka_unit_test(a_reader_that_went_away_is_no_crash),
        cmocka_unit_test(what_standard_output_lost_is_an_error),
        cmocka_unit_test(long_texts_are_cut_not_overrun),
        cmocka_unit_test(the_table_of_keys_is_sound),
        cmocka_unit_test(json_text_is_escaped_and_repaired),
        cmocka_unit_test(foreign_names_do_not_steer_the_terminal),
        cmocka_unit_test(escapes_fit),
        cmocka_unit_test(columns_count_wide_and_combining_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
