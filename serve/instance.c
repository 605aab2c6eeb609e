// SPDX-License-Identifier: Apache-2.0
// Models as the server uses them: opened by the task that their files name, with their tokenizer.
#include "core/file.h"
#include "core/memory.h"
#include "serve/task.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The class of the model in its config.json.
static enum berth_status read_architecture(const char *folder, char *name, size_t size,
                                           struct berth_error *error) {
    char *text = NULL, path[4096]; // for messages
    json *config = NULL;
    *name = '\0';
    TRY(berth_inspect(folder, NULL, NULL, &text, error));
    snprintf(path, sizeof path, "%s/config.json", folder);
    enum berth_status status =
        text != NULL ? json_read_memory(path, text, strlen(text), &config, error) : BERTH_OK;
    const char *first = json_text(json_at(json_member(config, "architectures"), 0));
    if (first != NULL && strlen(first) < size) {
        strcpy(name, first);
    }
    json_free(config);
    berth_string_free(text);
    return status;
}

// Whether modules.json lists the Transformer in the folder itself alone, whose class has the head:
// the rule by which berth_encoder_open, too, knows a cross-encoder.
static int is_cross_encoder(const json *modules) {
    const json *module = json_at(modules, 0);
    const char *type = json_text(json_member(module, "type"));
    const char *path = json_text(json_member(module, "path"));
    const char *dot = type != NULL ? strrchr(type, '.') : NULL;
    const char *class = dot != NULL ? dot + 1 : type;
    return json_length(modules) == 1 && class != NULL && strcmp(class, "Transformer") == 0 &&
           path != NULL && path[0] == '\0';
}

// Whether the folder is a sentence encoder of sentence-transformers, whose weights may be those of
// a model with a head.
static enum berth_status find_encoder(const char *folder, int *found, struct berth_error *error) {
    char path[4096];
    json *modules = NULL;
    *found = 0;
    if (snprintf(path, sizeof path, "%s/modules.json", folder) < (int)sizeof path &&
        access(path, F_OK) == 0) {
        TRY(json_read_file(path, &modules, error));
        *found = !is_cross_encoder(modules);
        json_free(modules);
    }
    return BERTH_OK;
}

static enum berth_status find_task(struct instance *instance, const char *folder,
                                   struct berth_error *error) {
    char name[128];
    int is_encoder;
    TRY(read_architecture(folder, name, sizeof name, error));
    TRY(find_encoder(folder, &is_encoder, error));
    instance->task = task_find(is_encoder ? "" : name);
    return BERTH_OK;
}

// As find_task, for a file of weights: the model's other files are beside it.
static enum berth_status find_task_of_file(struct instance *instance, struct berth_error *error) {
    char *folder = file_parent(instance->path);
    const enum berth_status status =
        folder != NULL ? find_task(instance, folder, error) : path_no_memory(error);
    memory_free(folder);
    return status;
}

static enum berth_status open_parts(struct instance *instance, struct berth_log log,
                                    struct berth_error *error) {
    struct berth_config *config = &instance->config;
    TRY(berth_find_model(config->model_name_or_path, &instance->path, error));
    config->model_name_or_path = instance->path;
    TRY(path_require(instance->path, "the folder of a model, or its file of weights", error));
    TRY(dir_exists(instance->path) ? find_task(instance, instance->path, error)
                                   : find_task_of_file(instance, error));
    TRY(instance->task->open(instance, log, error));
    instance->max_tokens = instance->task->max_tokens(instance);
    config->max_seq_length = instance->max_tokens;
    return berth_tokenizer_open(config, &instance->tokenizer, error);
}

enum berth_status instance_open(const struct berth_config *config, struct berth_log log,
                                struct instance **instance, struct berth_error *error) {
    struct instance *opened = memory_array_zeroed(1, sizeof *opened);
    if (opened == NULL) {
        return error_no_memory(error, sizeof *opened, "a model");
    }
    opened->config = *config;
    enum berth_status status = open_parts(opened, log, error);
    *instance = opened;
    if (status != BERTH_OK) {
        instance_close(opened);
        *instance = NULL;
    }
    return status;
}

void instance_close(struct instance *instance) {
    if (instance != NULL) {
        berth_tokenizer_close(instance->tokenizer);
        if (instance->task != NULL) {
            instance->task->close(instance);
        }
        berth_string_free(instance->path);
        memory_free(instance);
    }
}

static int64_t count_tokens(const struct instance *instance, const char *text) {
    struct berth_token *tokens = NULL;
    size_t count = 0;
    if (berth_tokenizer_encode(instance->tokenizer, text, strlen(text), &tokens, &count, NULL,
                               NULL) != BERTH_OK) {
        return (int64_t)strlen(text); // too many rather than too few
    }
    berth_tokens_free(tokens);
    return (int64_t)count;
}

int64_t instance_count_tokens(const struct instance *instance, const struct item *item) {
    const int64_t pair = item->texts[1] != NULL ? 1 + count_tokens(instance, item->texts[1]) : 0;
    return 2 + count_tokens(instance, item->texts[0]) + pair;
}

// Windows of a long context repeat the question; other texts are truncated.
int64_t instance_computed_tokens(const struct instance *instance, int64_t tokens) {
    return tokens <= instance->max_tokens ? tokens
           : instance->task->uses_windows ? 2 * tokens
                                          : instance->max_tokens;
}
