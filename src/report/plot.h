// SPDX-License-Identifier: Apache-2.0
// Charts of runs in a terminal, drawn with braille characters: two by four dots each.
#ifndef BERTH_REPORT_PLOT_H
#define BERTH_REPORT_PLOT_H

#include "report/run.h"

#define PLOT_COLUMNS_MIN 60
#define PLOT_ROWS_MIN 4

// See berth_plot. Appends to `text`.
enum berth_status plot_draw(const struct run_set *set, const struct berth_plot_style *style,
                            struct buffer *text, struct berth_error *error);

#endif
