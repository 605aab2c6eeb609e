// SPDX-License-Identifier: Apache-2.0
// The models that are served, by name. A reload opens a model again beside the old one, which is
// closed when its last request is answered.
#ifndef BERTH_SERVE_MODELS_H
#define BERTH_SERVE_MODELS_H

#include "serve/task.h"

struct models;

// From words "NAME=DIR" or "DIR", whose name is the folder's; DIR may also be a name of the hub.
// BERTH_USAGE: two have one name, or a name has other characters than letters, digits, "-", "_" and
// ".". Borrows both arguments.
enum berth_status models_open(const char *const *specs, size_t count,
                              const struct berth_config *config, struct models **models,
                              struct berth_error *error);
void models_close(struct models *models);
size_t models_count(const struct models *models);
const char *models_name(const struct models *models, size_t index);
// Its number; models_count where there is none of that name.
size_t models_find(const struct models *models, const char *name);

// Opens every model in place of the one that is open. One that cannot be opened stays as it is, and
// its error is returned, that of the first one if there are several; if it was not open before, no
// others are opened. *loaded counts those that were opened.
enum berth_status models_load(struct models *models, struct berth_log log, size_t *loaded,
                              struct berth_error *error);
// A model as it is now, to be released; NULL: not yet loaded.
const struct instance *models_acquire(struct models *models, size_t index);
void models_release(struct models *models, const struct instance *instance);

#endif
