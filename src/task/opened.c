// SPDX-License-Identifier: Apache-2.0
// Opens the model of a task: finds its files by path or name, chooses the precision that the task
// has without one, and calls the row's own `open`; and counts the tokens that a text will take, for
// whoever fills batches. Called by api/open.c and serve/models.c. The network itself is opened by
// network.c, which the rows call.
#include "comm/comm.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "format/hub/model_files.h"
#include "format/json/json.h"
#include "model/folder.h"
#include "model/sentence.h"
#include "settings/settings.h"
#include "task/network.h"

#include <string.h>

static enum berth_status open_parts(struct task_model *model, const struct task_opening *opening,
                                    struct berth_error *error) {
    struct settings *config = &model->config;
    const char *name = config->model.model_name_or_path; // NULL: a vocabulary alone
    enum berth_status found = name != NULL ? hub_find_model(name, &model->path, error) : BERTH_OK;
    if (name != NULL && found == BERTH_OK) {
        config->model.model_name_or_path = model->path;
        found = path_require(model->path, "the folder of a model, or its file of weights", error);
    }
    TRY(comm_settle(opening->comm, found, error));
    if (config->machine.precision == BERTH_PRECISION_AUTO) { // the same if it was given by name
        settings_forget(config, option_find("precision"));
        settings_apply_default(config, "precision", model->task->job);
    }
    model->own = memory_array_zeroed(1, model->task->own_size);
    if (model->own == NULL) {
        return error_no_memory(error, model->task->own_size, "a model");
    }
    model->max_tokens = config->features.max_seq_length; // which a network fits to its positions
    return model->task->open(model, opening, error);
}

enum berth_status task_model_open(const struct task_row *task, const struct settings *config,
                                  const struct task_opening *opening, struct task_model **model,
                                  struct berth_error *error) {
    struct task_model *opened = memory_array_zeroed(1, sizeof *opened);
    *model = NULL;
    if (opened == NULL) {
        return error_no_memory(error, sizeof *opened, "a model");
    }
    opened->task = task;
    opened->config = *config;
    const struct task_opening whole = {.comm = opening->comm != NULL ? opening->comm : comm_self(),
                                       .log = opening->log,
                                       .other = opening->other};
    const enum berth_status status = open_parts(opened, &whole, error);
    if (status != BERTH_OK) {
        task_model_close(opened);
        return status;
    }
    *model = opened;
    return BERTH_OK;
}

void task_model_close(struct task_model *model) {
    if (model == NULL) {
        return;
    }
    if (model->network != NULL) {
        network_close(model->network);
    } else {
        tokenizer_close(model->tokenizer);
    }
    if (model->own != NULL && model->task->done != NULL) {
        model->task->done(model->own);
    }
    memory_free(model->own);
    memory_free(model->path);
    memory_free(model);
}

// --- numbers of tokens ---------------------------------------------------------------------------

static int64_t count_tokens(const struct task_model *model, const char *words) {
    struct token_list list = {0};
    const size_t bytes = strlen(words);
    // Too many rather than too few.
    const size_t count =
        model->tokenizer != NULL &&
                tokenizer_encode(model->tokenizer, words, bytes, &list, NULL) == BERTH_OK
            ? list.count
            : bytes;
    token_list_done(&list);
    return (int64_t)count;
}

int64_t task_count_tokens(const struct task_model *model, const struct task_row *task,
                          const struct task_text *text) {
    const int64_t between =
        model->tokenizer != NULL ? tokenizer_special_ids(model->tokenizer).separators : 1;
    const int64_t pair = text->texts[1] != NULL ? between + count_tokens(model, text->texts[1]) : 0;
    const char *prompt = task->prompt != NULL ? task->prompt(model, text) : "";
    return 2 + count_tokens(model, prompt) + count_tokens(model, text->texts[0]) + pair;
}

// Windows of a long context repeat the question; other texts are truncated.
int64_t task_computed_tokens(const struct task_model *model, const struct task_text *text,
                             int64_t tokens) {
    const int has_windows =
        model->task->uses_windows || text->settings.overflow == TEXT_HAS_WINDOWS;
    return tokens <= model->max_tokens ? tokens : has_windows ? 2 * tokens : model->max_tokens;
}
