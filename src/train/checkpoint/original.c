// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/original.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"

#include <inttypes.h>
#include <string.h>

#define STEP_DIGITS ((size_t)18)

// The parts of a checkpoint's name before and after the step.
static const struct form {
    const char *prefix, *ending;
} forms[] = {{"ckpt_", ".pt"}, {"model.ckpt-", ".index"}};

// The step in a name of that form; -1: another form.
static int64_t step_of(const struct form *form, const char *name) {
    char digits[STEP_DIGITS + 1];
    const size_t prefix = strlen(form->prefix), ending = strlen(form->ending);
    const size_t length = strlen(name), count = length - prefix - ending;
    int64_t step;
    if (length <= prefix + ending || count > STEP_DIGITS ||
        strncmp(name, form->prefix, prefix) != 0 ||
        strcmp(name + length - ending, form->ending) != 0) {
        return -1;
    }
    memcpy(digits, name + prefix, count);
    digits[count] = '\0';
    return strspn(digits, "0123456789") == count && number_parse_integer(digits, &step) ? step : -1;
}

static int64_t step_of_any(const char *name) {
    int64_t step = -1;
    for (size_t i = 0; i < sizeof forms / sizeof *forms && step < 0; i++) {
        step = step_of(&forms[i], name);
    }
    return step;
}

// --- finding ------------------------------------------------------------------------------------

// PATH with a suffix, newly allocated.
static char *with_ending(const char *path, const char *ending) {
    const size_t length = strlen(path), size = strlen(ending) + 1;
    char *whole = memory_new(length + size);
    if (whole != NULL) {
        memcpy(whole, path, length);
        memcpy(whole + length, ending, size);
    }
    return whole;
}

enum berth_status original_at(const char *path, char **file, int64_t *step,
                              struct berth_error *error) {
    static const char *const endings[] = {"", ".index"};
    *file = NULL;
    *step = -1;
    for (size_t i = 0; i < sizeof endings / sizeof *endings && *file == NULL; i++) {
        char *whole = with_ending(path, endings[i]);
        if (whole == NULL) {
            return file_no_path(error);
        }
        const char *slash = strrchr(whole, '/');
        int64_t found = step_of_any(slash != NULL ? slash + 1 : whole);
        if (found >= 0 && file_exists(whole)) {
            *file = whole;
            *step = found;
        } else {
            memory_free(whole);
        }
    }
    return BERTH_OK;
}

enum berth_status original_find(const char *folder, int64_t wanted, char **file, int64_t *step,
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
        status = *file != NULL ? BERTH_OK : file_no_path(error);
    }
    memory_free(names);
    return status;
}

// --- reading ------------------------------------------------------------------------------------

// The number of updates of the first phase, for a run in its second.
static enum berth_status find_phase(const struct berth_config *config, const char *file,
                                    int64_t step, int64_t *start, struct berth_error *error) {
    *start = 0;
    if (!config->phase2) {
        return BERTH_OK;
    }
    *start = config->phase1_end_step > 0 ? config->phase1_end_step : step;
    return *start <= step ? BERTH_OK
                          : error_set(error, BERTH_CONFIG,
                                      "%s: its step %" PRId64 " is before phase1_end_step %" PRId64
                                      "; omit --phase2, or name a later checkpoint",
                                      file, step, *start);
}

enum berth_status original_read(const struct checkpoint_content *content, const char *file,
                                int64_t step, const struct berth_log *log,
                                struct berth_error *error) {
    struct progress *progress = content->progress;
    TRY(find_phase(content->config, file, step, &progress->phase_start, error));
    TRY(model_files_load(content->files, file, (uint64_t)content->config->seed, log, content->state,
                         error));
    progress->step = progress->moments_start = step;
    log_warning(log,
                "%s: resuming after update %" PRId64
                " with its weights; not restored: the optimizer's moments, which start at zero, "
                "the loss scale, the order of the data and dropout",
                file, step);
    return BERTH_OK;
}
