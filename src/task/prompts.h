// SPDX-License-Identifier: Apache-2.0
// What tasks put before texts: the prompt of a call's settings, else that of the model's folder.
#ifndef BERTH_TASK_PROMPTS_H
#define BERTH_TASK_PROMPTS_H

#include "task/network.h"

// The prompt of a text whose settings are right (prompts_known); a prompt_finder.
const char *prompts_of(const struct task_model *model, const struct task_text *text);
// Sets *known, newly allocated, to the texts whose prompt is known; the others fail.
enum berth_status prompts_known(const struct task_model *model, struct task_text *const *texts,
                                size_t count, struct task_text ***known, size_t *known_count,
                                struct berth_error *error);

#endif
