// SPDX-License-Identifier: Apache-2.0
// berth fetch: downloads models and data, or lists and removes what was downloaded. The only verb
// that uses the network: the words are read here, everything else is done by fetch/fetch.c. Other
// verbs find the files by their names later (find_files.c).
#include "fetch/fetch.h"

#include "cli.h"
#include "core/file.h"
#include "core/json_line.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct option_row options[] = {
    {CLI_TEXT("revision", NULL), .unit = "NAME", .shown = "main",
     .help = "branch, tag or commit of the repository"},
    {CLI_FLAG("dataset"), .help = "NAME is a data set, not a model"},
    {CLI_TEXT("files", NULL), .unit = "PATTERNS",
     .shown = "for a model what BERT needs, for a data set all",
     .help = "files of the repository, as patterns with * and ?, separated by commas"},
    {CLI_TEXT("sha256", NULL), .unit = "HEX", .help = "expected SHA-256 of a URL's content"},
    {CLI_TEXT("md5", NULL), .unit = "HEX",
     .help = "expected MD5 of a URL's content (no protection against tampering)"},
    {CLI_TEXT("cache_dir", NULL), .unit = "DIR",
     .shown = "$HF_HUB_CACHE or $HF_HOME/hub; for URLs $HF_HOME/assets/berth",
     .help = "cache folder to download into"},
    {CLI_TEXT("token_file", NULL), .unit = "FILE",
     .shown = "$HF_TOKEN, else the file $HF_TOKEN_PATH or $HF_HOME/token",
     .help = "file with the access token of the hub"},
    {CLI_INTEGER("retries", "5"), BETWEEN(0, 1000), .unit = "N",
     .help = "number of attempts after a temporary failure, reset whenever data arrives"},
    {CLI_FLAG("no_progress"), .help = "show no progress bar"},
    {CLI_FLAG("list"), .help = "print what the cache holds, with its size, and fetch nothing"},
    {CLI_FLAG("remove"), .help = "remove NAME from the cache, in all revisions"},
    {CLI_FLAG("json"), .help = "print one JSON object, with --list one for each line"},
};

// Only an interactive user gets a progress bar.
static int wants_progress(const struct cli_call *call) {
    const char *disabled = getenv("HF_HUB_DISABLE_PROGRESS_BARS");
    int off = 0;
    if (disabled != NULL) {
        number_parse_boolean(disabled, &off);
    }
    return !cli_flag(call, "no_progress") && !call->config.report.no_progress &&
           terminal_is(STDERR_FILENO) && !off;
}

static enum berth_status print_cached(const struct fetch_cached *found, void *context,
                                      struct berth_error *error) {
    struct json_line line DONE_BY(json_line_done) = {0};
    char mebibytes[64];
    number_format(mebibytes, sizeof mebibytes, "%.1f", (double)found->bytes / 0x1p20);
    if (!cli_flag(context, "json")) {
        printf("%-8s %8s MiB  %s\n", found->kind, mebibytes, cli_escape_name(found->name));
        return BERTH_OK;
    }
    json_line_open(&line, NULL, '{');
    json_line_text(&line, "kind", found->kind);
    json_line_text(&line, "name", found->name);
    json_line_integer(&line, "bytes", found->bytes);
    json_line_text(&line, "path", found->path);
    json_line_close(&line, '}');
    return cli_put_json(&line, error);
}

static enum berth_status run_fetch(struct cli_call *call, struct berth_error *error) {
    const struct fetch_settings settings = {.revision = cli_value(call, "revision"),
                                            .files = cli_value(call, "files"),
                                            .sha256 = cli_value(call, "sha256"),
                                            .md5 = cli_value(call, "md5"),
                                            .cache_dir = cli_value(call, "cache_dir"),
                                            .token_file = cli_value(call, "token_file"),
                                            .dataset = cli_flag(call, "dataset"),
                                            .retries = cli_integer(call, "retries")};
    const char *name = call->arguments[0];
    struct berth_reporter *reporter;
    OWNED char *path = NULL;
    const int lists = cli_flag(call, "list");
    if (lists && (call->argument_count > 0 || cli_flag(call, "remove"))) {
        return error_set(error, BERTH_USAGE, "--list shows the whole cache: leave out %s",
                         call->argument_count > 0 ? call->arguments[0] : "--remove");
    }
    if (!lists && call->argument_count == 0) {
        return error_set(error, BERTH_USAGE,
                         "name what to fetch: a model or data set of the hub (org/name), squad, "
                         "squad_v2 or a URL; see `berth fetch --help`");
    }
    if (cli_flag(call, "list")) {
        return fetch_list(settings.cache_dir, print_cached, call, error);
    }
    if (cli_flag(call, "remove")) {
        TRY(fetch_remove(name, &settings, &path, error));
        cli_note(call, "%s was removed", path);
        return BERTH_OK;
    }
    call->config.report.no_progress = !wants_progress(call);
    TRY(berth_reporter_open(&call->config, STDERR_FILENO, &reporter, error));
    const enum berth_status status =
        fetch_files(name, &settings, berth_reporter_log(reporter),
                    cli_stop_on_signals("what was downloaded is kept"), &path, error);
    berth_reporter_close(reporter);
    if (status == BERTH_OK) {
        if (!cli_flag(call, "json")) {
            puts(path);
            return BERTH_OK;
        }
        struct json_line line DONE_BY(json_line_done) = {0};
        json_line_open(&line, NULL, '{');
        json_line_text(&line, "name", name);
        json_line_text(&line, "path", path);
        json_line_close(&line, '}');
        return cli_put_json(&line, error);
    }
    return status;
}

const struct cli_verb cli_fetch = {
    .name = "fetch",
    .summary = "download a model or data set into the Hugging Face cache",
    .usage =
        "NAME|URL [--revision NAME] [--sha256 HEX] [--cache_dir DIR]\n--list\nNAME|URL --remove",
    .example = "berth fetch sentence-transformers/all-MiniLM-L6-v2\n"
               "berth fetch squad\n"
               "berth fetch https://example.org/dev.json --sha256 95aa6a52d5d6...",
    .notes = "NAME is a model of the hub (org/name), with --dataset a data set of it, or squad or "
             "squad_v2. The folder (of a URL: the file) is printed on standard output; afterwards "
             "--model org/name finds it without the network. An interrupted download continues "
             "where it ended; contents are checked against the hub's or the given digests. "
             "HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HF_ASSETS_CACHE, HF_TOKEN, "
             "HF_TOKEN_PATH, HF_HUB_ETAG_TIMEOUT, HF_HUB_DOWNLOAD_TIMEOUT and the proxy variables "
             "are obeyed. With HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE or (data sets and URLs) "
             "HF_DATASETS_OFFLINE nothing is downloaded: the path in the cache is printed, or the "
             "exit code is 69 if there is none. No other verb downloads.",
    CLI_OWN_OPTIONS(options),
    .arguments_max = 1,
    .processes = CLI_ALONE,
    .run = run_fetch,
};
