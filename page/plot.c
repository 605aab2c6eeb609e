// SPDX-License-Identifier: Apache-2.0
// Without colours, each run gets a chart of its own on common axes, because dots of several runs in
// one character could not be distinguished. Called by `berth plot` (cli/report.c); scales and
// titles are chart.c's.
#include "page/plot.h"

#include "core/memory.h"
#include "core/terminal.h"
#include "core/text_util.h"
#include "core/utf8.h"
#include "page/chart.h"
#include "report/lines.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TICK_COLUMNS 12 // for the vertical axis and its labels
#define BRAILLE 0x2800

static const int colours[] = {36, 33, 35, 32, 34, 31}; // of terminals
#define COLOURS (sizeof colours / sizeof *colours)

// Dots of a chart: cells[rows * columns] of eight bits each, and the run that set a dot of the cell
// last.
struct canvas {
    unsigned char *cells;
    unsigned short *owners;
    size_t columns, rows;
};

static void dot(struct canvas *canvas, size_t x, size_t y, size_t run) {
    static const unsigned char bits[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    const size_t cell = y / 4 * canvas->columns + x / 2;
    canvas->cells[cell] |= bits[y % 4][x % 2];
    canvas->owners[cell] = (unsigned short)run;
}

struct point {
    size_t x, y;
};

static struct point point_of(const struct chart *chart, const struct canvas *canvas, double x,
                             double y) {
    return (struct point){
        .x = (size_t)lround(axis_fraction(&chart->x, x) * (double)(2 * canvas->columns - 1)),
        .y = (size_t)lround((1 - axis_fraction(&chart->y, y)) * (double)(4 * canvas->rows - 1))};
}

static void connect(struct canvas *canvas, struct point from, struct point to, size_t run) {
    const double across = (double)to.x - (double)from.x, down = (double)to.y - (double)from.y;
    const int dots = (int)fmax(fmax(fabs(across), fabs(down)), 1);
    for (int i = 0; i <= dots; i++) {
        const double part = (double)i / dots;
        dot(canvas, (size_t)lround((double)from.x + part * across),
            (size_t)lround((double)from.y + part * down), run);
    }
}

static void draw_line(struct canvas *canvas, const struct chart *chart,
                      const struct chart_line *line) {
    struct point before = {0};
    for (size_t i = 0; i < line->count; i++) {
        const struct run_bucket *bucket = &line->buckets[i];
        const struct point at = point_of(chart, canvas, bucket->last, run_mean(bucket));
        connect(canvas, i > 0 ? before : at, at, line->run);
        before = at;
    }
}

// --- text ----------------------------------------------------------------------------------------

static void put_blanks(struct buffer *text, size_t count) {
    for (size_t i = 0; i < count; i++) {
        buffer_put_byte(text, ' ');
    }
}

// Names of files and series are untrusted text.
static void put_name(struct buffer *text, const char *name) {
    char shown[512];
    terminal_escape(shown, sizeof shown, name, "");
    buffer_put_text(text, shown);
}

static void put_colour(struct buffer *text, size_t run) {
    char code[16];
    snprintf(code, sizeof code, "\033[%dm", colours[run % COLOURS]);
    buffer_put_text(text, code);
}

static void put_cells(struct buffer *text, const struct canvas *canvas, size_t row, int colour) {
    const size_t first = row * canvas->columns;
    size_t end = canvas->columns; // without the blanks at the end
    while (end > 0 && canvas->cells[first + end - 1] == 0) {
        end--;
    }
    for (size_t i = first; i < first + end; i++) {
        char bytes[UTF8_BYTES_MAX];
        const int is_drawn = canvas->cells[i] != 0;
        if (colour && is_drawn) {
            put_colour(text, canvas->owners[i]);
        }
        buffer_put(text, bytes, utf8_encode(BRAILLE + (uint32_t)canvas->cells[i], bytes));
        if (colour && is_drawn) {
            buffer_put_text(text, "\033[0m");
        }
    }
}

// The label of the vertical axis in this row, if the row has a tick.
static void put_tick_label(struct buffer *text, const struct chart *chart, size_t row,
                           size_t rows) {
    char tick[64] = "", cell[80];
    for (int i = 0; i <= chart->y.intervals; i++) {
        const double tick_row = (1 - (double)i / chart->y.intervals) * (double)(rows - 1);
        if ((size_t)lround(tick_row) == row) {
            chart_tick_label(chart->key, &chart->y, i, tick, sizeof tick);
        }
    }
    snprintf(cell, sizeof cell, "%*.*s \xe2\x94\x82", TICK_COLUMNS - 2, TICK_COLUMNS - 2, tick);
    buffer_put_text(text, cell);
}

// The labels of the horizontal axis that do not overlap.
static void put_foot(struct buffer *text, const struct chart *chart, size_t columns) {
    size_t used = 0;
    put_blanks(text, TICK_COLUMNS - 1);
    buffer_put_text(text, "\xe2\x94\x94");
    for (size_t i = 0; i < columns; i++) {
        buffer_put_text(text, "\xe2\x94\x80");
    }
    buffer_put_text(text, "\n");
    put_blanks(text, TICK_COLUMNS);
    for (int i = 0; i <= chart->x.intervals; i++) {
        char tick[64];
        chart_tick_label("step", &chart->x, i, tick, sizeof tick);
        const size_t length = strlen(tick), at = columns * (size_t)i / (size_t)chart->x.intervals;
        const size_t from = at + length > columns ? columns - length : at;
        if (length <= columns && (used == 0 || from > used)) {
            put_blanks(text, from - used);
            buffer_put_text(text, tick);
            used = from + length;
        }
    }
    buffer_put_text(text, "\n");
}

static void put_legend(struct buffer *text, const struct chart *chart, int colour) {
    for (size_t i = 0; i < chart->count; i++) {
        const struct chart_line *line = &chart->lines[i];
        char last[64];
        chart_value(chart->key, line->buckets[line->count - 1].latest, last, sizeof last);
        put_blanks(text, TICK_COLUMNS);
        if (colour) {
            put_colour(text, line->run);
        }
        put_name(text, line->name);
        buffer_put_text(text, colour ? "\033[0m  last " : "  last ");
        buffer_put_text(text, last);
        buffer_put_text(text, "\n");
    }
}

// --- charts --------------------------------------------------------------------------------------

// What all charts of a plot share.
struct plot {
    const struct run_set *set;
    const struct plot_style *style;
    struct canvas canvas;
    struct chart_line *lines; // [set->count] of the current chart
    struct buffer *text;
};

// Draws some lines of the chart, on the axes of all.
static void draw(struct plot *plot, const struct chart *chart, const struct chart_line *lines,
                 size_t count) {
    struct canvas *canvas = &plot->canvas;
    struct buffer *text = plot->text;
    const int colour = plot->style->colour && chart->count > 1;
    struct chart shown = *chart;
    shown.lines = lines;
    shown.count = count;
    memset(canvas->cells, 0, canvas->rows * canvas->columns);
    for (size_t i = 0; i < count; i++) {
        draw_line(canvas, chart, &lines[i]);
    }
    put_blanks(text, TICK_COLUMNS);
    put_name(text, chart->title);
    buffer_put_text(text, "\n");
    for (size_t row = 0; row < canvas->rows; row++) {
        put_tick_label(text, chart, row, canvas->rows);
        put_cells(text, canvas, row, colour);
        buffer_put_text(text, "\n");
    }
    put_foot(text, chart, canvas->columns);
    put_legend(text, &shown, colour);
}

static void draw_series(struct plot *plot, const char *key) {
    struct chart chart = {
        .key = key, .title = chart_title(key), .lines = plot->lines, .limit = NAN};
    chart.count = chart_lines(plot->set, key, plot->lines);
    if (chart.count == 0) {
        return;
    }
    chart.x = chart_updates(plot->set, (int)plot->canvas.columns / 12);
    chart_scale(&chart, plot->canvas.rows < 8 ? 2 : 4);
    const size_t at_once = plot->style->colour ? chart.count : 1;
    for (size_t i = 0; i < chart.count; i += at_once) {
        draw(plot, &chart, plot->lines + i, at_once);
    }
}

// --- the choice of series ------------------------------------------------------------------------

static enum berth_status draw_named(struct plot *plot, const char *names,
                                    struct berth_error *error) {
    for (const char *at = names; *at != '\0';) {
        char name[128], evaluated[sizeof name + 8];
        const size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        snprintf(evaluated, sizeof evaluated, "eval_%s", name);
        const char *key = chart_find(plot->set, name) != NULL ? name : evaluated;
        if (chart_find(plot->set, key) == NULL) {
            const char **keys = NULL;
            char known[384] = "";
            const size_t count = chart_keys(plot->set, &keys);
            if (keys == NULL) {
                return error_no_memory(error, 0, "the names of the series");
            }
            for (size_t i = 0; i < count; i++) {
                words_add(known, sizeof known, keys[i]);
            }
            memory_free(keys);
            return error_set(error, BERTH_USAGE, "series %s: no such series; expected one of: %s",
                             name, known);
        }
        draw_series(plot, key);
        at += length + (at[length] == ',');
    }
    return BERTH_OK;
}

// The loss and the first metric of evaluations.
static enum berth_status draw_default(struct plot *plot, struct berth_error *error) {
    const char **keys = NULL;
    const size_t count = chart_keys(plot->set, &keys), before = plot->text->length;
    int metrics = 0;
    if (keys == NULL) {
        return error_no_memory(error, 0, "the names of the series");
    }
    for (size_t i = 0; i < count; i++) {
        const int is_metric = strncmp(keys[i], "eval_", 5) == 0 &&
                              strstr(keys[i], "_per_") == NULL && strcmp(keys[i], "eval_loss") != 0;
        if (strcmp(keys[i], "loss") == 0 || (is_metric && metrics++ == 0)) {
            draw_series(plot, keys[i]);
        }
    }
    memory_free(keys);
    return plot->text->length > before
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "%s: the log has neither a loss nor an evaluation yet",
                           plot->set->runs[0].name);
}

