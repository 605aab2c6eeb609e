// SPDX-License-Identifier: Apache-2.0
// SQuAD files as the packer takes them, and a place for the logits that come back.
#ifndef BERTH_TRAIN_TASKS_SQUAD_INPUT_H
#define BERTH_TRAIN_TASKS_SQUAD_INPUT_H

#include "core/error.h"
#include "core/log.h"
#include "data/batches/packer.h"
#include "data/squad/squad.h"
#include "data/squad/squad_features.h"
#include "metrics/squad_answers.h"
#include "text/tokenizer.h"
#include "train/engine/inputs.h"

#include <stddef.h>
#include <stdint.h>

// What the settings say about features (`training` is 0; settings that contradict each other are
// BERTH_CONFIG), and about answers.
enum berth_status squad_input_feature_options(const struct berth_config *config,
                                              struct squad_feature_options *options,
                                              struct berth_error *error);
struct squad_answer_options squad_input_answer_options(const struct berth_config *config);

// A model that was trained with other features than Google's says so in its config.json
// ("squad_features", "squad_answer_end"). `mark` makes a model that is about to be trained say what
// the settings say; `follow` makes settings that were not given by name what the model says.
enum berth_status squad_input_mark_model(struct model_files *files,
                                         const struct berth_config *config,
                                         struct berth_error *error);
enum berth_status squad_input_follow_model(struct berth_config *config,
                                           const struct model_files *files,
                                           const struct berth_log *log, struct berth_error *error);

struct squad_input {
    struct squad_dataset dataset;
    struct squad_feature_set features;
    int64_t examples; // questions of the file, which the data set need not hold (squad_input_open)
    double seconds;   // that reading and featurising took
};

struct squad_input_args {
    const char *path;
    int64_t limit; // > 0: only the first questions
    // Labels, and one answer a question; where the features come from config->cache_dir, the data
    // set is then empty, and so are words and max_context.
    int training;
    const struct berth_config *config;
    const struct tokenizer *tokenizer;
    const struct berth_log *log;
};
enum berth_status squad_input_open(struct squad_input *input, const struct squad_input_args *args,
                                   struct berth_error *error);
void squad_input_done(struct squad_input *input);

// The features as the packer sees them; `data` of the source is the feature set.
struct packer_source squad_input_source(const struct squad_feature_set *set);

// Logits of a whole set, filled by squad_logits_take (infer.h), whose context this is.
struct squad_logits {
    const struct squad_feature_set *set;
    float *values; // [token_count][2]; those of feature f begin at row features[f].first
};
enum berth_status squad_logits_init(struct squad_logits *logits,
                                    const struct squad_feature_set *set, struct berth_error *error);
void squad_logits_done(struct squad_logits *logits);
void squad_logits_take(void *logits, size_t index, const float *numbers, int64_t count);

#endif
