// SPDX-License-Identifier: Apache-2.0
// Finding, verifying and reading checkpoints; checkpoint.c writes.
#include "core/file.h"
#include "core/memory.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_list.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/optimizer_file.h"

enum berth_status checkpoint_verify(const char *folder, int64_t *files, struct berth_error *error) {
    if (!dir_exists(folder)) {
        return error_set(error, BERTH_NO_INPUT, "%s: no such folder", folder);
    }
    return manifest_verify(folder, files, error);
}

enum berth_status checkpoint_find(const char *output_dir, const struct berth_log *log,
                                  char **folder, struct berth_error *error) {
    *folder = NULL;
    if (!dir_exists(output_dir)) {
        return BERTH_OK;
    }
    int64_t *steps;
    size_t count;
    TRY(checkpoint_list(output_dir, &steps, &count, error));
    enum berth_status status = BERTH_OK;
    for (size_t i = count; i > 0 && *folder == NULL && status == BERTH_OK; i--) {
        struct berth_error damage = {0};
        char *path = checkpoint_path(output_dir, steps[i - 1]);
        enum berth_status found = path != NULL ? manifest_verify(path, NULL, &damage)
                                               : error_no_memory(&damage, 0, "a path");
        if (found == BERTH_OK) {
            *folder = path;
            continue;
        }
        if (found == BERTH_NO_MEMORY) {
            status = error_no_memory(error, 0, "verifying a checkpoint");
        } else {
            log_warning(log, "passing over a damaged checkpoint: %s", damage.message);
        }
        memory_free(path);
    }
    if (status == BERTH_OK && *folder == NULL && count > 0) {
        status = error_set(error, BERTH_BAD_DATA,
                           "%s: none of its %zu checkpoints verifies; start anew with "
                           "--overwrite_output_dir or another --output_dir",
                           output_dir, count);
    }
    memory_free(steps);
    return status;
}

enum berth_status checkpoint_read(const struct checkpoint_content *content, const char *folder,
                                  const struct berth_log *log, struct berth_error *error) {
    char *path = path_join(folder, "trainer_state.json");
    if (path == NULL) {
        return file_no_path(error);
    }
    enum berth_status status =
        progress_read(content->progress, content->config, content->batching, log, path, error);
    memory_free(path);
    if (status != BERTH_OK) {
        return status;
    }
    TRY(model_files_load(content->files, folder, (uint64_t)content->config->seed, log,
                         content->state, error));
    return optimizer_file_read(content->state, folder, error);
}
