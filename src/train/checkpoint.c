// SPDX-License-Identifier: Apache-2.0
// Writing, rotating and cleaning; checkpoint_read.c reads.
#include "train/checkpoint.h"

#include "core/file.h"
#include "core/memory.h"
#include "model/folder.h"
#include "train/checkpoint_list.h"
#include "train/manifest.h"
#include "train/optimizer_file.h"

#include <string.h>

// --- writing ------------------------------------------------------------------------------------

static enum berth_status write_weights(const struct checkpoint_content *content, const char *folder,
                                       struct berth_error *error) {
    const struct state *state = content->state;
    float *weights;
    TRY(state_borrow(state, state->master, 1, &weights, error));
    enum berth_status status = folder_write_weights(folder, &content->files->shape,
                                                    &content->files->table, weights, error);
    state_give_back(state, state->master, weights);
    return status;
}

static enum berth_status write_state(const struct checkpoint_content *content, const char *folder,
                                     struct berth_error *error) {
    char *path = path_join(folder, "trainer_state.json");
    if (path == NULL) {
        return file_no_path(error);
    }
    enum berth_status status =
        history_write(content->history, content->config, content->batching, path, error);
    memory_free(path);
    return status;
}

enum berth_status checkpoint_write_model(const struct checkpoint_content *content,
                                         const char *folder, struct berth_error *error) {
    TRY(write_weights(content, folder, error));
    TRY(folder_copy_tokenizer(content->model_folder, content->files->vocab_path,
                              &content->files->rules, folder, error));
    return write_state(content, folder, error);
}

static enum berth_status fill(const struct checkpoint_content *content, const char *folder,
                              struct berth_error *error) {
    TRY(dir_make(folder, error));
    TRY(checkpoint_write_model(content, folder, error));
    TRY(optimizer_file_write(content->state, folder, error));
    return manifest_write(folder, error);
}

// Takes a checkpoint out of sight in one step, then removes it: a kill between leaves a temporary
// folder, never a damaged checkpoint.
static enum berth_status remove_checkpoint(const char *output_dir, int64_t step,
                                           struct berth_error *error) {
    char *path = checkpoint_path(output_dir, step);
    char *away = checkpoint_temporary_path(output_dir, step, "old");
    enum berth_status status;
    if (path == NULL || away == NULL) {
        status = file_no_path(error);
        goto done;
    }
    if (dir_exists(away)) {
        TRY_DONE(dir_remove(away, error));
    }
    TRY_DONE(dir_publish(path, away, error));
    TRY_DONE(dir_remove(away, error));
done:
    memory_free(path);
    memory_free(away);
    return status;
}

enum berth_status checkpoint_write(const struct checkpoint_content *content, const char *output_dir,
                                   struct berth_error *error) {
    int64_t step = content->history->step;
    char *path = checkpoint_path(output_dir, step);
    char *temporary = checkpoint_temporary_path(output_dir, step, "new");
    enum berth_status status;
    if (path == NULL || temporary == NULL) {
        status = file_no_path(error);
        goto done;
    }
    if (dir_exists(temporary)) {
        TRY_DONE(dir_remove(temporary, error));
    }
    status = fill(content, temporary, error);
    if (status == BERTH_OK && dir_exists(path)) {
        status = remove_checkpoint(output_dir, step, error);
    }
    if (status == BERTH_OK) {
        status = dir_publish(temporary, path, error);
    }
    if (status != BERTH_OK) {
        (void)dir_remove(temporary, NULL);
    }
done:
    memory_free(path);
    memory_free(temporary);
    return status;
}

// --- rotating and cleaning ----------------------------------------------------------------------

static enum berth_status verify_step(const char *output_dir, int64_t step,
                                     struct berth_error *error) {
    char *path = checkpoint_path(output_dir, step);
    if (path == NULL) {
        return file_no_path(error);
    }
    enum berth_status status = manifest_verify(path, NULL, error);
    memory_free(path);
    return status;
}

// Removes `excess` of the checkpoints, oldest first, but neither the newest nor the best.
static enum berth_status remove_oldest(const char *output_dir, const int64_t *steps, size_t count,
                                       size_t excess, int64_t best, struct berth_error *error) {
    for (size_t i = 0; i + 1 < count && excess > 0; i++) {
        if (steps[i] != best) {
            TRY(remove_checkpoint(output_dir, steps[i], error));
            excess--;
        }
    }
    return BERTH_OK;
}

enum berth_status checkpoint_rotate(const char *output_dir, const struct checkpoint_limits *limits,
                                    struct berth_error *error) {
    int64_t *steps;
    size_t count, limit = (size_t)limits->limit;
    TRY(checkpoint_list(output_dir, &steps, &count, error));
    while (count > 0 && steps[count - 1] > limits->newest) {
        count--;
    }
    enum berth_status status = BERTH_OK;
    if (limit > 0 && count > limit) {
        status = verify_step(output_dir, limits->newest, error);
        if (status == BERTH_OK) {
            status = remove_oldest(output_dir, steps, count, count - limit, limits->best, error);
        }
    }
    memory_free(steps);
    return status;
}

enum berth_status checkpoint_remove_all(const char *output_dir, struct berth_error *error) {
    int64_t *steps;
    size_t count;
    TRY(checkpoint_list(output_dir, &steps, &count, error));
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; i < count && status == BERTH_OK; i++) {
        status = remove_checkpoint(output_dir, steps[i], error);
    }
    memory_free(steps);
    return status;
}

int checkpoint_dir_is_used(const char *output_dir) {
    char **names;
    if (!dir_exists(output_dir) || dir_list(output_dir, &names, NULL) != BERTH_OK) {
        return 0;
    }
    int used = 0;
    for (size_t i = 0; names[i] != NULL; i++) {
        used |= strcmp(names[i], ".lock") != 0 && !checkpoint_is_temporary(names[i]);
    }
    memory_free(names);
    return used;
}

enum berth_status checkpoint_clean(const char *output_dir, struct berth_error *error) {
    char **names;
    TRY(dir_list(output_dir, &names, error));
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; names[i] != NULL && status == BERTH_OK; i++) {
        if (!checkpoint_is_temporary(names[i])) {
            continue;
        }
        char *path = path_join(output_dir, names[i]);
        if (path == NULL) {
            status = file_no_path(error);
        } else {
            status = dir_exists(path) ? dir_remove(path, error) : file_remove(path, error);
        }
        memory_free(path);
    }
    memory_free(names);
    return status;
}
