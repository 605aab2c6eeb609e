// SPDX-License-Identifier: Apache-2.0
#include "train/tasks/task.h"

#define ROW(name) &task_##name,

const struct task *const tasks[] = {TASKS(ROW)};
const size_t task_count = sizeof tasks / sizeof *tasks;
