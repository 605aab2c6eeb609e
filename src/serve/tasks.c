// SPDX-License-Identifier: Apache-2.0
#include "core/memory.h"
#include "core/words.h"
#include "serve/task.h"

#include <string.h>

// --- question answering --------------------------------------------------------------------------

static enum berth_status open_answers(struct instance *instance, struct berth_log log,
                                      struct berth_error *error) {
    return berth_model_open(&instance->config, log, &instance->handle.model, error);
}

static void close_answers(struct instance *instance) {
    berth_model_close(instance->handle.model);
}

static int64_t answers_length(const struct instance *instance) {
    return berth_model_max_length(instance->handle.model);
}

static struct berth_question question_of(const struct item *item) {
    return (struct berth_question){.question = item->texts[0],
                                   .context = item->texts[1],
                                   .capacity =
                                       (size_t)(item->wanted.top > 0 ? item->wanted.top : 1),
                                   .max_answer_length = item->wanted.answer_length,
                                   .with_no_answer = item->wanted.with_no_answer};
}

// Moves the answers to the item.
static void take_answers(struct item *item, struct berth_answers *from) {
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
        take_answers(items[i], &answers[i]);
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
    struct place place = {0};
    place_move(&place, item->texts[1], character);
    return place_in(&place, item->wanted.unit);
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
    const int is_list = item->wanted.top > 1 || item->answer_count != 1;
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

static void write_answer_text(struct json_line *line, const struct instance *instance,
                              const struct item *item) {
    json_line_text(line, NULL, item->answer_count > 0 ? item->answers[0].text : "");
}

static void write_answer_score(struct json_line *line, const struct instance *instance,
                               const struct item *item) {
    json_line_real(line, NULL, item->answer_count > 0 ? item->answers[0].probability : 0);
}

static void write_answer_start(struct json_line *line, const struct instance *instance,
                               const struct item *item) {
    json_line_integer(line, NULL, item->answer_count > 0 ? item->answers[0].start : -1);
}

static void write_answer_end(struct json_line *line, const struct instance *instance,
                             const struct item *item) {
    json_line_integer(line, NULL, item->answer_count > 0 ? item->answers[0].end : -1);
}

static const struct task_output answer_outputs[] = {
    {"answer", "BYTES", task_one, write_answer_text},
    {"score", "FP64", task_one, write_answer_score},
    {"start", "INT64", task_one, write_answer_start},
    {"end", "INT64", task_one, write_answer_end},
    {NULL}};

// --- rows of numbers for texts -------------------------------------------------------------------

// Texts that are computed in the same way, and their rows.
struct text_rows {
    struct item **items; // [count], as all below
    struct berth_text *texts;
    struct berth_text_status *statuses;
    float *rows;
    size_t count, size; // of a row
};

struct text_work {
    size_t size;    // of a row
    int first, end; // the ways in which items are computed are first .. end - 1
    int (*way)(const struct item *item);
    enum berth_status (*compute)(const struct instance *instance, struct text_rows *rows, int way,
                                 struct berth_error *error);
};

static void take_row(const struct text_rows *rows, size_t i) {
    struct item *item = rows->items[i];
    const struct berth_text_status *own = &rows->statuses[i];
    item->tokens_read = own->tokens;
    item->number_count = rows->size;
    item->numbers = memory_array(rows->size, sizeof *item->numbers);
    if (own->error.status != BERTH_OK) {
        item_fail(item, own->error.status, own->error.message);
    } else if (item->numbers == NULL) {
        item_fail(item, BERTH_NO_MEMORY, "out of memory");
    } else {
        memcpy(item->numbers, rows->rows + i * rows->size, rows->size * sizeof *item->numbers);
    }
}

static enum berth_status run_way(const struct text_work *work, const struct instance *instance,
                                 struct text_rows *rows, int way, struct item *const *items,
                                 size_t count, struct berth_error *error) {
    rows->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (work->way(items[i]) == way) {
            rows->texts[rows->count] =
                (struct berth_text){.text = items[i]->texts[0], .pair = items[i]->texts[1]};
            rows->items[rows->count++] = items[i];
        }
    }
    if (rows->count > 0) {
        TRY(work->compute(instance, rows, way, error));
    }
    for (size_t i = 0; i < rows->count; i++) {
        take_row(rows, i);
    }
    return BERTH_OK;
}

