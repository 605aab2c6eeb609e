// SPDX-License-Identifier: Apache-2.0
// The verbs of tasks: a row for each job and task, the second word of the command line, with their
// common reporter, signals and result.
#include "cli.h"
#include "core/json_line.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// --- running a job ------------------------------------------------------------------------------

typedef enum berth_status job_function(const char *task, const struct berth_config *config,
                                       struct berth_log log, const volatile int *stop,
                                       struct berth_run_result *result, struct berth_error *error);

// `berth pretrain` has no second word.
static const char *task_of(const struct cli_verb *verb) {
    return verb->library_task != NULL ? verb->library_task
           : verb->task != NULL       ? verb->task
                                      : verb->name;
}

static enum berth_status print_result(const struct berth_run_result *result,
                                      struct berth_error *error) {
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    json_line_integer(&line, "steps", result->steps);
    json_line_real(&line, "final_loss", result->final_loss);
    for (size_t i = 0; i < result->metric_count; i++) {
        json_line_real(&line, result->metrics[i].name, result->metrics[i].value);
    }
    json_line_real(&line, "samples_per_second", result->samples_per_second);
    json_line_real(&line, "tokens_per_second", result->tokens_per_second);
    json_line_real(&line, "mfu", result->mfu);
    if (result->workers > 0) {
        json_line_integer(&line, "workers", result->workers);
        json_line_integer(&line, "best_worker", result->best_worker);
        json_line_integer(&line, "best_seed", result->best_seed);
    }
    json_line_close(&line, '}');
    enum berth_status status = cli_put_json(&line, error);
    json_line_done(&line);
    return status;
}

// Runs a job; of several processes the first one reports. Reports on standard error (a dry run's
// plan on standard output); --json prints the result. `follows` says what the job does on a stop
// signal.
static enum berth_status run_job(struct cli_call *call, job_function *job, const char *follows,
                                 struct berth_run_result *result, struct berth_error *error) {
    struct berth_reporter *reporter;
    int json = cli_flag(call, "json");
    if (!cli_reports()) {
        return job(task_of(call->verb), &call->config, (struct berth_log){0},
                   cli_stop_on_signals(follows), NULL, error);
    }
    int descriptor = call->config.dry_run && !json ? STDOUT_FILENO : STDERR_FILENO;
    TRY(berth_reporter_open(&call->config, descriptor, &reporter, error));
    struct berth_log log = berth_reporter_log(reporter);
    enum berth_status status =
        job(task_of(call->verb), &call->config, log, cli_stop_on_signals(follows), result, error);
    if (status == BERTH_OK) {
        status = berth_reporter_check(reporter, error);
    }
    berth_reporter_close(reporter);
    if (status == BERTH_OK && json) {
        status = print_result(result, error);
    }
    return status;
}

// Predictions after training begin when the model is already saved.
static const char *training_follows(const struct berth_config *config) {
    const int predicts = config->do_predict < 0 ? config->predict_file != NULL : config->do_predict;
    return config->skip_checkpoint ? "finishing this update; nothing is saved (skip_checkpoint)"
           : predicts ? "finishing this update and saving; unfinished predictions are dropped"
                      : "finishing this update and saving";
}

static enum berth_status train(struct cli_call *call, struct berth_error *error) {
    struct berth_run_result result = {0};
    return run_job(call, job_train, training_follows(&call->config), &result, error);
}

// Appends the time to the name of the result; `dated` holds the new one.
static enum berth_status date_output(struct cli_call *call, char *dated, size_t size,
                                     struct berth_error *error) {
    const time_t now = time(NULL);
    struct tm local;
    char date[32];
    localtime_r(&now, &local);
    strftime(date, sizeof date, "%Y-%m-%d-%H%M%S", &local);
    snprintf(dated, size, "%s_%s", call->config.output_dir, date);
    if (rename(call->config.output_dir, dated) != 0) {
        return error_set_errno(error, BERTH_CANT_CREATE, errno, "%s: cannot rename %s to it", dated,
                               call->config.output_dir);
    }
    call->config.output_dir = dated;
    cli_note(call, "the model is %s", dated);
    return BERTH_OK;
}

