// SPDX-License-Identifier: Apache-2.0
// berth evaluate squad: the official metrics of a predictions file.
#include "cli.h"

#include <stdio.h>
#include <string.h>

static const struct cli_option options[] = {
    {.name = "null_odds",
     .aliases = "null_odds_file na_prob_file",
     .kind = CLI_TEXT,
     .unit = "FILE",
     .help = "SQuAD 2.0: null_odds.json, for the best thresholds"},
    {.name = "null_threshold",
     .aliases = "na_prob_thresh",
     .kind = CLI_REAL,
     .minimum = -1e30,
     .maximum = 1e30,
     .unit = "X",
     .fallback = "1, as the official script",
     .help = "SQuAD 2.0: questions with larger null odds count as answered with nothing"},
};

// "-" is standard input.
static const char *path_of(const char *word) {
    return strcmp(word, "-") == 0 ? "/dev/stdin" : word;
}

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    char *json = NULL;
    TRY(berth_evaluate_squad(path_of(call->arguments[0]), path_of(call->arguments[1]),
                             cli_value(call, "null_odds"), cli_real(call, "null_threshold", 1.0),
                             cli_log(call), &json, error));
    puts(json);
    berth_string_free(json);
    return BERTH_OK;
}

const struct cli_verb cli_evaluate = {
    .name = "evaluate",
    .task = "squad",
    .summary = "score a predictions file as the official scripts do",
    .usage = "DATASET PREDICTIONS [--null-odds FILE] [--null-threshold X]",
    .example = "berth evaluate squad dev-v1.1.json answers/predictions.json\n"
               "berth evaluate squad dev-v2.0.json answers/predictions.json \\\n"
               "    --null-odds answers/null_odds.json",
    .notes = "One JSON object on standard output: exact_match and f1, for SQuAD 2.0 the official "
             "keys (exact, f1, total, HasAns_..., NoAns_..., best_...). A question without a "
             "prediction scores 0 with a warning (an error for SQuAD 2.0, as in the official "
             "script); predictions for none of the questions are an error.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .arguments_least = 2,
    .arguments_most = 2,
    .run = run,
};
