// SPDX-License-Identifier: Apache-2.0
// berth report and berth plot: what the logs of runs say, as an HTML page or in the terminal. The
// logs are read by report/run_read.c, the page is made by page/html.c and the charts of a terminal
// by page/plot.c; here are the words of the two verbs.
#include "cli.h"
#include "core/memory.h"
#include "core/terminal.h"
#include "page/plot.h"
#include "report/run.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

// --- report --------------------------------------------------------------------------------------

static const struct option_row report_options[] = {
    {CLI_TEXT("output", "report.html"), .unit = "FILE.html",
     .help = "file to write; -: standard output"},
};

static enum berth_status run_report(struct cli_call *call, struct berth_error *error) {
    const char *output = cli_value(call, "output");
    struct run_set set DONE_BY(run_set_done) = {0};
    TRY(run_set_read(&set, call->arguments, call->argument_count, error));
    TRY(html_write_report(&set, output, error));
    if (strcmp(output, "-") != 0) {
        cli_note(call, "wrote %s", output);
    }
    return BERTH_OK;
}

const struct cli_verb cli_report = {
    .name = "report",
    .summary = "write a page with the curves, plan and sample answers of runs",
    .usage = "OUT... [--output FILE.html]",
    .example = "berth report squad-minilm --output squad-minilm.html\n"
               "berth report squad-seed-1 squad-seed-2 peer/trainer_state.json",
    .notes = "OUT is the output folder of a run, which may still be running or have been killed, a "
             "file of --json_summary (without --log_format dllogger), trainer_state.json of "
             "Hugging Face's Trainer, or a file with the output of `berth bench --json`. Several, "
             "at most 64, are drawn in the same charts. The page is self-contained.",
    CLI_OWN_OPTIONS(report_options),
    .arguments_min = 1,
    .arguments_max = CLI_ARGUMENTS_MAX,
    .processes = CLI_FIRST,
    .streams_output = 1,
    .run = run_report,
};

// --- plot ----------------------------------------------------------------------------------------

static const struct option_row plot_options[] = {
    {CLI_TEXT("series", NULL), .unit = "NAMES",
     .help = "series to draw, separated by commas: loss,learning_rate,f1",
     .shown = "the loss and the metric of evaluations"},
    {CLI_INTEGER("columns", "0"), BETWEEN(0, 1000), .unit = "N",
     .help = "width; at least 60 columns are drawn", .shown = "0: that of the terminal"},
    {CLI_INTEGER("rows", "12"), BETWEEN(4, 200), .unit = "N", .help = "height of a chart"},
};

static enum berth_status run_plot(struct cli_call *call, struct berth_error *error) {
    const int64_t columns = cli_integer(call, "columns");
    const struct plot_style style = {.series = cli_value(call, "series"),
                                     .columns =
                                         columns > 0 ? (int)columns : terminal_width(STDOUT_FILENO),
                                     .rows = (int)cli_integer(call, "rows"),
                                     .colour = cli_colour()};
    struct run_set set DONE_BY(run_set_done) = {0};
    struct buffer drawn DONE_BY(buffer_done) = {0};
    TRY(run_set_read(&set, call->arguments, call->argument_count, error));
    TRY(plot_draw(&set, &style, &drawn, error));
    buffer_put_byte(&drawn, '\0');
    if (drawn.failed) {
        return error_no_memory(error, 1, "the charts");
    }
    cli_style(drawn.bytes); // with colours of the program's own; foreign names are escaped
    return BERTH_OK;
}

const struct cli_verb cli_plot = {
    .name = "plot",
    .summary = "draw curves of runs in the terminal",
    .usage = "OUT... [--series NAMES] [--columns N] [--rows N]",
    .example = "berth plot squad-minilm\n"
               "berth plot squad-seed-1 squad-seed-2 --series loss,grad_norm",
    .notes = "OUT is as for `berth report`. Several runs share a chart if there are colours; "
             "otherwise their charts are below each other.",
    CLI_OWN_OPTIONS(plot_options),
    .arguments_min = 1,
    .arguments_max = CLI_ARGUMENTS_MAX,
    .processes = CLI_FIRST,
    .run = run_plot,
};
