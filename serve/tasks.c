// SPDX-License-Identifier: Apache-2.0
// The table of tasks, by the architecture of a model.
#include "core/words.h"
#include "serve/task.h"

#include <string.h>

// The last one is for any other model.
static const struct served_task *const all[] = {&served_questions, &served_classes, &served_tokens,
                                                &served_masks, &served_embeddings};

static int is_for(const struct served_task *task, const char *architecture) {
    return text_ends_with(architecture, task->architectures[0]) ||
           (task->architectures[1] != NULL && text_ends_with(architecture, task->architectures[1]));
}

int task_has_field(const struct served_task *task, const char *name) {
    return strcmp(name, task->fields[0]) == 0 ||
           (task->fields[1] != NULL && strcmp(name, task->fields[1]) == 0);
}

const struct served_task *task_find(const char *architecture) {
    size_t i = 0;
    while (!is_for(all[i], architecture)) {
        i++;
    }
    return all[i];
}
