// SPDX-License-Identifier: Apache-2.0
// berth prepare: data for pre-training.
#include "cli.h"
#include "core/json_line.h"
#include "core/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const struct cli_option options[] = {
    {.name = "wikipedia",
     .kind = CLI_TEXT,
     .unit = "FILE",
     .help = "Wikipedia dump: pages-articles.xml, plain or as .bz2 (multistream or not)"},
    {.name = "output",
     .kind = CLI_TEXT,
     .unit = "DIR",
     .help = "folder for what is made; the text goes to extracted/wikicorpus_en in it"},
    {.name = "stages",
     .kind = CLI_TEXT,
     .unit = "NAMES",
     .help = "which stages to run; so far there is one, text"},
    {.name = "file_size",
     .kind = CLI_INTEGER,
     .minimum = 1,
     .maximum = 1e12,
     .unit = "BYTES",
     .fallback = "104857600",
     .help = "a file of text is ended before it grows beyond"},
    {.name = "no_progress", .kind = CLI_FLAG, .help = "no progress bar"},
    {.name = "json", .kind = CLI_FLAG, .help = "the counts as one JSON object"},
};

static enum berth_status print_json(const struct berth_prepare_result *result,
                                    struct berth_error *error) {
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    json_line_integer(&line, "pages", result->pages);
    json_line_integer(&line, "articles", result->articles);
    json_line_integer(&line, "redirects", result->redirects);
    json_line_integer(&line, "other_namespaces", result->other_namespaces);
    json_line_integer(&line, "empty", result->empty);
    json_line_integer(&line, "oversize", result->oversize);
    json_line_integer(&line, "damaged", result->damaged);
    json_line_integer(&line, "xml_bytes", result->xml_bytes);
    json_line_integer(&line, "text_bytes", result->text_bytes);
    json_line_integer(&line, "files", result->files);
    json_line_close(&line, '}');
    enum berth_status status = cli_put_json(&line, error);
    json_line_done(&line);
    return status;
}

static enum berth_status print(const struct cli_call *call,
                               const struct berth_prepare_result *result,
                               struct berth_error *error) {
    if (cli_flag(call, "json")) {
        return print_json(result, error);
    }
    printf("%" PRId64 " pages: %" PRId64 " articles, %" PRId64 " redirects, %" PRId64
           " of other namespaces, %" PRId64 " without text, %" PRId64 " too long, %" PRId64
           " damaged\n",
           result->pages, result->articles, result->redirects, result->other_namespaces,
           result->empty, result->oversize, result->damaged);
    printf("%" PRId64 " bytes of XML, %" PRId64 " bytes of text in %" PRId64 " files\n",
           result->xml_bytes, result->text_bytes, result->files);
    return BERTH_OK;
}

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    const struct berth_prepare_settings settings = {.wikipedia = cli_value(call, "wikipedia"),
                                                    .output_dir = cli_value(call, "output"),
                                                    .stages = cli_value(call, "stages"),
                                                    .file_size = cli_integer(call, "file_size", 0)};
    struct berth_config config;
    struct berth_reporter *reporter;
    struct berth_prepare_result result;
    berth_config_init(&config);
    config.quiet = call->config.quiet;
    config.no_progress = cli_flag(call, "no_progress") || !terminal_is(STDERR_FILENO);
    TRY(berth_reporter_open(&config, STDERR_FILENO, &reporter, error));
    enum berth_status status =
        berth_prepare(&settings, berth_reporter_log(reporter),
                      cli_stop_on_signals("finished files are kept"), &result, error);
    berth_reporter_close(reporter);
    return status == BERTH_OK ? print(call, &result, error) : status;
}

const struct cli_verb cli_prepare = {
    .name = "prepare",
    .summary = "a Wikipedia dump as plain text",
    .usage = "--wikipedia DUMP.xml[.bz2] --stages text --output DIR",
    .example = "berth prepare --wikipedia enwiki-latest-pages-articles.xml.bz2 --stages text "
               "--output data",
    .notes = "Articles of the main namespace are written as WikiExtractor does it: "
             "extracted/wikicorpus_en/AA/wiki_00 and so on, each article between <doc ...> and "
             "</doc>. A run that was stopped or killed goes on after the files that it finished. "
             "Pages with bytes that are no UTF-8, or longer than 16 MiB, are skipped and counted.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .required = "wikipedia output stages",
    .run = run,
};
