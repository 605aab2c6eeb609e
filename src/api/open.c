// SPDX-License-Identifier: Apache-2.0
// berth_open and berth_close, the facts of a model, and berth_save. Opening finds the files, reads
// what they say of themselves and opens the task that they name, so that whatever is wrong with
// them is said then; other tasks are opened when they are first run (model_for). What a task opens
// is left to its row (task/opened.c), running texts to run.c.
#include "api/conversion.h"
#include "api/inspect.h"
#include "api/jobs.h"
#include "api/model.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "format/hub/model_files.h"
#include "format/json/json.h"
#include "model/config.h"
#include "model/sentence.h"
#include "settings/settings.h"
#include "train/engine/inputs.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- the files -----------------------------------------------------------------------------------

static enum berth_status add_opened(struct berth_model *model, const struct task_row *task,
                                    const struct task_opening *opening, struct berth_error *error) {
    assert(task_check(task) == NULL);
    TRY(task_model_open(task, model->config, opening, &model->opened[model->opened_count], error));
    model->opened_count++;
    return BERTH_OK;
}

// Finds the model's files and the task that they name, then opens that task, or the one that the
// caller asks for. A vocabulary alone has no path, but then the task is known.
static enum berth_status open_files(struct berth_model *model, const char *path,
                                    const struct model_opening *opening,
                                    struct berth_error *error) {
    json *config = NULL;
    if (path != NULL) {
        TRY(hub_find_model(path, &model->path, error));
        TRY(path_require(model->path, MODEL_EXPECTED, error));
        model->config->model.model_name_or_path = model->path;
        const struct path parent = path_parent(model->path);
        const char *const folder = dir_exists(model->path) ? model->path : parent.text;
        TRY(inspect_config(folder, &model->config_json, error));
        TRY(task_of_folder(folder, &model->own, error));
    }
    if (model->config_json != NULL) {
        TRY(json_read_memory(model->path, model->config_json, strlen(model->config_json), &config,
                             error));
    }
    const char *architecture = json_text(json_at(json_member(config, "architectures"), 0));
    model->architecture = memory_string(architecture != NULL ? architecture : "");
    json_free(config);
    if (model->architecture == NULL) {
        return error_no_memory(error, 0, "a model's architecture");
    }
    model->own = opening->task != NULL ? opening->task : model->own;
    const struct task_opening own = {.comm = opening->comm, .log = opening->log};
    return model->without_weights ? BERTH_OK : add_opened(model, model->own, &own, error);
}

static void model_free(struct berth_model *model) {
    while (model->opened_count > 0) { // the first one last: others use its weights
        task_model_close(model->opened[--model->opened_count]);
    }
    for (size_t i = 0; i < model->tensor_count; i++) {
        memory_free((char *)model->tensors[i].name);
    }
    memory_free(model->tensors);
    if (model->temporary != NULL) {
        struct berth_error ignored;
        (void)dir_remove(model->temporary, &ignored);
        memory_free(model->temporary);
    }
    pthread_mutex_destroy(&model->lock);
    settings_free(model->config);
    memory_free(model->architecture);
    memory_free(model->config_json);
    memory_free(model->path);
    memory_free(model);
}

enum berth_status model_open(const char *path, struct settings *config,
                             const struct model_opening *opening, struct berth_model **model,
                             struct berth_error *error) {
    struct berth_model *opened = memory_array_zeroed(1, sizeof *opened);
    *model = NULL;
    if (opened == NULL || config == NULL) {
        settings_free(config);
        memory_free(opened);
        return error_no_memory(error, sizeof *opened, "a model");
    }
    opened->references = 1;
    opened->config = config;
    opened->without_weights = opening->without_weights;
    opened->trained.steps = -1;
    pthread_mutex_init(&opened->lock, NULL);
    const enum berth_status status = open_files(opened, path, opening, error);
    if (status != BERTH_OK) {
        model_free(opened);
        return status;
    }
    *model = opened;
    return BERTH_OK;
}

struct berth_model *model_keep(const struct berth_model *model) {
    struct berth_model *kept = (struct berth_model *)model;
    atomic_fetch_add(&kept->references, 1);
    return kept;
}

void berth_close(struct berth_model *model) {
    if (model != NULL && atomic_fetch_sub(&model->references, 1) == 1) {
        model_free(model);
    }
}

// --- tasks ---------------------------------------------------------------------------------------

// Rows that open a model alike share what was opened.
static struct task_model *find_opened(const struct berth_model *model,
                                      const struct task_row *task) {
    for (size_t i = 0; i < model->opened_count; i++) {
        if (model->opened[i]->task->open == task->open) {
            return model->opened[i];
        }
    }
    return NULL;
}

