// SPDX-License-Identifier: Apache-2.0
// The verbs that train, predict or evaluate with files, made from the commands of the tasks
// (train/tasks/training_task.h), with their common reporter, signals and result; and those that
// score a file of predictions. A verb calls job_train or job_predict (api/jobs.c), where the run
// begins.
#include "cli.h"
#include "core/json_line.h"
#include "core/launcher.h"
#include "settings/settings.h"
#include "task/task.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// --- running a job ------------------------------------------------------------------------------

typedef enum berth_status job_function(const char *task, const struct settings *config,
                                       struct berth_log log, const atomic_int *stop,
                                       struct berth_run_result *result, struct berth_error *error);

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

// Passes records on to the log `context`. The first event of the work itself ends the preparation,
// in which a signal ends the program.
static void watch_for_work(void *context, const struct berth_record *record) {
    const struct berth_log *log = context;
    if (record->kind == BERTH_EVENT && record->text != NULL &&
        (strcmp(record->text, "train_start") == 0 || strcmp(record->text, "infer_start") == 0)) {
        cli_set_preparing(0);
    }
    log->write(log->context, record);
}

// Runs a job; of several processes the first one reports. Reports on standard error (a dry run's
// plan on standard output); --json prints the result. `follows` says what the job does on a stop
// signal.
static enum berth_status run_job(struct cli_call *call, job_function *job, const char *follows,
                                 struct berth_run_result *result, struct berth_error *error) {
    struct berth_reporter *reporter;
    int prints_json = cli_flag(call, "json");
    if (!cli_reports()) {
        return job(task_of(call->verb), &call->config, (struct berth_log){0},
                   cli_stop_on_signals(follows), NULL, error);
    }
    int descriptor = call->config.run.dry_run && !prints_json ? STDOUT_FILENO : STDERR_FILENO;
    TRY(berth_reporter_open(&call->config, descriptor, &reporter, error));
    struct berth_log log = berth_reporter_log(reporter);
    const struct berth_log watched = {.write = watch_for_work, .context = &log};
    const struct launch launch = launch_find();
    const atomic_int *stop = cli_stop_on_signals(follows);
    cli_set_preparing(!launch_is_parallel(&launch)); // other processes would miss this one
    enum berth_status status =
        job(task_of(call->verb), &call->config, watched, stop, result, error);
    cli_set_preparing(0);
    if (status == BERTH_OK) {
        status = berth_reporter_check(reporter, error);
    }
    berth_reporter_close(reporter);
    if (status == BERTH_OK && prints_json) {
        status = print_result(result, error);
    }
    return status;
}

// Predictions after training begin when the model is already saved.
static const char *training_follows(const struct settings *config) {
    const int predicts =
        config->task.do_predict < 0 ? config->task.predict_file != NULL : config->task.do_predict;
    return config->run.skip_checkpoint ? "finishing this update; nothing is saved (skip_checkpoint)"
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
    snprintf(dated, size, "%s_%s", call->config.run.output_dir, date);
    if (rename(call->config.run.output_dir, dated) != 0) {
        return error_set_errno(error, BERTH_CANT_CREATE, errno, "%s: cannot rename %s to it", dated,
                               call->config.run.output_dir);
    }
    call->config.run.output_dir = dated;
    cli_note(call, "the model is %s", dated);
    return BERTH_OK;
}

static enum berth_status train_squad(struct cli_call *call, struct berth_error *error) {
    static char dated[4096];
    const struct berth_selection samples = {.count = cli_integer(call, "show_samples"),
                                            .random = cli_flag(call, "show_random")};
    TRY(train(call, error));
    if (!cli_reports() || call->config.run.dry_run) {
        return BERTH_OK;
    }
    TRY(cli_flag(call, "date_output") ? date_output(call, dated, sizeof dated, error) : BERTH_OK);
    if (samples.count == 0) {
        return BERTH_OK;
    }
    struct settings shown = call->config;
    shown.model.model_name_or_path = call->config.run.output_dir;
    shown.model.vocab_file = shown.model.config_file = NULL; // the folder has both
    shown.task.predict_file = call->config.task.validation_file;
    return cli_show_samples(call, &shown, samples, error);
}

static const char nothing_written[] = "nothing will be written";

