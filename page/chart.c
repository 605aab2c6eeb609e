// SPDX-License-Identifier: Apache-2.0
#include "page/chart.h"

#include "core/memory.h"
#include "core/number.h"
#include "core/words.h"
#include "report/lines.h"

#include <math.h>
#include <string.h>

// --- axes ----------------------------------------------------------------------------------------

#define SPAN_MIN 1e-290 // a tenth of it does not underflow

// Ticks of bytes are at round numbers of KiB, MiB, ...
static double unit_of(const char *key, double high) {
    double unit = 1;
    while (text_ends_with(key, "bytes") && high / unit >= 1024 && unit < 0x1p50) {
        unit *= 1024;
    }
    return unit;
}

struct axis axis_of(double low, double high, int intervals) {
    if (!isfinite(high - low)) { // no values, or a span that overflows
        return (struct axis){.low = 0, .step = 1, .intervals = 1};
    }
    const double span = high > low ? fmax(high - low, SPAN_MIN) : fmax(fabs(low), 1e-12);
    const double rough = span / intervals, power = pow(10.0, floor(log10(rough)));
    const double lead = rough / power * (1 - 1e-9); // 5.0000000000000001 is 5
    struct axis axis = {.step = power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10)};
    axis.low = floor(low / axis.step + 1e-9) * axis.step;
    // A range that ends at a tick, but for a rounding error, needs no further interval.
    axis.intervals = (int)ceil((high - axis.low) / axis.step - 1e-9);
    axis.intervals = axis.intervals < 1 ? 1 : axis.intervals;
    return axis;
}

double axis_high(const struct axis *axis) {
    return axis->low + axis->step * axis->intervals;
}

double axis_fraction(const struct axis *axis, double value) {
    const double fraction = (value - axis->low) / (axis->step * axis->intervals);
    return fraction > 0 ? fmin(fraction, 1.0) : 0.0;
}

struct axis chart_updates(const struct run_set *set, int intervals) {
    double left = INFINITY, right = -INFINITY;
    for (size_t i = 0; i < set->count; i++) {
        const struct run *run = &set->runs[i];
        for (size_t s = 0; s < run->series_count; s++) {
            const struct run_series *series = &run->series[s];
            left = series->count > 0 ? fmin(left, series->buckets[0].first) : left;
            right =
                series->count > 0 ? fmax(right, series->buckets[series->count - 1].last) : right;
        }
    }
    return axis_of(left >= 0 && left < 0.2 * right ? 0 : left, right, intervals);
}

void chart_scale(struct chart *chart, int intervals) {
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < chart->count; i++) {
        const struct chart_line *line = &chart->lines[i];
        for (size_t b = 0; b < line->count; b++) {
            low = fmin(low, line->buckets[b].min);
            high = fmax(high, line->buckets[b].max);
        }
    }
    if (!isnan(chart->limit)) {
        low = fmin(low, chart->limit);
        high = fmax(high, chart->limit);
    }
    if (low == high) { // a constant has no range
        low = fmin(low, 0);
        high = low < 0 ? 0 : high > 0 ? high : 1;
    }
    // Values that are far from zero compared with their range would look alike on an axis from it.
    const double unit = unit_of(chart->key, high);
    low = low > 0 && (low < 0.5 * high || unit > 1) ? 0 : low;
    chart->y = axis_of(low / unit, high / unit, intervals);
    chart->y.low *= unit;
    chart->y.step *= unit;
}

// --- text ----------------------------------------------------------------------------------------

static int is_whole(double value) {
    return fabs(value) < 1e15 && value == floor(value);
}

void chart_value(const char *key, double value, char *text, size_t size) {
    const struct berth_field whole = {.key = key, .type = BERTH_INTEGER, .integer = 0},
                             real = {.key = key, .type = BERTH_REAL, .real = value};
    struct berth_field field = real;
    if (strcmp(key, "step") == 0 && is_whole(value)) {
        field = whole;
        field.integer = (int64_t)value;
    }
    lines_value(&field, text, size);
}

void chart_tick_label(const char *key, const struct axis *axis, int tick, char *text, size_t size) {
    double value = axis->low + axis->step * tick;
    value = fabs(value) < axis->step * 1e-9 ? 0 : value; // rounding errors, as of 0.3 - 3 x 0.1
    if (text_ends_with(key, "bytes")) {
        static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
        size_t unit = 0;
        for (double high = axis_high(axis); high >= 1024 && unit < 5; high /= 1024, unit++) {
            value /= 1024;
        }
        number_format(text, size, "%.4g %s", value, units[unit]);
    } else if (text_ends_with(key, "flops") || strcmp(key, "step") == 0) {
        chart_value(key, value, text, size);
    } else {
        number_format(text, size, "%.6g", value);
    }
}