static enum berth_status open_task(struct berth_model *model, const struct task_row *task,
                                   const struct berth_log *log, const struct task_model **opened,
                                   struct berth_error *error) {
    struct task_model *own = find_opened(model, task);
    if (own == NULL) {
        if (model->without_weights && task->job != JOB_TOKENIZE) {
            return error_set(error, BERTH_USAGE,
                             "%s was opened with weights false, so it can only tokenize",
                             model->path);
        }
        const struct task_opening opening = {
            .log = log, .other = model->opened_count > 0 ? model->opened[0] : NULL};
        TRY(add_opened(model, task, &opening, error));
        own = model->opened[model->opened_count - 1];
    }
    *opened = own;
    return BERTH_OK;
}

enum berth_status model_for(const struct berth_model *model, const struct task_row *task,
                            const struct berth_log *log, const struct task_model **opened,
                            struct berth_error *error) {
    struct berth_model *shared = (struct berth_model *)model;
    pthread_mutex_lock(&shared->lock);
    const enum berth_status status = open_task(shared, task, log, opened, error);
    pthread_mutex_unlock(&shared->lock);
    return status;
}

// --- settings ------------------------------------------------------------------------------------

int model_opens_with(const struct option_row *row) {
    static const char *const others = "pair_truncation pooling normalize",
                             *const never =
                                 "model_name_or_path quiet comm comm_timeout start_timeout";
    return words_contain(others, ' ', row->name) ||
           ((row->jobs & (JOB_ANSWER | JOB_EMBED | JOB_FILL)) != 0 &&
            !words_contain(never, ' ', row->name));
}

static enum berth_status read_settings(const char *const *settings, struct settings *config,
                                       struct model_opening *opening, struct berth_error *error) {
    static const struct option_row weights = {.name = "weights", .type = OPTION_FLAG};
    union option_value parsed;
    const char *name, *value;
    TRY(settings_check(settings, error));
    while (settings_next(&settings, &name, &value)) {
        const struct option_row *row = option_find(name);
        if (strcmp(name, weights.name) == 0) {
            TRY(option_parse(&weights, value, &parsed, error));
            opening->without_weights = !parsed.flag;
        } else if (strcmp(name, "task") == 0) {
            opening->task = task_find(value);
            TRY(opening->task != NULL
                    ? BERTH_OK
                    : error_set(error, BERTH_USAGE, "setting task: unknown task \"%s\"", value));
        } else if (row == NULL || !model_opens_with(row)) {
            return setting_refuse(name, "berth_open", error);
        } else {
            TRY(settings_set(config, name, value, error));
        }
    }
    return BERTH_OK;
}

struct berth_model *berth_open(const char *path, const char *const *settings,
                               const struct berth_watch *watch, struct berth_error *error) {
    struct berth_error own;
    struct watching watching;
    struct berth_model *model = NULL;
    struct settings *config = settings_new();
    struct model_opening opening = {.log = &watching.log};
    error = error_begin(error, &own);
    watching_begin(&watching, watch);
    if (config == NULL) {
        (void)error_no_memory(error, 0, "settings");
        return NULL;
    }
    enum berth_status status = read_settings(settings, config, &opening, error);
    if (status == BERTH_OK && path == NULL &&
        (opening.task == NULL || opening.task->job != JOB_TOKENIZE)) {
        status = error_set(error, BERTH_USAGE, "berth_open: the path is NULL");
    }
    if (status != BERTH_OK) {
        settings_free(config);
        return NULL;
    }
    (void)model_open(path, config, &opening, &model, error);
    return model;
}

// --- facts ---------------------------------------------------------------------------------------

// What was opened for the model's own task; NULL: nothing.
static const struct task_model *own_of(const struct berth_model *model) {
    static const struct berth_log silent = {0};
    const struct task_model *own;
    return !model->without_weights && model_for(model, model->own, &silent, &own, NULL) == BERTH_OK
               ? own
               : NULL;
}

static const char *task_names(const struct berth_model *model) {
    const struct task_model *own = own_of(model);
    const char *const *tasks = model->own->tasks;
    return own != NULL && task_has_one_score(own) && tasks[1] != NULL ? tasks[1] : tasks[0];
}

const char *berth_model_text(const struct berth_model *model, const char *fact) {
    if (model == NULL || fact == NULL) {
        return NULL;
    }
    return strcmp(fact, "path") == 0           ? model->path
           : strcmp(fact, "task") == 0         ? model->own->about.name
           : strcmp(fact, "tasks") == 0        ? task_names(model)
           : strcmp(fact, "architecture") == 0 ? model->architecture
           : strcmp(fact, "config") == 0       ? model->config_json
                                               : NULL;
}

