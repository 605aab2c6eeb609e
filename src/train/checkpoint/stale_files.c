// SPDX-License-Identifier: Apache-2.0
// Removes or sets aside files of earlier runs, under the lock of the output folder, so that nothing
// of another model lies beside the new one. Jobs check before training that this will be possible;
// the training loop does it before its first update.
#include "train/checkpoint/stale_files.h"

#include "core/file.h"
#include "core/memory.h"
#include "format/torch/torch.h"
#include "metrics/results.h"
#include "model/folder.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/foreign_checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TORCH_WEIGHTS "pytorch_model.bin"

// --- overwriting --------------------------------------------------------------------------------

static int is_one_of(const char *name, const char *const *names) {
    while (*names != NULL && strcmp(*names, name) != 0) {
        names++;
    }
    return *names != NULL;
}

// "checkpoint" is TensorFlow's file that names its newest checkpoint.
static int is_removed(const char *name) {
    static const char *const added[] = {TORCH_WEIGHTS, "bert_config.json", "checkpoint",
                                        "workers.json", NULL};
    return checkpoint_step(name) >= 0 || foreign_is_name(name) || is_one_of(name, added) ||
           is_one_of(name, results_of_model);
}

// A folder with the name of a file was not written by any run.
static enum berth_status remove_file(const char *path, struct berth_error *error) {
    return dir_exists(path) ? BERTH_OK : file_remove(path, error);
}

struct overwriting {
    const char *output_dir;
    const struct berth_log *log;
};

// A checkpoint of another owner may be renamed, but not removed. Under its temporary name no run
// takes it for a checkpoint, so that it may stay.
static enum berth_status remove_checkpoint(const struct overwriting *own, const char *path,
                                           struct berth_error *error) {
    const enum berth_status status =
        checkpoint_remove(own->output_dir, checkpoint_step(path_name(path)), error);
    if (status != BERTH_IO || dir_exists(path) || file_exists(path)) {
        return status;
    }
    log_warning(own->log,
                "overwrite_output_dir: %s; what is left of it stays: remove it by hand, as its "
                "owner",
                error->message);
    return BERTH_OK;
}

static enum berth_status remove_entry(const char *path, void *context, struct berth_error *error) {
    const char *name = path_name(path);
    if (!is_removed(name)) {
        return BERTH_OK;
    }
    return checkpoint_step(name) >= 0 ? remove_checkpoint(context, path, error)
                                      : remove_file(path, error);
}

enum berth_status stale_files_remove(const char *output_dir, const struct berth_log *log,
                                     struct berth_error *error) {
    struct overwriting own = {output_dir, log};
    return dir_each(output_dir, remove_entry, &own, error);
}

void stale_files_digest_weights(const char *output_dir, char digest[DIGEST_HEX_SIZE]) {
    const struct path weights = path_in(output_dir, FOLDER_WEIGHTS);
    uint64_t bytes;
    if (!file_exists(path_in(output_dir, TORCH_WEIGHTS).text) ||
        digest_measure(weights.text, &bytes, digest, NULL) != BERTH_OK) {
        digest[0] = '\0';
    }
}

void stale_files_remove_torch(const char *output_dir, const char *before,
                              const struct berth_log *log) {
    struct berth_error error;
    char now[DIGEST_HEX_SIZE];
    stale_files_digest_weights(output_dir, now);
    if (before[0] != '\0' && strcmp(before, now) == 0) {
        return;
    }
    if (remove_file(path_in(output_dir, TORCH_WEIGHTS).text, &error) != BERTH_OK) {
        log_warning(log, "%s; it is an earlier model: remove it", error.message);
    }
}

// A file or folder from which the run starts.
struct start {
    const char *output_dir, *path;
};

static enum berth_status check_entry(const char *path, void *context, struct berth_error *error) {
    const struct start *start = context;
    return !is_removed(path_name(path)) || !path_is_inside(start->path, path)
               ? BERTH_OK
               : error_set(error, BERTH_CANT_CREATE,
                           "overwrite_output_dir would remove %s, from which this run starts; "
                           "choose another output_dir, or move it out of %s",
                           start->path, start->output_dir);
}

static enum berth_status check_start(const char *output_dir, const char *path,
                                     struct berth_error *error) {
    struct start start = {output_dir, path};
    return path != NULL ? dir_each(output_dir, check_entry, &start, error) : BERTH_OK;
}

// A model that is the output folder itself, or is named without a suffix, starts from files in that
// folder. Unreadable files are reported when they are loaded.
static enum berth_status check_model(const char *output_dir, const char *model,
                                     struct berth_error *error) {
    struct tensor_file weights;
    OWNED char *shape = folder_config_path(model);
    TRY(shape != NULL ? check_start(output_dir, shape, error)
                      : error_no_memory(error, 0, "a path"));
    if (folder_open_weights(model, &weights, NULL) != BERTH_OK) {
        return BERTH_OK;
    }
    const enum berth_status status = check_start(output_dir, weights.path, error);
    tensor_file_close(&weights);
    return status;
}

enum berth_status stale_files_check(const char *folder, const struct model_settings *settings,
                                    struct berth_error *error) {
    const char *model = settings->model_name_or_path;
    if (!dir_exists(folder)) {
        return BERTH_OK;
    }
    TRY(check_start(folder, model, error));
    TRY(check_start(folder, settings->config_file, error));
    TRY(check_start(folder, settings->vocab_file, error));
    return model != NULL ? check_model(folder, model, error) : BERTH_OK;
}

// --- branches -----------------------------------------------------------------------------------

static enum berth_status find_later(const struct stale_files_branch *branch, const char *path,
                                    int *is_later, struct berth_error *error) {
    const char *name = path_name(path);
    *is_later = branch->originals && torch_find_step(name) > branch->after;
    if (checkpoint_step(name) <= branch->after) {
        return BERTH_OK;
    }
    struct berth_error own = {0};
    const enum berth_status status = checkpoint_examine(path, NULL, &own);
    *is_later = status == BERTH_OK;
    return file_probe(status, &own, error);
}

struct setting_aside {
    const struct stale_files_branch *branch;
    const struct berth_log *log;
};

static enum berth_status set_aside(const char *path, void *context, struct berth_error *error) {
    const struct setting_aside *all = context;
    int is_later;
    TRY(find_later(all->branch, path, &is_later, error));
    if (!is_later) {
        return BERTH_OK;
    }
    const struct path away = checkpoint_unused_name(path, "abandoned");
    TRY(path_rename(path, away.text, error));
    log_note(all->log,
             "%s was renamed to %s, because this run continues from update %" PRId64
             " without it; remove it if you do not need it",
             path, away.text, all->branch->after);
    return BERTH_OK;
}

enum berth_status stale_files_set_aside(const struct stale_files_branch *branch,
                                        const struct berth_log *log, struct berth_error *error) {
    struct setting_aside all = {branch, log};
    return dir_each(branch->output_dir, set_aside, &all, error);
}
