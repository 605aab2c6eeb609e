// SPDX-License-Identifier: Apache-2.0
// A model in memory that answers questions.
//
// Threads: any number may call berth_model_answer on one model (inference.h). Tokenising, and
// choosing and cutting answers, run concurrently.
#include "api/arguments.h"
#include "api/inference.h"
#include "berth.h"
#include "core/memory.h"
#include "metrics/squad_answers.h"
#include "train/tasks/squad_input.h"

#include <string.h>

// The most full-length windows of one question that pass through the network together.
#define ANSWER_WINDOWS 8

struct berth_model {
    struct inference inference;
    struct squad_feature_options features;
    struct squad_answer_options answers;
};

static enum berth_status load(struct berth_model *model, const struct berth_log *log,
                              struct berth_error *error) {
    struct inference *inference = &model->inference;
    const struct berth_config *config = &inference->config;
    TRY(predictor_open(&inference->predictor, &inference->config, PARAM_HEAD_SPAN, 0, comm_self(),
                       log, error));
    TRY(squad_input_feature_options(config, &model->features, error));
    model->answers = squad_input_answer_options(config);
    int64_t length = config->max_seq_length, windows = config->predict_batch_size;
    windows = windows < ANSWER_WINDOWS ? windows : ANSWER_WINDOWS;
    inference->extent = (struct batch_extent){
        .tokens = windows * length, .sequences = windows, .max_length = length};
    return inference_load(inference, log, error);
}

enum berth_status berth_model_open(const struct berth_config *config, struct berth_log log,
                                   struct berth_model **model, struct berth_error *error) {
    REQUIRE(model, error);
    *model = NULL;
    REQUIRE_CONFIG(config, error);
    struct berth_model *opened = memory_array_zeroed(1, sizeof *opened);
    if (opened == NULL) {
        return error_no_memory(error, sizeof *opened, "a model");
    }
    opened->inference.config = *config;
    enum berth_status status = load(opened, &log, error);
    if (status == BERTH_OK) {
        *model = opened;
    } else {
        berth_model_close(opened);
    }
    return status;
}

void berth_model_close(struct berth_model *model) {
    if (model != NULL) {
        inference_done(&model->inference);
        memory_free(model);
    }
}

// --- one question -------------------------------------------------------------------------------

struct call {
    struct squad_example example;
    struct squad_dataset dataset;
    struct squad_feature_set features;
    struct squad_logits logits;
    struct squad_result result;
};

static enum berth_status make_features(const struct berth_model *model, struct call *call,
                                       struct berth_error *error) {
    TRY(squad_features_build(&call->dataset, model->inference.predictor.files.tokenizer,
                             &model->features, 1, NULL, &call->features, error));
    if (call->features.count == 0) {
        return error_set(error, BERTH_BAD_DATA,
                         model->features.rules == SQUAD_RULES_KERAS
                             ? "the context has no words to answer from, or question and context "
                               "exceed max_seq_length, and features keras do not split a context"
                             : "the context has no words to answer from");
    }
    if (call->features.features[0].length == call->features.features[0].document_length + 3) {
        return error_set(error, BERTH_USAGE, "the question has no words");
    }
    return squad_logits_init(&call->logits, &call->features, error);
}

static enum berth_status pass(const struct inference *inference, struct call *call,
                              struct berth_error *error) {
    struct packer_source source = squad_input_source(&call->features);
    struct infer_args args = {
        .source = &source, .take = squad_logits_take, .context = &call->logits};
    return inference_run(inference, args, error);
}

static enum berth_status copy_answer(const struct squad_candidate *from, struct berth_answer *to,
                                     struct berth_error *error) {
    *to = (struct berth_answer){.text = memory_string(from->text),
                                .probability = from->probability,
                                .start_logit = (double)from->start_logit,
                                .end_logit = (double)from->end_logit,
                                .start = from->begin,
                                .end = from->end};
    if (to->text == NULL) {
        return error_no_memory(error, strlen(from->text) + 1, "an answer");
    }
    return BERTH_OK;
}

static enum berth_status run(const struct berth_model *model, struct call *call,
                             struct berth_answer *answers, size_t capacity, size_t *count,
                             struct berth_error *error) {
    TRY(make_features(model, call, error));
    TRY(pass(&model->inference, call, error));
    const struct squad_outcome outcome = {.dataset = &call->dataset,
                                          .set = &call->features,
                                          .logits = call->logits.values,
                                          .tokenizer = model->inference.predictor.files.tokenizer,
                                          .options = &model->answers};
    TRY(squad_answer_question(&outcome, 0, call->features.count, &call->result, error));
    size_t wanted = call->result.count < capacity ? call->result.count : capacity;
    const size_t chosen = squad_result_chosen(&call->result);
    while (*count < wanted) {
        // The chosen candidate first, then those before it, then those after it.
        size_t index = *count == 0 ? chosen : *count <= chosen ? *count - 1 : *count;
        TRY(copy_answer(&call->result.candidates[index], &answers[*count], error));
        ++*count;
    }
    return BERTH_OK;
}

enum berth_status berth_model_answer(const struct berth_model *model, const char *question,
                                     const char *context, struct berth_answer *answers,
                                     size_t capacity, size_t *count, struct berth_error *error) {
    REQUIRE(count, error);
    *count = 0;
    REQUIRE(model, error);
    REQUIRE(question, error);
    REQUIRE(context, error);
    if (capacity > 0) {
        REQUIRE(answers, error);
    }
    struct call call = {.example = {.id = "question",
                                    .title = "",
                                    .question = question,
                                    .context = context,
                                    .context_length = strlen(context)}};
    call.dataset = (struct squad_dataset){.examples = &call.example, .count = 1};
    enum berth_status status = run(model, &call, answers, capacity, count, error);
    if (status != BERTH_OK) {
        berth_answers_free(answers, *count);
        *count = 0;
    }
    squad_result_done(&call.result);
    squad_logits_done(&call.logits);
    squad_feature_set_done(&call.features);
    return status;
}

void berth_answers_free(struct berth_answer *answers, size_t count) {
    for (size_t i = 0; i < count && answers != NULL; i++) {
        memory_free(answers[i].text);
        answers[i].text = NULL;
    }
}
