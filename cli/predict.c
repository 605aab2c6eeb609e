// SPDX-License-Identifier: Apache-2.0
// berth predict squad: predictions.json, nbest_predictions.json and null_odds.json.
// berth predict classify: test_results.tsv and predict_results_TASK.txt.
#include "cli.h"
#include "run.h"

static const struct cli_option options[] = {
    {.name = "json", .kind = CLI_FLAG, .help = "the result as one JSON object on standard output"},
};

static const char follows[] = "nothing will be written";

static enum berth_status run_squad(struct cli_call *call, struct berth_error *error) {
    return cli_run_job(call, berth_predict_squad, follows, error);
}

// run_classifier and run_glue with --do_eval and --do_predict, but without --do_train.
static enum berth_status evaluate_and_predict(const struct berth_config *config,
                                              struct berth_log log, const volatile int *stop,
                                              struct berth_run_result *result,
                                              struct berth_error *error) {
    struct berth_config own = *config;
    TRY(berth_evaluate_classify(config, log, stop, result, error));
    if (config->dry_run) {
        return BERTH_OK;
    }
    own.overwrite_output_dir = 1; // it holds what was just written
    return berth_predict_classify(&own, log, stop, NULL, error);
}

static enum berth_status run_classify(struct cli_call *call, struct berth_error *error) {
    const struct berth_config *config = &call->config;
    cli_job *job = call->do_train != 0 || !config->do_eval ? berth_predict_classify
                   : config->do_predict                    ? evaluate_and_predict
                                                           : berth_evaluate_classify;
    return cli_run_job(call, job, follows, error);
}

const struct cli_verb cli_predict = {
    .name = "predict",
    .task = "squad",
    .summary = "answer the questions of a SQuAD file",
    .usage = "--model DIR --input FILE --output DIR [options]",
    .example = "berth predict squad --model squad-minilm --input dev-v1.1.json --output answers\n"
               "berth evaluate squad dev-v1.1.json answers/predictions.json",
    .jobs = JOB_PREDICT_SQUAD,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .required = "model_name_or_path predict_file output_dir",
    .writes = CLI_WRITES,
    .run = run_squad,
};

const struct cli_verb cli_predict_classify = {
    .name = "predict",
    .task = "classify",
    .summary = "classify texts or pairs, or predict their numbers",
    .usage = "--model DIR (--task NAME --data_dir DIR [--split NAME] | --input FILE "
             "--text_column NAME) --output DIR [options]",
    .example = "berth predict classify --model out --task mrpc --data_dir mrpc --output predicted\n"
               "berth predict classify --model out --input new.csv --text-column review \\\n"
               "    --output predicted",
    .notes = "Writes test_results.tsv (the classes' probabilities), predict_results_TASK.txt (the "
             "classes) and, where the file has labels, predict_results.json with the scores.",
    .jobs = JOB_PREDICT_CLASSIFY,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .required = "model_name_or_path output_dir",
    .writes = CLI_WRITES,
    .run = run_classify,
};
