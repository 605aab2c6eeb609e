// SPDX-License-Identifier: Apache-2.0
// Charts as inline SVG. The drawing is stretched to the space that the page has, and the numbers at
// its edges are text of the page, so both stay readable at any width. The script shows the values
// under the pointer, from data-points; a table has the same for readers. html.c calls it for each
// chart; scales and titles are chart.c's.
#include "core/html.h"
#include "core/memory.h"
#include "page/chart.h"
#include "page/html_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIDE 1000.0       // width and height in the drawing's own coordinates
#define POINTS_LIMIT 1200 // of a chart, divided among its lines: about 40 bytes each
#define POINTS_MIN 64
#define TABLE_ROWS 12

static double across(const struct chart *chart, double x) {
    return axis_fraction(&chart->x, x) * SIDE;
}

static double down(const struct chart *chart, double y) {
    return (1 - axis_fraction(&chart->y, y)) * SIDE;
}

// --- lines ---------------------------------------------------------------------------------------

// The range of the values of each bucket, where buckets hold several.
static void put_band(const struct chart *chart, const struct run_bucket *buckets, size_t count,
                     struct buffer *page) {
    int is_band = 0;
    for (size_t i = 0; i < count; i++) {
        is_band |= buckets[i].count > 1;
    }
    if (!is_band) {
        return;
    }
    buffer_put_text(page, "<path class=\"band\" d=\"");
    for (size_t i = 0; i < count; i++) {
        buffer_print(page, "%c%.1f %.1f", i == 0 ? 'M' : 'L', across(chart, buckets[i].last),
                     down(chart, buckets[i].max));
    }
    for (size_t i = count; i-- > 0;) {
        buffer_print(page, "L%.1f %.1f", across(chart, buckets[i].last),
                     down(chart, buckets[i].min));
    }
    buffer_put_text(page, "Z\"/>");
}

static void put_line(const struct chart *chart, const struct chart_line *line, size_t limit,
                     struct buffer *page) {
    struct run_bucket buckets[RUN_BUCKETS];
    memcpy(buckets, line->buckets, line->count * sizeof *buckets);
    const size_t count = run_thin(buckets, line->count, limit);
    buffer_print(page, "<g class=\"s%zu\" data-points=\"", line->run % 8);
    for (size_t i = 0; i < count; i++) {
        buffer_print(page, "%s%.10g %.5g", i > 0 ? " " : "", buckets[i].last,
                     run_mean(&buckets[i]));
    }
    buffer_put_text(page, "\" data-name=\"");
    html_put_text(page, line->name);
    buffer_put_text(page, "\">");
    put_band(chart, buckets, count, page);
    // Few points are also shown as dots: lines of zero length with round ends.
    buffer_put_text(page, "<path class=\"line\" d=\"");
    for (size_t i = 0; i < count; i++) {
        buffer_print(page, "%c%.1f %.1f", i == 0 ? 'M' : 'L', across(chart, buckets[i].last),
                     down(chart, run_mean(&buckets[i])));
    }
    buffer_put_text(page, "\"/>");
    if (count <= 24) {
        buffer_put_text(page, "<path class=\"dots\" d=\"");
        for (size_t i = 0; i < count; i++) {
            buffer_print(page, "M%.1f %.1fh0", across(chart, buckets[i].last),
                         down(chart, run_mean(&buckets[i])));
        }
        buffer_put_text(page, "\"/>");
    }
    buffer_put_text(page, "</g>");
}

// --- around them ---------------------------------------------------------------------------------

// Draws a line at each update at which a process resumed.
static void put_resumptions(const struct chart *chart, const struct run_set *set,
                            struct buffer *page) {
    for (size_t i = 0; i < set->count; i++) {
        const struct run *run = &set->runs[i];
        for (size_t process = 1; process < run->process_count; process++) {
            const double first = run->processes[process].first;
            if (first < INFINITY) {
                buffer_print(
                    page,
                    "<path class=\"resumed s%zu\" d=\"M%.1f 0v1000\"><title>resumed: first "
                    "report at update %.0f</title></path>",
                    i % 8, across(chart, first), first);
            }
        }
    }
}

static void put_tick_labels(const char *kind, const char *key, const struct axis *axis, int is_down,
                            struct buffer *page) {
    buffer_print(page, "<div class=\"%s\" aria-hidden=\"true\">", kind);
    for (int i = 0; i <= axis->intervals; i++) {
        char tick[64];
        chart_tick_label(key, axis, is_down ? axis->intervals - i : i, tick, sizeof tick);
        buffer_put_text(page, "<span>");
        html_put_text(page, tick);
        buffer_put_text(page, "</span>");
    }
    buffer_put_text(page, "</div>");
}

