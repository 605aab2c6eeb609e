// SPDX-License-Identifier: Apache-2.0
// Writes, finds, verifies and removes the checkpoint folders of an output folder, and checks and
// locks that folder. Writing is a sequence that no kill can break: temporary folder, files, sync,
// manifest, rename, and only then the removal of old ones. The training loop calls it
// (loop_saving.c), between updates or through saver.c; the tensors are written by state_file.c and
// the run's numbers by progress.c.
#include "train/checkpoint/checkpoint.h"

#include "core/check.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "model/folder.h"
#include "report/run.h"
#include "train/checkpoint/checkpoint_manifest.h"
#include "train/checkpoint/foreign_write.h"
#include "train/checkpoint/state_file.h"
#include "train/checkpoint/trainer_checkpoint.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "checkpoint-"
#define TEMPORARY ".tmp-checkpoint-" // prefix of folders being written or removed

// --- names in the output folder -----------------------------------------------------------------

int64_t checkpoint_step(const char *name) {
    size_t prefix = strlen(PREFIX);
    int64_t step;
    if (strncmp(name, PREFIX, prefix) != 0 || strspn(name + prefix, "0123456789") == 0 ||
        !number_parse_integer(name + prefix, &step)) {
        return -1;
    }
    char canonical[64];
    snprintf(canonical, sizeof canonical, PREFIX "%" PRId64, step);
    return strcmp(canonical, name) == 0 ? step : -1;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

enum berth_status checkpoint_list(const char *output_dir, int64_t **steps, size_t *count,
                                  struct berth_error *error) {
    *steps = NULL;
    *count = 0;
    char **names;
    TRY(dir_list(output_dir, &names, error));
    size_t all = 0;
    while (names[all] != NULL) {
        all++;
    }
    *steps = memory_array(all + 1, sizeof **steps);
    if (*steps == NULL) {
        memory_free(names);
        return error_no_memory(error, all * sizeof **steps, "the list of checkpoints");
    }
    for (size_t i = 0; i < all; i++) {
        int64_t step = checkpoint_step(names[i]);
        if (step >= 0) {
            (*steps)[(*count)++] = step;
        }
    }
    qsort(*steps, *count, sizeof **steps, compare);
    memory_free(names);
    return BERTH_OK;
}

struct path checkpoint_path(const char *output_dir, int64_t step) {
    return path_in(output_dir, path_format(PREFIX "%" PRId64, step).text);
}

enum berth_status checkpoint_locate(struct comm *comm, const char *output_dir, int64_t step,
                                    struct path *folder, struct berth_error *error) {
    int is_there;
    *folder = checkpoint_path(output_dir, step);
    int64_t trainers = -1;
    enum berth_status status =
        comm->rank == 0 ? trainer_find_step(folder->text, &trainers, error) : BERTH_OK;
    TRY(comm_settle(comm, status, error));
    is_there = comm->rank == 0 && dir_exists(folder->text) && trainers < 0;
    comm->broadcast(comm, &is_there, sizeof is_there, 0);
    if (!is_there) {
        folder->text[0] = '\0';
    }
    return comm->status(comm, error);
}

// The path <output_dir>/.tmp-checkpoint-<step>-<purpose>.
static struct path temporary_path(const char *output_dir, int64_t step, const char *purpose) {
    return path_in(output_dir, path_format(TEMPORARY "%" PRId64 "-%s", step, purpose).text);
}

int checkpoint_is_temporary(const char *name) {
    return strncmp(name, TEMPORARY, strlen(TEMPORARY)) == 0 || file_is_temporary(name);
}

// --- writing ------------------------------------------------------------------------------------

static enum berth_status write_config(const struct checkpoint_content *content, const char *folder,
                                      struct berth_error *error) {
    return folder_write_config(folder, &content->files->shape, &content->files->table, error);
}

static enum berth_status write_companions(const struct checkpoint_content *content,
                                          const char *folder, struct berth_error *error) {
    const struct model_files *files = content->files;
    TRY(folder_copy_tokenizer(content->tokenizer_folder, files->vocab_path, &files->rules, folder,
                              error));
    if (files->table.head == PARAM_HEAD_EMBEDDING) {
        TRY(sentence_write(&files->sentence, files->shape.hidden_size, folder, error));
    }
    return progress_write(content->progress, content->settings, content->batching,
                          path_in(folder, "trainer_state.json").text, error);
}

// Removes a folder and its contents, or a file. Of a link only the link: a checkpoint may have been
// moved to another disk.
static enum berth_status remove_entry(const char *path, struct berth_error *error) {
    return dir_exists(path) && !path_is_link(path) ? dir_remove(path, error)
                                                   : file_remove(path, error);
}

// Renames durably. A folder that cannot be removed keeps its name, because syncing it fails first.
static enum berth_status move_entry(const char *from, const char *path, struct berth_error *error) {
    return path_is_link(from) ? path_rename(from, path, error) : dir_publish(from, path, error);
}

struct path checkpoint_unused_name(const char *path, const char *suffix) {
    struct path name = path_format("%s.%s", path, suffix);
    for (int64_t i = 2; file_exists(name.text) || dir_exists(name.text); i++) {
        name = path_format("%s.%s-%" PRId64, path, suffix, i);
    }
    return name;
}

// Removes what an earlier run left under a temporary name that is needed now. What cannot be
// removed gets another name, so that it does not stop this run.
static enum berth_status free_name(const char *path, struct berth_error *error) {
    const enum berth_status status = remove_entry(path, error);
    const int is_free =
        status == BERTH_IO &&
        path_rename(path, checkpoint_unused_name(path, "kept").text, NULL) == BERTH_OK;
    return is_free ? BERTH_OK : status;
}

// The temporary name that a checkpoint gets before it is removed: a kill in between leaves a
// temporary folder, never a damaged checkpoint.
static struct path away_path(const char *output_dir, int64_t step) {
    return temporary_path(output_dir, step, "old");
}

static enum berth_status move_away(const char *output_dir, int64_t step,
                                   struct berth_error *error) {
    const struct path away = away_path(output_dir, step);
    TRY(free_name(away.text, error));
    return move_entry(checkpoint_path(output_dir, step).text, away.text, error);
}

enum berth_status checkpoint_remove(const char *output_dir, int64_t step,
                                    struct berth_error *error) {
    enum berth_status status = move_away(output_dir, step, error);
    if (status == BERTH_OK) {
        status = remove_entry(away_path(output_dir, step).text, error);
    }
    return status == BERTH_OK
               ? BERTH_OK
               : error_prefix(error, status, "%s/checkpoint-%" PRId64, output_dir, step);
}

const char *checkpoint_content_check(const struct checkpoint_content *content) {
    const struct state *state = content->state;
    CLAUSE(content->settings != NULL && content->run != NULL,
           "a checkpoint saves the settings that it follows");
    CLAUSE(content->files != NULL && content->batching != NULL && content->schedule != NULL,
           "a checkpoint is of a model, a schedule and sizes of updates");
    CLAUSE(state != NULL && state->table == &content->files->table,
           "the weights have the layout of the model's table");
    CLAUSE(content->comm != NULL && state->sharding.rank == content->comm->rank &&
               state->sharding.size == content->comm->size,
           "the state is divided among the ranks that write together");
    CLAUSE(content->updater == NULL || content->updater->engine == NULL ||
               content->updater->engine->state == state,
           "the updater checks the state that is written");
    CLAUSE(content->progress != NULL, "a checkpoint has the run's progress");
    return progress_check(content->progress);
}

struct checkpoint_writer {
    const struct checkpoint_content *content;
    const char *output_dir;
    int64_t step;
    struct path temporary;              // the folder in which the files are created
    struct path path;                   // of the published folder, or file of weights
    enum state_file files[STATE_FILES]; // that all ranks write
    size_t file_count;
    struct feed_files shards; // for foreign_write; empty where it is not called
    // What rank 0 does in addition, before and after those files are written.
    enum berth_status (*create)(struct checkpoint_writer *writer, struct berth_error *error);
    enum berth_status (*publish)(const struct checkpoint_writer *writer, struct berth_error *error);
};

static enum berth_status create(struct checkpoint_writer *writer, struct berth_error *error) {
    if (writer->content->comm->rank > 0) {
        return BERTH_OK;
    }
    TRY(free_name(writer->temporary.text, error));
    TRY(dir_make(writer->temporary.text, error));
    for (size_t i = 0; i < writer->file_count; i++) {
        TRY(state_file_make(writer->files[i], writer->content->state->table, writer->temporary.text,
                            error));
    }
    return writer->create != NULL ? writer->create(writer, error) : BERTH_OK;
}

static enum berth_status create_checkpoint(struct checkpoint_writer *writer,
                                           struct berth_error *error) {
    const struct checkpoint_content *content = writer->content;
    const struct progress *progress = content->progress;
    if (foreign_is_written(content->run)) {
        const int64_t step =
            progress_data_step(progress, content->batching, progress->step - progress->phase_start);
        TRY(feed_list_files(progress->feed, content->batching, step, &writer->shards, error));
    }
    TRY(write_config(content, writer->temporary.text, error));
    return write_companions(writer->content, writer->temporary.text, error);
}

static enum berth_status publish_checkpoint(const struct checkpoint_writer *writer,
                                            struct berth_error *error) {
    const char *const temporary = writer->temporary.text, *const path = writer->path.text;
    TRY(checkpoint_manifest_write(temporary, error));
    if (foreign_is_written(writer->content->run)) {
        TRY(foreign_write(temporary, writer->output_dir, &writer->shards, error));
    }
    if (!dir_exists(path) && !path_is_link(path)) {
        return dir_publish(temporary, path, error);
    }
    enum berth_status status = move_away(writer->output_dir, writer->step, error);
    if (status == BERTH_OK) {
        status = dir_publish(temporary, path, error);
    }
    // Removes the old checkpoint, or restores it if no new one has its name. If removal fails, a
    // temporary folder remains, which the next run removes.
    const char *away = away_path(writer->output_dir, writer->step).text;
    if (dir_exists(path)) {
        (void)remove_entry(away, NULL);
    } else {
        (void)move_entry(away, path, NULL);
    }
    return status;
}

static enum berth_status publish_model(const struct checkpoint_writer *writer,
                                       struct berth_error *error) {
    TRY(write_config(writer->content, writer->output_dir, error));
    const char *const temporary = writer->temporary.text;
    const struct path weights = path_in(temporary, state_file_name(STATE_FILE_WEIGHTS));
    TRY(file_publish(weights.text, writer->path.text, error));
    TRY(write_companions(writer->content, writer->output_dir, error));
    return dir_remove(temporary, error);
}

// Either all ranks continue or none does.
static enum berth_status agree(const struct checkpoint_content *content, enum berth_status status,
                               struct berth_error *error) {
    int stop = 0;
    return content->comm->agree(content->comm, status, &stop, error);
}

enum berth_status checkpoint_fill(const struct checkpoint_writer *writer, const struct state *state,
                                  struct berth_error *error) {
    for (size_t i = 0; i < writer->file_count; i++) {
        TRY(state_file_fill(writer->files[i], state, writer->temporary.text, error));
    }
    return BERTH_OK;
}

enum berth_status checkpoint_publish(const struct checkpoint_writer *writer,
                                     struct berth_error *error) {
    return writer->content->comm->rank == 0 ? writer->publish(writer, error) : BERTH_OK;
}

void checkpoint_end(struct checkpoint_writer *writer, enum berth_status status) {
    if (status != BERTH_OK && writer->content->comm->rank == 0) {
        (void)dir_remove(writer->temporary.text, NULL);
    }
    memory_free(writer->shards.paths);
    memory_free(writer);
}

// Makes a copy of `wanted` and does the first step.
static enum berth_status begin(const struct checkpoint_writer *wanted,
                               struct checkpoint_writer **writer, struct berth_error *error) {
    struct checkpoint_writer *copy = *writer = memory_new(sizeof *copy);
    if (copy != NULL) {
        *copy = *wanted;
    }
    const enum berth_status status = agree(
        wanted->content,
        copy != NULL ? create(copy, error) : error_no_memory(error, sizeof *copy, "a checkpoint"),
        error);
    if (status != BERTH_OK && copy != NULL) {
        checkpoint_end(copy, status);
        *writer = NULL;
    }
    return status;
}

enum berth_status checkpoint_begin(const struct checkpoint_content *content, const char *output_dir,
                                   struct checkpoint_writer **writer, struct berth_error *error) {
    assert(checkpoint_content_check(content) == NULL);
    const int64_t step = content->progress->step;
    const struct checkpoint_writer wanted = {.content = content,
                                             .output_dir = output_dir,
                                             .step = step,
                                             .temporary = temporary_path(output_dir, step, "new"),
                                             .path = checkpoint_path(output_dir, step),
                                             .files = {STATE_FILE_WEIGHTS, STATE_FILE_MOMENTS},
                                             .file_count = STATE_FILES,
                                             .create = create_checkpoint,
                                             .publish = publish_checkpoint};
    return begin(&wanted, writer, error);
}

enum berth_status checkpoint_check(const struct checkpoint_content *content,
                                   struct berth_error *error) {
    return content->updater != NULL ? update_check(content->updater, content->progress->step, error)
                                    : BERTH_OK;
}

// The remaining steps. The state is checked after it was written to the files.
static enum berth_status finish(struct checkpoint_writer *writer, struct berth_error *error) {
    const struct checkpoint_content *content = writer->content;
    enum berth_status status =
        agree(content, checkpoint_fill(writer, content->state, error), error);
    if (status == BERTH_OK) {
        status = checkpoint_check(content, error);
    }
    if (status == BERTH_OK) {
        status = agree(content, checkpoint_publish(writer, error), error);
    }
    checkpoint_end(writer, status);
    return status;
}

enum berth_status checkpoint_write(const struct checkpoint_content *content, const char *output_dir,
                                   struct berth_error *error) {
    struct checkpoint_writer *writer;
    TRY(checkpoint_begin(content, output_dir, &writer, error));
    return finish(writer, error);
}

enum berth_status checkpoint_write_model(const struct checkpoint_content *content,
                                         const char *folder, struct berth_error *error) {
    const int64_t step = content->progress->step;
    const struct checkpoint_writer wanted = {
        .content = content,
        .output_dir = folder,
        .step = step,
        .temporary = temporary_path(folder, step, "model"),
        .path = path_in(folder, state_file_name(STATE_FILE_WEIGHTS)),
        .files = {STATE_FILE_WEIGHTS},
        .file_count = 1,
        .publish = publish_model};
    struct checkpoint_writer *writer;
    TRY(begin(&wanted, &writer, error));
    return finish(writer, error);
}

// --- rotating and cleaning ----------------------------------------------------------------------

enum berth_status checkpoint_examine(const char *folder, const struct berth_log *log,
                                     struct berth_error *error) {
    int64_t step;
    TRY(trainer_find_step(folder, &step, error));
    return step >= 0 ? BERTH_OK : checkpoint_manifest_verify_listed(folder, log, error);
}

// Removes the `excess` oldest checkpoints of `count`, except the last one and the best. One that
// cannot be removed does not keep the others; the first such error is returned.
static enum berth_status remove_oldest(const char *output_dir, const int64_t *steps, size_t count,
                                       size_t excess, int64_t best, struct berth_error *error) {
    enum berth_status first = BERTH_OK;
    for (size_t i = 0; i + 1 < count && excess > 0; i++) {
        if (steps[i] != best) {
            const enum berth_status status =
                checkpoint_remove(output_dir, steps[i], first == BERTH_OK ? error : NULL);
            first = first == BERTH_OK ? status : first;
            excess--;
        }
    }
    return first;
}

// Of the listed steps, leaves those of this phase up to the newest whose checkpoints are not the
// Trainer's: its user did not set this limit for them.
static enum berth_status keep_own(const char *output_dir, const struct checkpoint_limits *limits,
                                  int64_t *steps, size_t *count, struct berth_error *error) {
    const int64_t newest = limits->newest;
    const int64_t first = limits->phase_start > 0 ? limits->phase_start + 1 : 0;
    size_t kept = 0;
    for (size_t i = 0; i < *count && steps[i] <= newest; i++) {
        int64_t trainers;
        TRY(trainer_find_step(checkpoint_path(output_dir, steps[i]).text, &trainers, error));
        if (trainers < 0 && steps[i] >= first) {
            steps[kept++] = steps[i];
        }
    }
    *count = kept;
    return BERTH_OK;
}

enum berth_status checkpoint_rotate(const char *output_dir, const struct checkpoint_limits *limits,
                                    struct berth_error *error) {
    int64_t *steps;
    size_t count, limit = (size_t)limits->limit;
    TRY(checkpoint_list(output_dir, &steps, &count, error));
    enum berth_status status = keep_own(output_dir, limits, steps, &count, error);
    if (status == BERTH_OK && limit > 0 && count > limit) {
        status = checkpoint_examine(checkpoint_path(output_dir, limits->newest).text, NULL, error);
        status = status == BERTH_IO ? BERTH_BAD_DATA : status; // unreadable is as bad as damaged
        if (status == BERTH_OK) {
            status = remove_oldest(output_dir, steps, count, count - limit, limits->best, error);
        }
    }
    memory_free(steps);
    const struct foreign_limits originals = {limits->phase_start, limits->newest, limits->limit,
                                             limits->best};
    return status == BERTH_OK && limit > 0 && limits->originals
               ? foreign_rotate(output_dir, &originals, error)
               : status;
}

enum berth_status checkpoint_remove_all(const char *output_dir, int64_t newest,
                                        struct berth_error *error) {
    const struct checkpoint_limits limits = {.newest = newest};
    int64_t *steps;
    size_t count;
    TRY(checkpoint_list(output_dir, &steps, &count, error));
    enum berth_status status = keep_own(output_dir, &limits, steps, &count, error);
    status =
        status == BERTH_OK ? remove_oldest(output_dir, steps, count + 1, count, -1, error) : status;
    memory_free(steps);
    return status;
}

// Whether the entry of the folder is this log or report, or a folder that contains it.
static int is_log_path(const char *folder, const char *name, const char *log) {
    return log != NULL && path_is_inside(log, path_in(folder, name).text);
}

int checkpoint_dir_is_used(const char *output_dir, const struct report_settings *logs) {
    const char *summary = logs != NULL ? logs->json_summary : NULL;
    const char *report = logs != NULL ? logs->report : NULL;
    char **names;
    if (!dir_exists(output_dir) || dir_list(output_dir, &names, NULL) != BERTH_OK) {
        return 0;
    }
    int used = 0;
    for (size_t i = 0; names[i] != NULL; i++) {
        used |= strcmp(names[i], ".lock") != 0 && strcmp(names[i], RUN_LOG_NAME) != 0 &&
                !checkpoint_is_temporary(names[i]) && !is_log_path(output_dir, names[i], summary) &&
                !is_log_path(output_dir, names[i], report);
    }
    memory_free(names);
    return used;
}

static enum berth_status clean_entry(const char *path, void *context, struct berth_error *error) {
    struct berth_error own;
    (void)error;
    if (checkpoint_is_temporary(path_name(path)) && remove_entry(path, &own) != BERTH_OK) {
        log_warning(context,
                    "%s, which an earlier run left, cannot be removed and stays: %s; nothing needs "
                    "it: remove it by hand, as its owner",
                    path, own.message);
    }
    return BERTH_OK;
}

enum berth_status checkpoint_clean(const char *output_dir, const struct berth_log *log,
                                   struct berth_error *error) {
    return dir_each(output_dir, clean_entry, (void *)log, error);
}

// --- finding, verifying and reading --------------------------------------------------------------

enum berth_status checkpoint_verify(const char *folder, int64_t *files, struct berth_error *error) {
    TRY(dir_require(folder, "a checkpoint's folder", error));
    return checkpoint_manifest_verify(folder, files, error);
}

enum berth_status checkpoint_accept(const char *folder, const struct berth_log *log,
                                    struct berth_error *error) {
    TRY(dir_require(folder, "a checkpoint's folder", error));
    return checkpoint_manifest_verify_listed(folder, log, error);
}

enum berth_status checkpoint_find(const char *output_dir, const struct berth_log *log,
                                  char **folder, struct berth_error *error) {
    *folder = NULL;
    if (!dir_exists(output_dir)) {
        return BERTH_OK;
    }
    int64_t *steps;
    size_t count, damaged = 0;
    TRY(checkpoint_list(output_dir, &steps, &count, error));
    enum berth_status status = BERTH_OK;
    struct berth_error newest = {0};
    for (size_t i = count; i > 0 && *folder == NULL && status == BERTH_OK; i--) {
        struct berth_error damage = {0};
        const struct path path = checkpoint_path(output_dir, steps[i - 1]);
        if (dir_is_empty(path.text)) { // it was made and never filled
            log_note(log, "%s is an empty folder: it is not taken for a checkpoint", path.text);
            continue;
        }
        enum berth_status found = checkpoint_examine(path.text, log, &damage);
        if (found == BERTH_OK) {
            *folder = memory_string(path.text);
            status = *folder != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
            continue;
        }
        status = file_probe(found, &damage, error);
        if (status == BERTH_OK) {
            log_warning(log, "skipping a damaged checkpoint: %s", damage.message);
            newest = damaged++ == 0 ? damage : newest;
        } else if (status == BERTH_IO) {
            (void)error_prefix(error, status,
                               "checkpoint-%" PRId64 " cannot be examined; try again, or rename it "
                               "to resume from an older one",
                               steps[i - 1]);
        }
    }
    if (status == BERTH_OK && *folder == NULL && damaged > 0) {
        status = error_set(
            error, BERTH_BAD_DATA,
            "%s: no checkpoint is intact (%zu damaged); the newest: %s; repair one, use another "
            "output_dir, or start over without resume_from_checkpoint and with "
            "overwrite_output_dir, which removes them",
            output_dir, damaged, newest.message);
    }
    memory_free(steps);
    return status;
}

enum berth_status checkpoint_read(const struct checkpoint_content *content, const char *folder,
                                  const struct berth_log *log, struct berth_error *error) {
    TRY(progress_read(content->progress, content->settings, content->batching, log,
                      path_in(folder, "trainer_state.json").text, error));
    TRY(model_files_load(content->files, folder, (uint64_t)content->run->seed, log, content->state,
                         error));
    return state_file_read_moments(content->state, folder, error);
}

// --- the output folder --------------------------------------------------------------------------

enum berth_status output_check(const struct run_settings *settings,
                               const struct report_settings *logs, const char *advice,
                               struct berth_error *error) {
    const char *folder = settings->output_dir;
    if (folder == NULL || folder[0] == '\0') {
        return error_set(error, BERTH_USAGE, "output_dir is missing");
    }
    TRY(dir_check(folder, error));
    if (advice != NULL && !settings->overwrite_output_dir && checkpoint_dir_is_used(folder, logs)) {
        return error_set(error, BERTH_CANT_CREATE,
                         "output_dir %s is not empty; choose another or set overwrite_output_dir%s",
                         folder, advice);
    }
    return BERTH_OK;
}

static int has_file(const char *folder, const char *name) {
    return folder != NULL && file_exists(path_in(folder, name).text);
}

int checkpoint_is_in(const char *folder) {
    int64_t *steps;
    size_t count;
    if (checkpoint_list(folder, &steps, &count, NULL) != BERTH_OK) {
        return 0;
    }
    memory_free(steps);
    return count > 0;
}

enum berth_status output_check_predictions(const struct run_settings *settings,
                                           const struct report_settings *logs,
                                           struct berth_error *error) {
    return output_check(settings, logs, has_file(settings->output_dir, RUN_LOG_NAME) ? NULL : "",
                        error);
}

enum berth_status output_check_summary(const char *summary, const char *output_dir,
                                       struct berth_error *error) {
    if (summary == NULL) {
        return BERTH_OK;
    }
    const struct path parent = path_parent(summary);
    const char *const folder = parent.text;
    // The file is named as a run's log, and its folder has other files of a run; or it is this
    // run's log.
    const int is_log =
        (strcmp(path_name(summary), RUN_LOG_NAME) == 0 && has_file(folder, RUN_LOG_NAME) &&
         (has_file(folder, "model.safetensors") || has_file(folder, ".lock") ||
          checkpoint_is_in(folder))) ||
        (output_dir != NULL && path_is_same(summary, path_in(output_dir, RUN_LOG_NAME).text));
    return is_log ? error_set(error, BERTH_CANT_CREATE,
                              "json_summary: %s is the log of a run, which would be lost; choose "
                              "another file",
                              summary)
                  : BERTH_OK;
}

enum berth_status output_lock(const struct run_settings *settings, struct file_lock *lock,
                              const struct berth_log *log, struct berth_error *error) {
    if (lock->descriptor >= 0) {
        return BERTH_OK;
    }
    TRY(dir_make(settings->output_dir, error));
    TRY(file_lock_acquire(lock, settings->output_dir, error));
    if (lock->unsupported) {
        log_warning(log,
                    "%s cannot be locked, because its file system has no locks (for Lustre see the "
                    "mount option flock): start no other run in it",
                    settings->output_dir);
    }
    return BERTH_OK;
}

#define APPEARS_SECONDS 10

// A host that has looked for a folder before rank 0 created it may go on missing it for seconds
// (NFS). Listing the folder above it makes the host look again.
static int appears(const char *path, const char *output_dir) {
    const struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};
    const double deadline = clock_now() + APPEARS_SECONDS;
    const struct path above = path_parent(output_dir);
    while (!file_exists(path) && clock_now() < deadline) {
        char **names = NULL;
        (void)dir_list(above.text, &names, NULL);
        memory_free(names);
        nanosleep(&pause, NULL);
    }
    return file_exists(path);
}