static enum berth_status train_squad(struct cli_call *call, struct berth_error *error) {
    static char dated[4096];
    const struct berth_selection samples = {.count = cli_integer(call, "show_samples"),
                                            .random = cli_flag(call, "show_random")};
    TRY(train(call, error));
    if (!cli_reports() || call->config.dry_run) {
        return BERTH_OK;
    }
    TRY(cli_flag(call, "date_output") ? date_output(call, dated, sizeof dated, error) : BERTH_OK);
    if (samples.count == 0) {
        return BERTH_OK;
    }
    struct berth_config shown = call->config;
    shown.model_name_or_path = call->config.output_dir;
    shown.vocab_file = shown.config_file = NULL; // the folder has both
    shown.predict_file = call->config.validation_file;
    return cli_show_samples(call, &shown, samples, error);
}

static const char nothing_written[] = "nothing will be written";

static enum berth_status predict(struct cli_call *call, struct berth_error *error) {
    struct berth_run_result result = {0};
    return run_job(call, job_predict, nothing_written, &result, error);
}

static enum berth_status evaluate(struct cli_call *call, struct berth_error *error) {
    struct berth_run_result result = {0};
    return run_job(call, job_evaluate, nothing_written, &result, error);
}

static enum berth_status evaluate_and_predict(const char *task, const struct berth_config *config,
                                              struct berth_log log, const volatile int *stop,
                                              struct berth_run_result *result,
                                              struct berth_error *error) {
    struct berth_config own = *config;
    TRY(job_evaluate(task, config, log, stop, result, error));
    if (config->dry_run) {
        return BERTH_OK;
    }
    own.overwrite_output_dir = 1; // it contains what was just written
    return job_predict(task, &own, log, stop, NULL, error);
}

// --do_eval scores the development set, --do_predict predicts; the default is the latter.
static enum berth_status predict_or_evaluate(struct cli_call *call, struct berth_error *error) {
    const struct berth_config *config = &call->config;
    const int evaluates = cli_is_given(call, "do_eval") && config->do_eval;
    if (!evaluates && config->do_predict == 0) {
        return error_set(error, BERTH_USAGE,
                         "nothing to do: --do_predict is false and --do_eval is not given");
    }
    if (config->predict_file == NULL && (call->verb->jobs & JOB_PREDICT_TOKENS) != 0 &&
        (!evaluates || config->do_predict > 0)) {
        return error_set(error, BERTH_USAGE, "option --predict_file is required to predict");
    }
    job_function *job = !evaluates               ? job_predict
                        : config->do_predict > 0 ? evaluate_and_predict
                                                 : job_evaluate;
    struct berth_run_result result = {0};
    return run_job(call, job,
                   job == evaluate_and_predict ? "nothing more will be written" : nothing_written,
                   &result, error);
}

// --- the official scores of SQuAD ---------------------------------------------------------------

// "-" is standard input.
static const char *path_of(const char *word) {
    return strcmp(word, "-") == 0 ? "/dev/stdin" : word;
}

// Without a file all odds are 0, as in the official script.
static void note_threshold(const struct cli_call *call) {
    if (cli_is_given(call, "null_threshold") && cli_value(call, "null_odds") == NULL &&
        cli_real(call, "null_threshold") >= 0) {
        cli_note(call, "--null_threshold has no effect without --null_odds");
    }
}

static enum berth_status evaluate_squad(struct cli_call *call, struct berth_error *error) {
    char *json = NULL;
    note_threshold(call);
    TRY(berth_evaluate_squad(path_of(call->arguments[0]), path_of(call->arguments[1]),
                             cli_value(call, "null_odds"), cli_real(call, "null_threshold"),
                             cli_log(call), &json, error));
    puts(json);
    berth_string_free(json);
    return BERTH_OK;
}

// --- the scores of tags ------------------------------------------------------------------------

