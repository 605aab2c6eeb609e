// SPDX-License-Identifier: Apache-2.0
// What the flags of the original scripts (legacy.c) mean together, after all words were read: which
// half precision, whether the run trains, what it evaluates and predicts, and where TensorBoard's
// files go.
#include "cli.h"
#include "core/file.h"
#include "core/number.h"
#include "core/words.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// fp16 on a GPU that is named, whose loss scale is dynamic unless loss_scale says otherwise; bf16
// elsewhere.
static enum berth_status choose_half(struct cli_call *call, struct berth_error *error) {
    const char *device = call->config.device;
    const int is_gpu = device != NULL && strcmp(device, "cpu") != 0 && strcmp(device, "auto") != 0;
    if (!call->legacy.fp16 || call->config.precision != BERTH_BF16) {
        return BERTH_OK;
    }
    cli_note(call, "%s",
             is_gpu ? "--fp16: fp16 on the GPU, with a dynamic loss_scale unless it is given"
                    : "--fp16: fp16 runs as bf16, because --device names no GPU");
    return is_gpu ? cli_set(call, "precision", "fp16", error) : BERTH_OK;
}

static int reports_to_tensorboard(const struct cli_call *call) {
    const char *names = call->legacy.report_to;
    const int reports =
        words_contain(names, ',', "tensorboard") || words_contain(names, ',', "all");
    if (names != NULL && !reports && strcmp(names, "none") != 0) {
        cli_note(call,
                 "--report_to %s has no effect: Berth writes for TensorBoard, and --json_summary "
                 "FILE has every record",
                 names);
    }
    return reports;
}

// TensorBoard's files: BingBertSquad's --job_name NAME puts them in OUTPUT_DIR/runs/NAME,
// transformers' --report_to tensorboard in OUTPUT_DIR/runs.
static void set_tensorboard_folder(struct cli_call *call) {
    const struct berth_config *config = &call->config;
    const int reports = reports_to_tensorboard(call), trains = (call->verb->jobs & JOB_TRAIN) != 0;
    const char *option = call->legacy.job_name != NULL ? "job_name" : "report_to";
    if ((call->legacy.job_name == NULL && !reports) || config->output_dir == NULL) {
        return;
    }
    if (!trains || (config->logging_dir != NULL && call->legacy.job_name != NULL)) {
        cli_note(call, "--%s has no effect %s", option,
                 trains ? "beside --logging_dir" : "without training");
        return;
    }
    const size_t size = sizeof call->legacy.logging_dir;
    const int used = snprintf(call->legacy.logging_dir, size, "%s/runs%s%s", config->output_dir,
                              call->legacy.job_name != NULL ? "/" : "",
                              call->legacy.job_name != NULL ? call->legacy.job_name : "");
    if (config->logging_dir == NULL && used > 0 && (size_t)used < size) {
        call->config.logging_dir = call->legacy.logging_dir;
    }
}

// The file that run_qa predicts with --do_predict, where this run does not.
static void note_test_file(const struct cli_call *call) {
    const struct berth_config *config = &call->config;
    if (call->legacy.test_file != NULL) {
        cli_note(call,
                 "--test_file %s is not predicted in this run%s; run `berth predict squad --model "
                 "%s --predict_file %s` afterwards",
                 call->legacy.test_file,
                 call->legacy.do_predict == 1 ? ", despite --do_predict" : "",
                 config->output_dir != NULL ? config->output_dir : "DIR", call->legacy.test_file);
    }
}

// --- without training ---------------------------------------------------------------------------

// One run predicts one file: with --do_eval that for evaluations, otherwise the test file.
static enum berth_status choose_predicted(struct cli_call *call, int evaluates,
                                          struct berth_error *error) {
    const char *test = call->legacy.test_file, *validation = call->config.validation_file;
    const int is_test = test != NULL && (!evaluates || validation == NULL);
    if (test != NULL && !is_test) {
        cli_note(call, "--test_file %s has no effect with --do_eval, which evaluates %s; omit it",
                 test, validation);
    }
    const char *file = is_test ? test : validation;
    return file != NULL ? cli_set_default(call, "predict_file", file, error) : BERTH_OK;
}

static void note_unused_rows(const struct cli_call *call) {
    char names[1024] = "";
    size_t used = 0;
    for (size_t i = 0; i < option_row_count && used < sizeof names; i++) {
        const struct option_row *row = &option_rows[i];
        const int has_own_message =
            strncmp(row->name, "do_", 3) == 0 ||
            (strcmp(row->name, "validation_file") == 0 && call->config.validation_file != NULL);
        if (option_is_given(&call->config, row) && !cli_row_applies(call->verb, row) &&
            !has_own_message) {
            used += (size_t)snprintf(names + used, sizeof names - used, "%s--%s",
                                     used > 0 ? ", " : "", row->name);
        }
    }
    if (used > 0) {
        cli_note(call, "without --do_train these have no effect: %s", names);
    }
}