enum berth_status plot_draw(const struct run_set *set, const struct plot_style *style,
                            struct buffer *text, struct berth_error *error) {
    const int columns = style->columns > PLOT_COLUMNS_MIN ? style->columns : PLOT_COLUMNS_MIN;
    const int rows = style->rows > PLOT_ROWS_MIN ? style->rows : PLOT_ROWS_MIN;
    struct plot plot = {.set = set,
                        .style = style,
                        .canvas = {.columns = (size_t)columns - TICK_COLUMNS, .rows = (size_t)rows},
                        .lines = memory_array(set->count, sizeof *plot.lines),
                        .text = text};
    struct canvas *canvas = &plot.canvas;
    canvas->cells = memory_array(canvas->columns * canvas->rows, 1);
    canvas->owners = memory_array(canvas->columns * canvas->rows, sizeof *canvas->owners);
    enum berth_status status = BERTH_OK;
    if (plot.lines == NULL || canvas->cells == NULL || canvas->owners == NULL) {
        status = error_no_memory(error, canvas->columns * canvas->rows, "a chart");
    } else if (style->series != NULL) {
        status = draw_named(&plot, style->series, error);
    } else {
        status = draw_default(&plot, error);
    }
    memory_free(canvas->owners);
    memory_free(canvas->cells);
    memory_free(plot.lines);
    return text->failed ? error_no_memory(error, text->length, "the charts") : status;
}
