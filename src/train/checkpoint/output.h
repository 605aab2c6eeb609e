// SPDX-License-Identifier: Apache-2.0
// The folder that a job writes into: looked at before anything is read, made and locked when there
// is something to write.
#ifndef BERTH_TRAIN_OUTPUT_H
#define BERTH_TRAIN_OUTPUT_H

#include "core/error.h"
#include "core/file.h"

// BERTH_CANT_CREATE when config->output_dir is no folder that could be made and written into, or
// holds files that overwrite_output_dir does not give up. Makes nothing. `otherwise` ends the
// advice about those files ("" or ", or ..."); NULL: the job goes on with what it finds.
enum berth_status output_check(const struct berth_config *config, const char *otherwise,
                               struct berth_error *error);

// Makes the folder and its missing parents and locks it; fine when `lock` is held already.
enum berth_status output_take(const struct berth_config *config, struct file_lock *lock,
                              struct berth_error *error);

#endif
