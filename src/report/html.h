// SPDX-License-Identifier: Apache-2.0
// The report of one or several runs as one HTML page, which loads nothing else: style, script and
// charts (SVG) are inline, and its Content-Security-Policy forbids the browser anything more. All
// text of the log is escaped.
#ifndef BERTH_REPORT_HTML_H
#define BERTH_REPORT_HTML_H

#include "report/run.h"

// Appends the page. Long series are thinned so that it stays below 1 MB.
enum berth_status html_put_report(const struct run_set *set, struct buffer *page,
                                  struct berth_error *error);
// BERTH_CANT_CREATE if `path` is a file that is no report; BERTH_USAGE if it is "-", because a run
// writes its page more than once.
enum berth_status html_check_output(const char *path, struct berth_error *error);
// Writes it to standard output ("-") or to a file, which is replaced as a whole. Checks again that
// it replaces only a report: another file may have got this name during the run.
enum berth_status html_write_report(const struct run_set *set, const char *path,
                                    struct berth_error *error);

#endif