static enum berth_status evaluate_tokens(struct cli_call *call, struct berth_error *error) {
    const struct berth_tag_scoring scoring = {.text_column = cli_value(call, "text_column"),
                                              .label_column = cli_value(call, "label_column"),
                                              .scheme = cli_value(call, "scheme")};
    char *json = NULL;
    TRY(berth_evaluate_tokens(path_of(call->arguments[0]), path_of(call->arguments[1]), &scoring,
                              &json, error));
    puts(json);
    berth_string_free(json);
    return BERTH_OK;
}

// --- the table ----------------------------------------------------------------------------------

static const struct option_row options[] = {
    {CLI_FLAG("json"), .help = "print the result as one JSON object"},
};
static const struct option_row squad_options[] = {
    {CLI_FLAG("json"), .help = "print the result as one JSON object"},
    {CLI_INTEGER("show_samples", "0"), BETWEEN(0, 1e12), .unit = "N",
     .help = "after training, show N questions of validation_file as `berth show squad` does"},
    {CLI_FLAG("show_random"), .help = "with --show_samples: draw them at random, by --seed"},
    {CLI_FLAG("date_output"),
     .help = "after training, append the time to the name of output_dir: NAME_YYYY-MM-DD-HHMMSS"},
};

#define BOTH "mlm+nsp"
#define MASKED "mlm"

static const struct option_row objective_options[] = {
    {CLI_FLAG("json"), .help = "print the result as one JSON object"},
    {CLI_TEXT("objective", BOTH), .unit = "WHAT", .choices = BOTH "|" MASKED,
     .help = "mlm+nsp: masked words and next sentences, on shards; mlm: masked words of text"},
};

// The verb was chosen before a file of options was read, so the file cannot name another objective.
static enum berth_status check_objective(struct cli_call *call, struct berth_error *error) {
    const char *objective = cli_value(call, "objective");
    return !cli_is_given(call, "objective") || strcmp(objective, call->verb->objective) == 0
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "option objective: expected on the command line, --objective %s, found "
                           "in the file",
                           objective);
}

static const struct option_row evaluate_options[] = {
    {CLI_TEXT("null_odds", NULL), .unit = "FILE",
     .help = "null_odds.json, for the best thresholds; scores by the rules of SQuAD 2.0"},
    {CLI_REAL("null_threshold", "1"), BETWEEN(-1e30, 1e30), .unit = "X",
     .shown = "1, as in the official script",
     .help = "SQuAD 2.0: count questions with larger null odds as unanswered"},
};

static const struct option_row tag_options[] = {
    {CLI_TEXT("scheme", NULL), .unit = "NAME", .choices = "IOB1|IOB2|IOE1|IOE2|IOBES|BILOU",
     .help = "count only what this scheme allows, as seqeval's mode \"strict\" does",
     .shown = "none: as conlleval and seqeval's default"},
    {CLI_TEXT("text_column", NULL), .unit = "NAME", .help = "column of the words of DATASET",
     .shown = "as in `berth finetune tokens`"},
    {CLI_TEXT("label_column", NULL), .unit = "NAME", .help = "column of the tags of DATASET",
     .shown = "as in `berth finetune tokens`"},
};

// Of a verb that runs a job, whose processes divide the work.
#define JOB_OF(job, own_options, function)                                                         \
    .jobs = (job), CLI_OWN_OPTIONS(own_options), .processes = CLI_DIVIDED, .run = (function)

