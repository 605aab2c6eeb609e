// SPDX-License-Identifier: Apache-2.0
// berth verify: checks that a checkpoint's files are unchanged.
#include "cli.h"
#include "core/json_line.h"

#include <stdio.h>

static const struct option_row options[] = {
    {CLI_FLAG("json"), .help = "print one JSON object"},
};

static enum berth_status print_json(const char *path, int64_t files, struct berth_error *error) {
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    json_line_text(&line, "path", path);
    json_line_truth(&line, "good", 1);
    json_line_integer(&line, "files", files);
    json_line_close(&line, '}');
    enum berth_status status = cli_put_json(&line, error);
    json_line_done(&line);
    return status;
}

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    int64_t files = 0;
    TRY(berth_verify(call->arguments[0], &files, error));
    if (cli_flag(call, "json")) {
        return print_json(call->arguments[0], files, error);
    }
    if (!call->config.quiet) {
        printf("%s: intact, %lld files have the sizes and hashes of the manifest\n",
               call->arguments[0], (long long)files);
    }
    return BERTH_OK;
}

const struct cli_verb cli_verify = {
    .name = "verify",
    .summary = "check a checkpoint's sizes and hashes",
    .usage = "PATH [--json]",
    .example = "berth verify squad-minilm/checkpoint-480",
    .notes = "A file that differs: exit code 65 and its name.",
    CLI_OWN_OPTIONS(options),
    .arguments_least = 1,
    .arguments_most = 1,
    .processes = CLI_FIRST,
    .run = run,
};