static enum berth_status run_texts(const struct text_work *work, const struct instance *instance,
                                   struct item *const *items, size_t count,
                                   struct berth_error *error) {
    struct text_rows rows = {.items = memory_array(count, sizeof *rows.items),
                             .texts = memory_array(count, sizeof *rows.texts),
                             .statuses = memory_array(count, sizeof *rows.statuses),
                             .rows = memory_array(count * work->size, sizeof *rows.rows),
                             .size = work->size};
    enum berth_status status =
        rows.items != NULL && rows.texts != NULL && rows.statuses != NULL && rows.rows != NULL
            ? BERTH_OK
            : error_no_memory(error, count * work->size * sizeof *rows.rows, "results");
    for (int way = work->first; status == BERTH_OK && way < work->end; way++) {
        status = run_way(work, instance, &rows, way, items, count, error);
    }
    memory_free(rows.items);
    memory_free(rows.texts);
    memory_free(rows.statuses);
    memory_free(rows.rows);
    return status;
}

static void write_numbers(struct json_line *line, const struct instance *instance,
                          const struct item *item) {
    for (size_t i = 0; i < item->number_count; i++) {
        json_line_float(line, NULL, item->numbers[i]);
    }
}

// --- embeddings ----------------------------------------------------------------------------------

static enum berth_status open_encoder(struct instance *instance, struct berth_log log,
                                      struct berth_error *error) {
    return berth_encoder_open(&instance->config, log, &instance->handle.encoder, error);
}

static void close_encoder(struct instance *instance) {
    berth_encoder_close(instance->handle.encoder);
}

static int64_t encoder_length(const struct instance *instance) {
    return berth_encoder_max_length(instance->handle.encoder);
}

static int normalization_of(const struct item *item) {
    return item->wanted.normalize;
}

static enum berth_status embed(const struct instance *instance, struct text_rows *rows,
                               int normalize, struct berth_error *error) {
    struct berth_embedding how = berth_encoder_usual(instance->handle.encoder);
    how.normalize = normalize < 0 ? how.normalize : normalize;
    return berth_encoder_embed_many(instance->handle.encoder, rows->texts, rows->count, how,
                                    rows->rows, rows->statuses, error);
}

static enum berth_status run_embeddings(const struct instance *instance, struct item *const *items,
                                        size_t count, struct berth_error *error) {
    const struct text_work work = {.size = berth_encoder_size(instance->handle.encoder),
                                   .first = -1,
                                   .end = 2,
                                   .way = normalization_of,
                                   .compute = embed};
    return run_texts(&work, instance, items, count, error);
}

static void write_embedding(struct json_line *line, const struct instance *instance,
                            const struct item *item) {
    json_line_open(line, NULL, '[');
    write_numbers(line, instance, item);
    json_line_close(line, ']');
}

static size_t embedding_width(const struct instance *instance) {
    return berth_encoder_size(instance->handle.encoder);
}

static const struct task_output embedding_outputs[] = {
    {"embedding", "FP32", embedding_width, write_numbers}, {NULL}};

// --- classes -------------------------------------------------------------------------------------

static enum berth_status open_classifier(struct instance *instance, struct berth_log log,
                                         struct berth_error *error) {
    return berth_classifier_open(&instance->config, log, &instance->handle.classifier, error);
}

static void close_classifier(struct instance *instance) {
    berth_classifier_close(instance->handle.classifier);
}

static int64_t classifier_length(const struct instance *instance) {
    return berth_classifier_max_length(instance->handle.classifier);
}

static int score_of(const struct item *item) {
    return (int)item->wanted.score;
}

static enum berth_status classify(const struct instance *instance, struct text_rows *rows,
                                  int score, struct berth_error *error) {
    return berth_classifier_classify(instance->handle.classifier, rows->texts, rows->count,
                                     (enum berth_score)score, rows->rows, rows->statuses, error);
}