static enum berth_status evaluate(struct cli_call *call, struct berth_error *error) {
    struct berth_run_result result = {0};
    return run_job(call, job_evaluate, nothing_written, &result, error);
}

static enum berth_status evaluate_and_predict(const char *task, const struct settings *config,
                                              struct berth_log log, const atomic_int *stop,
                                              struct berth_run_result *result,
                                              struct berth_error *error) {
    struct settings own = *config;
    TRY(job_evaluate(task, config, log, stop, result, error));
    if (config->run.dry_run) {
        return BERTH_OK;
    }
    own.run.overwrite_output_dir = 1; // it contains what was just written
    return job_predict(task, &own, log, stop, NULL, error);
}

// --do_eval scores the development set, --do_predict predicts; the default is the latter.
static enum berth_status predict_or_evaluate(struct cli_call *call, struct berth_error *error) {
    const struct settings *config = &call->config;
    const int evaluates = cli_is_given(call, "do_eval") && config->run.do_eval;
    if (!evaluates && config->task.do_predict == 0) {
        return error_set(error, BERTH_USAGE,
                         "nothing to do: --do_predict is false and --do_eval is not given");
    }
    if (config->task.predict_file == NULL && (call->verb->jobs & JOB_PREDICT_TOKENS) != 0 &&
        (!evaluates || config->task.do_predict > 0)) {
        return error_set(error, BERTH_USAGE, "option --predict_file is required to predict");
    }
    job_function *job = !evaluates                    ? job_predict
                        : config->task.do_predict > 0 ? evaluate_and_predict
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

// As the scorer lays it out or, with --json, on one line. No name of a score has a line end.
static void print_scores(const struct cli_call *call, const char *text) {
    const int is_whole = !cli_flag(call, "json");
    char before = '\0';
    for (const char *at = text; *at != '\0'; before = *at++) {
        if (is_whole || *at != '\n') {
            putchar(*at);
            continue;
        }
        at += strspn(at + 1, " ");
        fputs(at[1] == '}' || before == '{' ? "" : " ", stdout);
    }
    putchar('\n');
}

static enum berth_status evaluate_squad(struct cli_call *call, struct berth_error *error) {
    char *text = NULL;
    // Without a file all odds are 0, as in the official script.
    if (cli_is_given(call, "null_threshold") && cli_value(call, "null_odds") == NULL &&
        cli_real(call, "null_threshold") >= 0) {
        cli_note(call, "--null_threshold has no effect without --null_odds");
    }
    TRY(berth_evaluate_squad(path_of(call->arguments[0]), path_of(call->arguments[1]),
                             cli_value(call, "null_odds"), cli_real(call, "null_threshold"),
                             cli_log(call), &text, error));
    print_scores(call, text);
    berth_string_free(text);
    return BERTH_OK;
}

// --- the scores of tags ------------------------------------------------------------------------

static enum berth_status evaluate_tokens(struct cli_call *call, struct berth_error *error) {
    const struct berth_tag_scoring scoring = {.text_column = cli_value(call, "text_column"),
                                              .label_column = cli_value(call, "label_column"),
                                              .scheme = cli_value(call, "scheme")};
    char *text = NULL;
    TRY(berth_evaluate_tokens(path_of(call->arguments[0]), path_of(call->arguments[1]), &scoring,
                              &text, error));
    print_scores(call, text);
    berth_string_free(text);
    return BERTH_OK;
}

// --- the table ----------------------------------------------------------------------------------

#define ON_ONE_LINE "print the JSON object on one line, whatever the data"

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

static const struct option_row objective_options[] = {
    {CLI_FLAG("json"), .help = "print the result as one JSON object"},
    {CLI_TEXT("objective", "mlm+nsp"), .unit = "WHAT", .choices = "mlm+nsp|mlm",
     .help = "mlm+nsp: masked words and next sentences, on shards; mlm: masked words of text"},
};

// The verb was chosen before a file of options was read, so the file cannot name another objective.
static enum berth_status check_objective(struct cli_call *call, struct berth_error *error) {
    const char *objective = cli_value(call, "objective");
    return !cli_is_given(call, "objective") || strcmp(objective, call->verb->objective) == 0
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "option objective: found in the file of options; give it on the command "
                           "line, as --objective %s",
                           objective);
}

