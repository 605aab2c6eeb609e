// SPDX-License-Identifier: Apache-2.0
// berth init: writes a Hugging Face folder with random weights.
#include "cli.h"

static const struct option_row options[] = {
    {CLI_TEXT("config", NULL), .unit = "NAME|FILE", .aliases = "config_file",
     .help = "model geometry: tiny, minilm, base, large, or a config.json or its folder"},
    {CLI_TEXT("output", NULL), .unit = "DIR", .aliases = "output_dir",
     .help = "folder for the model"},
    {CLI_INTEGER("seed", "42"), BETWEEN(0, 9e15), .unit = "N", .help = "seed of the weights"},
};

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    TRY(berth_init_model(cli_value(call, "config"), cli_value(call, "output"),
                         cli_integer(call, "seed"), error));
    cli_note(call, "%s contains a randomly initialised model; it needs a vocab.txt before use",
             cli_value(call, "output"));
    return BERTH_OK;
}

const struct cli_verb cli_init = {
    .name = "init",
    .summary = "write a randomly initialised model folder",
    .usage = "--config NAME|FILE --output DIR [--seed N]",
    .example = "berth init --config base --output bert-base-random --seed 1",
    CLI_OWN_OPTIONS(options),
    .required = "config output",
    .processes = CLI_ALONE,
    .run = run,
};