static void add_tensor(void *context, const struct berth_tensor *found) {
    struct berth_model *model = context;
    struct berth_tensor *tensors = memory_grow(model->tensors, &model->tensor_capacity,
                                               model->tensor_count + 1, sizeof *tensors);
    const size_t length = strlen(found->name) + 1, bytes = length + strlen(found->dtype) + 1;
    char *names = memory_new(bytes); // both
    model->tensors = tensors != NULL ? tensors : model->tensors;
    if (tensors == NULL || names == NULL) {
        memory_free(names);
        model->tensors_listed = -1;
        return;
    }
    tensors[model->tensor_count] = *found;
    tensors[model->tensor_count].name = strcpy(names, found->name);
    tensors[model->tensor_count++].dtype = strcpy(names + length, found->dtype);
}

// Lists the tensors once; returns whether they could be.
static int list_tensors(const struct berth_model *constant) {
    struct berth_model *model = (struct berth_model *)constant;
    pthread_mutex_lock(&model->lock);
    if (model->tensors_listed == 0) {
        model->tensors_listed = 1;
        if (inspect_tensors(model->path, add_tensor, model, NULL) != BERTH_OK) {
            model->tensors_listed = -1;
        }
    }
    const int listed = model->tensors_listed > 0;
    pthread_mutex_unlock(&model->lock);
    return listed;
}

const struct berth_tensor *berth_model_tensor(const struct berth_model *model, size_t index) {
    return model != NULL && list_tensors(model) && index < model->tensor_count
               ? &model->tensors[index]
               : NULL;
}

const char *berth_model_label(const struct berth_model *model, size_t index) {
    const struct task_model *own = model != NULL ? own_of(model) : NULL;
    return own != NULL && own->task->label != NULL ? own->task->label(own, index) : NULL;
}

static double count_parameters(const struct berth_model *model) {
    double count = 0;
    for (size_t i = 0; i < model->tensor_count; i++) {
        double own = 1;
        for (size_t k = 0; k < model->tensors[i].rank; k++) {
            own *= (double)model->tensors[i].shape[k];
        }
        count += own;
    }
    return count;
}

// Returns 0 if there is no configuration that can be read.
static int read_shape(const struct berth_model *model, struct bert_config *shape) {
    return model->config_json != NULL &&
           bert_config_read_memory(model->path, model->config_json, strlen(model->config_json),
                                   shape, NULL) == BERTH_OK;
}

static double trained_number(const struct berth_run_result *trained, const char *fact) {
    return trained->steps < 0           ? NAN
           : strcmp(fact, "steps") == 0 ? (double)trained->steps
           : strcmp(fact, "loss") == 0  ? trained->final_loss
                                        : berth_run_metric(trained, fact);
}

double berth_model_number(const struct berth_model *model, const char *fact) {
    if (model == NULL || fact == NULL) {
        return NAN;
    }
    if (strcmp(fact, "dimensions") == 0) {
        struct bert_config shape DONE_BY(bert_config_done) = {0};
        struct sentence sentence DONE_BY(sentence_done) = {0};
        return read_shape(model, &shape) && sentence_read(model->path, &sentence, NULL) == BERTH_OK
                   ? (double)sentence_width(&sentence, shape.hidden_size)
                   : NAN;
    }
    if (strcmp(fact, "max_length") == 0) {
        const struct task_model *own = own_of(model);
        struct bert_config shape DONE_BY(bert_config_done) = {0};
        return own != NULL                 ? (double)own->max_tokens
               : read_shape(model, &shape) ? (double)bert_positions(&shape)
                                           : NAN;
    }
    if (strcmp(fact, "labels") == 0) {
        size_t count = 0;
        while (berth_model_label(model, count) != NULL) {
            count++;
        }
        return (double)count;
    }
    if (strcmp(fact, "tensors") == 0 || strcmp(fact, "parameters") == 0) {
        return !list_tensors(model) ? NAN
               : fact[0] == 't'     ? (double)model->tensor_count
                                    : count_parameters(model);
    }
    return trained_number(&model->trained, fact);
}

// --- saving --------------------------------------------------------------------------------------

enum berth_status berth_save(const struct berth_model *model, const char *path, const char *format,
                             const char *const *settings, const struct berth_watch *watch,
                             struct berth_error *error) {
    struct berth_error own;
    struct watching watching;
    const char *name, *value;
    if (model == NULL) {
        return error != NULL && error->status != BERTH_OK ? error->status : BERTH_USAGE;
    }
    error = error_begin(error, &own);
    watching_begin(&watching, watch);
    struct job job = {.row = &job_convert, .log = watching.log, .stop = &watching.stop};
    if (path == NULL) {
        return error_set(error, BERTH_USAGE, "berth_save: the path is NULL");
    }
    TRY(settings_check(settings, error));
    while (settings_next(&settings, &name, &value)) {
        TRY(words_contain("input output to", ' ', name) ? setting_refuse(name, "berth_save", error)
                                                        : job_set(&job, name, value, error));
    }
    TRY(job_set(&job, "input", model->path, error));
    TRY(job_set(&job, "output", path, error));
    TRY(job_set(&job, "to", format != NULL ? format : "hf", error));
    return convert_model(&job, error);
}
