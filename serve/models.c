// SPDX-License-Identifier: Apache-2.0
// The served models: reads --model NAME=PATH, opens each for its task, hands it out with a count of
// its users, and exchanges it on a reload. The loading thread of server.c loads, routes.c and run.c
// acquire and release; opening itself is task/opened.c's.
#include "serve/models.h"

#include "core/file.h"
#include "core/memory.h"
#include "settings/settings.h"

#include <pthread.h>
#include <string.h>

struct model {
    char *name;
    // Folder, or name on the hub, which may resolve to another folder at each load.
    const char *path;
    struct task_model *current; // NULL: not yet loaded
};

struct models {
    pthread_mutex_t lock; // of `current` and the references
    struct model *list;
    size_t count;
    const struct settings *config;
};

// --- names ---------------------------------------------------------------------------------------

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

// "." and ".." have another meaning in a path.
static int is_name(const char *name) {
    return *name != '\0' && strlen(name) < MODEL_NAME_SIZE &&
           name[strspn(name, NAME_CHARACTERS)] == '\0' && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

static enum berth_status parse_spec(struct model *model, const char *spec,
                                    struct berth_error *error) {
    const size_t prefix = strspn(spec, NAME_CHARACTERS);
    model->path = spec[prefix] == '=' && prefix > 0 ? spec + prefix + 1 : spec;
    size_t length = (size_t)(model->path - spec) - 1;
    const char *name = spec;
    if (model->path == spec) {
        name = path_name_trimmed(spec, &length); // of "org/name" it is "name"
    }
    model->name = memory_string_of(name, length);
    if (model->name == NULL) {
        return error_no_memory(error, length, "a name");
    }
    return is_name(model->name)
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "--model %s: \"%s\" cannot be a model's name; write --model NAME=DIR, "
                           "with a NAME of up to %d letters, digits, \"-\", \"_\" and \".\"",
                           spec, model->name, MODEL_NAME_SIZE - 1);
}

static enum berth_status parse_specs(struct models *models, const char *const *specs,
                                     struct berth_error *error) {
    for (size_t i = 0; i < models->count; i++) {
        TRY(parse_spec(&models->list[i], specs[i], error));
        if (models_find(models, models->list[i].name) != i) {
            return error_set(error, BERTH_USAGE,
                             "two models are called \"%s\"; write --model NAME=DIR for one of them",
                             models->list[i].name);
        }
    }
    return BERTH_OK;
}

enum berth_status models_open(const char *const *specs, size_t count, const struct settings *config,
                              struct models **models, struct berth_error *error) {
    struct models *opened = memory_array_zeroed(1, sizeof *opened);
    struct model *list = memory_array_zeroed(count, sizeof *list);
    if (opened == NULL || list == NULL) {
        memory_free(opened);
        memory_free(list);
        return error_no_memory(error, count * sizeof *list, "the models");
    }
    pthread_mutex_init(&opened->lock, NULL);
    opened->list = list;
    opened->count = count;
    opened->config = config;
    enum berth_status status = parse_specs(opened, specs, error);
    *models = opened;
    if (status != BERTH_OK) {
        models_close(opened);
        *models = NULL;
    }
    return status;
}

void models_close(struct models *models) {
    if (models == NULL) {
        return;
    }
    for (size_t i = 0; i < models->count; i++) {
        task_model_close(models->list[i].current);
        memory_free(models->list[i].name);
    }
    pthread_mutex_destroy(&models->lock);
    memory_free(models->list);
    memory_free(models);
}

size_t models_count(const struct models *models) {
    return models->count;
}

const char *models_name(const struct models *models, size_t index) {
    return models->list[index].name;
}

size_t models_find(const struct models *models, const char *name) {
    size_t i = 0;
    while (i < models->count &&
           (models->list[i].name == NULL || strcmp(models->list[i].name, name) != 0)) {
        i++;
    }
    return i;
}

// --- instances -----------------------------------------------------------------------------------

static enum berth_status load(struct models *models, struct model *model, struct berth_log log,
                              struct berth_error *error) {
    struct settings config = *models->config;
    struct task_model *instance;
    config.model.model_name_or_path = model->path;
    const struct task_opening opening = {.log = &log};
    const struct task_row *task;
    TRY(task_of_model(model->path, &task, error));
    TRY(task_model_open(task, &config, &opening, &instance, error));
    instance->references = 1;
    pthread_mutex_lock(&models->lock);
    struct task_model *old = model->current;
    model->current = instance;
    pthread_mutex_unlock(&models->lock);
    if (old != NULL) {
        models_release(models, old);
    }
    return BERTH_OK;
}

enum berth_status models_load(struct models *models, struct berth_log log, size_t *loaded,
                              struct berth_error *error) {
    enum berth_status first = BERTH_OK;
    *loaded = 0;
    for (size_t i = 0; i < models->count; i++) {
        struct model *model = &models->list[i];
        const enum berth_status status = load(models, model, log, first == BERTH_OK ? error : NULL);
        *loaded += status == BERTH_OK;
        first = first == BERTH_OK ? status : first;
        if (model->current == NULL) {
            break;
        }
    }
    return first;
}

const struct task_model *models_acquire(struct models *models, size_t index) {
    pthread_mutex_lock(&models->lock);
    struct task_model *instance = models->list[index].current;
    if (instance != NULL) {
        instance->references++;
    }
    pthread_mutex_unlock(&models->lock);
    return instance;
}

void models_release(struct models *models, const struct task_model *instance) {
    struct task_model *own = (struct task_model *)instance; // whose count is the only mutable part
    if (own == NULL) {
        return;
    }
    pthread_mutex_lock(&models->lock);
    const int is_last = --own->references == 0;
    pthread_mutex_unlock(&models->lock);
    if (is_last) {
        task_model_close(own);
    }
}
