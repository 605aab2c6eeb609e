// SPDX-License-Identifier: Apache-2.0
// The reader of logs, what the HTML report and the plots make of it, and the log that a job writes.
#include "core/log.h"
#include "core/scratch.h"
#include "page/chart.h"
#include "page/plot.h"
#include "report/run.h"
#include "report/run_log.h"

#include <math.h>

static void feed(struct run *run, const char *text) {
    run_feed(run, text, strlen(text));
}

static struct run run_of(const char *text) {
    struct run run;
    struct berth_error error;
    assert_int_equal(run_init(&run, "a run", &error), BERTH_OK);
    feed(&run, text);
    assert_int_equal(run_end(&run, &error), BERTH_OK);
    return run;
}

static char *page_of(const struct run *run) {
    const struct run_set set = {.runs = (struct run *)run, .count = 1};
    struct buffer page = {0};
    struct berth_error error;
    assert_int_equal(html_put_report(&set, &page, &error), BERTH_OK);
    buffer_put_byte(&page, '\0');
    return page.bytes;
}

static void assert_has(const char *text, const char *part) {
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is missing", part);
    }
}

// --- series --------------------------------------------------------------------------------------

static void test_records(void **state) {
    (void)state;
    struct run run =
        run_of("{\"kind\":\"event\",\"text\":\"Config\",\"time\":100,\"seed\":\"7\"}\n"
               "{\"kind\":\"plan\",\"text\":\"memory\",\"time\":100,\"plan_bytes\":2048}\n"
               "not json\n"
               "{\"kind\":\"step\",\"time\":101,\"step\":1,\"total_steps\":3,\"loss\":2.5,\"task\":"
               "\"x\"}\r\n"
               "\n"
               "{\"kind\":\"step\",\"time\":102,\"step\":2,\"loss\":null,\"updates\":1}\n"
               "{\"kind\":\"eval\",\"time\":102,\"step\":2,\"f1\":50,\"eval_loss\":1}\n"
               "{\"kind\":\"warning\",\"text\":\"a warning\"}\n"
               "{\"kind\":\"step\",\"step\":3,\"lo");
    assert_int_equal(run.records, 6);
    assert_int_equal(run.skipped, 2);
    const struct run_series *loss = run_series_find(&run, "loss");
    assert_int_equal(loss->count, 1); // null is no number
    assert_true(loss->buckets[0].last == 1 && run_mean(&loss->buckets[0]) == 2.5);
    assert_true(run_mean(&run_series_find(&run, "eval_f1")->buckets[0]) == 50);
    assert_non_null(run_series_find(&run, "eval_loss"));
    assert_null(run_series_find(&run, "eval_eval_loss"));
    assert_null(run_series_find(&run, "updates"));
    assert_true(run.total_steps == 3);
    assert_int_equal(run.process_count, 1);
    assert_true(run.processes[0].begin == 100 && run.processes[0].end == 102);
    assert_true(run.processes[0].first == 1 && run.processes[0].last == 2);
    const json *memory = json_member(run.plan, "memory");
    assert_int_equal(json_as_integer(json_member(memory, "plan_bytes")), 2048);
    assert_null(run.summary);
    assert_int_equal(json_length(run.warnings), 1);
    run_done(&run);
}

// A resumed process repeats updates from its checkpoint on.
static void test_resumed(void **state) {
    (void)state;
    struct run run =
        run_of("{\"kind\":\"event\",\"text\":\"Config\"}\n"
               "{\"kind\":\"step\",\"step\":1,\"loss\":3}\n"
               "{\"kind\":\"step\",\"step\":2,\"loss\":2}\n"
               "{\"kind\":\"step\",\"step\":3,\"loss\":1}\n"
               "{\"kind\":\"event\",\"text\":\"Config\"}\n"
               "{\"kind\":\"plan\",\"text\":\"files\",\"resumed_from\":\"out/checkpoint-1\"}\n"
               "{\"kind\":\"step\",\"step\":2,\"loss\":2.5}\n"
               "{\"kind\":\"step\",\"step\":3,\"loss\":1.5}\n"
               "{\"kind\":\"summary\",\"steps\":3,\"model_flops\":200,\"mfu\":0.5}\n");
    const struct run_series *loss = run_series_find(&run, "loss");
    assert_int_equal(loss->count, 3);
    assert_true(run_mean(&loss->buckets[1]) == 2.5 && run_mean(&loss->buckets[2]) == 1.5);
    assert_int_equal(run.process_count, 2);
    assert_null(run.processes[0].resumed_from);
    assert_string_equal(run.processes[1].resumed_from, "out/checkpoint-1");
    assert_true(run.processes[1].first == 2);
    char *page = page_of(&run);
    assert_has(page, "class=\"resumed s0\"");
    assert_has(page, "out/checkpoint-1");
    memory_free(page);
    run_done(&run);
}

