// SPDX-License-Identifier: Apache-2.0
// berth features squad: shows the windows that the model sees, before it is trained or asked. Uses
// library internals (task/squad_input.h), because features are not part of the public interface.
// Leaves out what a model makes of them: that is `berth show squad`.
#include "cli.h"
#include "core/file.h"
#include "core/json_line.h"
#include "core/memory.h"
#include "data/squad/squad_features.h"
#include "model/config.h"
#include "model/folder.h"
#include "settings/effects.h"
#include "task/squad_input.h"
#include "train/engine/inputs.h"
#include "train/machine/machine.h"
#include "train/tasks/training_task.h"

#include <stdio.h>

static const struct option_row options[] = {
    {CLI_FLAG("training"), .aliases = "is_training",
     .help = "include labels: exactly one answer for each question"},
    {CLI_FLAG("jsonl"), .help = "print each feature as a JSON object"},
    {CLI_FLAG("count"), .shown = "true without --jsonl",
     .help = "print examples=N features=N tokens=N cls_labelled=N"},
    {CLI_FLAG("json"), .help = "print these counts as one JSON object"},
};

struct features {
    struct tokenizer *tokenizer;
    struct squad_dataset dataset;
    struct squad_feature_set set;
    int training;
};

enum { IDS, TYPES, WORDS, MAX_CONTEXT };

static int64_t element(const struct squad_feature_set *set, int field, size_t at) {
    switch (field) {
    case IDS:
        return set->ids[at];
    case TYPES:
        return set->type_ids[at];
    case WORDS:
        return set->words[at];
    default:
        return set->max_context[at];
    }
}

static void add_array(struct json_line *line, const char *key, const struct features *job,
                      const struct squad_feature *feature, int field) {
    json_line_open(line, key, '[');
    for (int32_t i = 0; i < feature->length; i++) {
        json_line_integer(line, NULL, element(&job->set, field, feature->first + (size_t)i));
    }
    json_line_close(line, ']');
}

static void add_label(struct json_line *line, const char *key, const struct features *job,
                      int32_t label) {
    if (job->training) {
        json_line_integer(line, key, label);
    } else {
        json_line_raw(line, key, "null");
    }
}

static enum berth_status put_features(const struct features *job, struct berth_error *error) {
    struct json_line line DONE_BY(json_line_done) = {0};
    for (size_t i = 0; i < job->set.count && !ferror(stdout); i++) {
        const struct squad_feature *feature = &job->set.features[i];
        json_line_open(&line, NULL, '{');
        json_line_text(&line, "example_id", job->dataset.examples[feature->example].id);
        json_line_integer(&line, "unique_id", feature->unique_id);
        add_array(&line, "input_ids", job, feature, IDS);
        add_array(&line, "token_type_ids", job, feature, TYPES);
        add_label(&line, "start", job, feature->start);
        add_label(&line, "end", job, feature->end);
        json_line_integer(&line, "doc_span_start", feature->document_start);
        add_array(&line, "token_to_orig", job, feature, WORDS);
        add_array(&line, "is_max_context", job, feature, MAX_CONTEXT);
        json_line_close(&line, '}');
        TRY(cli_put_json(&line, error));
    }
    return BERTH_OK;
}

// A vocabulary alone has no number of positions, nor has a folder without config.json.
static enum berth_status fit_length(struct cli_call *call, struct berth_error *error) {
    const char *folder = call->config.model.model_name_or_path;
    OWNED char *path = folder != NULL ? folder_config_path(folder) : NULL;
    struct bert_config shape DONE_BY(bert_config_done) = {0};
    if (path == NULL || !file_exists(path)) {
        return BERTH_OK;
    }
    struct berth_log log = cli_log(call);
    TRY(bert_config_read(path, &shape, error));
    int64_t fitted;
    return task_fit_length(
        &call->config,
        &(struct length_limits){.positions = bert_positions(&shape), .source = folder}, &fitted,
        &log, error);
}

static enum berth_status build(struct features *job, struct cli_call *call,
                               struct berth_error *error) {
    TRY(fit_length(call, error));
    const struct settings *config = &call->config;
    struct squad_feature_options rules;
    TRY(squad_input_feature_options(config, &rules, error));
    rules.training = job->training;
    rules.threads = machine_threads(&config->machine);
    TRY(machine_start_threads(rules.threads, error));
    struct berth_log log = cli_log(call);
    settings_note_effects(config, config, JOB_FEATURES, 1, &log);
    TRY(inputs_find_tokenizer(&config->model, &job->tokenizer, error));
    TRY(squad_read(config->task.predict_file, 0, &job->dataset, error));
    if (config->features.strict_answers) {
        TRY(squad_refuse_misplaced(&job->dataset, error));
    }
    return squad_features_build(&job->dataset, job->tokenizer, &rules, &log, &job->set, error);
}

static enum berth_status print(const struct features *job, const struct cli_call *call,
                               struct berth_error *error) {
    const int jsonl = cli_flag(call, "jsonl"), as_json = cli_flag(call, "json");
    if (jsonl) {
        TRY(put_features(job, error));
    }
    if (as_json) {
        struct json_line line DONE_BY(json_line_done) = {0};
        json_line_open(&line, NULL, '{');
        json_line_integer(&line, "examples", (int64_t)job->dataset.count);
        json_line_integer(&line, "features", (int64_t)job->set.count);
        json_line_integer(&line, "tokens", (int64_t)job->set.token_count);
        json_line_integer(&line, "cls_labelled", (int64_t)job->set.cls_labelled);
        json_line_close(&line, '}');
        return cli_put_json(&line, error);
    }
    if (!jsonl || cli_flag(call, "count")) {
        printf("examples=%zu features=%zu tokens=%zu cls_labelled=%zu\n", job->dataset.count,
               job->set.count, job->set.token_count, job->set.cls_labelled);
    }
    return BERTH_OK;
}

static enum berth_status run_features(struct cli_call *call, struct berth_error *error) {
    struct features job = {.training = cli_flag(call, "training")};
    enum berth_status status = build(&job, call, error);
    if (status == BERTH_OK) {
        status = print(&job, call, error);
    }
    squad_feature_set_done(&job.set);
    squad_dataset_done(&job.dataset);
    tokenizer_close(job.tokenizer);
    return status;
}

const struct cli_verb cli_features = {
    .name = "features",
    .task = "squad",
    .summary = "show or count the windows made of a SQuAD file",
    .usage = "(--model DIR | --vocab FILE) --input FILE [--training] [--jsonl | --count | --json]",
    .example = "berth features squad --vocab vocab.txt --input train-v1.1.json --training --count\n"
               "berth features squad --model minilm --input dev-v1.1.json --jsonl | head -n 1",
    .jobs = JOB_FEATURES,
    CLI_OWN_OPTIONS(options),
    .required = "predict_file",
    .processes = CLI_FIRST,
    .run = run_features,
};
