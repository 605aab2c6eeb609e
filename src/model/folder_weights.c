// SPDX-License-Identifier: Apache-2.0
// Finds the file of a folder that holds its weights.
#include "core/file.h"
#include "core/memory.h"
#include "format/containers/containers.h"
#include "format/containers/shards.h"
#include "model/folder.h"

// The first of these that exists holds the weights.
static const char *const weights_files[] = {FOLDER_WEIGHTS, (FOLDER_WEIGHTS SHARDS_ENDING),
                                            "pytorch_model.bin",
                                            ("pytorch_model.bin" SHARDS_ENDING)};

// The path of the weights in a format without fixed file names; NULL if there are none.
static enum berth_status find_weights(const char *folder, char **path, struct berth_error *error) {
    enum { COUNT = sizeof weights_files / sizeof *weights_files };
    for (size_t i = 0; i < COUNT; i++) {
        *path = path_join(folder, weights_files[i]);
        if (*path == NULL) {
            return file_no_path(error);
        }
        if (file_exists(*path)) {
            return BERTH_OK;
        }
        memory_free(*path);
    }
    return tensor_file_find_in(folder, path, error);
}

enum berth_status folder_holds_weights(const char *folder, int *found, struct berth_error *error) {
    char *path = NULL;
    enum berth_status status = dir_exists(folder) ? find_weights(folder, &path, error) : BERTH_OK;
    // Several candidates are an error, but they do mean that the folder holds weights.
    *found = path != NULL || status != BERTH_OK;
    memory_free(path);
    return status == BERTH_NO_INPUT ? BERTH_OK : status;
}

enum berth_status folder_open_weights(const char *path, struct tensor_file *file,
                                      struct berth_error *error) {
    char *found = NULL;
    if (!dir_exists(path)) {
        return tensor_file_open(file, path, error);
    }
    TRY(find_weights(path, &found, error));
    if (found == NULL) {
        return error_set(error, BERTH_NO_INPUT,
                         "%s: no weights in this folder: expected " FOLDER_WEIGHTS
                         ", pytorch_model.bin, an index of either split into several files, a "
                         "TensorFlow checkpoint, ckpt_<step>.pt or DeepSpeed's \"latest\"",
                         path);
    }
    enum berth_status status = tensor_file_open(file, found, error);
    memory_free(found);
    return status;
}
