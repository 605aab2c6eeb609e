// SPDX-License-Identifier: Apache-2.0
// The models that are served, by name. A reload opens a model again beside the old one, which is
// closed when its last request is answered. Each is opened as for any other caller (task/task.h).
#ifndef BERTH_SERVE_MODELS_H
#define BERTH_SERVE_MODELS_H

#include "settings/settings.h"
#include "task/task.h"

enum { MODEL_NAME_SIZE = 256 }; // of a model's name, with its NUL

struct models;

// `specs` are "NAME=DIR" or "DIR", whose name is the folder's; DIR may also be a name on the hub.
// BERTH_USAGE: two have the same name, or a name is too long or has characters other than letters,
// digits, "-", "_" and ".". Borrows specs and config.
enum berth_status models_open(const char *const *specs, size_t count, const struct settings *config,
                              struct models **models, struct berth_error *error);
void models_close(struct models *models);
size_t models_count(const struct models *models);
const char *models_name(const struct models *models, size_t index);
// The index of the model with that name; models_count() if there is none.
size_t models_find(const struct models *models, const char *name);

// Opens every model again and replaces its instance. A model that cannot be opened keeps the old
// instance, and the first such error is returned; if it has no old instance, the remaining models
// are not opened. *loaded is the number of models that were opened.
enum berth_status models_load(struct models *models, struct berth_log log, size_t *loaded,
                              struct berth_error *error);
// The current instance of a model, to be released; NULL: not yet loaded.
const struct task_model *models_acquire(struct models *models, size_t index);
void models_release(struct models *models, const struct task_model *instance);

#endif
