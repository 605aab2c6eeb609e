// SPDX-License-Identifier: Apache-2.0
// Question answering: the most likely answers and their offsets.
#include "core/memory.h"
#include "serve/task.h"

static enum berth_status open(struct instance *instance, struct berth_log log,
                              struct berth_error *error) {
    return berth_model_open(&instance->config, log, &instance->handle.model, error);
}

static void close(struct instance *instance) {
    berth_model_close(instance->handle.model);
}

static int64_t max_tokens(const struct instance *instance) {
    return berth_model_max_length(instance->handle.model);
}

static struct berth_question question_of(const struct item *item) {
    return (struct berth_question){
        .question = item->texts[0],
        .context = item->texts[1],
        .capacity = (size_t)(item->parameters.top > 0 ? item->parameters.top : 1),
        .max_answer_length = item->parameters.answer_length,
        .with_no_answer = item->parameters.with_no_answer,
        .whole_words = item->parameters.whole_words < 0 ? BERTH_ALIGN_USUAL
                       : item->parameters.whole_words   ? BERTH_ALIGN_WORDS
                                                        : BERTH_ALIGN_TOKENS};
}

// Moves the answers to the item.
static void move_answers(struct item *item, struct berth_answers *from) {
    item->tokens_read = from->tokens;
    if (from->error.status != BERTH_OK) {
        item_fail(item, from->error.status, from->error.message);
        return;
    }
    item->answers = from->answers;
    item->answer_count = from->count;
    from->answers = NULL;
    from->count = 0;
}

static enum berth_status run_answers(const struct instance *instance, struct item *const *items,
                                     size_t count, struct berth_error *error) {
    struct berth_question *questions = memory_array(count, sizeof *questions);
    struct berth_answers *answers = memory_array_zeroed(count, sizeof *answers);
    enum berth_status status = questions != NULL && answers != NULL
                                   ? BERTH_OK
                                   : error_no_memory(error, count * sizeof *answers, "answers");
    for (size_t i = 0; status == BERTH_OK && i < count; i++) {
        questions[i] = question_of(items[i]);
    }
    if (status == BERTH_OK) {
        status = berth_model_answer_many(instance->handle.model, questions, count, answers, error);
    }
    for (size_t i = 0; status == BERTH_OK && i < count; i++) {
        move_answers(items[i], &answers[i]);
    }
    if (answers != NULL) {
        berth_answer_lists_free(answers, count);
    }
    memory_free(answers);
    memory_free(questions);
    return status;
}

// Hugging Face says 0, 0 for "no answer".
static int64_t offset_in(const struct item *item, int64_t character) {
    struct text_position position = {0};
    text_position_advance(&position, item->texts[1], character);
    return text_position_in(&position, item->parameters.unit);
}

static void write_answer(struct json_line *line, const struct item *item,
                         const struct berth_answer *answer) {
    json_line_open(line, NULL, '{');
    json_line_real(line, "score", answer->probability);
    json_line_integer(line, "start", offset_in(item, answer->start));
    json_line_integer(line, "end", offset_in(item, answer->end));
    json_line_text(line, "answer", answer->text);
    json_line_close(line, '}');
}

// A bare object unless several were asked for, as transformers' pipeline.
static void write_answers(struct json_line *line, const struct instance *instance,
                          const struct item *item) {
    const int is_list = item->parameters.top > 1 || item->answer_count != 1;
    if (is_list) {
        json_line_open(line, NULL, '[');
    }
    for (size_t i = 0; i < item->answer_count; i++) {
        write_answer(line, item, &item->answers[i]);
    }
    if (is_list) {
        json_line_close(line, ']');
    }
}

static void put_answer_text(struct tensor_writer *writer, const struct instance *instance,
                            const struct item *item) {
    tensor_put_text(writer, item->answer_count > 0 ? item->answers[0].text : "");
}

static void put_answer_score(struct tensor_writer *writer, const struct instance *instance,
                             const struct item *item) {
    tensor_put_real(writer, item->answer_count > 0 ? item->answers[0].probability : 0);
}

static void put_answer_start(struct tensor_writer *writer, const struct instance *instance,
                             const struct item *item) {
    tensor_put_integer(writer, item->answer_count > 0 ? item->answers[0].start : -1);
}

static void put_answer_end(struct tensor_writer *writer, const struct instance *instance,
                           const struct item *item) {
    tensor_put_integer(writer, item->answer_count > 0 ? item->answers[0].end : -1);
}

static const struct task_output answer_outputs[] = {{"answer", "BYTES", task_one, put_answer_text},
                                                    {"score", "FP64", task_one, put_answer_score},
                                                    {"start", "INT64", task_one, put_answer_start},
                                                    {"end", "INT64", task_one, put_answer_end},
                                                    {NULL}};

const struct served_task served_questions = {.name = "question-answering",
                                             .architectures = {"ForQuestionAnswering"},
                                             .fields = {"question", "context"},
                                             .is_pair = 1,
                                             .uses_windows = 1,
                                             .open = open,
                                             .close = close,
                                             .max_tokens = max_tokens,
                                             .run = run_answers,
                                             .write = write_answers,
                                             .outputs = answer_outputs};
