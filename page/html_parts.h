// SPDX-License-Identifier: Apache-2.0
// The sections of the HTML report, in the order of the page. A section for which the runs have no
// data appends nothing. buffer_print does not escape: text of a log goes through html_put_text.
// html.c calls them in that order.
#ifndef BERTH_PAGE_HTML_PARTS_H
#define BERTH_PAGE_HTML_PARTS_H

#include "report/run.h"

// A cell with a value of a log, formatted by its key (lines.h).
void html_put_value(struct buffer *page, const char *key, const json *value);
// The unit after such a value, where the value itself does not end with one.
void html_put_unit(struct buffer *page, const char *key, const json *value);
// A text member of an object, or ""; a number, or NaN.
const char *html_text(const json *object, const char *key);
double html_real(const json *object, const char *key);

// html_chart.c: a chart for each series.
void html_put_charts(const struct run_set *set, struct buffer *page);
// F1 and exact match by the threshold for "no answer".
void html_put_thresholds(const struct run_set *set, struct buffer *page);

// html_results.c: of one run, its results one by one.
void html_put_lengths(const struct run *run, struct buffer *page);
void html_put_confusion(const struct run *run, struct buffer *page);
void html_put_samples(const struct run *run, struct buffer *page);

// html_facts.c
void html_put_outcome(const struct run_set *set, struct buffer *page);
void html_put_figures(const struct run_set *set, struct buffer *page);
void html_put_processes(const struct run_set *set, struct buffer *page);
void html_put_warnings(const struct run_set *set, struct buffer *page);
void html_put_plan(const struct run_set *set, struct buffer *page);
void html_put_settings(const struct run_set *set, struct buffer *page);

#endif
