// SPDX-License-Identifier: Apache-2.0
// berth finetune squad, berth finetune classify: the training run with its reporter and signals.
#include "cli.h"
#include "run.h"

static const struct cli_option options[] = {
    {.name = "json", .kind = CLI_FLAG, .help = "the result as one JSON object on standard output"},
};

static const char follows[] = "finishing this update and saving";

static enum berth_status run_squad(struct cli_call *call, struct berth_error *error) {
    return cli_run_job(call, berth_finetune_squad, follows, error);
}

static enum berth_status run_classify(struct cli_call *call, struct berth_error *error) {
    return cli_run_job(call, berth_finetune_classify, follows, error);
}

const struct cli_verb cli_finetune = {
    .name = "finetune",
    .task = "squad",
    .summary = "fine-tune a model on SQuAD and evaluate it",
    .usage = "--model DIR --train FILE [--dev FILE] --output DIR [options]",
    .example = "berth finetune squad --model minilm --train train-v1.1.json \\\n"
               "    --dev dev-v1.1.json --output squad-minilm --learning_rate 1e-4\n"
               "berth finetune squad ... --output squad-minilm --resume_from_checkpoint auto\n"
               "berth finetune squad ... --dry-run",
    .notes = "Ctrl-C, SIGTERM, SIGHUP, SIGXCPU and SIGUSR1 finish the update, save, and stop; "
             "--resume_from_checkpoint auto goes on. The flags of the original SQuAD scripts "
             "(--do_train, --predict_file, --fp16, ...) are understood; those without a meaning "
             "here are noted and skipped. What is given here wins over --deepspeed_config.",
    .jobs = JOB_FINETUNE_SQUAD,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .required = "model_name_or_path train_file output_dir",
    .writes = CLI_WRITES,
    .without_training = &cli_predict,
    .run = run_squad,
};

const struct cli_verb cli_finetune_classify = {
    .name = "finetune",
    .task = "classify",
    .summary = "fine-tune a classifier or a regression on texts or pairs",
    .usage = "--model DIR (--task NAME --data_dir DIR | --train FILE --text_column NAME "
             "--label_column NAME) --output DIR [options]",
    .example = "berth finetune classify --model minilm --task mrpc --data_dir mrpc --output out\n"
               "berth finetune classify --model minilm --train reviews.csv --dev held-out.csv \\\n"
               "    --text-column review --label-column stars --output out",
    .notes =
        "Tasks of GLUE and XNLI are known by name, with their files, columns, classes and "
        "metrics; your own files are TSV, CSV or JSON lines, told apart by their names. Beside "
        "the model stand eval_results.txt, eval_results.json and all_results.json. Signals and "
        "--resume_from_checkpoint are those of `berth finetune squad`.",
    .jobs = JOB_FINETUNE_CLASSIFY,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .required = "model_name_or_path output_dir",
    .writes = CLI_WRITES,
    .without_training = &cli_predict_classify,
    .run = run_classify,
};
