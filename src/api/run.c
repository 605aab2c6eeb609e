// SPDX-License-Identifier: Apache-2.0
// berth_run and its results: settings are read, texts checked, the task's row runs them, and what
// it found becomes one object, whose numbers are one matrix. The verbs of tasks and other programs
// come in here; how a text becomes tokens and a result is the row's own business (task/task.h).
#include "api/model.h"
#include "core/memory.h"
#include "core/text_util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Texts that run together between two records of progress, when somebody watches.
#define WATCHED_TEXTS ((size_t)256)

// --- settings and texts --------------------------------------------------------------------------

enum berth_status task_settings_read(const struct task_row *task, const char *const *settings,
                                     struct call_settings *asked, struct berth_error *error) {
    const char *name, *value;
    *asked = task_usual;
    TRY(settings_check(settings, error));
    while (settings_next(&settings, &name, &value)) {
        const struct option_row *row = task_option_find(name);
        if (row == NULL || !task_follows(task, row->name)) {
            return setting_refuse(name, task->about.name, error);
        }
        const struct option_row own = task_option_of(task, row->name);
        TRY(task_set(asked, &own, value, error));
    }
    return BERTH_OK;
}

static void refuse(struct task_text *text, const char *what, const char *name) {
    char message[160];
    snprintf(message, sizeof message, what, name);
    task_text_fail(text, BERTH_USAGE, message);
}

// Copies what the caller gave into the texts of the call; one that the task cannot read has an
// error of its own.
static enum berth_status make_texts(struct berth_result *result, const struct berth_text *texts,
                                    const struct call_settings *settings,
                                    struct berth_error *error) {
    const struct berth_task *about = &result->task->about;
    result->texts = memory_array_zeroed(result->count, sizeof *result->texts);
    if (result->texts == NULL) {
        return error_no_memory(error, result->count * sizeof *result->texts, "the texts");
    }
    for (size_t i = 0; i < result->count; i++) {
        struct task_text *text = &result->texts[i];
        text->texts[0] = texts[i].text;
        text->texts[1] = texts[i].pair;
        text->settings = *settings;
        if (text->texts[0] == NULL) {
            refuse(text, "the %s is NULL", about->text);
        } else if (text->texts[1] == NULL && about->needs_pair) {
            refuse(text, "the %s is NULL", about->pair);
        } else if (text->texts[1] != NULL && about->pair == NULL) {
            refuse(text, "the task %s takes one text, not a pair", about->name);
        }
        // Items may quote the texts after the call, so these are copied.
        const int are_kept = text->status == BERTH_OK && about->has_items;
        for (size_t k = 0; are_kept && k < 2 && text->texts[k] != NULL; k++) {
            text->texts[k] = task_text_own(text, memory_string(text->texts[k]));
        }
    }
    return BERTH_OK;
}

// --- running -------------------------------------------------------------------------------------

static enum berth_status run_texts(struct berth_result *result, const struct task_model *model,
                                   struct watching *watching, struct berth_error *error) {
    struct task_text **valid = memory_array(result->count, sizeof *valid);
    enum berth_status status =
        valid != NULL ? BERTH_OK
                      : error_no_memory(error, result->count * sizeof *valid, "the texts");
    const size_t most = watching->watch != NULL ? WATCHED_TEXTS : result->count;
    for (size_t first = 0; status == BERTH_OK && first < result->count;) {
        size_t count = 0, end = first;
        for (; end < result->count && count < most; end++) {
            if (result->texts[end].status == BERTH_OK) {
                valid[count++] = &result->texts[end];
            }
        }
        status = count > 0 ? result->task->run(model, valid, count, error) : BERTH_OK;
        for (size_t i = 0; i < count; i++) {
            task_text_check_fit(model, valid[i]);
        }
        if (status == BERTH_OK) {
            status =
                watching_progress(watching, result->task->about.name, end, result->count, error);
        }
        first = end;
    }
    memory_free(valid);
    return status;
}

// Copies the rows of all texts into one matrix. A text that failed has zeros where its only row
// would be.
static enum berth_status gather_rows(struct berth_result *result, const struct task_model *model,
                                     struct berth_error *error) {
    const struct task_row *task = result->task;
    size_t total = 0, width = 0;
    for (size_t i = 0; i < result->count; i++) {
        width = result->texts[i].status == BERTH_OK ? result->texts[i].width : width;
    }
    width = width > 0 ? width : task->width(model);
    const int one_row = !task->has_rows_of_tokens;
    for (size_t i = 0; i < result->count; i++) {
        struct task_text *text = &result->texts[i];
        const int failed = text->status != BERTH_OK;
        text->width = width;
        text->row_count = failed ? (size_t)one_row : text->row_count;
        total += text->row_count * width;
    }
    result->rows = memory_array_zeroed(total, sizeof *result->rows);
    if (result->rows == NULL) {
        return error_no_memory(error, total * sizeof *result->rows, "the numbers of the texts");
    }
    float *to = result->rows;
    for (size_t i = 0; i < result->count; i++) {
        struct task_text *text = &result->texts[i];
        const size_t count = text->row_count * width;
        if (text->status == BERTH_OK) {
            memcpy(to, text->rows, count * sizeof *to);
        }
        memory_free(text->rows);
        text->rows = to; // not its own from now on
        to += count;
    }
    return BERTH_OK;
}

