// SPDX-License-Identifier: Apache-2.0
// Finds what a training job continues from: the newest intact checkpoint of the output folder, the
// step or the path that the settings name, or nothing. Rank 0 does this before the model is read,
// and sends the others what it found. checkpoint.c and foreign_checkpoint.c read the checkpoint
// later, when the state is allocated.
#include "train/job/resume.h"

#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"
#include "model/folder.h"
#include "settings/settings.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/foreign_checkpoint.h"
#include "train/checkpoint/trainer_checkpoint.h"

#include <string.h>

#define AUTO_OR "auto,"
#define AUTO_OR_LENGTH (sizeof AUTO_OR - 1)

int resume_has_model(const struct resume *resume) {
    return resume->folder != NULL && (resume->foreign_step < 0 || dir_exists(resume->folder));
}

// --- the output folder --------------------------------------------------------------------------

// Whether the checkpoint is one of the output folder, also by a link there.
static int is_own(const char *checkpoint, const char *output_dir) {
    return path_is_same(path_parent(checkpoint).text, output_dir) ||
           path_is_inside(checkpoint, output_dir);
}

enum berth_status resume_check_unfinished(const struct settings *config,
                                          struct berth_error *error) {
    int finished = 0;
    TRY(folder_holds_weights(config->run.output_dir, &finished, error));
    return !finished || config->run.overwrite_output_dir
               ? BERTH_OK
               : error_set(error, BERTH_CANT_CREATE,
                           "output_dir %s contains a model and no checkpoint to resume from (a "
                           "finished fine-tuning keeps one only with save_total_limit, save_steps "
                           "or save_strategy); choose another folder, or set "
                           "overwrite_output_dir to overwrite it",
                           config->run.output_dir);
}

// --- what to resume from ------------------------------------------------------------------------

// A folder checkpoint-N of Berth or of transformers' Trainer, or else a file of the original
// programs.
static enum berth_status find_named(struct resume *resume, const struct settings *config,
                                    const char *name, const struct berth_log *log,
                                    struct berth_error *error) {
    const struct path own = checkpoint_path(config->run.output_dir, config->run.resume_step);
    const char *const folder = name != NULL ? name : own.text;
    char **found = &resume->folder;
    int64_t *step = &resume->foreign_step;
    resume->is_in_output = name == NULL;
    TRY(dir_exists(folder) ? trainer_find_step(folder, step, error)
        : name != NULL
            ? foreign_locate(name, found, step, error)
            : foreign_find(config->run.output_dir, config->run.resume_step, found, step, error));
    if (*found == NULL && dir_exists(folder)) {
        *found = memory_string(folder);
        return *found == NULL ? error_no_memory(error, 0, "a path")
               : *step >= 0   ? BERTH_OK
                              : checkpoint_accept(folder, log, error);
    }
    return *found != NULL
               ? BERTH_OK
               : error_set(error, BERTH_NO_INPUT,
                           "%s: no such checkpoint: expected a folder checkpoint-N, or a file "
                           "ckpt_N.pt or model.ckpt-N.index",
                           folder);
}

// A file of the original programs. That of a finished run without checkpoints is its result
// (save_format), from which only a second phase goes on.
static enum berth_status find_original(struct resume *resume, const struct settings *config,
                                       struct berth_error *error) {
    TRY(foreign_find(config->run.output_dir, -1, &resume->folder, &resume->foreign_step, error));
    if (resume->folder != NULL && !config->run.phase2 &&
        file_exists(path_in(config->run.output_dir, "trainer_state.json").text)) {
        resume_done(resume);
    }
    return BERTH_OK;
}

int resume_is_auto(const struct settings *config) {
    const char *from = config->run.resume_from_checkpoint;
    return from != NULL &&
           (strcmp(from, "auto") == 0 || strncmp(from, AUTO_OR, AUTO_OR_LENGTH) == 0);
}

// The checkpoint that the settings name; NULL: none.
static const char *named(const struct settings *config) {
    const char *from = config->run.resume_from_checkpoint;
    return !resume_is_auto(config)     ? from
           : strcmp(from, "auto") == 0 ? NULL
                                       : from + AUTO_OR_LENGTH;
}