// However long the series, least and most stay, and the mean is that of all values.
static void test_long_series(void **state) {
    (void)state;
    struct run run;
    assert_int_equal(run_init(&run, "long", NULL), BERTH_OK);
    const int count = 100000;
    for (int i = 1; i <= count; i++) {
        run_add(&run, "loss", i, i == 77777 ? 900 : i == 33333 ? -900 : i % 2);
    }
    const struct run_series *series = run_series_find(&run, "loss");
    assert_true(series->count <= RUN_BUCKETS && series->count >= RUN_BUCKETS / 4);
    double min = 0, max = 0, sum = 0;
    int64_t values = 0;
    for (size_t i = 0; i < series->count; i++) {
        const struct run_bucket *bucket = &series->buckets[i];
        min = fmin(min, bucket->min);
        max = fmax(max, bucket->max);
        sum += bucket->sum;
        values += bucket->count;
        assert_true(i == 0 || bucket->first == series->buckets[i - 1].last + 1);
        assert_true(bucket->count <= 2 * count / RUN_BUCKETS); // the beginning is not coarser
    }
    assert_int_equal(values, count);
    assert_true(min == -900 && max == 900);
    assert_true(sum == 900 - 1 - 900 - 1 + count / 2); // both outliers have odd numbers
    assert_true(series->buckets[series->count - 1].last == count);
    assert_true(series->buckets[series->count - 1].latest == count % 2);
    char *page = page_of(&run);
    assert_true(strlen(page) < 200000);
    assert_has(page, "class=\"band\"");
    memory_free(page);
    run_done(&run);
}

static void test_bad_numbers(void **state) {
    (void)state;
    struct run run;
    assert_int_equal(run_init(&run, "bad", NULL), BERTH_OK);
    run_add(&run, "loss", NAN, 1);
    run_add(&run, "loss", 1, INFINITY);
    run_add(&run, "loss", 1e300, 1);
    run_add(&run, "loss", 1, 1e300);
    assert_null(run_series_find(&run, "loss"));
    run_done(&run);
}

static void test_pieces(void **state) {
    (void)state;
    const char text[] =
        "{\"kind\":\"step\",\"step\":1,\"loss\":3}\n{\"kind\":\"step\",\"step\":2,\"loss\":2}";
    struct run run;
    struct berth_error error;
    assert_int_equal(run_init(&run, "pieces", &error), BERTH_OK);
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        run_feed(&run, &text[i], 1);
    }
    assert_int_equal(run_end(&run, &error), BERTH_OK);
    assert_int_equal(run.records, 2); // the last line is complete but for its end
    assert_int_equal(run_series_find(&run, "loss")->count, 2);
    run_done(&run);
}

// A line of more than a mebibyte is skipped, the next one is not.
static void test_long_line(void **state) {
    (void)state;
    struct run run;
    struct berth_error error;
    assert_int_equal(run_init(&run, "long line", &error), BERTH_OK);
    feed(&run, "{\"kind\":\"step\",\"step\":1,\"loss\":1,\"text\":\"");
    for (int i = 0; i < 1 << 15; i++) {
        feed(&run, "thirty-two bytes of a long text.");
    }
    feed(&run, "\"}\n{\"kind\":\"step\",\"step\":2,\"loss\":2}\n");
    assert_int_equal(run_end(&run, &error), BERTH_OK);
    assert_int_equal(run.skipped, 1);
    assert_int_equal(run.records, 1);
    run_done(&run);
}

// --- details -------------------------------------------------------------------------------------

