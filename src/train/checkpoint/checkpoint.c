// SPDX-License-Identifier: Apache-2.0
// Writing, rotating and cleaning; checkpoint_read.c reads.
#include "train/checkpoint/checkpoint.h"

#include "core/file.h"
#include "core/memory.h"
#include "model/folder.h"
#include "train/checkpoint/checkpoint_list.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/optimizer_file.h"

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
        progress_write(content->progress, content->config, content->batching, path, error);
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

// Where a checkpoint is made and where it goes.
struct places {
    const char *output_dir;
    char *temporary, *path;
};

// What one rank writes: everything but the moments, for which there is room.
static enum berth_status begin(const struct checkpoint_content *content,
                               const struct places *places, struct berth_error *error) {
    if (dir_exists(places->temporary)) {
        TRY(dir_remove(places->temporary, error));
    }
    TRY(dir_make(places->temporary, error));
    TRY(checkpoint_write_model(content, places->temporary, error));
    return optimizer_file_make(content->state->table, places->temporary, error);
}

static enum berth_status publish(const struct checkpoint_content *content,
                                 const struct places *places, struct berth_error *error) {
    TRY(manifest_write(places->temporary, error));
    if (dir_exists(places->path)) {
        TRY(remove_checkpoint(places->output_dir, content->progress->step, error));
    }
    return dir_publish(places->temporary, places->path, error);
}

// All ranks go on, or none.
static enum berth_status agree(const struct checkpoint_content *content, enum berth_status status,
                               struct berth_error *error) {
    int stop = 0;
    return content->comm->agree(content->comm, status, &stop, error);
}

static enum berth_status write_together(const struct checkpoint_content *content,
                                        const struct places *places, struct berth_error *error) {
    const int is_publisher = content->comm->rank == 0;
    enum berth_status status = BERTH_OK;
    if (places->temporary == NULL || places->path == NULL) {
        status = file_no_path(error);
    } else if (is_publisher) {
        status = begin(content, places, error);
    }
    TRY(agree(content, status, error));
    TRY(agree(content, optimizer_file_fill(content->state, places->temporary, error), error));
    return agree(content, is_publisher ? publish(content, places, error) : BERTH_OK, error);
}

enum berth_status checkpoint_write(const struct checkpoint_content *content, const char *output_dir,
                                   struct berth_error *error) {
    const int64_t step = content->progress->step;
    const struct places places = {.output_dir = output_dir,
                                  .temporary = checkpoint_temporary_path(output_dir, step, "new"),
                                  .path = checkpoint_path(output_dir, step)};
    enum berth_status status = write_together(content, &places, error);
    if (status != BERTH_OK && content->comm->rank == 0 && places.temporary != NULL) {
        (void)dir_remove(places.temporary, NULL);
    }
    memory_free(places.temporary);
    memory_free(places.path);
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
