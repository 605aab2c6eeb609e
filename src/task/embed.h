// SPDX-License-Identifier: Apache-2.0
// What a job of several ranks that embeds a file asks of its model, beside its row.
#ifndef BERTH_TASK_EMBED_H
#define BERTH_TASK_EMBED_H

#include "task/task.h"

// How texts become embeddings unless a text's settings say otherwise.
struct berth_embedding embed_usual(const struct task_model *model);
// All ranks compare the models that they read; errors as rank_facts_compare.
enum berth_status embed_compare_ranks(const struct task_model *model, struct berth_error *error);

#endif
