// SPDX-License-Identifier: Apache-2.0
// A job, its reporter, its signals and its result.
#include "run.h"

#include "core/json_line.h"

#include <unistd.h>

static enum berth_status print_result(const struct berth_run_result *result,
                                      struct berth_error *error) {
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    json_line_integer(&line, "steps", result->steps);
    json_line_real(&line, "final_loss", result->final_loss);
    for (size_t i = 0; i < result->metric_count; i++) {
        json_line_real(&line, result->metrics[i].name, result->metrics[i].value);
    }
    json_line_real(&line, "samples_per_second", result->samples_per_second);
    json_line_real(&line, "tokens_per_second", result->tokens_per_second);
    json_line_real(&line, "mfu", result->mfu);
    json_line_close(&line, '}');
    enum berth_status status = cli_put_json(&line, error);
    json_line_done(&line);
    return status;
}

enum berth_status cli_run_job(struct cli_call *call, cli_job *job, const char *follows,
                              struct berth_error *error) {
    struct berth_reporter *reporter;
    struct berth_run_result result = {0};
    int json = cli_flag(call, "json");
    int descriptor = call->config.dry_run && !json ? STDOUT_FILENO : STDERR_FILENO;
    TRY(berth_reporter_open(&call->config, descriptor, &reporter, error));
    struct berth_log log = berth_reporter_log(reporter);
    enum berth_status status =
        job(&call->config, log, cli_stop_on_signals(follows), &result, error);
    if (status == BERTH_OK) {
        status = berth_reporter_check(reporter, error);
    }
    berth_reporter_close(reporter);
    if (status == BERTH_OK && json) {
        status = print_result(&result, error);
    }
    return status;
}
