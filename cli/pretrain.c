// SPDX-License-Identifier: Apache-2.0
// berth pretrain: the training run with its reporter and signals.
// berth evaluate pretrain: the scores of its model on held-out shards.
#include "cli.h"
#include "run.h"

static const struct cli_option options[] = {
    {.name = "json", .kind = CLI_FLAG, .help = "the result as one JSON object on standard output"},
};

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    return cli_run_job(call, berth_pretrain, "finishing this update and saving", error);
}

static enum berth_status run_evaluation(struct cli_call *call, struct berth_error *error) {
    return cli_run_job(call, berth_evaluate_pretrain, "nothing will be written", error);
}

const struct cli_verb cli_evaluate_pretrain = {
    .name = "evaluate",
    .task = "pretrain",
    .summary = "score a pre-trained model on held-out shards",
    .usage = "--model DIR (--eval_dir DIR | --input_dir DIR) --output DIR [options]",
    .example = "berth evaluate pretrain --model phase1 --input_dir hdf5-128 --output scores",
    .notes = "Masked words and next sentences: accuracies and losses, also in eval_results.txt.",
    .jobs = JOB_EVALUATE_PRETRAIN,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .required = "model_name_or_path output_dir",
    .writes = CLI_WRITES,
    .run = run_evaluation,
};

const struct cli_verb cli_pretrain = {
    .name = "pretrain",
    .summary = "pre-train a model: masked words and next sentences",
    .usage = "--input_dir DIR (--config_file FILE --vocab_file FILE | --model DIR) --output DIR "
             "[options]",
    .example = "berth pretrain --recipe nvidia-phase1 --input_dir hdf5-128 --config_file "
               "bert_config.json \\\n    --vocab_file vocab.txt --output phase1\n"
               "berth pretrain --recipe nvidia-phase2 --input_dir hdf5-512 --output phase2 \\\n"
               "    --resume_from_checkpoint phase1/checkpoint-7038\n"
               "berth pretrain ... --output phase1 --resume_from_checkpoint auto",
    .notes =
        "Shards are what `berth prepare` and the scripts of NVIDIA, Habana, Google and Intel "
        "write. An update "
        "is train_batch_size sequences, packed rows counted as what is in them. Ctrl-C, SIGTERM, "
        "SIGHUP, SIGXCPU and SIGUSR1 finish the update, save, and stop; --resume_from_checkpoint "
        "goes on. The "
        "flags of the original scripts are understood; those without a meaning here are noted "
        "and skipped.",
    .jobs = JOB_PRETRAIN,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .required = "input_dir output_dir",
    .writes = CLI_WRITES,
    .without_training = &cli_evaluate_pretrain,
    .run = run,
};
