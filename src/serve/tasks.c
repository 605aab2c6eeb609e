// SPDX-License-Identifier: Apache-2.0
#include "core/memory.h"
#include "core/options.h"
#include "core/utf8.h"
#include "serve/task.h"

#include <math.h>
#include <string.h>

// --- items ---------------------------------------------------------------------------------------

void item_fail(struct item *item, enum berth_status status, const char *message) {
    item->status = status;
    memory_free(item->message);
    item->message = memory_string(message);
}

void item_done(struct item *item) {
    berth_answers_free(item->answers, item->answer_count);
    memory_free(item->answers);
    memory_free(item->embedding);
    memory_free(item->message);
}

// --- question answering --------------------------------------------------------------------------

static enum berth_status open_answers(struct instance *instance, struct berth_log log,
                                      struct berth_error *error) {
    return berth_model_open(&instance->config, log, (struct berth_model **)&instance->handle,
                            error);
}

static void close_answers(struct instance *instance) {
    berth_model_close(instance->handle);
}

// One more than asked for, in the place of a "no answer" that is not wanted.
static size_t capacity_of(const struct item *item) {
    return (size_t)(item->wanted.top > 0 ? item->wanted.top : 1) + 1;
}

static void keep_wanted(struct item *item) {
    size_t kept = 0;
    for (size_t i = 0; i < item->answer_count; i++) {
        struct berth_answer *answer = &item->answers[i];
        const int is_wanted = item->wanted.may_be_empty != 0 || *answer->text != '\0';
        if (is_wanted && kept < capacity_of(item) - 1) {
            struct berth_answer first = item->answers[kept];
            item->answers[kept++] = *answer;
            *answer = first;
        }
    }
    for (size_t i = kept; i < item->answer_count; i++) {
        berth_answers_free(&item->answers[i], 1);
    }
    item->answer_count = kept;
}

static void answer_item(const struct instance *instance, struct item *item) {
    struct berth_error error = {.status = BERTH_OK};
    item->answers = memory_array_zeroed(capacity_of(item), sizeof *item->answers);
    if (item->answers == NULL) {
        item_fail(item, BERTH_NO_MEMORY, "out of memory");
        return;
    }
    enum berth_status status =
        berth_model_answer(instance->handle, item->texts[0], item->texts[1], item->answers,
                           capacity_of(item), &item->answer_count, &error);
    if (status != BERTH_OK) {
        item_fail(item, status, error.message);
    } else {
        keep_wanted(item);
    }
}

static enum berth_status run_answers(const struct instance *instance, struct item *const *items,
                                     size_t count, struct berth_error *error) {
    for (size_t i = 0; i < count; i++) {
        answer_item(instance, items[i]);
    }
    return BERTH_OK;
}

// A number of code points of the text, in another unit.
static int64_t offset_in(const char *text, int64_t points, enum offset_unit unit) {
    const size_t length = strlen(text);
    if (unit == OFFSET_CODE_POINTS || points < 0) {
        return points;
    }
    const size_t bytes = utf8_skip(text, length, points);
    int64_t units = points;
    for (size_t i = 0; unit == OFFSET_UTF16 && i < bytes && i < length; i++) {
        units += (unsigned char)text[i] >= 0xF0; // two units
    }
    return unit == OFFSET_BYTES ? (int64_t)bytes : units;
}

static void write_answer(struct json_line *line, const struct item *item,
                         const struct berth_answer *answer) {
    const enum offset_unit unit = item->wanted.unit;
    const int is_empty = answer->start < 0; // Hugging Face says 0, 0
    json_line_open(line, NULL, '{');
    json_line_real(line, "score", answer->probability);
    json_line_integer(line, "start", is_empty ? 0 : offset_in(item->texts[1], answer->start, unit));
    json_line_integer(line, "end", is_empty ? 0 : offset_in(item->texts[1], answer->end, unit));
    json_line_text(line, "answer", answer->text);
    json_line_close(line, '}');
}

// A bare object unless several were asked for, as transformers' pipeline.
static void write_answers(struct json_line *line, const struct item *item) {
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

// --- embeddings ----------------------------------------------------------------------------------

static enum berth_status open_encoder(struct instance *instance, struct berth_log log,
                                      struct berth_error *error) {
    return berth_encoder_open(&instance->config, log, (struct berth_encoder **)&instance->handle,
                              error);
}

static void close_encoder(struct instance *instance) {
    berth_encoder_close(instance->handle);
}

static void scale_to_one(float *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    const float factor = sum > 0 ? (float)(1 / sqrt(sum)) : 0.0f;
    for (size_t i = 0; i < count; i++) {
        values[i] *= factor;
    }
}

static void take_embedding(struct item *item, const float *from, size_t size, int usual) {
    item->size = size;
    item->embedding = memory_array(size, sizeof *item->embedding);
    if (item->embedding == NULL) {
        item_fail(item, BERTH_NO_MEMORY, "out of memory");
        return;
    }
    memcpy(item->embedding, from, size * sizeof *from);
    if (item->wanted.normalize < 0 ? usual : item->wanted.normalize) {
        scale_to_one(item->embedding, size);
    }
}

static enum berth_status run_embeddings(const struct instance *instance, struct item *const *items,
                                        size_t count, struct berth_error *error) {
    const struct berth_encoder *encoder = instance->handle;
    const size_t size = berth_encoder_size(encoder);
    struct berth_embedding how = berth_encoder_usual(encoder);
    const int usual = how.normalize;
    const char **texts = memory_array(count, sizeof *texts);
    float *rows = memory_array(count * size, sizeof *rows);
    enum berth_status status = texts != NULL && rows != NULL
                                   ? BERTH_OK
                                   : error_no_memory(error, count * size, "embeddings");
    for (size_t i = 0; status == BERTH_OK && i < count; i++) {
        texts[i] = items[i]->texts[0];
    }
    how.normalize = 0; // the items may differ in that
    if (status == BERTH_OK) {
        status = berth_encoder_embed(encoder, texts, count, how, rows, error);
    }
    for (size_t i = 0; status == BERTH_OK && i < count; i++) {
        take_embedding(items[i], rows + i * size, size, usual);
    }
    memory_free(rows);
    memory_free(texts);
    return status;
}

static void write_embedding(struct json_line *line, const struct item *item) {
    json_line_open(line, NULL, '[');
    for (size_t i = 0; i < item->size; i++) {
        json_line_float(line, NULL, item->embedding[i]);
    }
    json_line_close(line, ']');
}

// --- the rows ------------------------------------------------------------------------------------

static const struct task question_answering = {.name = "question-answering",
                                               .architecture = "ForQuestionAnswering",
                                               .job = JOB_ANSWER,
                                               .fields = {"question", "context"},
                                               .is_pair = 1,
                                               .open = open_answers,
                                               .close = close_answers,
                                               .run = run_answers,
                                               .write = write_answers};
static const struct task embeddings = {.name = "feature-extraction",
                                       .architecture = "",
                                       .job = JOB_EMBED,
                                       .fields = {"text", NULL},
                                       .open = open_encoder,
                                       .close = close_encoder,
                                       .run = run_embeddings,
                                       .write = write_embedding};

static const struct task *const rows[] = {&question_answering, &embeddings}; // the last: any
#define ROWS (sizeof rows / sizeof *rows)

static int ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

const struct task *task_find(const char *architecture) {
    size_t i = 0;
    while (i + 1 < ROWS && !ends_with(architecture, rows[i]->architecture)) {
        i++;
    }
    return rows[i];
}
