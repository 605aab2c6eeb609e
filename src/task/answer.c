// SPDX-License-Identifier: Apache-2.0
// The task answer: a question is read with windows of its context, and the answers are cut from it.
#include "core/memory.h"
#include "core/options.h"
#include "metrics/squad_answers.h"
#include "task/model.h"
#include "train/tasks/squad_input.h"

#include <string.h>

struct answerer {
    struct squad_feature_options features;
    struct squad_answer_options answers;
};

static const struct answerer *answerer_of(const struct task_model *model) {
    return model->own;
}

static enum berth_status open_row(struct task_model *model, const struct task_opening *opening,
                                  struct berth_error *error) {
    struct answerer *own = model->own;
    const struct berth_config *config = &model->config;
    if (!config->version_2_with_negative &&
        option_name_is_given(config, "null_score_diff_threshold")) {
        log_note(opening->log,
                 "null_score_diff_threshold has no effect without version_2_with_negative");
    }
    TRY(network_open(model, PARAM_HEAD_SPAN, 0, 2, opening, error));
    TRY(squad_input_feature_options(config, &own->features, error));
    squad_input_note_unused(config, opening->log);
    own->answers = squad_input_answer_options(config);
    own->answers.all_spans = 1;
    own->answers.whole_words = config->align_to_words != 0;
    TRY(option_check_choice(config, "answer_score", error));
    own->answers.by_span =
        config->answer_score == NULL || strcmp(config->answer_score, "softmax") != 0;
    return network_load(model, opening, error);
}

// --- windows ------------------------------------------------------------------------------------

// A question on its way through the network.
struct asked {
    struct task_text *text;
    struct squad_example example;
    struct squad_dataset dataset;
    struct squad_feature_set features;
    struct squad_logits logits;
};

struct window {
    size_t question, feature;
};

// Questions and their windows.
struct call {
    const struct task_model *model;
    struct asked *asked; // [count]
    size_t count;
    struct window *windows; // [window_count] of those questions that have not failed
    size_t window_count;
};

static enum berth_status check_features(const struct task_model *model,
                                        const struct squad_feature_set *features,
                                        struct berth_error *error) {
    if (features->count == 0) {
        return error_set(error, BERTH_BAD_DATA,
                         answerer_of(model)->features.rules == SQUAD_RULES_KERAS
                             ? "the context has no words to answer from, or question and context "
                               "exceed max_seq_length, and features keras do not split a context"
                             : "the context has no words to answer from");
    }
    if (features->features[0].length == features->features[0].document_length + 3) {
        return error_set(error, BERTH_USAGE, "the question has no words");
    }
    return BERTH_OK;
}

static enum berth_status make_features(const struct task_model *model, struct asked *asked,
                                       struct berth_error *error) {
    const char *question = asked->text->texts[0], *context = asked->text->texts[1];
    asked->example = (struct squad_example){.id = question, // for messages
                                            .title = "",
                                            .question = question,
                                            .context = context,
                                            .context_length = strlen(context)};
    asked->dataset = (struct squad_dataset){.examples = &asked->example, .count = 1};
    TRY(squad_features_build(&asked->dataset, model->tokenizer, &answerer_of(model)->features, NULL,
                             &asked->features, error));
    asked->text->tokens_read = (int64_t)asked->features.token_count;
    TRY(check_features(model, &asked->features, error));
    return squad_logits_init(&asked->logits, &asked->features, error);
}