static const struct measure {
    const char *key, *title;
} measures[] = {
    {"loss", "Loss"},
    {"masked_lm_loss", "Loss of masked words"},
    {"next_sentence_loss", "Loss of next sentences"},
    {"eval_loss", "Loss of evaluations"},
    {"eval_f1", "F1"},
    {"eval_exact_match", "Exact match"},
    {"eval_exact", "Exact match"},
    {"eval_precision", "Precision"},
    {"eval_recall", "Recall"},
    {"eval_accuracy", "Accuracy"},
    {"eval_triplet_accuracy", "Accuracy of triplets"},
    {"eval_matthews_correlation", "Matthews correlation"},
    {"eval_pearson", "Pearson correlation"},
    {"eval_spearman", "Spearman correlation"},
    {"eval_mrr@10", "Mean reciprocal rank of the first 10"},
    {"eval_perplexity", "Perplexity"},
    {"eval_masked_lm_accuracy", "Accuracy of masked words, evaluated"},
    {"eval_next_sentence_accuracy", "Accuracy of next sentences, evaluated"},
    {"eval_masked_lm_loss", "Loss of masked words, evaluated"},
    {"eval_next_sentence_loss", "Loss of next sentences, evaluated"},
    {"learning_rate", "Learning rate"},
    {"grad_norm", "Norm of the gradient"},
    {"samples_per_second", "Samples per second"},
    {"tokens_per_second", "Tokens per second"},
    {"mfu", "Model FLOPs utilisation"},
    {"model_flops", "Model FLOPs per second"},
    {"rss_bytes", "Memory"},
    {"loss_scale", "Loss scale"},
    {"skipped", "Skipped updates"},
    {"comm_exposed_seconds", "Seconds waiting for exchanges"},
    {"data_wait_ms", "Milliseconds waiting for data"},
    {"eval_HasAns_f1", "F1 of questions with an answer"},
    {"eval_HasAns_exact", "Exact match of questions with an answer"},
    {"eval_NoAns_f1", "F1 of questions without an answer"},
    {"eval_NoAns_exact", "Exact match of questions without an answer"},
    {"eval_best_f1", "F1 at the best threshold"},
    {"eval_best_f1_thresh", "Best threshold for F1"},
    {"eval_best_exact", "Exact match at the best threshold"},
    {"eval_best_exact_thresh", "Best threshold for exact match"},
    {"eval_samples_per_second", "Samples per second in evaluations"},
    {"eval_tokens_per_second", "Tokens per second in evaluations"},
};
#define MEASURES (sizeof measures / sizeof *measures)

const char *chart_title(const char *key) {
    for (size_t i = 0; i < MEASURES; i++) {
        if (strcmp(measures[i].key, key) == 0) {
            return measures[i].title;
        }
    }
    return key;
}

// --- series --------------------------------------------------------------------------------------

static int is_listed(const char *const *keys, size_t count, const char *key) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(keys[i], key) == 0) {
            return 1;
        }
    }
    return 0;
}

// The rate of FLOPs is shown only if its fraction of the peak is unknown.
static int is_replaced(const struct run_set *set, const char *key) {
    for (size_t i = 0; i < set->count && strcmp(key, "model_flops") == 0; i++) {
        if (run_series_find(&set->runs[i], "model_flops") != NULL &&
            run_series_find(&set->runs[i], "mfu") == NULL) {
            return 0;
        }
    }
    return strcmp(key, "model_flops") == 0;
}

// Series that others show better: running means, last losses of windows, a second measure of speed.
static int is_redundant(const char *key) {
    static const char *const keys[] = {"train_ema_loss",
                                       "step_loss",
                                       "final_loss",
                                       "average_training_time_step",
                                       "average_samples_per_second",
                                       "last_samples_per_second"};
    return is_listed(keys, sizeof keys / sizeof *keys, key);
}

size_t chart_keys(const struct run_set *set, const char ***keys) {
    size_t total = MEASURES, count = 0;
    for (size_t i = 0; i < set->count; i++) {
        total += set->runs[i].series_count;
    }
    const char **all = memory_array(total, sizeof *all);
    *keys = all;
    for (size_t m = 0; m < MEASURES && all != NULL; m++) {
        for (size_t i = 0; i < set->count && !is_replaced(set, measures[m].key); i++) {
            if (run_series_find(&set->runs[i], measures[m].key) != NULL) {
                all[count++] = measures[m].key;
                break;
            }
        }
    }
    for (size_t i = 0; i < set->count && all != NULL; i++) {
        const struct run *run = &set->runs[i];
        for (size_t s = 0; s < run->series_count; s++) {
            const char *name = run->series[s].name;
            if (!is_listed(all, count, name) && !is_redundant(name) && !is_replaced(set, name)) {
                all[count++] = name;
            }
        }
    }
    return count;
}

size_t chart_lines(const struct run_set *set, const char *key, struct chart_line *lines) {
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct run_series *series = run_series_find(&set->runs[i], key);
        if (series != NULL && series->count > 0) {
            lines[count++] = (struct chart_line){.name = set->runs[i].name,
                                                 .buckets = series->buckets,
                                                 .count = series->count,
                                                 .run = i};
        }
    }
    return count;
}
