// SPDX-License-Identifier: Apache-2.0
// BingBert's file of an experiment (--cf): geometry, data, vocabulary and settings of a
// pre-training. The geometry is read with the model's configuration; the rest become options here.
// What the command line gives takes precedence.
#include "cli.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "format/json/json.h"

#include <stdio.h>
#include <string.h>

// Sets a row that was not given; takes ownership of the text.
static enum berth_status set(struct cli_call *call, const char *row, char *text,
                             struct berth_error *error) {
    text = cli_own(text);
    return text != NULL ? cli_set_default(call, row, text, error) : error_no_memory(error, 0, row);
}

static enum berth_status set_number(struct cli_call *call, const char *row, const json *value,
                                    struct berth_error *error) {
    char text[NUMBER_TEXT_SIZE];
    if (!json_is_number_value(value)) {
        return BERTH_OK;
    }
    json_print_number(value, text);
    return set(call, row, memory_string(text), error);
}

// The member of an object that is named by the sequences' length; the program's default is 512.
static const json *of_length(const struct cli_call *call, const json *object) {
    const int is_given = cli_is_given(call, "max_seq_length");
    char length[32];
    snprintf(length, sizeof length, "%lld",
             is_given ? (long long)call->config.max_seq_length : 512LL);
    return json_member(object, length);
}

// In the original program, --max_steps ends a run whose schedule is that of the file.
static enum berth_status set_end(struct cli_call *call, const json *training,
                                 struct berth_error *error) {
    struct berth_config *config = &call->config;
    const struct option_row *steps = option_find("max_steps");
    char text[NUMBER_TEXT_SIZE];
    if (!json_is_number_value(json_member(training, "total_training_steps")) ||
        !option_is_given(config, steps) || config->max_steps <= 0) {
        return BERTH_OK;
    }
    snprintf(text, sizeof text, "%lld", (long long)config->max_steps);
    cli_note(call,
             "--max_steps %s ends the run, as --steps_this_run does; the schedule is that of the "
             "total_training_steps in %s",
             text, config->config_file);
    option_forget(config, steps);
    return set(call, "steps_this_run", memory_string(text), error);
}

static enum berth_status set_settings(struct cli_call *call, const json *root,
                                      struct berth_error *error) {
    static const struct {
        const char *key, *row;
    } settings[] = {{"learning_rate", "learning_rate"}, {"warmup_proportion", "warmup_proportion"},
                    {"decay_rate", "decay_rate"},       {"decay_step", "decay_step"},
                    {"weight_decay", "weight_decay"},   {"total_training_steps", "max_steps"}};
    const json *mixed = of_length(call, json_member(root, "mixed_seq_training"));
    const json *training = mixed != NULL ? mixed : json_member(root, "training");
    TRY(set_end(call, training, error));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        TRY(set_number(call, settings[i].row, json_member(training, settings[i].key), error));
    }
    return BERTH_OK;
}

static enum berth_status set_folder(struct cli_call *call, const char *row, const char *prefix,
                                    const char *path, struct berth_error *error) {
    if (path == NULL) {
        return prefix != NULL ? set(call, row, memory_string(prefix), error) : BERTH_OK;
    }
    const int whole = prefix == NULL || path[0] == '/';
    return set(call, row, whole ? memory_string(path) : path_join(prefix, path), error);
}

static enum berth_status set_data(struct cli_call *call, const json *root,
                                  struct berth_error *error) {
    const json *sets = json_member(json_member(root, "data"), "mixed_seq_datasets");
    const char *training = json_text(json_member(of_length(call, sets), "pretrain_dataset"));
    const char *held_out = json_text(json_member(json_member(root, "validation"), "path"));
    TRY(set_folder(call, "input_dir", call->bing_bert.data_prefix, training, error));
    return call->bing_bert.validation_prefix != NULL
               ? set_folder(call, "eval_dir", call->bing_bert.validation_prefix, held_out, error)
               : BERTH_OK;
}

static enum berth_status set_file(struct cli_call *call, const json *root,
                                  struct berth_error *error) {
    const char *vocabulary = json_text(json_member(root, "bert_token_file"));
    if (call->legacy.tokenizer_name == NULL && vocabulary != NULL) {
        call->legacy.tokenizer_name = cli_own(memory_string(vocabulary));
    }
    if (call->config.model_name_or_path == NULL) { // a new model
        TRY(set(call, "vocab_multiple", memory_string("8"), error));
    }
    TRY(set_settings(call, root, error));
    return set_data(call, root, error);
}

enum berth_status cli_apply_experiment(struct cli_call *call, struct berth_error *error) {
    const char *path = call->config.config_file;
    json *root = NULL;
    if ((call->verb->jobs & JOB_PRETRAIN) == 0) {
        return BERTH_OK;
    }
    if (path != NULL && file_exists(path)) {
        TRY(json_read_file(path, &root, error));
    }
    enum berth_status status = json_member(root, "bert_model_config") != NULL
                                   ? set_file(call, root, error)
                                   : set_data(call, NULL, error);
    json_free(root);
    return status;
}