static enum berth_status run_task(struct berth_result *result, const struct berth_text *texts,
                                  const char *const *settings, struct watching *watching,
                                  struct berth_error *error) {
    const struct task_model *model;
    struct call_settings asked;
    TRY(task_settings_read(result->task, settings, &asked, error));
    TRY(model_for(result->model, result->task, &watching->log, &model, error));
    result->opened = model;
    TRY(make_texts(result, texts, &asked, error));
    TRY(run_texts(result, model, watching, error));
    if (result->task->about.has_rows) {
        TRY(gather_rows(result, model, error));
    }
    // The outcomes, and the error of the first text that failed.
    result->outcomes = memory_array_zeroed(result->count, sizeof *result->outcomes);
    if (result->outcomes == NULL) {
        return error_no_memory(error, result->count * sizeof *result->outcomes, "the outcomes");
    }
    for (size_t i = 0; i < result->count; i++) {
        const struct task_text *text = &result->texts[i];
        const char *message = text->message != NULL ? text->message : "";
        result->outcomes[i] = (struct berth_outcome){.status = text->status,
                                                     .message = message,
                                                     .tokens = text->tokens_read,
                                                     .truncated = text->truncated};
        if (text->status != BERTH_OK && error->status == BERTH_OK) {
            (void)error_set(error, text->status, "text %zu: %s", i + 1, message);
            error->input = (int64_t)i;
        }
    }
    return BERTH_OK;
}

struct berth_result *berth_run(const struct berth_model *model, const char *task,
                               const struct berth_text *texts, size_t count,
                               const char *const *settings, const struct berth_watch *watch,
                               struct berth_error *error) {
    struct berth_error own;
    struct watching watching;
    if (model == NULL) {
        return NULL;
    }
    error = error_begin(error, &own);
    watching_begin(&watching, watch);
    char names[256] = "";
    const struct task_row *row = task != NULL ? task_find(task) : model->own;
    for (size_t i = 0; row == NULL && task_rows[i] != NULL; i++) {
        words_add(names, sizeof names, task_rows[i]->about.name);
    }
    if (row == NULL) {
        (void)error_set(error, BERTH_USAGE, "unknown task \"%s\"; expected one of %s", task, names);
    }
    if (row == NULL) {
        return NULL;
    }
    if (texts == NULL && count > 0) {
        (void)error_set(error, BERTH_USAGE, "berth_run: the texts are NULL");
        return NULL;
    }
    struct berth_result *result = memory_array_zeroed(1, sizeof *result);
    if (result == NULL) {
        (void)error_no_memory(error, sizeof *result, "a result");
        return NULL;
    }
    result->model = model_keep(model);
    result->task = row;
    result->count = count;
    if (run_task(result, texts, settings, &watching, error) != BERTH_OK) {
        berth_result_free(result);
        return NULL;
    }
    return result;
}

// --- results -------------------------------------------------------------------------------------

void berth_result_free(struct berth_result *result) {
    if (result == NULL) {
        return;
    }
    for (size_t i = 0; result->texts != NULL && i < result->count; i++) {
        if (result->rows != NULL) {
            result->texts[i].rows = NULL; // in the matrix
        }
        task_text_done(&result->texts[i]);
    }
    for (size_t i = 0; i < result->number_count; i++) {
        memory_free(result->numbers[i].name);
    }
    json_line_done(&result->line);
    memory_free(result->numbers);
    memory_free(result->texts);
    memory_free(result->outcomes);
    memory_free(result->rows);
    berth_close(result->model);
    memory_free(result);
}

static const struct task_text *text_at(const struct berth_result *result, size_t input) {
    return result != NULL && result->texts != NULL && input < result->count ? &result->texts[input]
                                                                            : NULL;
}

const struct berth_item *berth_result_items(const struct berth_result *result, size_t input,
                                            size_t *count) {
    const struct task_text *text = text_at(result, input);
    const size_t found = text != NULL ? text->item_count : 0;
    if (count != NULL) {
        *count = found;
    }
    return found > 0 ? text->items : NULL;
}

const float *berth_result_rows(const struct berth_result *result, size_t input, size_t *rows,
                               size_t *width) {
    const struct task_text *text = text_at(result, input);
    const int has_rows = text != NULL && result->rows != NULL;
    if (rows != NULL) {
        *rows = has_rows ? text->row_count : 0;
    }
    if (width != NULL) {
        *width = has_rows ? text->width : 0;
    }
    return has_rows ? text->rows : NULL;
}

const struct berth_outcome *berth_result_outcome(const struct berth_result *result, size_t input) {
    return text_at(result, input) != NULL ? &result->outcomes[input] : NULL;
}

const char *berth_result_text(struct berth_result *result, size_t input) {
    if (result == NULL || result->texts == NULL) {
        return result != NULL && input == 0 ? result->line.text : NULL;
    }
    if (input >= result->count || result->texts[input].status != BERTH_OK) {
        return NULL;
    }
    json_line_clear(&result->line);
    result->task->write(&result->line, result->opened, &result->texts[input]);
    return result->line.failed ? NULL : result->line.text;
}

double berth_result_number(const struct berth_result *result, const char *name) {
    for (size_t i = 0; result != NULL && name != NULL && i < result->number_count; i++) {
        if (strcmp(result->numbers[i].name, name) == 0) {
            return result->numbers[i].value;
        }
    }
    return NAN;
}
