// SPDX-License-Identifier: Apache-2.0
// What a job reads before it computes: the model's shape and tokenizer, and SQuAD files as feature
// sets.
#ifndef BERTH_TRAIN_INPUTS_H
#define BERTH_TRAIN_INPUTS_H

#include "core/error.h"
#include "core/log.h"
#include "data/packer.h"
#include "data/squad.h"
#include "data/squad_features.h"
#include "model/config.h"
#include "model/params.h"
#include "task/squad_answers.h"
#include "text/tokenizer.h"
#include "train/state.h"

#include <stddef.h>

// --- the model ----------------------------------------------------------------------------------

struct model_files {
    struct bert_config shape;
    struct param_table table; // with the span head
    struct tokenizer *tokenizer;
    char *vocab_path;
    int lower_case;
};

// Reads config.json and the vocabulary of `folder` (config->vocab_file and do_lower_case win).
// Checks that vocabulary and model belong together and fits max_seq_length to the model's positions
// (inputs_fit_length).
enum berth_status model_files_open(struct model_files *files, struct berth_config *config,
                                   const char *folder, const struct berth_log *log,
                                   struct berth_error *error);
void model_files_done(struct model_files *files);

// Reads the weights of `folder` into the state; missing head tensors get values from the seed.
// What was missing and what was left out is logged.
enum berth_status model_files_load(const struct model_files *files, const char *folder,
                                   uint64_t seed, const struct berth_log *log, struct state *state,
                                   struct berth_error *error);

// Windows longer than the `positions` that `source` names cannot be read: BERTH_CONFIG where
// max_seq_length was asked for (given by name, or not the default), else it becomes `positions`,
// which is noted.
enum berth_status inputs_fit_length(struct berth_config *config, int64_t positions,
                                    const char *source, const struct berth_log *log,
                                    struct berth_error *error);

// What the settings say about windows (`training` is 0), and about answers.
struct squad_feature_options inputs_feature_options(const struct berth_config *config);
struct squad_answer_options inputs_answer_options(const struct berth_config *config);

// --- data ---------------------------------------------------------------------------------------

struct squad_input {
    struct squad_dataset dataset;
    struct squad_feature_set features;
    double seconds; // that reading and featurising took
};

// `limit` > 0: only the first questions. training: labels, and one answer a question.
enum berth_status squad_input_open(struct squad_input *input, const char *path, int64_t limit,
                                   int training, const struct berth_config *config,
                                   const struct tokenizer *tokenizer, const struct berth_log *log,
                                   struct berth_error *error);
void squad_input_done(struct squad_input *input);

// The features as the packer sees them; `data` of the source is the feature set.
struct packer_source squad_input_source(const struct squad_feature_set *set);
size_t squad_input_first_row(const void *set, size_t index);

#endif