static enum berth_status run_classes(const struct instance *instance, struct item *const *items,
                                     size_t count, struct berth_error *error) {
    const struct text_work work = {.size =
                                       berth_classifier_classes(instance->handle.classifier).count,
                                   .first = BERTH_SCORE_USUAL,
                                   .end = BERTH_SCORE_SOFTMAX + 1,
                                   .way = score_of,
                                   .compute = classify};
    return run_texts(&work, instance, items, count, error);
}

// The class with the next lower score than `last`, of equal ones the first.
static size_t next_class(const struct item *item, size_t last, int is_first) {
    size_t best = item->number_count;
    for (size_t i = 0; i < item->number_count; i++) {
        const float value = item->numbers[i];
        const int is_left =
            is_first || value < item->numbers[last] || (value == item->numbers[last] && i > last);
        if (is_left && (best == item->number_count || value > item->numbers[best])) {
            best = i;
        }
    }
    return best;
}

// All classes unless fewer were asked for, the likeliest first.
static void write_classes(struct json_line *line, const struct instance *instance,
                          const struct item *item) {
    const struct berth_classes classes = berth_classifier_classes(instance->handle.classifier);
    const size_t asked = (size_t)item->wanted.top, all = item->number_count;
    size_t last = 0;
    json_line_open(line, NULL, '[');
    for (size_t i = 0; i < (asked > 0 && asked < all ? asked : all); i++) {
        last = next_class(item, last, i == 0);
        json_line_open(line, NULL, '{');
        json_line_text(line, "label", classes.names[last]);
        json_line_float(line, "score", item->numbers[last]);
        json_line_close(line, '}');
    }
    json_line_close(line, ']');
}

static void write_best_class(struct json_line *line, const struct instance *instance,
                             const struct item *item) {
    json_line_text(
        line, NULL,
        berth_classifier_classes(instance->handle.classifier).names[next_class(item, 0, 1)]);
}

static size_t class_width(const struct instance *instance) {
    return berth_classifier_classes(instance->handle.classifier).count;
}

static const struct task_output class_outputs[] = {{"label", "BYTES", task_one, write_best_class},
                                                   {"scores", "FP32", class_width, write_numbers},
                                                   {NULL}};

// --- the rows ------------------------------------------------------------------------------------

static const struct task question_answering = {.name = "question-answering",
                                               .architectures = {"ForQuestionAnswering"},
                                               .fields = {"question", "context"},
                                               .is_pair = 1,
                                               .divides = 1,
                                               .open = open_answers,
                                               .close = close_answers,
                                               .max_tokens = answers_length,
                                               .run = run_answers,
                                               .write = write_answers,
                                               .outputs = answer_outputs};
static const struct task embeddings = {.name = "feature-extraction",
                                       .architectures = {""},
                                       .fields = {"text", NULL},
                                       .open = open_encoder,
                                       .close = close_encoder,
                                       .max_tokens = encoder_length,
                                       .run = run_embeddings,
                                       .write = write_embedding,
                                       .outputs = embedding_outputs};
static const struct task classification = {.name = "text-classification",
                                           .architectures = {"ForSequenceClassification"},
                                           .is_listed = 1,
                                           .fields = {"text", "text_pair"},
                                           .open = open_classifier,
                                           .close = close_classifier,
                                           .max_tokens = classifier_length,
                                           .run = run_classes,
                                           .write = write_classes,
                                           .outputs = class_outputs};

// The last one is for any other model.
static const struct task *const all[] = {&question_answering, &classification,
                                         &task_token_classification, &task_fill_mask, &embeddings};

static int does(const struct task *task, const char *architecture) {
    return text_ends_with(architecture, task->architectures[0]) ||
           (task->architectures[1] != NULL && text_ends_with(architecture, task->architectures[1]));
}

int task_has_field(const struct task *task, const char *name) {
    return strcmp(name, task->fields[0]) == 0 ||
           (task->fields[1] != NULL && strcmp(name, task->fields[1]) == 0);
}

const struct task *task_find(const char *architecture) {
    size_t i = 0;
    while (!does(all[i], architecture)) {
        i++;
    }
    return all[i];
}
