// SPDX-License-Identifier: Apache-2.0
// berth init: writes a Hugging Face folder with random weights.
#include "cli.h"

static const struct cli_option options[] = {
    {.name = "config",
     .aliases = "config_name config_file",
     .kind = CLI_TEXT,
     .unit = "NAME|FILE",
     .help = "tiny, minilm, base, large, or a config.json"},
    {.name = "output",
     .aliases = "output_dir",
     .kind = CLI_TEXT,
     .unit = "DIR",
     .help = "folder to write"},
    {.name = "seed",
     .kind = CLI_INTEGER,
     .minimum = 0,
     .maximum = 9e15,
     .unit = "N",
     .fallback = "42",
     .help = "seed of the weights"},
};

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    TRY(berth_init_model(cli_value(call, "config"), cli_value(call, "output"),
                         cli_integer(call, "seed", 42), error));
    cli_note(call, "%s contains a randomly initialised model; it needs a vocab.txt before use",
             cli_value(call, "output"));
    return BERTH_OK;
}

const struct cli_verb cli_init = {
    .name = "init",
    .summary = "write a randomly initialised model folder",
    .usage = "--config NAME|FILE --output DIR [--seed N]",
    .example = "berth init --config base --output bert-base-random --seed 1",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .required = "config output",
    .writes = CLI_WRITES,
    .run = run,
};