static enum berth_status look_for(const char *path, const struct comm *comm, const char *output_dir,
                                  struct berth_error *error) {
    return appears(path, output_dir)
               ? BERTH_OK
               : error_set(error, BERTH_CANT_CREATE,
                           "output_dir %s on host %s is not the output folder of rank 0, on host "
                           "%s, in which all processes write checkpoints and the model; name a "
                           "folder on a file system that all hosts share, by its absolute path",
                           output_dir, comm->host_names[comm->rank], comm->host_names[0]);
}

enum berth_status output_compare_ranks(struct comm *comm, const char *output_dir,
                                       struct berth_error *error) {
    int64_t number = (int64_t)(clock_now() * 1e6); // not that of a file that a killed run left
    if (comm->size == 1) {
        return BERTH_OK;
    }
    comm->broadcast(comm, &number, sizeof number, 0);
    const struct path path = temporary_path(output_dir, number, "seen");
    enum berth_status status = comm->rank == 0 ? file_write(path.text, "", 0, error) : BERTH_OK;
    status = comm_settle(comm, status, error);
    if (status == BERTH_OK) {
        status = comm_settle(comm, look_for(path.text, comm, output_dir, error), error);
    }
    if (comm->rank == 0) {
        (void)file_remove(path.text, NULL);
    }
    return status;
}
