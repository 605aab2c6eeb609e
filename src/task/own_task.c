// SPDX-License-Identifier: Apache-2.0
// The task that a model's files name.
#include "core/file.h"
#include "core/memory.h"
#include "core/words.h"
#include "format/hub/model_files.h"
#include "model/folder_class.h"
#include "model/sentence.h"
#include "task/task.h"

#include <string.h>

// The row for a model's architecture, the class in its config.json: that of the longest end.
static const struct task_row *find_row(const char *architecture) {
    const struct task_row *found = NULL;
    size_t longest = 0;
    for (size_t i = 0; task_rows[i] != NULL; i++) {
        for (size_t k = 0; k < 2 && task_rows[i]->architectures[k] != NULL; k++) {
            const char *end = task_rows[i]->architectures[k];
            if (text_ends_with(architecture, end) && (found == NULL || strlen(end) > longest)) {
                found = task_rows[i];
                longest = strlen(end);
            }
        }
    }
    return found;
}

enum berth_status task_of_folder(const char *folder, const struct task_row **task,
                                 struct berth_error *error) {
    char name[128];
    enum sentence_kind kind;
    TRY(folder_read_architecture(folder, name, sizeof name, error));
    TRY(sentence_find_kind(folder, &kind, error));
    *task = kind == SENTENCE_SPARSE  ? task_find("embed_sparse")
            : kind == SENTENCE_DENSE ? find_row("") // the weights may have a head
                                     : find_row(name);
    return BERTH_OK;
}

// As task_of_folder, for a file of weights: the model's other files are beside it.
static enum berth_status task_of_file(const char *path, const struct task_row **task,
                                      struct berth_error *error) {
    char *folder = file_parent(path);
    const enum berth_status status =
        folder != NULL ? task_of_folder(folder, task, error) : error_no_memory(error, 0, "a path");
    memory_free(folder);
    return status;
}

enum berth_status task_of_model(const char *name, const struct task_row **task,
                                struct berth_error *error) {
    OWNED char *path = NULL;
    TRY(hub_find_model(name, &path, error));
    TRY(path_require(path, "the folder of a model, or its file of weights", error));
    return dir_exists(path) ? task_of_folder(path, task, error) : task_of_file(path, task, error);
}
