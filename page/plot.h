// SPDX-License-Identifier: Apache-2.0
// Charts of runs in a terminal, drawn with braille characters: two by four dots each. For `berth
// plot`; pages have charts of their own (html_chart.c).
#ifndef BERTH_PAGE_PLOT_H
#define BERTH_PAGE_PLOT_H

#include "report/run.h"

#define PLOT_COLUMNS_MIN 60
#define PLOT_ROWS_MIN 4

struct plot_style {
    const char *series; // names separated by commas ("loss,learning_rate,f1"); NULL: the loss and
                        // the metric of evaluations
    int columns;        // of the terminal, at least PLOT_COLUMNS_MIN
    int rows;           // of each chart, at least PLOT_ROWS_MIN
    int colour;         // whether escape sequences may tell runs apart
};

// Draws the series with braille characters, in UTF-8. Appends to `text`. BERTH_USAGE: an unknown
// series; the error lists the known ones.
enum berth_status plot_draw(const struct run_set *set, const struct plot_style *style,
                            struct buffer *text, struct berth_error *error);

#endif
