// SPDX-License-Identifier: Apache-2.0
// Shared by the builders of both rule sets: parallel work and its failures, and the pools of a set.
// Only squad_features.c and squad_keras.c include it.
#ifndef BERTH_DATA_SQUAD_BUILD_H
#define BERTH_DATA_SQUAD_BUILD_H

#include "data/squad/squad_features.h"

// The failure with the lowest index, so that the message does not depend on the threads.
struct squad_failure {
    size_t index;
    enum berth_status status;
    struct berth_error error;
};
// Calls `one` for each index below `count`, on several threads with a token list each. Failures go
// to *failure.
struct squad_work {
    void *builder;
    size_t count;
    enum berth_status (*one)(void *builder, size_t index, struct token_list *list,
                             struct berth_error *error);
};
void squad_work_run(const struct squad_work *work, int threads, struct squad_failure *failure);
// Copies the failure, if there is one, to *error; returns its status.
enum berth_status squad_failure_status(const struct squad_failure *failure,
                                       struct berth_error *error);

// Allocates the features and the pools of tokens, and sets their counts.
enum berth_status squad_set_reserve(struct squad_feature_set *set, uint64_t features,
                                    uint64_t tokens, struct berth_error *error);

// The arguments of squad_features_build for the rule sets.
struct squad_build {
    const struct squad_dataset *dataset;
    const struct tokenizer *tokenizer;
    const struct squad_feature_options *options; // checked
    const char *name;                            // of the data set, for messages
    int threads;                                 // at least 1
    const struct berth_log *log;
    struct squad_feature_set *set; // empty except example_words; the caller frees it
};
// Names an example in messages: `FILE: question "ID"`, or "the question" in a data set that the
// caller built.
#define SQUAD_QUESTION_SIZE 1024
const char *squad_name_question(const struct squad_build *args, const struct squad_example *example,
                                char name[SQUAD_QUESTION_SIZE]);
// By Keras's rules.
enum berth_status squad_keras_build(const struct squad_build *args, struct berth_error *error);

#endif