// Those of a later evaluation, or of a repeated one, replace those before.
static void test_details(void **state) {
    (void)state;
    struct run run =
        run_of("{\"kind\":\"detail\",\"text\":\"length\",\"from\":1,\"to\":8,\"sequences\":4,"
               "\"tokens\":20}\n"
               "{\"kind\":\"detail\",\"text\":\"length\",\"from\":9,\"to\":16,\"sequences\":1,"
               "\"tokens\":10}\n"
               "{\"kind\":\"detail\",\"text\":\"sample\",\"step\":1,\"question\":\"first\"}\n"
               "{\"kind\":\"detail\",\"text\":\"sample\",\"step\":1,\"question\":\"second\"}\n"
               "{\"kind\":\"eval\",\"step\":1,\"f1\":1}\n"
               "{\"kind\":\"detail\",\"text\":\"sample\",\"step\":1,\"question\":\"again\"}\n"
               "{\"kind\":\"detail\",\"text\":\"confusion\",\"step\":2,\"count\":3}\n");
    assert_int_equal(json_length(run_details(&run, "length")), 2);
    assert_int_equal(json_length(run_details(&run, "sample")), 0);
    assert_int_equal(json_length(run_details(&run, "confusion")), 1);
    feed(&run, "{\"kind\":\"detail\",\"text\":\"length\",\"from\":1,\"to\":8,\"sequences\":4,"
               "\"tokens\":20}\n");
    assert_int_equal(json_length(run_details(&run, "length")), 1);
    run_done(&run);
}

static void test_padding(void **state) {
    (void)state;
    struct run run = run_of("{\"kind\":\"detail\",\"text\":\"length\",\"from\":1,\"to\":8,"
                            "\"sequences\":4,\"tokens\":20,"
                            "\"longest\":15,\"max_seq_length\":32}\n"
                            "{\"kind\":\"detail\",\"text\":\"length\",\"from\":9,\"to\":16,"
                            "\"sequences\":1,\"tokens\":15,"
                            "\"longest\":15,\"max_seq_length\":32}\n");
    char *page = page_of(&run);
    assert_has(page, "5 sequences of 7.0 tokens in the mean, 15 in the longest");
    assert_has(page, "<td>to max_seq_length, 32</td><td>160</td><td>4.57</td>"); // 160 / 35
    assert_has(page, "<td>to the longest sequence, 15</td><td>75</td><td>2.14</td>");
    memory_free(page);
    run_done(&run);
}

static void test_confusion(void **state) {
    (void)state;
    struct run run = run_of("{\"kind\":\"detail\",\"text\":\"confusion\",\"step\":1,\"expected\":"
                            "\"a\",\"predicted\":\"a\",\"count\":3}\n"
                            "{\"kind\":\"detail\",\"text\":\"confusion\",\"step\":1,\"expected\":"
                            "\"a\",\"predicted\":\"b\",\"count\":1}\n");
    char *page = page_of(&run);
    assert_has(
        page,
        "<th scope=\"row\">a</th><td class=\"r3\">3</td><td class=\"w1\">1</td><td>75.0 %</td>");
    assert_has(page, "<th scope=\"row\">b</th><td class=\"w0\">0</td><td class=\"r0\">0</td>");
    memory_free(page);
    run_done(&run);
}

// Foreign text is text; marks are at characters, also where both answers overlap.
static void test_samples(void **state) {
    (void)state;
    struct run run = run_of(
        "{\"kind\":\"detail\",\"text\":\"sample\",\"step\":1,\"question\":\"<script>alert(1)</"
        "script>\","
        "\"context\":\"\\u00c5da <b> saw Hugo\",\"predicted\":\"<b> saw\",\"expected\":\"saw "
        "Hugo\","
        "\"predicted_begin\":4,\"predicted_end\":11,\"expected_begin\":8,\"expected_end\":16,"
        "\"score\":50,\"probability\":0.25}\n"
        "{\"kind\":\"detail\",\"text\":\"sample\",\"step\":1,\"question\":\"q\",\"context\":"
        "\"short\","
        "\"predicted\":\"\",\"predicted_begin\":-5,\"predicted_end\":1e18}\n"
        "{\"kind\":\"warning\",\"text\":\"</ul><img src=x>\"}\n");
    char *page = page_of(&run);
    assert_has(page, "&lt;script&gt;alert(1)&lt;/script&gt;");
    assert_null(strstr(page, "<script>alert"));
    assert_null(strstr(page, "<img"));
    assert_has(page,
               "\xc3\x85"
               "da <mark class=\"wrong\">&lt;b&gt; </mark><mark class=\"both\">saw</mark><mark "
               "class=\"right\"> Hugo</mark></p>");
    assert_has(page, "<p class=\"text\">short</p>");
    assert_has(page, "(no answer)");
    memory_free(page);
    run_done(&run);
}

