// SPDX-License-Identifier: Apache-2.0
// What charts have in common, on paper and in a terminal: which series of a run are shown and under
// which title, the range of an axis, the text of a tick. html_chart.c and plot.c draw them; a run's
// series come from report/run.h.
#include "page/chart.h"

#include "core/memory.h"
#include "core/number.h"
#include "core/text_util.h"
#include "report/keys.h"
#include "report/lines.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// --- axes ----------------------------------------------------------------------------------------

#define SPAN_MIN 1e-290 // a tenth of it does not underflow

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
    left = left >= 0 && left < 0.2 * right ? 0 : left;
    const double span = right - left;
    if (!(span >= 1 && span < 1e15 && left == floor(left) && right == floor(right))) {
        return axis_of(left, right, intervals);
    }
    // Ends where the data ends, so a tick may be up to half an update beside its number; most
    // numbers of updates are divided without.
    int chosen = (int)fmin(intervals, span);
    for (int exact = chosen; exact > 2; exact--) {
        if (fmod(span, exact) == 0) {
            chosen = exact;
            break;
        }
    }
    return (struct axis){.low = left, .step = span / chosen, .intervals = chosen};
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
    // Ticks of bytes are at round numbers of KiB, MiB, ...
    double unit = 1;
    while (text_ends_with(chart->key, "bytes") && high / unit >= 1024 && unit < 0x1p50) {
        unit *= 1024;
    }
    low = low > 0 && (low < 0.5 * high || unit > 1) ? 0 : low;
    chart->y = axis_of(low / unit, high / unit, intervals);
    chart->y.low *= unit;
    chart->y.step *= unit;
}

// --- text ----------------------------------------------------------------------------------------

void chart_value(const char *key, double value, char *text, size_t size) {
    const struct berth_field whole = {.key = key, .type = BERTH_INTEGER, .integer = 0},
                             real = {.key = key, .type = BERTH_REAL, .real = value};
    struct berth_field field = real;
    if (strcmp(key, "step") == 0 && fabs(value) < 1e15 && value == floor(value)) {
        field = whole;
        field.integer = (int64_t)value;
    }
    lines_value(&field, text, size);
}

// All ticks of an axis of small numbers have exponents, as 5e-05 and 1e-04, with the digits that
// tell two ticks apart.
static void put_scientific(double value, double step, char *text, size_t size) {
    char mantissa[64];
    const double exponent = floor(log10(fabs(value)) + 1e-9);
    const int digits = (int)fmax(exponent - floor(log10(step) + 1e-9), 0);
    number_format(mantissa, sizeof mantissa, "%.*f", digits, value / pow(10, exponent));
    if (strchr(mantissa, '.') != NULL) { // 1.0 is 1
        for (size_t end = strlen(mantissa); mantissa[end - 1] == '0' || mantissa[end - 1] == '.';) {
            const int was_point = mantissa[--end] == '.';
            mantissa[end] = '\0';
            if (was_point) {
                break;
            }
        }
    }
    snprintf(text, size, "%se%+03.0f", mantissa, exponent);
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
        chart_value(key, strcmp(key, "step") == 0 ? round(value) : value, text, size);
    } else if (value != 0 && axis->step < 1e-4) {
        put_scientific(value, axis->step, text, size);
    } else {
        number_format(text, size, "%.6g", value);
    }
}

const char *chart_title(const char *key) {
    const char *title = key_row(key)->chart;
    return title != NULL && *title != '\0' ? title : key;
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

const char *chart_find(const struct run_set *set, const char *key) {
    for (size_t i = 0; i < set->count; i++) {
        const struct run_series *series = run_series_find(&set->runs[i], key);
        if (series != NULL) {
            return series->name;
        }
    }
    return NULL;
}

// The keys of the table that have a title.
static size_t add_titled(const struct run_set *set, const char **all) {
    size_t count = 0;
    for (size_t i = 0; i < key_row_count; i++) {
        const char *title = key_rows[i].chart;
        const char *words = title != NULL && *title != '\0' ? key_rows[i].keys : NULL;
        for (char key[KEY_WORD_SIZE]; key_next_word(&words, key);) {
            const char *name = is_replaced(set, key) ? NULL : chart_find(set, key);
            if (name != NULL) {
                all[count++] = name;
            }
        }
    }
    return count;
}

size_t chart_keys(const struct run_set *set, const char ***keys) {
    size_t total = 1;
    for (size_t i = 0; i < set->count; i++) {
        total += set->runs[i].series_count;
    }
    const char **all = memory_array(total, sizeof *all);
    *keys = all;
    size_t count = all != NULL ? add_titled(set, all) : 0;
    for (size_t i = 0; i < set->count && all != NULL; i++) {
        const struct run *run = &set->runs[i];
        for (size_t s = 0; s < run->series_count; s++) {
            const char *name = run->series[s].name, *title = key_row(name)->chart;
            const int is_redundant = title != NULL && *title == '\0';
            if (!is_listed(all, count, name) && !is_redundant && !is_replaced(set, name)) {
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
