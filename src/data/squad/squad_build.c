// SPDX-License-Identifier: Apache-2.0
// What both builders of SQuAD's features do alike: divide documents among threads, remember the
// first failure, and grow the arrays of a set. squad_features.c and squad_keras.c have the rules.
#include "data/squad/squad_build.h"

#include "core/memory.h"
#include "core/utf8.h"

#include <stdio.h>

static void record_failure(struct squad_failure *failure, size_t index, enum berth_status status,
                           const struct berth_error *error) {
#pragma omp critical(squad_features_failure)
    if (failure->status == BERTH_OK || index < failure->index) {
        *failure = (struct squad_failure){index, status, *error};
    }
}

void squad_work_run(const struct squad_work *work, int threads, struct squad_failure *failure) {
#pragma omp parallel num_threads(threads)
    {
        struct token_list list = {0};
#pragma omp for schedule(dynamic, 8)
        for (size_t i = 0; i < work->count; i++) {
            struct berth_error error = {0};
            enum berth_status status = work->one(work->builder, i, &list, &error);
            if (status != BERTH_OK) {
                record_failure(failure, i, status, &error);
            }
        }
        token_list_done(&list);
    }
}

enum berth_status squad_failure_status(const struct squad_failure *failure,
                                       struct berth_error *error) {
    if (failure->status != BERTH_OK && error != NULL) {
        *error = failure->error;
    }
    return failure->status;
}

const char *squad_name_question(const struct squad_build *args, const struct squad_example *example,
                                char name[SQUAD_QUESTION_SIZE]) {
    if (args->dataset->name == NULL) {
        return "the question";
    }
    snprintf(name, SQUAD_QUESTION_SIZE, "%s: question \"%.*s\"", args->name,
             UTF8_SHOWN(example->id, 60));
    return name;
}

enum berth_status squad_set_reserve(struct squad_feature_set *set, uint64_t features,
                                    uint64_t tokens, struct berth_error *error) {
    set->count = features;
    set->token_count = tokens;
    set->features = memory_array(features + 1, sizeof *set->features);
    set->ids = memory_array(tokens + 1, sizeof *set->ids);
    set->type_ids = memory_array(tokens + 1, sizeof *set->type_ids);
    set->words = memory_array(tokens + 1, sizeof *set->words);
    set->max_context = memory_array(tokens + 1, sizeof *set->max_context);
    if (set->features == NULL || set->ids == NULL || set->type_ids == NULL || set->words == NULL ||
        set->max_context == NULL) {
        return error_no_memory(error, features * sizeof *set->features + tokens * 10,
                               "the features");
    }
    return BERTH_OK;
}

void squad_feature_set_done(struct squad_feature_set *set) {
    memory_free(set->features);
    memory_free(set->ids);
    memory_free(set->type_ids);
    memory_free(set->words);
    memory_free(set->max_context);
    memory_free(set->word_begin);
    memory_free(set->word_end);
    memory_free(set->example_words);
    *set = (struct squad_feature_set){0};
}
