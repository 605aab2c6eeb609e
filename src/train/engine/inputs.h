// SPDX-License-Identifier: Apache-2.0
// What a job reads of a model before it computes: its shape, its tokenizer, its weights.
#ifndef BERTH_TRAIN_INPUTS_H
#define BERTH_TRAIN_INPUTS_H

#include "core/error.h"
#include "core/log.h"
#include "model/config.h"
#include "model/params.h"
#include "model/vocabulary_file.h"
#include "text/tokenizer.h"
#include "train/optimizer/state.h"

#include <stddef.h>

// --- the model ----------------------------------------------------------------------------------

struct model_files {
    struct bert_config shape;
    struct param_table table;
    struct tokenizer *tokenizer;
    char *vocab_path;
    struct text_rules rules; // by which the tokenizer was opened
    int strict;              // whether the weights must be the model's tensors, no more and no less
};

// Reads config.json and the vocabulary of `folder` (config->vocab_file,
// do_lower_case, strip_accents and tokenize_chinese_chars win).
// Checks that vocabulary and model belong together. inputs_fit_length is the caller's to call.
enum berth_status model_files_open(struct model_files *files, struct berth_config *config,
                                   const char *folder, enum param_head head,
                                   const struct berth_log *log, struct berth_error *error);
// The same for a new model: its shape is config->config_file, its vocabulary config->vocab_file or
// the one beside it. vocab_multiple rounds its vocabulary up.
enum berth_status model_files_open_new(struct model_files *files, struct berth_config *config,
                                       enum param_head head, const struct berth_log *log,
                                       struct berth_error *error);
void model_files_done(struct model_files *files);

// Lets members of config.json (id2label, ...) replace the model's, and makes the table anew.
enum berth_status model_files_merge(struct model_files *files, const struct json_t *object,
                                    struct berth_error *error);

// Reads the weights of `folder` into the state; missing head tensors get values from the seed.
// What was missing and what was left out is logged.
enum berth_status model_files_load(const struct model_files *files, const char *folder,
                                   uint64_t seed, const struct berth_log *log, struct state *state,
                                   struct berth_error *error);

// Random weights for a new model, from the seed.
enum berth_status model_files_initialise(const struct model_files *files,
                                         const struct berth_config *config, struct state *state,
                                         struct berth_error *error);

// Opens the vocabulary at `vocab_path` by the rules of `folder` (NULL: those that the vocabulary's
// file says, or the usual ones) and what the settings say in their place. *rules are those used.
enum berth_status inputs_open_tokenizer(const struct berth_config *config, const char *folder,
                                        const char *vocab_path, struct text_rules *rules,
                                        struct tokenizer **tokenizer, struct berth_error *error);

// The tokenizer of config->vocab_file (vocab.txt or tokenizer.json), else of the one in
// config->model_name_or_path (a folder), by the rules of config->tokenizer and what the folder's
// files say of casing, accents and ideographs where the settings do not. Neither given:
// BERTH_USAGE. Free with tokenizer_close.
enum berth_status inputs_find_tokenizer(const struct berth_config *config,
                                        struct tokenizer **tokenizer, struct berth_error *error);

// What max_seq_length becomes where none was asked for (given by name, or not the default): `usual`
// (0: the option's default; INT64_MAX: as many as there are positions), but no more than
// `positions`, which is noted.
struct length_limits {
    int64_t usual, positions;
    const char *source; // of the positions, for messages
};
// BERTH_CONFIG when a max_seq_length that was asked for is above the positions.
enum berth_status inputs_fit_length(struct berth_config *config, const struct length_limits *limits,
                                    const struct berth_log *log, struct berth_error *error);
// Those of a model, whose folder or file is `source`; none in pre-training, which takes the length
// of its shards, and its task compares that with the positions.
struct length_limits model_files_limits(const struct model_files *files, int64_t usual,
                                        const char *source);

#endif
