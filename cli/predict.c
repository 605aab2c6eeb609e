// SPDX-License-Identifier: Apache-2.0
// berth predict squad: predictions.json, nbest_predictions.json and null_odds.json.
#include "cli.h"
#include "run.h"

static const struct cli_option options[] = {
    {.name = "json", .kind = CLI_FLAG, .help = "the result as one JSON object on standard output"},
};

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    return cli_run_job(call, berth_predict_squad, "nothing will be written", error);
}

const struct cli_verb cli_predict = {
    .name = "predict",
    .task = "squad",
    .summary = "answer the questions of a SQuAD file",
    .usage = "--model DIR --input FILE --output DIR [options]",
    .example = "berth predict squad --model squad-minilm --input dev-v1.1.json --output answers\n"
               "berth evaluate squad dev-v1.1.json answers/predictions.json",
    .jobs = JOB_PREDICT,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .required = "model_name_or_path predict_file output_dir",
    .run = run,
};
