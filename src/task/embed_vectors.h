// SPDX-License-Identifier: Apache-2.0
// How texts become vectors: the functions of the rows of embed.c.
#ifndef BERTH_TASK_EMBED_VECTORS_H
#define BERTH_TASK_EMBED_VECTORS_H

#include "task/task.h"

// Opens an encoder; the model's own is a struct berth_embedding.
enum berth_status embed_open(struct task_model *model, const struct task_opening *opening,
                             struct berth_error *error);
size_t embed_width(const struct task_model *model);
// A vector for each text.
enum berth_status embed_run(const struct task_model *model, struct task_text *const *texts,
                            size_t count, struct berth_error *error);
// A row for each token, without and with the model's prompt.
enum berth_status embed_run_hidden(const struct task_model *model, struct task_text *const *texts,
                                   size_t count, struct berth_error *error);
enum berth_status embed_run_tokens(const struct task_model *model, struct task_text *const *texts,
                                   size_t count, struct berth_error *error);
// The rows as a list of lists.
void embed_write_vectors(struct json_line *line, const struct task_model *model,
                         const struct task_text *text);

#endif
