// SPDX-License-Identifier: Apache-2.0
// Resumes from a checkpoint that another program wrote: recognises it by its name, reads weights
// and, where they have a counterpart, moments and step, and fills in the progress that the file
// does not have. Called by training_job.c in place of checkpoint_read; matching the moments to
// parameters is in foreign_moments.c.
#include "train/checkpoint/foreign_checkpoint.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/text_util.h"
#include "model/weights.h"
#include "train/checkpoint/foreign_moments.h"
#include "train/checkpoint/foreign_write.h"
#include "train/checkpoint/trainer_checkpoint.h"
#include "train/progress/run_facts.h"

#include <inttypes.h>
#include <string.h>

// Prefix and suffix of the files of a checkpoint, around the step. The first PRIMARY_FORMS identify
// a checkpoint.
static const struct form {
    const char *prefix, *suffix;
} forms[] = {{"ckpt_", ".pt"},
             {"model.ckpt-", ".index"},
             {"model.ckpt-", ".meta"},
             {"model.ckpt-", ".data-00000-of-00001"}};
enum { PRIMARY_FORMS = 2, FORMS = sizeof forms / sizeof *forms };

// The step in a name of this form; -1: another form.
static int64_t step_of(const struct form *form, const char *name) {
    const size_t prefix = strlen(form->prefix), suffix = strlen(form->suffix);
    const size_t length = strlen(name);
    int64_t step = -1;
    if (length > prefix + suffix && strncmp(name, form->prefix, prefix) == 0 &&
        text_ends_with(name, form->suffix)) {
        (void)number_parse_digits(name + prefix, length - prefix - suffix, &step);
    }
    return step;
}

static int64_t step_of_first(size_t count, const char *name) {
    int64_t step = -1;
    for (size_t i = 0; i < count && step < 0; i++) {
        step = step_of(&forms[i], name);
    }
    return step;
}

static int64_t step_of_any(const char *name) {
    return step_of_first(PRIMARY_FORMS, name);
}

int foreign_is_name(const char *name) {
    return step_of_first(FORMS, name) >= 0;
}

// --- finding ------------------------------------------------------------------------------------

enum berth_status foreign_locate(const char *path, char **file, int64_t *step,
                                 struct berth_error *error) {
    static const char *const suffixes[] = {"", ".index"};
    *file = NULL;
    *step = -1;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const struct path whole = path_format("%s%s", path, suffixes[i]);
        const int64_t found = step_of_any(path_name(whole.text));
        if (found >= 0 && file_exists(whole.text)) {
            *file = memory_string(whole.text);
            *step = found;
            return *file != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
        }
    }
    return BERTH_OK;
}

enum berth_status foreign_find(const char *folder, int64_t wanted, char **file, int64_t *step,
                               struct berth_error *error) {
    char **names;
    const char *newest = NULL;
    *file = NULL;
    *step = -1;
    if (!dir_exists(folder)) {
        return BERTH_OK;
    }
    TRY(dir_list(folder, &names, error));
    for (size_t i = 0; names[i] != NULL; i++) {
        int64_t found = step_of_any(names[i]);
        if (found > *step && (wanted < 0 || found == wanted)) {
            *step = found;
            newest = names[i];
        }
    }
    enum berth_status status = BERTH_OK;
    if (newest != NULL) {
        *file = path_join(folder, newest);
        status = *file != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
    }
    memory_free(names);
    return status;
}

// --- reading ------------------------------------------------------------------------------------

// Sets *start to the number of updates of the first phase, for a run in its second.
static enum berth_status find_phase(const struct run_settings *settings, const char *file,
                                    int64_t step, int64_t *start, struct berth_error *error) {
    *start = 0;
    if (!settings->phase2) {
        return BERTH_OK;
    }
    *start = settings->phase1_end_step > 0 ? settings->phase1_end_step : step;
    return *start <= step ? BERTH_OK
                          : error_set(error, BERTH_CONFIG,
                                      "%s: its step %" PRId64 " is before phase1_end_step %" PRId64
                                      "; omit phase2, or name a later checkpoint",
                                      file, step, *start);
}

// Reads trainer_state.json from a file that Berth wrote (foreign_write.h); *state is NULL for
// others.
static enum berth_status read_state(const struct weights *weights, json **state,
                                    struct berth_error *error) {
    const struct tensor_entry *entry = tensor_file_find(&weights->file, FOREIGN_STATE_NAME);
    *state = NULL;
    if (entry == NULL || entry->dtype != TENSOR_U8) {
        return BERTH_OK;
    }
    const size_t length = (size_t)(entry->end - entry->begin);
    char *bytes = memory_new(length + 1);
    if (bytes == NULL) {
        return error_no_memory(error, length, entry->name);
    }
    enum berth_status status = tensor_file_read(&weights->file, entry, bytes, error);
    if (status == BERTH_OK) {
        status = json_read_memory(weights->file.path, bytes, length, state, error);
    }
    memory_free(bytes);
    return status;
}

