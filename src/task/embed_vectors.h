// SPDX-License-Identifier: Apache-2.0
// How texts become vectors: the functions of which the rows of embed.c are made, and the prompts of
// embeddings, which embed_sparse.c puts before texts, too. Training has its own way through the
// engine (embed.c).
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

// --- what is put before texts: the prompt of a call's settings, else that of the model's folder
// -----

// The prompt of a text whose settings are right (prompts_known); a prompt_finder.
const char *prompts_of(const struct task_model *model, const struct task_text *text);
// Sets *known, newly allocated, to the texts whose prompt is known; the others fail.
enum berth_status prompts_known(const struct task_model *model, struct task_text *const *texts,
                                size_t count, struct task_text ***known, size_t *known_count,
                                struct berth_error *error);

#endif
