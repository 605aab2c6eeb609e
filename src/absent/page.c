// SPDX-License-Identifier: Apache-2.0
// The report page where there is none: in the library, whose jobs then refuse to write one.
#include "report/run.h"

enum berth_status html_check_output(const char *path, struct berth_error *error) {
    return error_set(error, BERTH_UNAVAILABLE,
                     "report: only the program writes %s; make it of the output folder by `berth "
                     "report`",
                     path);
}

enum berth_status html_write_report(const struct run_set *set, const char *path,
                                    struct berth_error *error) {
    (void)set;
    return html_check_output(path, error);
}