// --do_train false: predicts, evaluates or both, as the original programs do.
static enum berth_status skip_training(struct cli_call *call, struct berth_error *error) {
    struct berth_config *config = &call->config;
    const int evaluates = cli_is_given(call, "do_eval") && config->do_eval;
    const int predicts =
        call->legacy.do_predict == 1 || (cli_is_given(call, "do_predict") && config->do_predict);
    const struct cli_verb *verb = cli_without_training(call->verb);
    if (verb == NULL) {
        return error_set(error, BERTH_USAGE, "--do_train false: `berth %s` only trains",
                         call->verb->name);
    }
    const int can_predict = cli_row_applies(verb, option_find("predict_file"));
    if (!evaluates && !(predicts && can_predict)) {
        return error_set(error, BERTH_USAGE,
                         "--do_train false leaves nothing to do; add %s, or see `berth %s %s`",
                         can_predict ? "--do_predict or --do_eval" : "--do_eval", verb->name,
                         verb->task);
    }
    call->verb = verb;
    config->do_eval = evaluates;
    config->do_predict = predicts;
    if (cli_requires(verb, "predict_file")) {
        TRY(choose_predicted(call, evaluates, error));
    }
    note_unused_rows(call);
    return cli_script_set_log_format(call, error);
}

// The original programs train only if do_train is given. Berth trains unless the line is theirs, or
// there is nothing to train on.
static int skips_training(const struct cli_call *call) {
    const int asks_for_scores = call->legacy.do_predict == 1 ||
                                (cli_is_given(call, "do_eval") && call->config.do_eval) ||
                                (cli_is_given(call, "do_predict") && call->config.do_predict == 1);
    const int has_data = call->config.train_file != NULL || call->config.data_dir != NULL ||
                         call->config.input_dir != NULL;
    return call->legacy.do_train == 0 || (call->legacy.do_train < 0 && asks_for_scores &&
                                          (call->origin.script != NULL || !has_data));
}

static enum berth_status follow_eval_steps(struct cli_call *call, struct berth_error *error) {
    const int64_t batch =
        cli_is_given(call, "predict_batch_size") ? call->config.predict_batch_size : 8;
    int64_t steps;
    char samples[NUMBER_TEXT_SIZE];
    if (call->legacy.eval_steps == NULL || cli_is_given(call, "max_eval_samples")) {
        return BERTH_OK;
    }
    if (!number_parse_integer(call->legacy.eval_steps, &steps) || steps < 1 || steps > INT32_MAX) {
        return error_set(error, BERTH_USAGE,
                         "option max_eval_steps: expected a positive integer, found \"%s\"",
                         call->legacy.eval_steps);
    }
    snprintf(samples, sizeof samples, "%" PRId64, steps * batch);
    return cli_set(call, "max_eval_samples", samples, error);
}

// Evaluations and predictions have one limit, which a run that evaluates takes from its
// evaluations.
static enum berth_status follow_predict_samples(struct cli_call *call, struct berth_error *error) {
    const int only_predicts = (call->verb->jobs & JOB_PREDICT) != 0 &&
                              !(cli_is_given(call, "do_eval") && call->config.do_eval);
    if (call->legacy.predict_samples == NULL) {
        return BERTH_OK;
    }
    if (only_predicts && !cli_is_given(call, "max_eval_samples")) {
        return cli_set(call, "max_eval_samples", call->legacy.predict_samples, error);
    }
    cli_note(call, "--max_predict_samples has no effect: predictions are limited as evaluations "
                   "are, by --max_eval_samples");
    return BERTH_OK;
}

// Google's run_pretraining evaluates on the files that it trains on. Folders hold both kinds.
static enum berth_status follow_input_file(struct cli_call *call, struct berth_error *error) {
    const char *files = call->legacy.input_file;
    const int trains = (call->verb->jobs & JOB_TRAIN) != 0;
    const int evaluates = !trains || (cli_is_given(call, "do_eval") && call->config.do_eval);
    if (files == NULL || !evaluates || cli_is_given(call, "eval_dir") || dir_exists(files) ||
        !cli_row_applies(call->verb, option_find("eval_dir"))) {
        return BERTH_OK;
    }
    if (trains && !skips_training(call)) {
        cli_note(call, "--do_eval evaluates on the files of --input_file, which also train the "
                       "model, as Google's program does; --eval_dir names others");
    }
    return cli_set_default(call, "eval_dir", files, error);
}

// SQuAD's scripts predict the development file; unless an option says otherwise, do_eval means the
// same. run_qa predicts its test file.
static enum berth_status follow_do_predict(struct cli_call *call, struct berth_error *error) {
    const int asked = call->legacy.do_predict;
    const int is_of_development = call->legacy.test_file == NULL;
    const int follows = asked == 1   ? is_of_development
                        : asked == 0 ? !cli_is_given(call, "do_eval")
                                     : 0;
    return follows ? cli_set(call, "do_eval", asked ? "true" : "false", error) : BERTH_OK;
}

enum berth_status cli_legacy_finish(struct cli_call *call, struct berth_error *error) {
    int trains = (call->verb->jobs & JOB_TRAIN) != 0;
    if (!trains && call->legacy.do_train == 1) {
        cli_note(call, "--do_train has no effect in `berth %s`", call->verb->name);
    }
    TRY(trains ? follow_do_predict(call, error) : BERTH_OK);
    TRY(cli_launcher_follow(call, error));
    TRY(follow_eval_steps(call, error));
    TRY(follow_input_file(call, error));
    cli_script_note_meanings(call);
    if (trains && skips_training(call)) {
        TRY(skip_training(call, error));
    } else {
        note_test_file(call);
        TRY(cli_script_follow(call, error));
    }
    TRY(follow_predict_samples(call, error));
    TRY(choose_half(call, error));
    set_tensorboard_folder(call);
    return BERTH_OK;
}
