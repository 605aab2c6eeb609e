// SPDX-License-Identifier: Apache-2.0
// berth fetch: downloads models and data. The only verb that uses the network.
#include "cli.h"
#include "core/file.h"
#include "core/json_line.h"
#include "core/number.h"
#include "core/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct cli_option options[] = {
    {.name = "revision",
     .kind = CLI_TEXT,
     .unit = "NAME",
     .fallback = "main",
     .help = "branch, tag or commit of the hub's repository"},
    {.name = "dataset", .kind = CLI_FLAG, .help = "NAME is a data set of the hub, not a model"},
    {.name = "files",
     .kind = CLI_TEXT,
     .unit = "PATTERNS",
     .fallback = "what a BERT model needs, all of a data set",
     .help = "which files of the repository, separated by commas; * and ? as in a shell"},
    {.name = "sha256",
     .kind = CLI_TEXT,
     .unit = "HEX",
     .help = "SHA-256 that the URL's content must have"},
    {.name = "md5",
     .kind = CLI_TEXT,
     .unit = "HEX",
     .help = "MD5 that the URL's content must have (no protection against intent)"},
    {.name = "cache_dir",
     .kind = CLI_TEXT,
     .unit = "DIR",
     .fallback = "HF_HUB_CACHE, $HF_HOME/hub; of URLs $HF_HOME/assets/berth",
     .help = "the cache to download into"},
    {.name = "token_file",
     .kind = CLI_TEXT,
     .unit = "FILE",
     .fallback = "HF_TOKEN, else HF_TOKEN_PATH or $HF_HOME/token",
     .help = "file with the token for the hub"},
    {.name = "retries",
     .kind = CLI_INTEGER,
     .minimum = 0,
     .maximum = 1000,
     .unit = "N",
     .fallback = "5",
     .help = "tries after a failure that may pass, while no new byte comes"},
    {.name = "no_progress", .kind = CLI_FLAG, .help = "no progress bar"},
    {.name = "json", .kind = CLI_FLAG, .help = "one JSON object on standard output"},
};

static enum berth_status print_path(const struct cli_call *call, const char *name, const char *path,
                                    struct berth_error *error) {
    if (!cli_flag(call, "json")) {
        puts(path);
        return BERTH_OK;
    }
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    json_line_text(&line, "name", name);
    json_line_text(&line, "path", path);
    json_line_close(&line, '}');
    enum berth_status status = cli_put_json(&line, error);
    json_line_done(&line);
    return status;
}

// Only an interactive user gets a progress bar.
static int wants_progress(const struct cli_call *call) {
    const char *disabled = getenv("HF_HUB_DISABLE_PROGRESS_BARS");
    int off = 0;
    if (disabled != NULL) {
        number_parse_truth(disabled, &off);
    }
    return !cli_flag(call, "no_progress") && !call->config.no_progress &&
           terminal_is(STDERR_FILENO) && !off;
}

static enum berth_status fetch(struct cli_call *call, const char *name,
                               const struct berth_fetch_settings *settings,
                               struct berth_error *error) {
    struct berth_config config;
    struct berth_reporter *reporter;
    char *path = NULL;
    berth_config_init(&config);
    config.quiet = call->config.quiet;
    config.no_progress = !wants_progress(call);
    TRY(berth_reporter_open(&config, STDERR_FILENO, &reporter, error));
    enum berth_status status =
        berth_fetch(name, settings, berth_reporter_log(reporter),
                    cli_stop_on_signals("what was downloaded is kept"), &path, error);
    berth_reporter_close(reporter);
    if (status == BERTH_OK) {
        status = print_path(call, name, path, error);
    }
    berth_string_free(path);
    return status;
}

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    const struct berth_fetch_settings settings = {.revision = cli_value(call, "revision"),
                                                  .files = cli_value(call, "files"),
                                                  .sha256 = cli_value(call, "sha256"),
                                                  .md5 = cli_value(call, "md5"),
                                                  .cache_dir = cli_value(call, "cache_dir"),
                                                  .token_file = cli_value(call, "token_file"),
                                                  .dataset = cli_flag(call, "dataset"),
                                                  .retries = cli_integer(call, "retries", -1)};
    return fetch(call, call->arguments[0], &settings, error);
}

enum berth_status cli_download_only(struct cli_call *call, struct berth_error *error) {
    const struct berth_fetch_settings settings = {.retries = -1};
    const char *name = call->config.model_name_or_path;
    if (name == NULL) {
        return error_set(error, BERTH_USAGE, "--download_only needs --model NAME");
    }
    if (dir_exists(name)) {
        cli_note(call, "%s is a folder: there is nothing to download", name);
        return print_path(call, name, name, error);
    }
    return fetch(call, name, &settings, error);
}

const struct cli_verb cli_fetch = {
    .name = "fetch",
    .summary = "download a model or data set into the Hugging Face cache",
    .usage = "NAME|URL [--revision NAME] [--sha256 HEX] [--cache_dir DIR]",
    .example = "berth fetch sentence-transformers/all-MiniLM-L6-v2\n"
               "berth fetch squad\n"
               "berth fetch https://example.org/dev.json --sha256 95aa6a52d5d6...",
    .notes = "NAME is a model of the hub (org/name), with --dataset a data set of it, or squad or "
             "squad_v2. The folder (of a URL: the file) is printed on standard output; afterwards "
             "--model org/name finds it without the network. A download that was cut off or "
             "stopped goes on where it ended; contents are checked against the hub's or the given "
             "digests. HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HF_ASSETS_CACHE, HF_TOKEN, "
             "HF_TOKEN_PATH, HF_HUB_ETAG_TIMEOUT, HF_HUB_DOWNLOAD_TIMEOUT and the proxy variables "
             "are obeyed. With HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE or (data sets and URLs) "
             "HF_DATASETS_OFFLINE nothing is downloaded: what is in the cache is printed, what is "
             "not is exit code 69. No other verb uses the network, but for --download_only of "
             "finetune, predict and show, which does what fetch does with --model and ends.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .arguments_least = 1,
    .arguments_most = 1,
    .writes = CLI_WRITES,
    .run = run,
};
