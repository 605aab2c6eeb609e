// SPDX-License-Identifier: Apache-2.0
// What the tasks fill and embed_sparse share: how a model with the head for masked words is opened.
// fill.c defines it; embed_sparse.c calls it.
#ifndef BERTH_TASK_FILL_H
#define BERTH_TASK_FILL_H

#include "task/task.h"

enum berth_status fill_open(struct task_model *model, const struct task_opening *opening,
                            struct berth_error *error);

#endif