static void make_all_features(struct call *call, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t i = 0; i < call->count; i++) {
        struct berth_error error;
        if (make_features(call->model, &call->asked[i], &error) != BERTH_OK) {
            task_text_fail(call->asked[i].text, error.status, error.message);
        }
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
        const struct asked *asked = &call->asked[i];
        const size_t own = asked->text->status == BERTH_OK ? asked->features.count : 0;
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

// --- answers ------------------------------------------------------------------------------------

static size_t top_of(const struct task_text *text) {
    const int64_t asked = text->settings.top;
    return asked > 0 ? (size_t)asked : 1;
}

static struct squad_answer_options options_of(const struct task_model *model,
                                              const struct task_text *text) {
    const struct task_settings *asked = &text->settings;
    struct squad_answer_options options = answerer_of(model)->answers;
    const size_t top = top_of(text), wanted = top < SQUAD_N_BEST_MAX ? top : SQUAD_N_BEST_MAX;
    if ((size_t)options.n_best_size < wanted) {
        options.n_best_size = (int64_t)wanted;
    }
    if (asked->answer_length > 0) {
        options.max_answer_length = asked->answer_length;
    }
    if (asked->whole_words >= 0) {
        options.whole_words = asked->whole_words;
    }
    if (asked->with_no_answer >= 0) {
        options.version_2_with_negative = asked->with_no_answer;
    }
    return options;
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

// The logits of an item's start and end, which it refers to beside the text.
static const void *own_logits(struct task_text *text, const struct squad_candidate *candidate) {
    const float logits[2] = {candidate->start_logit, candidate->end_logit};
    char *own = memory_new(sizeof logits);
    if (own != NULL) {
        memcpy(own, logits, sizeof logits);
    }
    return task_text_own(text, own);
}

// The chosen candidate first, then those before it, then those after it.
static void make_items(struct task_text *text, const struct squad_result *result) {
    const size_t wanted = result->count < top_of(text) ? result->count : top_of(text);
    const size_t chosen = squad_result_chosen(result);
    struct berth_item *items = task_text_items(text, wanted);
    for (size_t i = 0; items != NULL && i < wanted; i++) {
        const struct squad_candidate *from = &result->candidates[i == 0        ? chosen
                                                                 : i <= chosen ? i - 1
                                                                               : i];
        items[i].text = task_text_own(text, memory_string(from->text));
        items[i].score = from->probability;
        items[i].start = offset_of(text, from->begin);
        items[i].end = offset_of(text, from->end);
        items[i].reserved[0] = own_logits(text, from);
    }
}

static void answer(const struct task_model *model, const struct asked *asked) {
    const struct squad_answer_options options = options_of(model, asked->text);
    const struct squad_outcome outcome = {.dataset = &asked->dataset,
                                          .set = &asked->features,
                                          .logits = asked->logits.values,
                                          .tokenizer = model->tokenizer,
                                          .options = &options};
    struct squad_result result = {.count = 0};
    struct berth_error error;
    if (squad_answer_question(&outcome, 0, asked->features.count, &result, &error) == BERTH_OK) {
        make_items(asked->text, &result);
    } else {
        task_text_fail(asked->text, error.status, error.message);
    }
    squad_result_done(&result);
}

static void answer_all(const struct call *call, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t i = 0; i < call->count; i++) {
        if (call->asked[i].text->status == BERTH_OK) {
            answer(call->model, &call->asked[i]);
        }
    }
}

// --- the row ------------------------------------------------------------------------------------

static enum berth_status run(struct call *call, struct berth_error *error) {
    const int threads = network_threads(call->model, call->count);
    make_all_features(call, threads);
    TRY(list_windows(call, error));
    const struct packer_source source = {
        .get = get_window, .data = call, .count = call->window_count};
    const struct infer_args args = {.source = &source, .receive = receive_window, .context = call};
    TRY(network_run(call->model, args, error));
    answer_all(call, threads);
    return BERTH_OK;
}

static enum berth_status run_row(const struct task_model *model, struct task_text *const *texts,
                                 size_t count, struct berth_error *error) {
    struct call call = {.model = model, .asked = memory_array_zeroed(count, sizeof *call.asked)};
    if (call.asked == NULL) {
        return error_no_memory(error, count * sizeof *call.asked, "the questions");
    }
    for (; call.count < count; call.count++) {
        call.asked[call.count].text = texts[call.count];
    }
    const enum berth_status status = run(&call, error);
    for (size_t i = 0; i < count; i++) {
        squad_logits_done(&call.asked[i].logits);
        squad_feature_set_done(&call.asked[i].features);
    }
    memory_free(call.windows);
    memory_free(call.asked);
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

static void write_line(struct json_line *line, const struct task_text *text) {
    json_line_open(line, NULL, '{');
    json_line_text(line, "question", text->texts[0]);
    json_line_text(line, "answer", text->item_count > 0 ? text->items[0].text : "");
    json_line_open(line, "answers", '[');
    for (size_t i = 0; i < text->item_count; i++) {
        const struct berth_item *item = &text->items[i];
        const float *logits = item->reserved[0];
        json_line_open(line, NULL, '{');
        json_line_text(line, "text", item->text);
        json_line_real(line, "probability", item->score);
        json_line_integer(line, "start", item->start);
        json_line_integer(line, "end", item->end);
        json_line_real(line, "start_logit", (double)logits[0]);
        json_line_real(line, "end_logit", (double)logits[1]);
        json_line_close(line, '}');
    }
    json_line_close(line, ']');
    json_line_close(line, '}');
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
    .own_size = sizeof(struct answerer),
    .open = open_row,
    .run = run_row,
    .write = write_row,
    .outputs = {{"answer", TASK_ITEM_TEXT},
                {"score", TASK_ITEM_SCORE},
                {"start", TASK_ITEM_START},
                {"end", TASK_ITEM_END}},
    .verb = {.jobs = JOB_ANSWER,
             .reader = TASK_READ_BY_PEOPLE,
             .top = "1",
             .top_max = 100,
             .pair = "the text to find the answer in",
             .sample = {"squad-minilm", "Where do I live?", "I live in Bern."},
             .notes = "The answer comes first, then the text with the answer highlighted (black on "
                      "light green) where colours are on; quiet prints the answer only.",
             .write = write_line}};