// A run's folder may have any name.
static void test_ill_formed_name(void **state) {
    (void)state;
    struct run run;
    struct berth_error error;
    assert_int_equal(run_init(&run, "run-\xff<\xc3\xa9\xe2\x82", &error), BERTH_OK);
    feed(&run, "{\"kind\":\"step\",\"step\":1,\"loss\":1}\n");
    char *page = page_of(&run);
    assert_has(page, "run-\xef\xbf\xbd&lt;\xc3\xa9\xef\xbf\xbd");
    assert_null(strchr(page, '\xff'));
    memory_free(page);
    run_done(&run);
}

// --- other programs ------------------------------------------------------------------------------

static void test_trainer(void **state) {
    (void)state;
    struct run run;
    struct berth_error error;
    const char *path = scratch("trainer_state.json");
    const char text[] =
        "{\n \"log_history\": [\n  {\"step\": 5, \"loss\": 2.0, \"learning_rate\": 1e-5, "
        "\"grad_norm\": 3.5},\n  {\"step\": 5, \"eval_f1\": 40.0},\n  {\"step\": 10, \"loss\": "
        "1.0},\n"
        "  {\"step\": 10, \"train_runtime\": 12.5, \"train_loss\": 1.5}\n ],\n \"max_steps\": "
        "10\n}\n";
    assert_int_equal(file_write(path, text, sizeof text - 1, &error), BERTH_OK);
    assert_int_equal(run_read(&run, path, &error), BERTH_OK);
    assert_int_equal(run_series_find(&run, "loss")->count, 2);
    assert_int_equal(run_series_find(&run, "grad_norm")->count, 1);
    assert_true(run_mean(&run_series_find(&run, "eval_f1")->buckets[0]) == 40);
    assert_non_null(json_member(run.summary, "train_runtime"));
    assert_true(run.total_steps == 10);
    assert_int_equal(run.has_ended, 1);
    assert_int_equal(run.skipped, 0);
    run_done(&run);
}

// Python's json writes numbers that are not finite as words, which JSON does not have. A file
// whose bytes are on one line is the same.
static void test_trainer_diverged(void **state) {
    (void)state;
    char text[] = "{\n \"log_history\": [{\"step\": 5, \"loss\": 2.0, \"grad_norm\": -Infinity},\n"
                  "  {\"step\": 10, \"loss\": NaN, \"grad_norm\":Infinity, \"text\": \"a "
                  "\\\"NaN\"},\n {\"step\": 15, \"loss\": 1.0}],\n \"best_metric\": NaN\n}\n";
    for (int one_line = 0; one_line < 2; one_line++) {
        struct run run;
        struct berth_error error;
        const char *path = scratch("diverged.json");
        assert_int_equal(file_write(path, text, sizeof text - 1, &error), BERTH_OK);
        assert_int_equal(run_read(&run, path, &error), BERTH_OK);
        const struct run_series *loss = run_series_find(&run, "loss");
        assert_int_equal(loss->count, 2);
        assert_true(loss->buckets[1].last == 15);
        assert_null(run_series_find(&run, "grad_norm"));
        assert_int_equal(run.skipped, 0);
        run_done(&run);
        for (char *at = text; (at = strchr(at, '\n')) != NULL && at[1] != '\0';) {
            *at = ' ';
        }
    }
}

