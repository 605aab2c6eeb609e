// SPDX-License-Identifier: Apache-2.0
// A model in memory that answers questions.
//
// Threads: any number may ask one model (inference.h). Tokenising, and choosing and cutting
// answers, run concurrently.
#include "core/calls.h"
#include "core/memory.h"
#include "core/options.h"
#include "metrics/squad_answers.h"
#include "task/arguments.h"
#include "task/inference.h"
#include "task/task.h"
#include "train/tasks/squad_input.h"

#include <string.h>

struct berth_answerer {
    struct inference inference;
    struct squad_feature_options features;
    struct squad_answer_options answers;
};

static enum berth_status load_handle(void *handle, const struct inference_source *source,
                                     struct berth_error *error) {
    struct berth_answerer *model = handle;
    struct inference *inference = &model->inference;
    const struct berth_config *config = &inference->config;
    const struct predictor_kind kind = {PARAM_HEAD_SPAN, 0};
    TRY(predictor_open(&inference->predictor, &inference->config, &kind, source->comm, source->log,
                       error));
    TRY(squad_input_feature_options(config, &model->features, error));
    squad_input_note_unused(config, source->log);
    model->answers = squad_input_answer_options(config);
    model->answers.all_spans = 1;
    model->answers.whole_words = config->align_to_words != 0;
    TRY(option_check_choice(config, "answer_score", error));
    model->answers.by_span =
        config->answer_score == NULL || strcmp(config->answer_score, "softmax") != 0;
    inference_set_extent(inference);
    return inference_load(inference, source->log, error);
}

static const struct inference_kind kind = {.size = sizeof(struct berth_answerer),
                                           .what = "a model",
                                           .job = JOB_ANSWER,
                                           .load = load_handle};

enum berth_status berth_answerer_open(const struct berth_config *config, struct berth_log log,
                                      struct berth_answerer **model, struct berth_error *error) {
    REQUIRE(model, error);
    *model = NULL;
    REQUIRE_CONFIG(config, error);
    const struct inference_source source = {.config = config, .comm = comm_self(), .log = &log};
    void *opened;
    const enum berth_status status = inference_open(&kind, &source, &opened, error);
    *model = opened;
    return status;
}

void berth_answerer_close(struct berth_answerer *model) {
    inference_close(&kind, model);
}

int64_t berth_answerer_max_length(const struct berth_answerer *model) {
    return model != NULL ? model->inference.config.max_seq_length : 0;
}

// --- a question ---------------------------------------------------------------------------------

struct asked {
    struct squad_example example;
    struct squad_dataset dataset;
    struct squad_feature_set features;
    struct squad_logits logits;
};

// Questions and their windows.
struct call {
    const struct berth_answerer *model;
    const struct berth_question *questions; // [count]
    struct berth_answers *answers;          // [count]
    size_t count;
    struct asked *asked;    // [count]
    struct window *windows; // [window_count] of those questions that have no error
    size_t window_count;
};

struct window {
    size_t question, feature;
};

static enum berth_status check_question(const struct berth_question *question,
                                        struct berth_error *error) {
    if (question->question == NULL || question->context == NULL) {
        return error_set(error, BERTH_USAGE, "the %s is NULL",
                         question->question == NULL ? "question" : "context");
    }
    if (question->max_answer_length < 0) {
        return error_set(error, BERTH_USAGE,
                         "max_answer_length: expected a number of tokens or 0, found %lld",
                         (long long)question->max_answer_length);
    }
    if ((unsigned)question->whole_words > BERTH_ALIGN_TOKENS) {
        return error_set(error, BERTH_USAGE, "unknown alignment whole_words %d",
                         question->whole_words);
    }
    return question->with_no_answer >= -1 && question->with_no_answer <= 1
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "with_no_answer: expected -1, 0 or 1, found %d",
                           question->with_no_answer);
}

static enum berth_status check_features(const struct berth_answerer *model,
                                        const struct squad_feature_set *features,
                                        struct berth_error *error) {
    if (features->count == 0) {
        return error_set(error, BERTH_BAD_DATA,
                         model->features.rules == SQUAD_RULES_KERAS
                             ? "the context has no words to answer from, or question and context "
                               "exceed max_seq_length, and features keras do not split a context"
                             : "the context has no words to answer from");
    }
    if (features->features[0].length == features->features[0].document_length + 3) {
        return error_set(error, BERTH_USAGE, "the question has no words");
    }
    return BERTH_OK;
}

