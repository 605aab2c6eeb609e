// SPDX-License-Identifier: Apache-2.0
#include "train/inputs.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/options.h"
#include "model/folder.h"
#include "train/machine.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- the model ----------------------------------------------------------------------------------

static enum berth_status find_vocabulary(struct model_files *files,
                                         const struct berth_config *config, const char *folder,
                                         struct berth_error *error) {
    files->vocab_path = config->vocab_file != NULL ? memory_string(config->vocab_file)
                                                   : folder_file(folder, "vocab.txt");
    return files->vocab_path != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
}

static enum berth_status open_tokenizer(struct model_files *files,
                                        const struct berth_config *config, const char *folder,
                                        struct berth_error *error) {
    files->lower_case = config->do_lower_case;
    if (files->lower_case < 0) {
        TRY(folder_lower_case(folder, &files->lower_case, error));
    }
    int google = config->tokenizer != NULL && strcmp(config->tokenizer, "google") == 0;
    struct tokenizer_options options = {
        .rules = google ? TOKENIZER_GOOGLE : TOKENIZER_HUGGINGFACE,
        .lower_case = files->lower_case,
        .split_special = google,
    };
    return tokenizer_open(files->vocab_path, &options, &files->tokenizer, error);
}

static enum berth_status check_vocabulary(const struct model_files *files, const char *folder,
                                          struct berth_error *error) {
    char *config_path = folder_config_path(folder);
    if (config_path == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    enum berth_status status =
        folder_check_vocab(&files->shape, config_path, (int64_t)tokenizer_size(files->tokenizer),
                           files->vocab_path, error);
    memory_free(config_path);
    TRY(status);
    struct tokenizer_special special = tokenizer_special_ids(files->tokenizer);
    if (special.cls < 0 || special.sep < 0) {
        return error_set(error, BERTH_BAD_DATA, "%s: no token %s; use a BERT vocabulary",
                         files->vocab_path, special.cls < 0 ? "[CLS]" : "[SEP]");
    }
    return BERTH_OK;
}

static int length_was_asked_for(const struct berth_config *config) {
    struct berth_config defaults;
    option_defaults(&defaults);
    return option_is_given(config, option_find("max_seq_length")) ||
           config->max_seq_length != defaults.max_seq_length;
}

enum berth_status inputs_fit_length(struct berth_config *config, int64_t positions,
                                    const char *source, const struct berth_log *log,
                                    struct berth_error *error) {
    if (config->max_seq_length <= positions) {
        return BERTH_OK;
    }
    if (length_was_asked_for(config)) {
        return error_set(error, BERTH_CONFIG,
                         "max_seq_length %" PRId64 " exceeds max_position_embeddings %" PRId64
                         " of %s; ask for at most that many tokens",
                         config->max_seq_length, positions, source);
    }
    log_note(log,
             "max_seq_length: %" PRId64 " in place of %" PRId64 ", as many as %s has positions",
             positions, config->max_seq_length, source);
    config->max_seq_length = positions;
    return BERTH_OK;
}

static enum berth_status check_lengths(const struct model_files *files, struct berth_config *config,
                                       const char *folder, const struct berth_log *log,
                                       struct berth_error *error) {
    TRY(inputs_fit_length(config, files->shape.max_position_embeddings, folder, log, error));
    if (files->shape.type_vocab_size < 2) {
        return error_set(error, BERTH_CONFIG,
                         "%s: type_vocab_size %" PRId64
                         " of its configuration cannot tell question and context apart; expected "
                         "at least 2",
                         folder, files->shape.type_vocab_size);
    }
    return BERTH_OK;
}

enum berth_status model_files_open(struct model_files *files, struct berth_config *config,
                                   const char *folder, const struct berth_log *log,
                                   struct berth_error *error) {
    *files = (struct model_files){0};
    if (!dir_exists(folder) && !file_exists(folder)) {
        return error_set(error, BERTH_NO_INPUT,
                         "%s: no such folder; expected a model folder: config.json or "
                         "bert_config.json, vocab.txt, and the weights as model.safetensors, "
                         "pytorch_model.bin, a checkpoint of TensorFlow, NVIDIA or DeepSpeed",
                         folder);
    }
    char *path = folder_config_path(folder);
    enum berth_status status = path != NULL ? bert_config_read(path, &files->shape, error)
                                            : error_no_memory(error, 0, "a path");
    memory_free(path);
    if (status != BERTH_OK) {
        return status;
    }
    TRY_DONE(find_vocabulary(files, config, folder, error));
    TRY_DONE(open_tokenizer(files, config, folder, error));
    TRY_DONE(check_vocabulary(files, folder, error));
    TRY_DONE(check_lengths(files, config, folder, log, error));
    TRY_DONE(param_table_init(&files->table, &files->shape, PARAM_HEAD_SPAN, error));
    return BERTH_OK;
done:
    model_files_done(files);
    return status;
}

void model_files_done(struct model_files *files) {
    tokenizer_close(files->tokenizer);
    param_table_done(&files->table);
    bert_config_done(&files->shape);
    memory_free(files->vocab_path);
    *files = (struct model_files){0};
}

// "a, b, c" from newline-separated names, cut after 200 characters.
static void join_names(const char *names, char text[256]) {
    size_t length = 0;
    for (const char *at = names; *at != '\0' && length < 200; at++) {
        if (*at == '\n') {
            if (at[1] != '\0') {
                text[length++] = ',';
                text[length++] = ' ';
            }
        } else {
            text[length++] = *at;
        }
    }
    strcpy(text + length, length >= 200 ? ", ..." : "");
}

static void report_weights(const struct folder_report *report, const char *folder, int training,
                           const struct berth_log *log) {
    char names[256];
    log_note(log, "model: %zu tensors from %s", report->loaded, folder);
    if (report->missing != NULL) {
        join_names(report->missing, names);
        if (training) {
            log_note(log, "model: newly initialised, to be trained: %s", names);
        } else {
            log_warning(log,
                        "model: %s holds no %s; random values stand in, and what comes out is "
                        "guesswork until the model is fine-tuned",
                        folder, names);
        }
    }
    if (report->unexpected != NULL) {
        join_names(report->unexpected, names);
        log_note(log, "model: left out, not part of a span model: %s", names);
    }
    if (report->ignored_keys > 0) {
        log_warning(log, "model: %zu keys of the header of %s's weights mean nothing here",
                    report->ignored_keys, folder);
    }
}

enum berth_status model_files_load(const struct model_files *files, const char *folder,
                                   uint64_t seed, const struct berth_log *log, struct state *state,
                                   struct berth_error *error) {
    float *buffer;
    TRY(state_borrow(state, state->master, 0, &buffer, error));
    struct folder_report report = {0};
    enum berth_status status =
        folder_read_weights(folder, &files->shape, &files->table, seed, buffer, &report, error);
    if (status == BERTH_OK) {
        report_weights(&report, folder, state->gradients != NULL, log);
        state_set_weights(state, buffer);
    }
    folder_report_done(&report);
    state_give_back(state, state->master, buffer);
    return status;
}

// --- settings -----------------------------------------------------------------------------------

struct squad_feature_options inputs_feature_options(const struct berth_config *config) {
    return (struct squad_feature_options){.max_seq_length = config->max_seq_length,
                                          .doc_stride = config->doc_stride,
                                          .max_query_length = config->max_query_length};
}

struct squad_answer_options inputs_answer_options(const struct berth_config *config) {
    return (struct squad_answer_options){
        .n_best_size = config->n_best_size,
        .max_answer_length = config->max_answer_length,
        .version_2_with_negative = config->version_2_with_negative,
        .null_score_diff_threshold = config->null_score_diff_threshold,
    };
}

// --- data ---------------------------------------------------------------------------------------

enum berth_status squad_input_open(struct squad_input *input, const char *path, int64_t limit,
                                   int training, const struct berth_config *config,
                                   const struct tokenizer *tokenizer, const struct berth_log *log,
                                   struct berth_error *error) {
    *input = (struct squad_input){0};
    double begin = machine_seconds();
    TRY(squad_read(path, limit, &input->dataset, error));
    struct squad_feature_options options = inputs_feature_options(config);
    options.training = training;
    enum berth_status status;
    TRY_DONE(squad_features_build(&input->dataset, tokenizer, &options, machine_threads(config),
                                  log, &input->features, error));
    if (input->features.count == 0) {
        status = error_set(error, BERTH_BAD_DATA,
                           "%s: no question gave a window to %s; check the file's answers", path,
                           training ? "train on" : "answer");
        goto done;
    }
    input->seconds = machine_seconds() - begin;
    log_note(log, "%s: %zu questions, %zu features, %zu tokens in %.2f s", path,
             input->dataset.count, input->features.count, input->features.token_count,
             input->seconds);
    return BERTH_OK;
done:
    squad_input_done(input);
    return status;
}

void squad_input_done(struct squad_input *input) {
    squad_feature_set_done(&input->features);
    squad_dataset_done(&input->dataset);
    *input = (struct squad_input){0};
}

static struct packer_sequence get(const void *data, size_t index) {
    const struct squad_feature_set *set = data;
    const struct squad_feature *feature = &set->features[index];
    return (struct packer_sequence){.ids = set->ids + feature->first,
                                    .type_ids = set->type_ids + feature->first,
                                    .length = feature->length,
                                    .start = feature->start,
                                    .end = feature->end,
                                    .label = -1,
                                    .target = NAN};
}

struct packer_source squad_input_source(const struct squad_feature_set *set) {
    return (struct packer_source){.get = get, .data = set, .count = set->count};
}

size_t squad_input_first_row(const void *set, size_t index) {
    return ((const struct squad_feature_set *)set)->features[index].first;
}
