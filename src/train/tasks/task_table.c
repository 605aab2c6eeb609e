// SPDX-License-Identifier: Apache-2.0
// All tasks by name.
#include "train/tasks/task.h"

#include <string.h>

const struct task *task_find(const char *name) {
    static const struct task *const tasks[] = {&task_squad, &task_classify, &task_pretrain};
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        if (strcmp(tasks[i]->name, name) == 0) {
            return tasks[i];
        }
    }
    return NULL;
}