static enum berth_status make_features(const struct berth_answerer *model,
                                       const struct berth_question *question, struct asked *asked,
                                       struct berth_error *error) {
    TRY(check_question(question, error));
    asked->example = (struct squad_example){.id = question->question, // for messages
                                            .title = "",
                                            .question = question->question,
                                            .context = question->context,
                                            .context_length = strlen(question->context)};
    asked->dataset = (struct squad_dataset){.examples = &asked->example, .count = 1};
    TRY(squad_features_build(&asked->dataset, model->inference.predictor.files.tokenizer,
                             &model->features, NULL, &asked->features, error));
    TRY(check_features(model, &asked->features, error));
    return squad_logits_init(&asked->logits, &asked->features, error);
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

static enum berth_status copy_answers(const struct squad_result *result, size_t capacity,
                                      struct berth_answers *answers) {
    const size_t wanted = result->count < capacity ? result->count : capacity;
    const size_t chosen = squad_result_chosen(result);
    struct berth_error *error = &answers->error;
    answers->answers = memory_array_zeroed(wanted, sizeof *answers->answers);
    if (answers->answers == NULL) {
        return error_no_memory(error, wanted * sizeof *answers->answers, "the answers");
    }
    for (; answers->count < wanted; answers->count++) {
        const size_t i = answers->count;
        // The chosen candidate first, then those before it, then those after it.
        const size_t from = i == 0 ? chosen : i <= chosen ? i - 1 : i;
        TRY(copy_answer(&result->candidates[from], &answers->answers[i], error));
    }
    return BERTH_OK;
}

static struct squad_answer_options options_of(const struct berth_answerer *model,
                                              const struct berth_question *question) {
    struct squad_answer_options options = model->answers;
    const size_t wanted =
        question->capacity < SQUAD_N_BEST_MAX ? question->capacity : SQUAD_N_BEST_MAX;
    if ((size_t)options.n_best_size < wanted) {
        options.n_best_size = (int64_t)wanted;
    }
    if (question->max_answer_length > 0) {
        options.max_answer_length = question->max_answer_length;
    }
    if (question->whole_words != BERTH_ALIGN_USUAL) {
        options.whole_words = question->whole_words == BERTH_ALIGN_WORDS;
    }
    if (question->with_no_answer >= 0) {
        options.version_2_with_negative = question->with_no_answer != 0;
    }
    return options;
}

static enum berth_status answer(const struct berth_answerer *model,
                                const struct berth_question *question, const struct asked *asked,
                                struct berth_answers *answers) {
    const struct squad_answer_options options = options_of(model, question);
    const struct squad_outcome outcome = {.dataset = &asked->dataset,
                                          .set = &asked->features,
                                          .logits = asked->logits.values,
                                          .tokenizer = model->inference.predictor.files.tokenizer,
                                          .options = &options};
    struct squad_result result = {.count = 0};
    enum berth_status status =
        squad_answer_question(&outcome, 0, asked->features.count, &result, &answers->error);
    if (status == BERTH_OK) {
        status = copy_answers(&result, question->capacity, answers);
    }
    squad_result_done(&result);
    return status;
}

// --- several questions --------------------------------------------------------------------------

// The status of a question's answers says whether it failed.
static void prepare_all(struct call *call, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t i = 0; i < call->count; i++) {
        struct berth_answers *answers = &call->answers[i];
        *answers = (struct berth_answers){.count = 0};
        answers->error.status =
            make_features(call->model, &call->questions[i], &call->asked[i], &answers->error);
        answers->tokens = (int64_t)call->asked[i].features.token_count;
    }
}

static enum berth_status list_windows(struct call *call, struct berth_error *error) {
    size_t count = 0;
    for (size_t i = 0; i < call->count; i++) {
        count += call->asked[i].features.count;
    }
    call->windows = memory_array(count, sizeof *call->windows);
    if (call->windows == NULL) {
        return error_no_memory(error, count * sizeof *call->windows, "the windows");
    }
    for (size_t i = 0; i < call->count; i++) {
        const size_t own =
            call->answers[i].error.status == BERTH_OK ? call->asked[i].features.count : 0;
        for (size_t feature = 0; feature < own; feature++) {
            call->windows[call->window_count++] = (struct window){i, feature};
        }
    }
    return BERTH_OK;
}

