// SPDX-License-Identifier: Apache-2.0
// Stands in the library for the report page (page/), which only the program contains: a job that
// the library runs refuses to write one, with an error that says so.
#include "report/run.h"

enum berth_status html_check_output(const char *path, struct berth_error *error) {
    return error_set(error, BERTH_UNAVAILABLE,
                     "report: the library does not write pages (%s); make the page from the output "
                     "folder with `berth report`",
                     path);
}

enum berth_status html_write_report(const struct run_set *set, const char *path,
                                    struct berth_error *error) {
    (void)set;
    return html_check_output(path, error);
}
