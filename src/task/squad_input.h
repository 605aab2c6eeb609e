// SPDX-License-Identifier: Apache-2.0
// Provides SQuAD files as sequences for the packer, and stores the logits of a prediction. Between
// data/squad and the engine; what becomes of the logits is left to answer.c and show.c.
#ifndef BERTH_TASK_SQUAD_INPUT_H
#define BERTH_TASK_SQUAD_INPUT_H

#include "core/error.h"
#include "core/log.h"
#include "data/batches/packer.h"
#include "data/squad/squad.h"
#include "data/squad/squad_features.h"
#include "metrics/squad_answers.h"
#include "settings/settings.h"
#include "task/samples.h"
#include "text/tokenizer.h"
#include "train/engine/inputs.h"

#include <stddef.h>
#include <stdint.h>

// The feature options (`training` is 0) and the answer options of the settings. Contradictory
// settings are BERTH_CONFIG.
enum berth_status squad_input_feature_options(const struct settings *config,
                                              struct squad_feature_options *options,
                                              struct berth_error *error);
struct squad_answer_options squad_input_answer_options(const struct settings *config);

// A model that was trained with features other than Google's records this in its config.json
// ("squad_features", "squad_answer_end"). `mark` records the settings in a model about to be
// trained; `follow` sets settings that the user did not give to what the model records.
enum berth_status squad_input_mark_model(struct model_files *files, const struct settings *config,
                                         struct berth_error *error);
enum berth_status squad_input_follow_model(struct settings *config, const struct model_files *files,
                                           const struct berth_log *log, struct berth_error *error);

struct squad_input {
    struct squad_dataset dataset;
    struct squad_feature_set features;
};

struct squad_input_args {
    const char *path;
    int64_t limit; // > 0: only this many questions, from the first
    int training;  // use labels, and one answer per question
    const struct settings *config;
    const struct tokenizer *tokenizer;
    const struct berth_log *log;
};
enum berth_status squad_input_open(struct squad_input *input, const struct squad_input_args *args,
                                   struct berth_error *error);
void squad_input_done(struct squad_input *input);

// The features as a source for the packer; its `data` is the feature set.
struct packer_source squad_input_source(const struct squad_feature_set *set);

// Logits of a whole set; the context of squad_logits_receive (infer.h), which fills it.
struct squad_logits {
    const struct squad_feature_set *set;
    float *values; // [token_count][2]; those of feature f start at row features[f].first
};
enum berth_status squad_logits_init(struct squad_logits *logits,
                                    const struct squad_feature_set *set, struct berth_error *error);
size_t squad_logits_bytes(const struct squad_feature_set *set);
void squad_logits_done(struct squad_logits *logits);
void squad_logits_receive(void *logits, size_t index, const float *numbers, int64_t count);

// The arguments of berth_show_squad.
struct show_args {
    const struct settings *config;
    struct berth_selection samples;
    const struct berth_log *log;
    int (*visit)(void *context, const struct berth_sample *sample);
    void *context;
};
enum berth_status show_squad(const struct show_args *args, struct berth_error *error);

#endif