// On one line, however long it is; and a long line that is no log.
static void test_trainer_on_a_long_line(void **state) {
    (void)state;
    const size_t padding = (size_t)2 << 20;
    const char begin[] = "{\"log_history\": [{\"step\": 5, \"loss\": 2.0}], \"text\": \"";
    const char *path = scratch("long.json");
    char *text = memory_new(padding);
    assert_non_null(text);
    memset(text, 'a', padding);
    memcpy(text, begin, sizeof begin - 1);
    for (int is_whole = 1; is_whole >= 0; is_whole--) {
        struct run run;
        struct berth_error error;
        memcpy(text + padding - 3, is_whole ? "\"}\n" : "a}\n", 3);
        assert_int_equal(file_write(path, text, padding, &error), BERTH_OK);
        assert_int_equal(run_read(&run, path, &error), is_whole ? BERTH_OK : BERTH_BAD_DATA);
        if (is_whole) {
            assert_int_equal(run_series_find(&run, "loss")->count, 1);
        } else {
            assert_has(error.message, "not a log");
        }
        run_done(&run);
    }
    memory_free(text);
}

// A checkpoint before the first entry, as a Trainer writes it on several lines, and on one.
static void test_trainer_without_entries(void **state) {
    (void)state;
    static const char *const texts[] = {"{\n \"log_history\": [],\n \"max_steps\": 10\n}\n",
                                        "{\"log_history\": [], \"max_steps\": 10}\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct run run;
        struct berth_error error;
        const char *path = scratch("trainer_state.json");
        assert_int_equal(file_write(path, texts[i], strlen(texts[i]), &error), BERTH_OK);
        assert_int_equal(run_read(&run, path, &error), BERTH_BAD_DATA);
        assert_has(error.message, "no records: its \"log_history\" is empty");
        run_done(&run);
    }
}

// A Trainer's checkpoint is written before the entry that sums up: its last one has all updates.
static void test_trainer_checkpoints(void **state) {
    (void)state;
    for (int step = 5; step <= 10; step += 5) {
        struct run run;
        struct berth_error error;
        char text[128];
        snprintf(text, sizeof text,
                 "{\"log_history\": [{\"step\": 5, \"loss\": 2}], \"global_step\": %d, "
                 "\"max_steps\": 10}\n",
                 step);
        assert_int_equal(run_init(&run, "run", &error), BERTH_OK);
        run_feed(&run, text, strlen(text));
        assert_int_equal(run_end(&run, &error), BERTH_OK);
        assert_int_equal(run.has_ended, step == 10);
        run_done(&run);
    }
}

static void test_benchmarks(void **state) {
    (void)state;
    struct run run = run_of("{\"config\":\"base\",\"samples_per_second\":12.5,\"operations\":"
                            "[{\"name\":\"gemm\",\"gflops\":100.5}]}\n");
    char *page = page_of(&run);
    assert_has(page, "<td>12.5</td>");
    assert_has(page, "<td>gemm</td><td>100.5 GFLOP</td>");
    memory_free(page);
    feed(&run, "{\"hosts\":2,\"efficiency\":0.5}\n{\"hosts\":4,\"efficiency\":0.25}\n");
    assert_int_equal(json_length(json_member(run.figures, "results")), 3);
    run_done(&run);
}

static void test_no_log(void **state) {
    (void)state;
    struct run run;
    struct berth_error error;
    assert_int_equal(run_read(&run, scratch("nowhere"), &error), BERTH_NO_INPUT);
    run_done(&run);
    assert_int_equal(dir_make(scratch("empty"), &error), BERTH_OK);
    assert_int_equal(run_read(&run, scratch("empty"), &error), BERTH_NO_INPUT);
    assert_message_has(&error, "no log in this folder");
    run_done(&run);
    assert_int_equal(file_write(scratch("text"), "hello\n", 6, &error), BERTH_OK);
    assert_int_equal(run_read(&run, scratch("text"), &error), BERTH_BAD_DATA);
    assert_message_has(&error, "not a log");
    run_done(&run);
}

// --- charts --------------------------------------------------------------------------------------

