// SPDX-License-Identifier: Apache-2.0
// berth pack: packs several instances of pre-training data into a row.
#include "cli.h"
#include "core/json_line.h"
#include "core/number.h"
#include "core/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const struct option_row options[] = {
    {CLI_INTEGER("max_seq_length", "0"), BETWEEN(0, 65536), .unit = "N", .shown = "as in the files",
     .help = "check that rows have N tokens, as those of the files"},
    {CLI_FLAG("json"), .help = "print the counts as one JSON object"},
};

void cli_print_pack(const struct berth_pack_result *result) {
    printf("%" PRId64 " sequence%s in %" PRId64 " row%s of %" PRId64 " tokens in %" PRId64
           " file%s\nefficiency %.4f (at best 1), %.3f sequences a row (at best %.3f)\n",
           result->sequences, number_plural(result->sequences), result->rows,
           number_plural(result->rows), result->max_seq_length, result->files,
           number_plural(result->files), result->efficiency, result->speed_up,
           result->speed_up_limit);
}

void cli_put_pack(struct json_line *line, const char *key, const struct berth_pack_result *result) {
    json_line_open(line, key, '{');
    json_line_integer(line, "sequences", result->sequences);
    json_line_integer(line, "tokens", result->tokens);
    json_line_integer(line, "rows", result->rows);
    json_line_integer(line, "files", result->files);
    json_line_integer(line, "max_seq_length", result->max_seq_length);
    json_line_real(line, "efficiency", result->efficiency);
    json_line_real(line, "speed_up", result->speed_up);
    json_line_real(line, "speed_up_limit", result->speed_up_limit);
    json_line_close(line, '}');
}

static enum berth_status print(const struct cli_call *call, const struct berth_pack_result *result,
                               struct berth_error *error) {
    if (!cli_flag(call, "json")) {
        cli_print_pack(result);
        return BERTH_OK;
    }
    struct json_line line = {0};
    cli_put_pack(&line, NULL, result);
    enum berth_status status = cli_put_json(&line, error);
    json_line_done(&line);
    return status;
}

static enum berth_status settle(struct cli_call *call, struct berth_error *error) {
    return cli_is_given(call, "max_seq_length")
               ? cli_set(call, "max_seq_length", cli_value(call, "max_seq_length"), error)
               : BERTH_OK;
}

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    struct berth_reporter *reporter;
    struct berth_pack_result result;
    call->config.no_progress |= !terminal_is(STDERR_FILENO);
    TRY(cli_check_output(call, "OUT", call->arguments[1], error));
    TRY(berth_reporter_open(&call->config, STDERR_FILENO, &reporter, error));
    enum berth_status status = berth_pack(
        &call->config, call->arguments[0], call->arguments[1], berth_reporter_log(reporter),
        cli_stop_on_signals("finished files are kept"), &result, error);
    berth_reporter_close(reporter);
    return status == BERTH_OK && cli_reports() ? print(call, &result, error) : status;
}

const struct cli_verb cli_pack = {
    .name = "pack",
    .summary = "pack pre-training data, up to three instances per row",
    .usage = "DIR OUT",
    .example = "berth pack data/hdf5_lower_case_1_.../wikicorpus_en packed",
    .notes = "Reads the HDF5 and TFRecord files of DIR with \"training\" in their names and writes "
             "OUT/mixed_strategies_part_0.hdf5 and so on, 4,480 rows each, and OUT_metadata.json "
             "next to OUT, for Habana's trainer. Berth's own trainer packs tokens itself and does "
             "not need this. An interrupted run resumes when started again.",
    .jobs = JOB_PACK,
    CLI_OWN_OPTIONS(options),
    .arguments_min = 2,
    .arguments_max = 2,
    .processes = CLI_DIVIDED,
    .settle = settle,
    .run = run,
};
