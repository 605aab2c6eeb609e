// SPDX-License-Identifier: Apache-2.0
// The scores or vectors of a teacher model for the examples of a training of embeddings, computed
// before the first update. Leaves out the losses that use them (embed_losses.c). embed.c calls it
// when a training set is open; the teacher is opened and run like any other model of a task
// (opened.c).
#include "task/embed_teacher.h"

#include "core/clock.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "format/hub/model_files.h"
#include "metrics/embedding_metrics.h"
#include "model/folder_class.h"

#include <string.h>

enum { CALL_TEXTS = 512 }; // of one call of the teacher

extern const struct task_row row_rerank;

// A classifier scores pairs, if `may_score`; of any other teacher the embeddings are read.
static enum berth_status open_teacher(const struct embedding_teacher *teacher, int may_score,
                                      struct task_model **model, struct berth_error *error) {
    const struct task_row *task = teacher->row;
    const struct task_opening opening = {.log = teacher->log};
    struct settings settings;
    char class[128] = "";
    OWNED char *path = NULL;
    TRY(hub_find_model(teacher->model, &path, error));
    TRY(may_score ? folder_read_architecture(path, class, sizeof class, error) : BERTH_OK);
    if (text_ends_with(class, "ForSequenceClassification")) {
        task = &row_rerank;
    }
    settings_init(&settings);
    settings.machine = teacher->config->machine;
    if (settings.machine.precision != BERTH_FP32) { // a run in fp32 has no numbers of bf16 in it
        settings.machine.precision = BERTH_PRECISION_AUTO;
    }
    settings.model.model_name_or_path = teacher->model;
    return task_model_open(task, &settings, &opening, model, error);
}

// Runs `count` texts, at most CALL_TEXTS, and copies the numbers of each, `size` of them.
static enum berth_status run_call(const struct task_model *teacher, struct task_text *texts,
                                  size_t count, float *numbers, size_t size,
                                  struct berth_error *error) {
    struct task_text *list[CALL_TEXTS];
    for (size_t i = 0; i < count; i++) {
        list[i] = &texts[i];
        texts[i].settings = task_usual;
        texts[i].settings.score = BERTH_SCORE_NONE;
    }
    enum berth_status status = teacher->task->run(teacher, list, count, error);
    for (size_t i = 0; i < count; i++) {
        if (status == BERTH_OK && texts[i].status != BERTH_OK) {
            status = error_set(error, texts[i].status, "%s: %s", teacher->path, texts[i].message);
        }
        if (status == BERTH_OK) {
            memcpy(numbers + i * size, texts[i].rows, size * sizeof *numbers);
        }
        task_text_done(&texts[i]);
    }
    return status;
}

// Text `index` of all: with scores, the first text of an example and a further one.
struct request {
    const struct text_examples *examples;
    size_t each; // texts of an example that are asked for
    int is_pair; // each with the first one
};

static struct task_text text_of(const struct request *request, size_t index) {
    const char *const *texts = request->examples->items[index / request->each].texts;
    const size_t own = index % request->each;
    return request->is_pair ? (struct task_text){.texts = {texts[0], texts[own + 1]}}
                            : (struct task_text){.texts = {texts[own]}};
}

static enum berth_status run_all(const struct task_model *teacher, const struct request *request,
                                 float *numbers, size_t size, struct berth_error *error) {
    const size_t count = request->examples->count * request->each;
    struct task_text texts[CALL_TEXTS];
    for (size_t done = 0, own; done < count; done += own) {
        own = count - done < CALL_TEXTS ? count - done : CALL_TEXTS;
        for (size_t i = 0; i < own; i++) {
            texts[i] = text_of(request, done + i);
        }
        TRY(run_call(teacher, texts, own, numbers + done * size, size, error));
    }
    return BERTH_OK;
}

static void note_teacher(const struct embedding_teacher *teacher, const char *what, size_t count,
                         double begin) {
    log_detail(teacher->log, "teacher %s: %s of %zu examples in %.2f s", teacher->model, what,
               count, clock_now() - begin);
}

enum berth_status embedding_teacher_vectors(const struct embedding_teacher *teacher,
                                            const struct text_examples *examples, float *vectors,
                                            size_t size, struct berth_error *error) {
    const struct request request = {.examples = examples, .each = 1};
    const double begin = clock_now();
    struct task_model *model;
    TRY(open_teacher(teacher, 0, &model, error));
    const size_t found = model->task->width(model);
    const enum berth_status status =
        found != size
            ? error_set(error, BERTH_CONFIG,
                        "teacher_model %s: expected embeddings of %zu numbers, as those of "
                        "the model to train, found %zu",
                        model->path, size, found)
            : run_all(model, &request, vectors, size, error);
    task_model_close(model);
    TRY(status);
    note_teacher(teacher, "the vectors", examples->count, begin);
    return BERTH_OK;
}

static enum berth_status score_with(const struct task_model *teacher,
                                    const struct text_examples *examples,
                                    struct berth_error *error) {
    const int is_pair = teacher->task == &row_rerank;
    const struct request request = {.examples = examples,
                                    .each = is_pair ? examples->texts - 1 : examples->texts,
                                    .is_pair = is_pair};
    const size_t size = is_pair ? 1 : teacher->task->width(teacher);
    const size_t count = examples->count * request.each;
    OWNED float *numbers = memory_array(count * size, sizeof *numbers);
    if (numbers == NULL) {
        return error_no_memory(error, count * size * sizeof *numbers, "a teacher's results");
    }
    TRY(run_all(teacher, &request, numbers, size, error));
    for (size_t i = 0; i < count && is_pair; i++) {
        examples->score_pool[i] = (double)numbers[i];
    }
    if (!is_pair) {
        // The inner products of the first text of each example and the others.
        const struct embedding_set set = {numbers, examples->count * examples->texts, size};
        for (size_t i = 0; i < examples->count * examples->scores; i++) {
            const size_t first = i / examples->scores * examples->texts;
            examples->score_pool[i] = embedding_product(
                &set, (uint32_t)first, (uint32_t)(first + 1 + i % examples->scores));
        }
    }
    return BERTH_OK;
}

enum berth_status embedding_teacher_scores(const struct embedding_teacher *teacher,
                                           struct text_examples *examples,
                                           struct berth_error *error) {
    const double begin = clock_now();
    struct task_model *model;
    TRY(open_teacher(teacher, 1, &model, error));
    examples->scores = examples->texts - 1;
    memory_free(examples->score_pool);
    examples->score_pool =
        memory_array(examples->count * examples->scores, sizeof *examples->score_pool);
    const enum berth_status status =
        examples->score_pool != NULL
            ? score_with(model, examples, error)
            : error_no_memory(error, examples->count * examples->scores * sizeof(double),
                              "a teacher's scores");
    task_model_close(model);
    TRY(status);
    for (size_t i = 0; i < examples->count; i++) {
        examples->items[i].scores = examples->score_pool + i * examples->scores;
    }
    note_teacher(teacher, "scores", examples->count, begin);
    return BERTH_OK;
}
