// SPDX-License-Identifier: Apache-2.0
// The public reporter: a thin door to the report room.
#include "report/reporter.h"

enum berth_status berth_reporter_open(const struct berth_config *config, int file_descriptor,
                                      struct berth_reporter **reporter, struct berth_error *error) {
    return reporter_open(config, file_descriptor, reporter, error);
}

struct berth_log berth_reporter_log(struct berth_reporter *reporter) {
    return reporter_log(reporter);
}

void berth_reporter_close(struct berth_reporter *reporter) {
    reporter_close(reporter);
}