static void put_row(const char *x_key, const struct chart *chart, const struct chart_line *line,
                    struct run_bucket bucket, struct buffer *page) {
    char text[64];
    buffer_put_text(page, "<tr><td>");
    if (chart->count > 1) {
        html_put_text(page, line->name);
        buffer_put_text(page, "</td><td>");
    }
    chart_value(x_key, bucket.last, text, sizeof text);
    html_put_text(page, text);
    const double values[] = {run_mean(&bucket), bucket.min, bucket.max};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        chart_value(chart->key, values[i], text, sizeof text);
        buffer_put_text(page, "</td><td>");
        html_put_text(page, text);
    }
    buffer_put_text(page, "</td></tr>");
}

static void put_table(const struct chart *chart, struct buffer *page) {
    const size_t rows = TABLE_ROWS / chart->count > 2 ? TABLE_ROWS / chart->count : 2;
    buffer_put_text(page,
                    "<details><summary>Values</summary><div class=\"wide\" tabindex=\"0\"><table>"
                    "<thead><tr>");
    buffer_print(page,
                 "%s<th scope=\"col\">%s</th><th scope=\"col\">Mean</th><th scope=\"col\">Min"
                 "</th><th scope=\"col\">Max</th></tr></thead><tbody>",
                 chart->count > 1 ? "<th scope=\"col\">Run</th>" : "", chart->x_title);
    for (size_t i = 0; i < chart->count; i++) {
        struct run_bucket buckets[RUN_BUCKETS];
        const struct chart_line *line = &chart->lines[i];
        memcpy(buckets, line->buckets, line->count * sizeof *buckets);
        const size_t count = run_thin(buckets, line->count, rows);
        for (size_t b = 0; b < count; b++) {
            put_row(strcmp(chart->x_title, "Update") == 0 ? "step" : "", chart, line, buckets[b],
                    page);
        }
    }
    buffer_put_text(page, "</tbody></table></div></details>");
}

// --- a chart -------------------------------------------------------------------------------------

// `set` NULL: no resumptions on it.
static void put_chart(struct chart *chart, const struct run_set *set, struct buffer *page) {
    const size_t points_per_line = POINTS_LIMIT / chart->count;
    chart_scale(chart, 4);
    buffer_print(page,
                 "<figure class=\"chart\" tabindex=\"0\" data-low=\"%.10g\" data-high=\"%.10g\" "
                 "data-x=\"%s\">",
                 chart->x.low, axis_high(&chart->x), chart->x_title);
    char limit[64];
    buffer_put_text(page, "<figcaption>");
    html_put_text(page, chart->title);
    if (!isnan(chart->limit)) {
        chart_value(chart->key, chart->limit, limit, sizeof limit);
        buffer_print(page, " <span class=\"soft\">(dashed: %s, ", chart->limit_title);
        html_put_text(page, limit);
        buffer_put_text(page, ")</span>");
    }
    buffer_put_text(page, "<output class=\"now\"></output></figcaption>");
    buffer_put_text(page, "<div class=\"plot\">");
    put_tick_labels("ys", chart->key, &chart->y, 1, page);
    buffer_put_text(page,
                    "<svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" role=\"img\" "
                    "aria-label=\"");
    html_put_text(page, chart->title);
    buffer_put_text(page, ". ");
    for (size_t i = 0; i < chart->count; i++) {
        const struct chart_line *line = &chart->lines[i];
        char first[64], last[64];
        chart_value(chart->key, run_mean(&line->buckets[0]), first, sizeof first);
        chart_value(chart->key, line->buckets[line->count - 1].latest, last, sizeof last);
        html_put_text(page, line->name);
        buffer_put_text(page, ": from ");
        html_put_text(page, first);
        buffer_put_text(page, " to ");
        html_put_text(page, last);
        buffer_put_text(page, ". ");
    }
    buffer_put_text(page, "\">");
    buffer_put_text(page, "<path class=\"grid\" d=\"");
    for (int i = 0; i <= chart->y.intervals; i++) {
        buffer_print(page, "M0 %.1fh1000", SIDE * i / chart->y.intervals);
    }
    buffer_put_text(page, "\"/>");
    if (!isnan(chart->limit)) {
        buffer_print(page, "<path class=\"limit\" d=\"M0 %.1fh1000\"/>", down(chart, chart->limit));
    }
    if (set != NULL) {
        put_resumptions(chart, set, page);
    }
    for (size_t i = 0; i < chart->count; i++) {
        put_line(chart, &chart->lines[i],
                 points_per_line > POINTS_MIN ? points_per_line : POINTS_MIN, page);
    }
    buffer_put_text(page, "<path class=\"cursor\"/></svg>");
    put_tick_labels("xs", strcmp(chart->x_title, "Update") == 0 ? "step" : "", &chart->x, 0, page);
    buffer_print(page, "<div class=\"xt soft\">%s</div></div>", chart->x_title);
    put_table(chart, page);
    buffer_put_text(page, "</figure>\n");
}

