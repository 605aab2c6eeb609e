// SPDX-License-Identifier: Apache-2.0
// berth verify: checks that a checkpoint's files are unchanged.
#include "cli.h"
#include "core/json_line.h"

#include <stdio.h>

static const struct option_row options[] = {
    {CLI_FLAG("json"), .help = "print one JSON object"},
};

// `reason`: what is wrong; NULL: the checkpoint is intact.
static enum berth_status print_json(const char *path, int64_t files, const char *reason,
                                    struct berth_error *error) {
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    json_line_text(&line, "path", path);
    json_line_boolean(&line, "good", reason == NULL);
    if (reason == NULL) {
        json_line_integer(&line, "files", files);
    } else {
        json_line_text(&line, "reason", reason);
    }
    json_line_close(&line, '}');
    enum berth_status status = cli_put_json(&line, error);
    json_line_done(&line);
    return status;
}

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    const char *path = call->arguments[0];
    int64_t files = 0;
    const enum berth_status status = berth_verify(path, &files, error);
    if (cli_flag(call, "json") && (status == BERTH_OK || status == BERTH_BAD_DATA)) {
        TRY(print_json(path, files, status == BERTH_OK ? NULL : error->message, error));
    } else if (status == BERTH_OK && !call->config.quiet) {
        printf("%s: intact, %lld files have the sizes and hashes of the manifest\n", path,
               (long long)files);
    }
    return status;
}

const struct cli_verb cli_verify = {
    .name = "verify",
    .summary = "check a checkpoint's sizes and hashes",
    .usage = "PATH [--json]",
    .example = "berth verify squad-minilm/checkpoint-480",
    .notes =
        "If a listed file differs, it is named and the exit code is 65. Files that are not listed "
        "are an error, too, although a run that resumes ignores most of them. --json prints "
        "\"good\", and if that is false the \"reason\".",
    CLI_OWN_OPTIONS(options),
    .arguments_min = 1,
    .arguments_max = 1,
    .processes = CLI_FIRST,
    .run = run,
};
