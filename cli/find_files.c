// SPDX-License-Identifier: Apache-2.0
// Models and data sets that the command line names: paths, or names of what `berth fetch` has
// downloaded. Called between reading the words and running the verb. Leaves downloading to `berth
// fetch` and the search in the cache to format/hub/model_files.c.
#include "cli.h"
#include "core/file.h"
#include "core/memory.h"
#include "format/hub/model_files.h"
#include "settings/settings.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

// A model for the split NULL, else a data set.
static enum berth_status find(const char **name, const char *split, struct berth_error *error) {
    char *path;
    if (*name == NULL) {
        return BERTH_OK;
    }
    TRY(split == NULL ? hub_find_model(*name, &path, error)
                      : hub_find_data(*name, split, &path, error));
    *name = cli_own(path);
    return *name != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
}

// The configuration of a folder or a model; a name that is neither is left to the library, which
// knows the geometries (tiny, base, ...).
static enum berth_status find_config(const char **name, struct berth_error *error) {
    static const char *const names[] = {"config.json", "bert_config.json"};
    const char *folder = *name;
    if (folder == NULL || file_exists(folder)) {
        return BERTH_OK;
    }
    if (find(&folder, NULL, &(struct berth_error){0}) != BERTH_OK || !dir_exists(folder)) {
        return BERTH_OK;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = cli_own(path_join(folder, names[i]));
        if (path != NULL && file_exists(path)) {
            *name = path;
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_NO_INPUT, "%s: neither %s nor %s in this folder", folder,
                     names[0], names[1]);
}

// The vocabulary of a folder, whose rules and added tokens then apply, or of a model.
static void find_vocabulary(const char **name) {
    const char *folder = *name;
    if (folder != NULL && !file_exists(folder) && !dir_exists(folder) &&
        find(&folder, NULL, &(struct berth_error){0}) == BERTH_OK) {
        *name = folder;
    }
}

const char *cli_beside_program(const char *const *folders, size_t count, const char *name,
                               char path[CLI_PATH_SIZE]) {
    char program[4096];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program);
    const char *slash = length > 0 ? memrchr(program, '/', (size_t)length) : NULL;
    for (size_t i = 0; slash != NULL && i < count; i++) {
        snprintf(path, CLI_PATH_SIZE, "%.*s/%s/%s", (int)(slash - program), program, folders[i],
                 name);
        if (file_exists(path)) {
            return path;
        }
    }
    return NULL;
}

enum berth_status cli_find_files(struct cli_call *call, struct berth_error *error) {
    struct settings *config = &call->config;
    for (size_t i = 0; i < call->verb->models && i < call->argument_count; i++) {
        TRY(find(&call->arguments[i], NULL, error));
    }
    TRY(find(&config->model.model_name_or_path, NULL, error));
    TRY(find_config(&config->model.config_file, error));
    find_vocabulary(&config->model.vocab_file);
    TRY(find(&config->task.train_file, "train", error));
    TRY(find(&config->task.validation_file, "dev", error));
    return find(&config->task.predict_file, "dev", error);
}