static enum berth_status find_start(struct resume *resume, const struct settings *config,
                                    const struct berth_log *log, struct berth_error *error) {
    const char *name = named(config);
    if (name == NULL) {
        TRY(resume_check_unfinished(config, error));
        log_note(log, "no checkpoint in %s: starting from the beginning", config->run.output_dir);
        return BERTH_OK;
    }
    if (resume_is_auto(config)) {
        log_note(log, "no checkpoint in %s: starting from %s", config->run.output_dir, name);
    }
    TRY(find_named(resume, config, name, log, error));
    // Files of a run that begins in another folder must not be mixed with those of this one.
    const char *output_dir = config->run.output_dir;
    int has_model;
    if (is_own(resume->folder, output_dir) || config->run.overwrite_output_dir) {
        return BERTH_OK;
    }
    TRY(folder_holds_weights(output_dir, &has_model, error));
    return !has_model && !checkpoint_is_in(output_dir)
               ? BERTH_OK
               : error_set(error, BERTH_CANT_CREATE,
                           "output_dir %s has a model or checkpoints, and %s is not among them; "
                           "choose another folder, resume with resume_from_checkpoint auto, or set "
                           "overwrite_output_dir",
                           output_dir, resume->folder);
}

enum berth_status resume_find(struct resume *resume, const struct settings *config,
                              const struct berth_log *log, struct berth_error *error) {
    const char *name = named(config);
    if (name != NULL && name[0] == '\0') {
        return error_set(error, BERTH_USAGE, "resume_from_checkpoint %s names no checkpoint",
                         config->run.resume_from_checkpoint);
    }
    if (name != NULL && config->run.resume_step >= 0) {
        log_note(log, "resume_step has no effect: resume_from_checkpoint names %s", name);
    }
    if (name == NULL && config->run.resume_step >= 0) {
        return find_named(resume, config, NULL, log, error);
    }
    // A folder checkpoint-N, or else a file of the original programs.
    if (resume_is_auto(config)) {
        const char *folder = config->run.output_dir;
        resume->is_in_output = 1;
        TRY(checkpoint_find(folder, log, &resume->folder, error));
        TRY(resume->folder != NULL ? trainer_find_step(resume->folder, &resume->foreign_step, error)
                                   : find_original(resume, config, error));
    }
    return resume->folder != NULL ? BERTH_OK : find_start(resume, config, log, error);
}

// Sets *text to rank 0's `own`, of `length` bytes with its NUL; newly allocated, also after a
// failure.
static enum berth_status send_text(struct comm *comm, const char *own, uint64_t length, char **text,
                                   struct berth_error *error) {
    *text = memory_new(length);
    TRY(comm_settle(comm, *text != NULL ? BERTH_OK : error_no_memory(error, 0, "a path"), error));
    if (comm->rank == 0) {
        memcpy(*text, own, length);
    }
    comm->broadcast(comm, *text, length, 0);
    return comm->status(comm, error);
}

enum berth_status resume_broadcast(struct resume *resume, struct comm *comm, const char *output_dir,
                                   struct berth_error *error) {
    char *text = NULL;
    const char *own =
        resume->folder != NULL && resume->is_in_output ? path_name(resume->folder) : resume->folder;
    struct {
        int64_t foreign_step, is_in_output;
        uint64_t length; // of the path or name with its NUL; 0: there is none
    } found = {resume->foreign_step, resume->is_in_output, own != NULL ? strlen(own) + 1 : 0};
    comm->broadcast(comm, &found, sizeof found, 0);
    TRY(comm->status(comm, error));
    resume->foreign_step = found.foreign_step;
    resume->is_in_output = found.is_in_output != 0;
    if (found.length == 0) {
        return BERTH_OK;
    }
    enum berth_status status = send_text(comm, own, found.length, &text, error);
    if (status == BERTH_OK && comm->rank > 0) {
        resume->folder = resume->is_in_output ? path_join(output_dir, text) : memory_string(text);
        status = resume->folder != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
    }
    memory_free(text);
    return comm_settle(comm, status, error);
}

enum berth_status resume_saved_step(const struct resume *resume, struct comm *comm,
                                    const char *output_dir, int64_t step, int64_t *saved,
                                    struct berth_error *error) {
    const struct path own = checkpoint_path(output_dir, step);
    const char *from = resume->folder;
    *saved = from != NULL && path_is_inside(from, own.text) && path_is_inside(own.text, from) ? step
                                                                                              : -1;
    comm->broadcast(comm, saved, sizeof *saved, 0);
    return comm->status(comm, error);
}

void resume_done(struct resume *resume) {
    memory_free(resume->folder);
    *resume = resume_none;
}