static struct packer_sequence get_window(const void *data, size_t index) {
    const struct call *call = data;
    const struct window window = call->windows[index];
    const struct packer_source source = squad_input_source(&call->asked[window.question].features);
    return source.get(source.data, window.feature);
}

static void receive_window(void *context, size_t index, const float *logits, int64_t count) {
    const struct call *call = context;
    const struct window window = call->windows[index];
    squad_logits_receive(&call->asked[window.question].logits, window.feature, logits, count);
}

static enum berth_status pass(struct call *call, struct berth_error *error) {
    const struct packer_source source = {
        .get = get_window, .data = call, .count = call->window_count};
    const struct infer_args args = {.source = &source, .receive = receive_window, .context = call};
    return inference_run(&call->model->inference, args, error);
}

static void answer_all(struct call *call, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t i = 0; i < call->count; i++) {
        struct berth_answers *answers = &call->answers[i];
        if (answers->error.status == BERTH_OK) {
            answers->error.status =
                answer(call->model, &call->questions[i], &call->asked[i], answers);
        }
        if (answers->error.status != BERTH_OK) {
            berth_answer_lists_free(answers, 1);
        }
    }
}

static enum berth_status run(struct call *call, struct berth_error *error) {
    const int threads = inference_threads(&call->model->inference, call->count);
    call->asked = memory_array_zeroed(call->count, sizeof *call->asked);
    if (call->asked == NULL) {
        return error_no_memory(error, call->count * sizeof *call->asked, "the questions");
    }
    prepare_all(call, threads);
    TRY(list_windows(call, error));
    TRY(pass(call, error));
    answer_all(call, threads);
    return BERTH_OK;
}

static void call_done(struct call *call) {
    for (size_t i = 0; i < call->count && call->asked != NULL; i++) {
        squad_logits_done(&call->asked[i].logits);
        squad_feature_set_done(&call->asked[i].features);
    }
    memory_free(call->windows);
    memory_free(call->asked);
}

enum berth_status berth_answerer_answer_many(const struct berth_answerer *model,
                                             const struct berth_question *questions, size_t count,
                                             struct berth_answers *answers,
                                             struct berth_error *error) {
    CLEAR(answers, count);
    REQUIRE(model, error);
    if (count == 0) {
        return BERTH_OK;
    }
    REQUIRE(answers, error);
    REQUIRE(questions, error);
    struct call call = {.model = model, .questions = questions, .answers = answers, .count = count};
    enum berth_status status = run(&call, error);
    call_done(&call);
    return status;
}

void berth_answer_lists_free(struct berth_answers *lists, size_t count) {
    for (size_t i = 0; i < count && lists != NULL; i++) {
        berth_answers_free(lists[i].answers, lists[i].count);
        memory_free(lists[i].answers);
        lists[i].answers = NULL;
        lists[i].count = 0;
    }
}

// --- one question -------------------------------------------------------------------------------

enum berth_status berth_answerer_answer(const struct berth_answerer *model, const char *question,
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
    const struct berth_question asked = {
        .question = question, .context = context, .capacity = capacity, .with_no_answer = -1};
    struct berth_answers found;
    TRY(berth_answerer_answer_many(model, &asked, 1, &found, error));
    TRY(error_copy(error, &found.error));
    for (; *count < found.count; ++*count) {
        answers[*count] = found.answers[*count];
    }
    memory_free(found.answers); // their texts are now the caller's
    return BERTH_OK;
}

void berth_answers_free(struct berth_answer *answers, size_t count) {
    for (size_t i = 0; i < count && answers != NULL; i++) {
        memory_free(answers[i].text);
        answers[i].text = NULL;
    }
}

// --- the row ------------------------------------------------------------------------------------

static enum berth_status open_row(struct task_model *model, struct berth_log log,
                                  struct berth_error *error) {
    return berth_answerer_open(&model->config, log, &model->handle.answerer, error);
}

static void close_row(struct task_model *model) {
    berth_answerer_close(model->handle.answerer);
}

static int64_t max_tokens(const struct task_model *model) {
    return berth_answerer_max_length(model->handle.answerer);
}

