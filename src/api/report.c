// SPDX-License-Identifier: Apache-2.0
// Opens the reporter of a run (report/reporter.h) from its settings, a recipe or a DeepSpeed JSON,
// for the verbs that log to one. What lines it writes is left to the room report.
#include "api/jobs.h"
#include "core/memory.h"
#include "report/reporter.h"
#include "settings/deepspeed.h"
#include "settings/settings.h"
#include "train/checkpoint/checkpoint.h"

enum berth_status berth_reporter_open(const struct settings *config, int file_descriptor,
                                      struct berth_reporter **reporter, struct berth_error *error) {
    *reporter = NULL;
    TRY(output_check_summary(config->report.json_summary, config->run.output_dir, error));
    const struct reported_run run = {
        .resumes = settings_resume(config),
        .has_deepspeed = config->run.deepspeed_config != NULL,
        .chooses_steps = config->run.deepspeed_config != NULL ||
                         settings_is_given(config, "logging_steps") ||
                         settings_is_given(config, "logging_strategy"),
        .adam_betas = {config->optimizer.adam_beta1, config->optimizer.adam_beta2}};
    struct report_settings own = config->report;
    char *folder = NULL;
    if (config->report.logging_dir == NULL && config->run.deepspeed_config != NULL) {
        TRY(deepspeed_logging_dir(config->run.deepspeed_config, &folder, error));
        own.logging_dir = folder;
    }
    enum berth_status status = reporter_open(&own, &run, file_descriptor, reporter, error);
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