static void test_axes(void **state) {
    (void)state;
    const struct {
        double low, high;
        int intervals;
        double begin, end;
    } cases[] = {{0, 10, 5, 0, 10},      {0, 41, 6, 0, 50},     {0.3, 0.9, 3, 0.2, 1},
                 {-1, 1, 4, -1, 1},      {0, 1e-5, 2, 0, 1e-5}, {5, 5, 4, 4, 6},
                 {1e9, 3e9, 4, 1e9, 3e9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct axis axis = axis_of(cases[i].low, cases[i].high, cases[i].intervals);
        assert_true(axis.low <= cases[i].low && axis_high(&axis) >= cases[i].high * (1 - 1e-9));
        assert_true(fabs(axis.low - cases[i].begin) < 1e-6 * fabs(cases[i].end));
        assert_true(fabs(axis_high(&axis) - cases[i].end) < 1e-6 * fabs(cases[i].end));
        assert_in_range(axis.intervals, 1, 2 * cases[i].intervals);
    }
}

// Of no values, of more than a number can span, and of next to nothing: still numbers.
static void test_axes_at_the_limits(void **state) {
    (void)state;
    const double ranges[][2] = {
        {INFINITY, -INFINITY}, {-1.7e308, 1.7e308}, {0, 5e-324}, {0, 1e-300}, {1e300, 1.1e300}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        const struct axis axis = axis_of(ranges[i][0], ranges[i][1], 6);
        assert_true(isfinite(axis.low) && isfinite(axis.step) && axis.step > 0);
        assert_in_range(axis.intervals, 1, 12);
        assert_true(axis_fraction(&axis, 1) >= 0 && axis_fraction(&axis, 1) <= 1);
    }
}

// The axis of a constant reaches to zero.
static void test_axes_of_constants(void **state) {
    (void)state;
    const double values[] = {1, 0.4, 40, -2, 0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const double value = values[i];
        const struct run_bucket bucket = {.min = value, .max = value, .sum = value, .count = 1};
        const struct chart_line line = {.buckets = &bucket, .count = 1};
        struct chart chart = {.key = "score", .lines = &line, .count = 1, .limit = NAN};
        chart_scale(&chart, 4);
        assert_true(fabs(chart.y.low - fmin(value, 0)) < 1e-9);
        assert_true(fabs(axis_high(&chart.y) - (value != 0 ? fmax(value, 0) : 1)) < 1e-9);
    }
}

static char *plot_of(const struct run_set *set, const struct plot_style *style) {
    struct buffer text = {0};
    struct berth_error error;
    assert_int_equal(plot_draw(set, style, &text, &error), BERTH_OK);
    buffer_put_byte(&text, '\0');
    return text.bytes;
}

// A straight line from one corner to the other: the first cell has its upper dots, the last one its
// lower.
static void test_braille(void **state) {
    (void)state;
    struct run run = run_of(
        "{\"kind\":\"step\",\"step\":0,\"loss\":10}\n{\"kind\":\"step\",\"step\":10,\"loss\":0}\n");
    const struct run_set set = {.runs = &run, .count = 1};
    const struct plot_style style = {.columns = 1, .rows = 1}; // at least 60 by 4
    char *text = plot_of(&set, &style);
    const char *line = strstr(text, "10 \xe2\x94\x82");
    assert_non_null(line);
    assert_memory_equal(line + 6, "\xe2\xa0\x89", 3); // both dots of the highest row
    const char *last = strstr(text, " 0 \xe2\x94\x82");
    assert_non_null(last);
    const size_t length = strcspn(last + 6, "\n");
    assert_int_equal(length, 3 * (60 - 12));
    assert_memory_equal(last + 6 + length - 3, "\xe2\xa3\x80", 3); // both of the lowest
    assert_has(text, "last 0.0000");
    assert_null(strchr(text, '\033'));
    memory_free(text);
    run_done(&run);
}

static void test_plots_of_several(void **state) {
    (void)state;
    struct run runs[] = {run_of("{\"kind\":\"step\",\"step\":1,\"loss\":10}\n{\"kind\":\"step\","
                                "\"step\":9,\"loss\":1}\n"),
                         run_of("{\"kind\":\"step\",\"step\":1,\"loss\":9}\n{\"kind\":\"step\","
                                "\"step\":9,\"loss\":2}\n")};
    const struct run_set set = {.runs = runs, .count = 2};
    struct plot_style style = {.columns = 80, .rows = 6};
    char *plain = plot_of(&set, &style);
    const char *first = strstr(plain, "Loss");
    assert_non_null(strstr(first + 1, "Loss")); // each has a chart
    style.colour = 1;
    char *coloured = plot_of(&set, &style);
    first = strstr(coloured, "Loss");
    assert_null(strstr(first + 1, "Loss"));
    assert_has(coloured, "\033[36m");
    assert_has(coloured, "\033[33m");
    memory_free(plain);
    memory_free(coloured);
    style.series = "loss,nothing";
    struct buffer text = {0};
    struct berth_error error;
    assert_int_equal(plot_draw(&set, &style, &text, &error), BERTH_USAGE);
    assert_message_has(&error, "series nothing: no such series; expected one of: loss");
    buffer_done(&text);
    run_done(&runs[0]);
    run_done(&runs[1]);
}

// --- the log of a job ----------------------------------------------------------------------------

static void step(const struct berth_log *log, int64_t number, double loss) {
    const struct berth_field fields[] = {log_integer("step", number), log_real("loss", loss)};
    log_fields(log, BERTH_STEP, NULL, fields, 2);
}

static int passed_on;

static void count_record(void *context, const struct berth_record *record) {
    (void)context;
    passed_on += record->kind == BERTH_STEP;
}

// Records from before the folder exists are in the log; half a line of a killed process stays apart
// from what is appended; the report is there from the beginning.
static void test_run_log(void **state) {
    (void)state;
    struct run_log *log;
    struct berth_error error;
    const char *folder = scratch("out"), *path = scratch("out/log.jsonl"),
               *report = scratch("pages/r.html");
    const struct run_log_settings settings = {.next = {.write = count_record}, .report = report};
    assert_int_equal(dir_make(folder, &error), BERTH_OK);
    passed_on = 0;
    assert_int_equal(run_log_open(&settings, &log, &error), BERTH_OK);
    struct berth_log own = run_log_log(log);
    step(&own, 1, 3);
    assert_false(file_exists(path));
    assert_int_equal(run_log_begin(log, folder, 0, &error), BERTH_OK);
    assert_true(file_exists(report));
    step(&own, 2, 2);
    run_log_close(log);
    assert_int_equal(passed_on, 2);

    FILE *file = fopen(path, "a");
    fputs("{\"kind\":\"step\",\"st", file);
    fclose(file);
    assert_int_equal(run_log_open(&settings, &log, &error), BERTH_OK);
    own = run_log_log(log);
    assert_int_equal(run_log_begin(log, folder, 1, &error), BERTH_OK);
    step(&own, 3, 1);
    run_log_close(log);
    struct run run;
    assert_int_equal(run_read(&run, folder, &error), BERTH_OK);
    assert_int_equal(run_series_find(&run, "loss")->count, 3);
    assert_int_equal(run.skipped, 1);
    run_done(&run);
    char *page;
    size_t length;
    assert_int_equal(file_read(report, 1 << 20, &page, &length, &error), BERTH_OK);
    assert_has(page, "data-points=\"1 3 2 2 3 1\"");
    memory_free(page);
}

static void test_run_log_fails(void **state) {
    (void)state;
    struct run_log *log;
    struct berth_error error;
    const struct run_log_settings settings = {.report = "/dev/null/r.html"};
    assert_int_equal(dir_make(scratch("out2"), &error), BERTH_OK);
    assert_int_equal(run_log_open(&settings, &log, &error), BERTH_OK);
    assert_int_equal(run_log_begin(log, scratch("out2"), 0, &error), BERTH_CANT_CREATE);
    assert_message_has(&error, "report: ");
    run_log_close(log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_long_series),
        cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_details),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_confusion),
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_ill_formed_name),
        SCRATCH_TEST(test_trainer),
        SCRATCH_TEST(test_trainer_diverged),
        SCRATCH_TEST(test_trainer_without_entries),
        SCRATCH_TEST(test_trainer_on_a_long_line),
        cmocka_unit_test(test_trainer_checkpoints),
        cmocka_unit_test(test_benchmarks),
        SCRATCH_TEST(test_no_log),
        cmocka_unit_test(test_axes),
        cmocka_unit_test(test_axes_at_the_limits),
        cmocka_unit_test(test_axes_of_constants),
        cmocka_unit_test(test_braille),
        cmocka_unit_test(test_plots_of_several),
        SCRATCH_TEST(test_run_log),
        SCRATCH_TEST(test_run_log_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
