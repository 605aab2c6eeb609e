// SPDX-License-Identifier: Apache-2.0
// What charts have in common, however they are drawn: their lines, their axes, and the titles of
// known series. html_chart.c and plot.c draw them.
#ifndef BERTH_PAGE_CHART_H
#define BERTH_PAGE_CHART_H

#include "report/run.h"

struct chart_line {
    const char *name; // of the run
    const struct run_bucket *buckets;
    size_t count;
    size_t run; // its index, which decides the colour
};

// Ticks at equal distances; the first and the last one are the ends of the axis.
struct axis {
    double low, step;
    int intervals; // at least 1
};

struct chart {
    const char *key; // decides how values are formatted (lines.h): "loss"
    const char *title;
    const struct chart_line *lines; // [count], at least one, each with at least one bucket
    size_t count;
    const char *x_title; // "update"
    double limit;        // a level to compare with; NaN: none
    const char *limit_title;
    struct axis x, y;
};

// The axis with about `intervals` intervals that holds [low, high].
struct axis axis_of(double low, double high, int intervals);
double axis_high(const struct axis *axis);
// The position of a value on the axis, from 0 to 1; clamped if it is outside.
double axis_fraction(const struct axis *axis, double value);
// The horizontal axis of all charts of the runs.
struct axis chart_updates(const struct run_set *set, int intervals);
// Sets the vertical axis from the lines and the limit.
void chart_scale(struct chart *chart, int intervals);
// A value as a person reads it: "1.2345", "1.21 GiB".
void chart_value(const char *key, double value, char *text, size_t size);
// The label of a tick, with as few digits as distinguish the ticks.
void chart_tick_label(const char *key, const struct axis *axis, int tick, char *text, size_t size);

// The title of a series: that of the table of keys, else its name.
const char *chart_title(const char *key);

// The series' name in the first run that has it; NULL: none has.
const char *chart_find(const struct run_set *set, const char *key);
// The keys of all series of the runs, each once: first those of the table, in its order, then the
// others; *keys borrows them (memory_free). 0: out of memory or none.
size_t chart_keys(const struct run_set *set, const char ***keys);
// The lines of a series: one for each run that has it. lines[set->count].
size_t chart_lines(const struct run_set *set, const char *key, struct chart_line *lines);

#endif
