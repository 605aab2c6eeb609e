// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/output.h"

#include "train/checkpoint/checkpoint.h"

enum berth_status output_check(const struct berth_config *config, const char *otherwise,
                               struct berth_error *error) {
    const char *folder = config->output_dir;
    if (folder == NULL || folder[0] == '\0') {
        return error_set(error, BERTH_USAGE, "--output_dir is missing");
    }
    TRY(dir_check(folder, error));
    if (otherwise != NULL && !config->overwrite_output_dir && checkpoint_dir_is_used(folder)) {
        return error_set(
            error, BERTH_CANT_CREATE,
            "--output_dir %s is not empty; choose another or add --overwrite_output_dir%s", folder,
            otherwise);
    }
    return BERTH_OK;
}

enum berth_status output_take(const struct berth_config *config, struct file_lock *lock,
                              struct berth_error *error) {
    if (lock->descriptor >= 0) {
        return BERTH_OK;
    }
    TRY(dir_make(config->output_dir, error));
    return file_lock_take(lock, config->output_dir, error);
}