static const struct option_row evaluate_options[] = {
    {CLI_FLAG("json"), .help = ON_ONE_LINE},
    {CLI_TEXT("null_odds", NULL), .unit = "FILE",
     .help = "null_odds.json, for the best thresholds; scores by the rules of SQuAD 2.0"},
    {CLI_REAL("null_threshold", "1"), BETWEEN(-1e30, 1e30), .unit = "X",
     .shown = "1, as in the official script",
     .help = "SQuAD 2.0: count questions with larger null odds as unanswered"},
};

static const struct option_row tag_options[] = {
    {CLI_FLAG("json"), .help = ON_ONE_LINE},
    {CLI_TEXT("scheme", NULL), .unit = "NAME", .choices = "IOB1|IOB2|IOE1|IOE2|IOBES|BILOU",
     .help = "count only what this scheme allows, as seqeval's mode \"strict\" does",
     .shown = "none: as conlleval and seqeval's default"},
    {CLI_TEXT("text_column", NULL), .unit = "NAME",
     .help = "column of the words of DATASET; in CoNLL files, its number",
     .shown = "the first one; in JSON lines, tokens or words"},
    {CLI_TEXT("label_column", NULL), .unit = "NAME",
     .help = "column of the tags of DATASET; in CoNLL files, its number",
     .shown = "the last one; in JSON lines, ner_tags, tags or labels"},
};

static const struct cli_verb scores[] = {
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
};

static const struct use_row {
    const char *usage, *required;
    enum berth_status (*run)(struct cli_call *call, struct berth_error *error);
} uses[] = {
    [TASK_TRAIN] = {"--model DIR --train FILE [--dev FILE] --output DIR [options]",
                    "model_name_or_path train_file output_dir", train},
    [TASK_VALIDATE] = {"--model DIR --input FILE --output DIR [options]",
                       "model_name_or_path predict_file output_dir", evaluate},
    [TASK_PREDICT] = {"--model DIR --input FILE --output DIR [options]",
                      "model_name_or_path predict_file output_dir", predict_or_evaluate},
};

static struct cli_verb make_verb(const struct training_task *task,
                                 const struct task_command *command) {
    const struct use_row *use = &uses[command->use];
    const char *last_word = command->name != NULL ? command->name : command->verb;
    struct cli_verb verb = {
        .name = command->verb,
        .task = command->name,
        .objective = command->objective,
        .library_task = strcmp(last_word, task->name) != 0 ? task->name : NULL,
        .summary = command->summary,
        .usage = command->usage != NULL ? command->usage : use->usage,
        .example = command->example,
        .notes = command->notes,
        .jobs = command->jobs,
        CLI_OWN_OPTIONS(options),
        .required = command->required != NULL ? command->required : use->required,
        .processes = CLI_DIVIDED,
        .settle = command->objective != NULL ? check_objective : NULL,
        .run = use->run,
    };
    if (command->objective != NULL) {
        verb.options = objective_options;
        verb.option_count = sizeof objective_options / sizeof *objective_options;
    } else if (command->jobs == JOB_FINETUNE_SQUAD) { // whose answers can be shown
        verb.options = squad_options;
        verb.option_count = sizeof squad_options / sizeof *squad_options;
        verb.run = train_squad;
    }
    return verb;
}

// Grouped by their first words.
size_t cli_task_verbs(const struct cli_verb *list[CLI_TASK_VERBS_MAX]) {
    static const char *const words[] = {"finetune", "pretrain", "predict", "evaluate"};
    static struct cli_verb verbs[CLI_TASK_VERBS_MAX];
    size_t count = 0;
    for (size_t word = 0; word < sizeof words / sizeof *words; word++) {
        for (size_t i = 0; i < sizeof scores / sizeof *scores; i++) {
            if (strcmp(scores[i].name, words[word]) == 0) {
                list[count++] = &scores[i];
            }
        }
        const struct training_task *task;
        for (size_t i = 0; (task = task_training_at(i)) != NULL; i++) {
            const struct task_command *command = task->commands;
            for (; command != NULL && command->verb != NULL; command++) {
                if (strcmp(command->verb, words[word]) == 0 && count < CLI_TASK_VERBS_MAX) {
                    verbs[count] = make_verb(task, command);
                    list[count] = &verbs[count];
                    count++;
                }
            }
        }
    }
    return count;
}