// The plan of memory is a level to compare with, if the runs agree on it.
static void set_limit(const struct run_set *set, struct chart *chart) {
    chart->limit = NAN;
    if (strcmp(chart->key, "rss_bytes") == 0) {
        const double plan = html_real(json_member(set->runs[0].plan, "memory"), "plan_bytes");
        for (size_t i = 0; i < set->count; i++) {
            const double other = html_real(json_member(set->runs[i].plan, "memory"), "plan_bytes");
            chart->limit = i == 0 || other == plan ? plan : (double)NAN;
            if (isnan(chart->limit)) {
                return;
            }
        }
        chart->limit_title = "the plan";
    }
}

static void put_legend(const struct run_set *set, struct buffer *page) {
    for (size_t i = 0; i < set->count; i++) {
        if (set->runs[i].process_count > 1) {
            buffer_put_text(page, "<p class=\"soft\">Dotted vertical lines: a process resumed the "
                                  "run.</p>\n");
            return;
        }
    }
}

void html_put_charts(const struct run_set *set, struct buffer *page) {
    const char **keys = NULL;
    struct chart_line *lines = memory_array(set->count, sizeof *lines);
    const size_t count = chart_keys(set, &keys);
    const struct axis updates = chart_updates(set, 6);
    page->failed |= lines == NULL || keys == NULL;
    if (count > 0 && !page->failed) {
        buffer_put_text(page, "<h2>Curves</h2>\n");
        put_legend(set, page);
        buffer_put_text(page, "<div class=\"charts\">\n");
        for (size_t i = 0; i < count; i++) {
            struct chart chart = {.key = keys[i],
                                  .title = chart_title(keys[i]),
                                  .lines = lines,
                                  .x_title = "Update",
                                  .x = updates};
            chart.count = chart_lines(set, keys[i], lines);
            set_limit(set, &chart);
            if (chart.count > 0) {
                put_chart(&chart, set, page);
            }
        }
        buffer_put_text(page, "</div>\n");
    }
    memory_free(keys);
    memory_free(lines);
}

// --- thresholds ----------------------------------------------------------------------------------

static void put_threshold_chart(const struct run_set *set, const char *key, const char *title,
                                struct run_bucket *buckets, struct chart_line *lines,
                                struct buffer *page) {
    struct chart chart = {
        .key = key, .title = title, .lines = lines, .x_title = "Threshold", .limit = NAN};
    for (size_t i = 0; i < set->count; i++) {
        struct run_bucket *own = buckets + i * RUN_BUCKETS;
        // The values of `key` by threshold, as a line.
        const json *points = run_details(&set->runs[i], "threshold");
        size_t count = 0;
        for (size_t k = 0; k < json_length(points) && count < RUN_BUCKETS; k++) {
            const double x = html_real(json_at(points, k), "threshold");
            const double y = html_real(json_at(points, k), key);
            if (isfinite(x) && isfinite(y) && (count == 0 || x >= own[count - 1].last)) {
                own[count++] = (struct run_bucket){x, x, y, y, y, 1, y};
            }
        }
        if (count > 0) {
            lines[chart.count++] = (struct chart_line){set->runs[i].name, own, count, i};
        }
    }
    if (chart.count > 0) {
        double low = INFINITY, high = -INFINITY;
        for (size_t i = 0; i < chart.count; i++) {
            low = fmin(low, lines[i].buckets[0].first);
            high = fmax(high, lines[i].buckets[lines[i].count - 1].last);
        }
        chart.x = axis_of(low, high, 6);
        put_chart(&chart, NULL, page);
    }
}

void html_put_thresholds(const struct run_set *set, struct buffer *page) {
    int has_any = 0;
    for (size_t i = 0; i < set->count; i++) {
        has_any |= json_length(run_details(&set->runs[i], "threshold")) > 0;
    }
    if (!has_any) {
        return;
    }
    struct run_bucket *buckets = memory_array(set->count * RUN_BUCKETS, sizeof *buckets);
    struct chart_line *lines = memory_array(set->count, sizeof *lines);
    page->failed |= buckets == NULL || lines == NULL;
    if (!page->failed) {
        buffer_put_text(page, "<h2>No-answer threshold</h2>\n<p class=\"soft\">Scores of the last "
                              "evaluation if a question gets no answer above this difference of "
                              "logits.</p>\n<div class=\"charts\">\n");
        put_threshold_chart(set, "f1", "F1", buckets, lines, page);
        put_threshold_chart(set, "exact", "Exact match", buckets, lines, page);
        buffer_put_text(page, "</div>\n");
    }
    memory_free(lines);
    memory_free(buckets);
}