const struct cli_verb cli_task_verbs[CLI_TASK_VERBS] = {
    {
        .name = "finetune",
        .task = "squad",
        .summary = "fine-tune a model on SQuAD and evaluate it",
        .usage = "--model DIR --train FILE [--dev FILE] --output DIR [options]",
        .example = "berth finetune squad --model minilm --train train-v1.1.json \\\n"
                   "    --dev dev-v1.1.json --output squad-minilm --learning_rate 1e-4\n"
                   "berth finetune squad ... --output squad-minilm --resume_from_checkpoint auto\n"
                   "berth finetune squad ... --dry-run",
        .notes = "Ctrl-C, SIGTERM, SIGHUP, SIGXCPU and SIGUSR1 finish the update, save, and stop; "
                 "--resume_from_checkpoint auto resumes. Options on the command line override "
                 "--deepspeed_config. Command lines of other programs: `berth as`.",
        JOB_OF(JOB_FINETUNE_SQUAD, squad_options, train_squad),
        .required = "model_name_or_path train_file output_dir",
    },
    {
        .name = "finetune",
        .task = "classify",
        .summary = "fine-tune a classifier or a regression on texts or pairs",
        .usage = "--model DIR (--task NAME --data_dir DIR | --train FILE --text_column NAME "
                 "--label_column NAME) --output DIR [options]",
        .example =
            "berth finetune classify --model minilm --task mrpc --data_dir mrpc --output out\n"
            "berth finetune classify --model minilm --train reviews.csv --dev held-out.csv \\\n"
            "    --text-column review --label-column stars --output out",
        .notes =
            "Tasks of GLUE and XNLI are known by name, with their files, columns, classes and "
            "metrics; your own files are TSV, CSV or JSON lines, distinguished by their names. The "
            "model's folder also gets eval_results.txt, eval_results.json and all_results.json. "
            "Signals and --resume_from_checkpoint work as in `berth finetune squad`.",
        JOB_OF(JOB_FINETUNE_CLASSIFY, options, train),
        .required = "model_name_or_path output_dir",
    },
    {
        .name = "finetune",
        .task = "tokens",
        .summary = "fine-tune a model that gives each word a tag, such as named entities",
        .usage = "--model DIR --train FILE [--dev FILE] --output DIR [options]",
        .example =
            "berth finetune tokens --model minilm --train train.txt --dev valid.txt \\\n"
            "    --output ner\n"
            "berth finetune tokens --model minilm --train train.jsonl --text_column words \\\n"
            "    --label_column pos --output tagger",
        .notes = "Files are CoNLL's columns (a word per line, its tag in the last column, an empty "
                 "line after each sentence) or, by their names, JSON lines with arrays \"tokens\" "
                 "and \"ner_tags\". The loss is on the first piece of each word; sentences longer "
                 "than max_seq_length are cut into overlapping windows. Evaluations report "
                 "seqeval's precision, recall, F1 and accuracy. Signals and "
                 "--resume_from_checkpoint work as in `berth finetune squad`.",
        JOB_OF(JOB_FINETUNE_TOKENS, options, train),
        .required = "model_name_or_path train_file output_dir",
    },
    {
        .name = "finetune",
        .task = "embed",
        .summary = "train sentence embeddings on pairs, scored pairs or triplets",
        .usage = "--model DIR --train FILE [--dev FILE] --output DIR [options]",
        .example =
            "berth finetune embed --model minilm --train questions.jsonl --dev held-out.jsonl \\\n"
            "    --train_batch_size 64 --negatives_batch 32 --output searcher\n"
            "berth embed --model searcher texts.txt",
        .notes =
            "Files are TSV, CSV or JSON lines, distinguished by their names. Without --text_column "
            "the score is the column score, scores, label or labels, and the other columns (but id "
            "and idx) are the texts in their order. The result is a folder of "
            "sentence-transformers. Signals and --resume_from_checkpoint work as in `berth "
            "finetune squad`.",
        JOB_OF(JOB_FINETUNE_EMBED, options, train),
        .required = "model_name_or_path train_file output_dir",
    },
    {
        .name = "predict",
        .task = "squad",
        .summary = "answer the questions of a SQuAD file",
        .usage = "--model DIR --input FILE --output DIR [options]",
        .example =
            "berth predict squad --model squad-minilm --input dev-v1.1.json --output answers\n"
            "berth evaluate squad dev-v1.1.json answers/predictions.json",
        JOB_OF(JOB_PREDICT_SQUAD, options, predict),
        .required = "model_name_or_path predict_file output_dir",
    },
    {
        .name = "predict",
        .task = "classify",
        .summary = "classify texts or pairs, or predict their numbers",
        .usage = "--model DIR (--task NAME --data_dir DIR [--split NAME] | --input FILE "
                 "--text_column NAME) --output DIR [options]",
        .example =
            "berth predict classify --model out --task mrpc --data_dir mrpc --output predicted\n"
            "berth predict classify --model out --input new.csv --text-column review \\\n"
            "    --output predicted",
        .notes = "Writes test_results.tsv (the classes' probabilities), predict_results_TASK.txt "
                 "(the classes) and, if the file has labels, predict_results.json with the scores.",
        JOB_OF(JOB_PREDICT_CLASSIFY, options, predict_or_evaluate),
        .required = "model_name_or_path output_dir",
    },
    {
        .name = "predict",
        .task = "tokens",
        .summary = "give each word of a file a tag",
        .usage = "--model DIR --input FILE --output DIR [options]",
        .example = "berth predict tokens --model ner --input test.txt --output tags\n"
                   "berth evaluate tokens test.txt tags/predictions.txt",
        .notes = "Writes predictions.txt, a line for each sentence with a tag for each word, and, "
                 "if the file has tags, predict_results.json with the scores.",
        JOB_OF(JOB_PREDICT_TOKENS, options, predict_or_evaluate),
        .required = "model_name_or_path output_dir",
    },
    {
        .name = "evaluate",
        .task = "tokens",
        .summary = "score a file of tags as seqeval does",
        .usage = "DATASET PREDICTIONS [--scheme NAME]",
        .example = "berth evaluate tokens test.txt tags/predictions.txt\n"
                   "berth evaluate tokens test.txt tags/predictions.txt --scheme IOB2",
        .notes = "One JSON object on standard output: precision, recall, f1 and accuracy over all "
                 "entities, and the scores of each type. PREDICTIONS has a line for each sentence "
                 "of DATASET with a tag for each word.",
        CLI_OWN_OPTIONS(tag_options),
        .arguments_min = 2,
        .arguments_max = 2,
        .processes = CLI_FIRST,
        .run = evaluate_tokens,
    },
    {
        .name = "evaluate",
        .task = "squad",
        .summary = "score a predictions file as the official scripts do",
        .usage = "DATASET PREDICTIONS [--null-odds FILE] [--null-threshold X]",
        .example = "berth evaluate squad dev-v1.1.json answers/predictions.json\n"
                   "berth evaluate squad dev-v2.0.json answers/predictions.json \\\n"
                   "    --null-odds answers/null_odds.json",
        .notes =
            "One JSON object on standard output: exact_match and f1, for SQuAD 2.0 the official "
            "keys (exact, f1, total, HasAns_..., NoAns_..., best_...). A question without a "
            "prediction scores 0 with a warning (an error for SQuAD 2.0, as in the official "
            "script); predictions for none of the questions are an error.",
        CLI_OWN_OPTIONS(evaluate_options),
        .arguments_min = 2,
        .arguments_max = 2,
        .processes = CLI_FIRST,
        .run = evaluate_squad,
    },
    {
        .name = "evaluate",
        .task = "embed",
        .summary = "score sentence embeddings on pairs, scored pairs or triplets",
        .usage = "--model DIR --input FILE --output DIR [options]",
        .example = "berth evaluate embed --model searcher --input held-out.jsonl --output scores",
        .notes = "Of pairs with scores the correlations of cosines and scores; of other pairs "
                 "recall@1, 3, 5 and 10 and mrr@10 of each first text among all second texts; of "
                 "triplets how many have the second text nearer than the third. Also in "
                 "eval_results.txt and eval_results.json.",
        JOB_OF(JOB_EVALUATE_EMBED, options, evaluate),
        .required = "model_name_or_path predict_file output_dir",
    },
    {
        .name = "pretrain",
        .summary = "pre-train a model: masked words and next sentences",
        .usage =
            "--input_dir DIR (--config_file FILE --vocab_file FILE | --model DIR) --output DIR "
            "[options]",
        .example = "berth pretrain --recipe nvidia-phase1 --input_dir hdf5-128 --config_file "
                   "bert_config.json \\\n    --vocab_file vocab.txt --output phase1\n"
                   "berth pretrain --recipe nvidia-phase2 --input_dir hdf5-512 --output phase2 \\\n"
                   "    --resume_from_checkpoint auto,phase1/checkpoint-7038\n"
                   "berth pretrain ... --output phase1 --resume_from_checkpoint auto",
        .notes =
            "Shards are what `berth prepare` and the scripts of NVIDIA, Habana, Google and Intel "
            "write. An update has train_batch_size sequences; of packed rows each sequence counts. "
            "Ctrl-C, "
            "SIGTERM, "
            "SIGHUP, SIGXCPU and SIGUSR1 finish the update, save, and stop; "
            "--resume_from_checkpoint resumes.",
        JOB_OF(JOB_PRETRAIN, objective_options, train),
        .objective = BOTH,
        .settle = check_objective,
        .required = "input_dir output_dir",
    },
    {
        .name = "pretrain",
        .objective = MASKED,
        .library_task = "mlm",
        .summary = "with --objective mlm: train a model on masked words of text",
        .usage = "--objective mlm --train FILE [--dev FILE] (--model DIR | --config_file FILE "
                 "--vocab_file FILE) --output DIR [options]",
        .example = "berth pretrain --objective mlm --model bert-base-uncased --train notes.txt \\\n"
                   "    --output notes-bert\n"
                   "berth pretrain --objective mlm ... --line_by_line --whole_word_mask\n"
                   "berth pretrain --objective mlm ... --resume_from_checkpoint auto\n"
                   "berth fill --model notes-bert --text 'It was [MASK] today.'",
        .notes =
            "Text is a file of lines, or the column \"text\" of a table (CSV, "
            "TSV, JSON lines). Masks are drawn for each epoch. The result is a "
            "BertForMaskedLM. Evaluation gives perplexity and accuracy; without a file to evaluate "
            "on, the first lines of the training file are held out. Signals and "
            "--resume_from_checkpoint work as in `berth finetune squad`.",
        JOB_OF(JOB_PRETRAIN_MLM, objective_options, train),
        .settle = check_objective,
        .required = "train_file output_dir",
    },
    {
        .name = "evaluate",
        .task = "pretrain",
        .summary = "score a pre-trained model on held-out shards",
        .usage = "--model DIR (--eval_dir DIR | --input_dir DIR) --output DIR [options]",
        .example = "berth evaluate pretrain --model phase1 --input_dir hdf5-128 --output scores",
        .notes =
            "Masked words and next sentences: accuracies and losses, also in eval_results.txt.",
        JOB_OF(JOB_EVALUATE_PRETRAIN, objective_options, evaluate),
        .objective = BOTH,
        .settle = check_objective,
        .required = "model_name_or_path output_dir",
    },
    {
        .name = "evaluate",
        .task = "pretrain",
        .objective = MASKED,
        .library_task = "mlm",
        .summary = "with --objective mlm: score a model on masked words of text",
        .usage = "--objective mlm --model DIR --dev FILE --output DIR [options]",
        .example = "berth evaluate pretrain --objective mlm --model notes-bert --dev new.txt \\\n"
                   "    --output scores",
        .notes = "Perplexity, accuracy and loss, also in eval_results.txt. The masks follow from "
                 "--seed; as in training, they are the same in every evaluation.",
        JOB_OF(JOB_EVALUATE_MLM, objective_options, evaluate),
        .settle = check_objective,
        .required = "model_name_or_path output_dir",
    },
    {
        .name = "finetune",
        .task = "fill",
        .library_task = "mlm",
        .summary = "train a model on masked words of text",
        .usage = "--train FILE [--dev FILE] (--model DIR | --config_file FILE --vocab_file FILE) "
                 "--output DIR [options]",
        .example = "berth finetune fill --model bert-base-uncased --train notes.txt --output "
                   "notes-bert\n"
                   "berth fill --model notes-bert --text 'It was [MASK] today.'",
        .notes = "The same as `berth pretrain --objective mlm`.",
        JOB_OF(JOB_PRETRAIN_MLM, options, train),
        .required = "train_file output_dir",
    },
};