// Restores everything from a file that Berth wrote.
static enum berth_status restore(const struct checkpoint_content *content, const json *state,
                                 const char *missing, const char *file, const struct berth_log *log,
                                 struct berth_error *error) {
    const struct progress_source source = {state, file, content->settings, content->batching, log};
    TRY(progress_restore(content->progress, &source, error));
    if (missing != NULL) {
        return error_set(error, BERTH_BAD_DATA, "%s: missing %s", file, missing);
    }
    log_note(log, "resumed from %s", file);
    return BERTH_OK;
}

// Continues after the updates of another program's checkpoint, with what it has.
static enum berth_status begin_after(const struct checkpoint_content *content, const char *file,
                                     int64_t step, const struct foreign_moments_found *found,
                                     const struct berth_log *log, struct berth_error *error) {
    struct progress *progress = content->progress;
    const char *missing = found->missing;
    TRY(find_phase(content->run, file, step, &progress->phase_start, error));
    progress->step = step;
    progress->schedule_start = content->rewarmup ? step - progress->phase_start : 0;
    progress->moments_start = missing != NULL         ? step
                              : found->updates < step ? step - found->updates
                                                      : 0;
    log_warning(log,
                "%s: resuming after update %" PRId64
                " with its weights%s; not restored: %s%sthe loss scale, the order of the data and "
                "dropout",
                file, step, missing == NULL ? " and the optimizer's moments" : "",
                missing != NULL ? missing : "", missing != NULL ? "; " : "");
    return BERTH_OK;
}

// The optimizer of the run that wrote a file, whose no_decay may differ from this run's: it
// numbered the parameters.
static enum berth_status find_writer(const json *state, const char *file,
                                     struct optimizer *optimizer, struct berth_error *error) {
    struct optimizer_settings settings;
    const enum berth_status status = run_facts_settings(state, &settings, error);
    if (status != BERTH_OK) {
        return error_prefix(error, status, "%s", file);
    }
    *optimizer = optimizer_of(&settings);
    return BERTH_OK;
}

static enum berth_status read_open(const struct checkpoint_content *content,
                                   const struct weights *weights, int64_t step,
                                   const struct berth_log *log, struct berth_error *error) {
    struct optimizer optimizer = content->optimizer;
    const struct foreign_moments from = {weights, &weights->file, &optimizer, step};
    const char *file = weights->file.path;
    struct foreign_moments_found found;
    enum berth_status status;
    json *state;
    TRY(read_state(weights, &state, error));
    if (state != NULL) {
        TRY_DONE(find_writer(state, file, &optimizer, error));
    }
    status = foreign_moments_read(&from, content->state, &found, error);
    if (status == BERTH_OK) {
        status = state != NULL ? restore(content, state, found.missing, file, log, error)
                               : begin_after(content, file, step, &found, log, error);
    }
done:
    json_free(state);
    return status;
}

static enum berth_status read_trainers(const struct checkpoint_content *content,
                                       const struct weights *weights, const char *folder,
                                       int64_t step, const struct berth_log *log,
                                       struct berth_error *error) {
    const struct optimizer optimizer = content->optimizer;
    struct trainer_checkpoint checkpoint;
    struct foreign_moments_found found;
    TRY(trainer_open(&checkpoint, folder, error));
    const struct foreign_moments from = {
        weights, checkpoint.has_optimizer ? &checkpoint.optimizer : NULL, &optimizer, step};
    enum berth_status status = trainer_restore(&checkpoint, content, weights, step, log, error);
    if (status == BERTH_OK) {
        status = foreign_moments_read(&from, content->state, &found, error);
    }
    if (status == BERTH_OK) {
        status = begin_after(content, folder, step, &found, log, error);
    }
    trainer_close(&checkpoint);
    return status;
}

enum berth_status foreign_read(const struct checkpoint_content *content, const char *file,
                               int64_t step, const struct berth_log *log,
                               struct berth_error *error) {
    struct weights weights;
    TRY(model_files_load(content->files, file, (uint64_t)content->run->seed, log, content->state,
                         error));
    TRY(weights_open(&weights, file, content->files->shape.vocab_size, error));
    const enum berth_status status = dir_exists(file)
                                         ? read_trainers(content, &weights, file, step, log, error)
                                         : read_open(content, &weights, step, log, error);
    weights_close(&weights);
    return status;
}