static struct berth_question question_of(const struct task_text *text) {
    const struct task_settings *settings = &text->settings;
    return (struct berth_question){.question = text->texts[0],
                                   .context = text->texts[1],
                                   .capacity = (size_t)(settings->top > 0 ? settings->top : 1),
                                   .max_answer_length = settings->answer_length,
                                   .with_no_answer = settings->with_no_answer,
                                   .whole_words = settings->whole_words < 0 ? BERTH_ALIGN_USUAL
                                                  : settings->whole_words   ? BERTH_ALIGN_WORDS
                                                                            : BERTH_ALIGN_TOKENS};
}

// An offset of the context in the unit of the settings; -1 is nowhere.
static int64_t offset_of(const struct task_text *text, int64_t character) {
    struct text_position position = {0};
    if (character < 0) {
        return -1;
    }
    text_position_advance(&position, text->texts[1], character);
    return text_position_in(&position, text->settings.unit);
}

static void keep_answers(struct task_text *text, struct berth_answers *found) {
    text->tokens_read = found->tokens;
    if (found->error.status != BERTH_OK) {
        task_text_fail(text, found->error.status, found->error.message);
        return;
    }
    struct berth_item *items = task_text_items(text, found->count);
    for (size_t i = 0; items != NULL && i < found->count; i++) {
        struct berth_answer *answer = &found->answers[i];
        items[i].text = task_text_own(text, answer->text);
        items[i].score = answer->probability;
        items[i].start = offset_of(text, answer->start);
        items[i].end = offset_of(text, answer->end);
        answer->text = NULL;
    }
}

static enum berth_status run_row(const struct task_model *model, struct task_text *const *texts,
                                 size_t count, struct berth_error *error) {
    struct berth_question *questions = memory_array(count, sizeof *questions);
    struct berth_answers *answers = memory_array_zeroed(count, sizeof *answers);
    enum berth_status status = questions != NULL && answers != NULL
                                   ? BERTH_OK
                                   : error_no_memory(error, count * sizeof *answers, "answers");
    for (size_t i = 0; status == BERTH_OK && i < count; i++) {
        questions[i] = question_of(texts[i]);
    }
    if (status == BERTH_OK) {
        status =
            berth_answerer_answer_many(model->handle.answerer, questions, count, answers, error);
    }
    for (size_t i = 0; status == BERTH_OK && i < count; i++) {
        keep_answers(texts[i], &answers[i]);
    }
    if (answers != NULL) {
        berth_answer_lists_free(answers, count);
    }
    memory_free(answers);
    memory_free(questions);
    return status;
}

// Hugging Face says 0, 0 for "no answer".
static void write_item(struct json_line *line, const struct berth_item *item) {
    json_line_open(line, NULL, '{');
    json_line_real(line, "score", item->score);
    json_line_integer(line, "start", item->start < 0 ? 0 : item->start);
    json_line_integer(line, "end", item->end < 0 ? 0 : item->end);
    json_line_text(line, "answer", item->text);
    json_line_close(line, '}');
}

// A bare object unless several were asked for, as transformers' pipeline.
static void write_row(struct json_line *line, const struct task_model *model,
                      const struct task_text *text) {
    const int is_list = text->settings.top > 1 || text->item_count != 1;
    (void)model;
    if (is_list) {
        json_line_open(line, NULL, '[');
    }
    for (size_t i = 0; i < text->item_count; i++) {
        write_item(line, &text->items[i]);
    }
    if (is_list) {
        json_line_close(line, ']');
    }
}

const struct task_row row_answer = {
    .about = {.name = "answer",
              .pipeline = "question-answering",
              .text = "question",
              .pair = "context",
              .label = "answer",
              .more = "answers",
              .needs_pair = 1,
              .has_items = 1,
              .trains = 1,
              .help = "the answers to a question that are in a context, best first"},
    .architectures = {"ForQuestionAnswering"},
    .job = JOB_ANSWER,
    .settings = "top max_answer_length version_2_with_negative align_to_words offsets",
    .uses_windows = 1,
    .open = open_row,
    .close = close_row,
    .max_tokens = max_tokens,
    .run = run_row,
    .write = write_row,
    .outputs = {{"answer", TASK_ITEM_TEXT},
                {"score", TASK_ITEM_SCORE},
                {"start", TASK_ITEM_START},
                {"end", TASK_ITEM_END}}};
