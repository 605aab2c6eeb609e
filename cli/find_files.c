// SPDX-License-Identifier: Apache-2.0
// Models and data sets that the command line names: paths, or names of what `berth fetch` has
// downloaded. Called between reading the words and running the verb.
#include "cli.h"
#include "core/file.h"
#include "core/memory.h"
#include "format/hub/model_files.h"

#include <string.h>

static enum berth_status find_model(const char **name, struct berth_error *error) {
    char *path;
    if (*name == NULL) {
        return BERTH_OK;
    }
    TRY(hub_find_model(*name, &path, error));
    if (strcmp(path, *name) == 0) {
        memory_free(path);
        return BERTH_OK;
    }
    *name = cli_own(path);
    return *name != NULL ? BERTH_OK : path_no_memory(error);
}

static enum berth_status find_data(const char **name, const char *split,
                                   struct berth_error *error) {
    char *path;
    if (*name == NULL) {
        return BERTH_OK;
    }
    TRY(hub_find_data(*name, split, &path, error));
    *name = cli_own(path);
    return *name != NULL ? BERTH_OK : path_no_memory(error);
}

// The configuration of a folder or a model; a name that is neither is left to the library, which
// knows the geometries (tiny, base, ...).
static enum berth_status find_config(const char **name, struct berth_error *error) {
    static const char *const names[] = {"config.json", "bert_config.json"};
    const char *folder = *name;
    if (folder == NULL || file_exists(folder)) {
        return BERTH_OK;
    }
    if (find_model(&folder, &(struct berth_error){0}) != BERTH_OK || !dir_exists(folder)) {
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
        find_model(&folder, &(struct berth_error){0}) == BERTH_OK) {
        *name = folder;
    }
}

enum berth_status cli_find_files(struct cli_call *call, struct berth_error *error) {
    struct berth_config *config = &call->config;
    for (size_t i = 0; i < call->verb->models && i < call->argument_count; i++) {
        TRY(find_model(&call->arguments[i], error));
    }
    TRY(find_model(&config->model_name_or_path, error));
    TRY(find_config(&config->config_file, error));
    find_vocabulary(&config->vocab_file);
    TRY(find_data(&config->train_file, "train", error));
    TRY(find_data(&config->validation_file, "dev", error));
    return find_data(&config->predict_file, "dev", error);
}
