// SPDX-License-Identifier: Apache-2.0
// The public interface to the report room.
#include "api/jobs.h"
#include "core/memory.h"
#include "report/reporter.h"
#include "train/checkpoint/checkpoint.h"
#include "train/settings/deepspeed.h"

enum berth_status berth_reporter_open(const struct berth_config *config, int file_descriptor,
                                      struct berth_reporter **reporter, struct berth_error *error) {
    *reporter = NULL;
    TRY(output_check_summary(config, error));
    struct berth_config own = *config;
    char *folder = NULL;
    if (config->logging_dir == NULL && config->deepspeed_config != NULL) {
        TRY(deepspeed_logging_dir(config->deepspeed_config, &folder, error));
        own.logging_dir = folder;
    }
    enum berth_status status = reporter_open(&own, file_descriptor, reporter, error);
    memory_free(folder);
    return status;
}

struct berth_log berth_reporter_log(struct berth_reporter *reporter) {
    return reporter != NULL ? reporter_log(reporter) : (struct berth_log){0};
}

enum berth_status berth_reporter_check(const struct berth_reporter *reporter,
                                       struct berth_error *error) {
    return reporter != NULL ? reporter_check(reporter, error) : BERTH_OK;
}

void berth_reporter_close(struct berth_reporter *reporter) {
    reporter_close(reporter);
}
