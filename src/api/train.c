// SPDX-License-Identifier: Apache-2.0
// berth_train: trains a copy of a model. Examples in memory are written to a file in the form that
// the task reads, so that they train as a file does, to the last bit; then the job train runs
// (jobs.c), and the new model is opened from the folder that it wrote.
#include "api/jobs.h"
#include "api/model.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "core/utf8.h"
#include "settings/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct training {
    const struct berth_model *base;
    const char *task;
    const struct training_task *training;
    struct settings *config;
    struct watching *watching;
    char *temporary; // folder; NULL: none
    struct berth_run_result result;
};

// --- examples as files ---------------------------------------------------------------------------

static enum berth_status write_examples(const struct training *training,
                                        const struct berth_text *examples, size_t count,
                                        int is_trained, struct json_line *line,
                                        struct berth_error *error) {
    const struct task_form *form = training->training->form;
    if (form->is_document) {
        json_line_open(line, NULL, '{');
        json_line_text(line, "version", "1.1");
        json_line_open(line, "data", '[');
    }
    for (size_t i = 0; i < count; i++) {
        const enum berth_status status = examples[i].text != NULL
                                             ? form->write(line, &examples[i], i, is_trained, error)
                                             : error_set(error, BERTH_USAGE, "the %s is NULL",
                                                         task_find(training->task)->about.text);
        if (status != BERTH_OK) {
            (void)error_prefix(error, status, "example %zu", i + 1);
            error->input = (int64_t)i;
            return status;
        }
    }
    if (form->is_document) {
        json_line_close(line, ']');
        json_line_close(line, '}');
    }
    return line->failed ? error_no_memory(error, line->length, "the examples") : BERTH_OK;
}

// Writes examples to a file of the temporary folder, which becomes the setting `option`.
static enum berth_status set_examples(struct training *training, const char *option,
                                      const struct berth_text *examples, size_t count,
                                      struct berth_error *error) {
    const struct task_form *form = training->training->form;
    struct json_line line = {0};
    const struct path path = path_format("%s/%s.%s", training->temporary, option, form->ending);
    enum berth_status status =
        write_examples(training, examples, count, strcmp(option, "train_file") == 0, &line, error);
    if (status == BERTH_OK) {
        status = file_write(path.text, line.text != NULL ? line.text : "", line.length, error);
    }
    if (status == BERTH_OK) {
        status = settings_set(training->config, option, path.text, error);
    }
    json_line_done(&line);
    return status;
}

// --- settings ------------------------------------------------------------------------------------

// Copies the settings that were given, of some jobs.
static enum berth_status copy_settings(const struct settings *from, struct settings *to,
                                       unsigned jobs, struct berth_error *error) {
    for (size_t i = 0; i < option_row_count; i++) {
        char text[4096];
        if ((option_rows[i].jobs & jobs) != 0 && settings_row_is_given(from, &option_rows[i])) {
            settings_print(from, &option_rows[i], text, sizeof text);
            TRY(settings_set(to, option_rows[i].name, text, error));
        }
    }
    return BERTH_OK;
}

// Settings that the model was opened with are those of its training, too, where it has them.
static enum berth_status read_settings(struct training *training, unsigned job,
                                       const char *const *settings, struct berth_error *error) {
    const char *name, *value;
    char call[64];
    snprintf(call, sizeof call, "training for %s", training->task);
    TRY(settings_check(settings, error));
    TRY(copy_settings(training->base->config, training->config, job, error));
    TRY(settings_set(training->config, "model_name_or_path", training->base->path, error));
    while (settings_next(&settings, &name, &value)) {
        const struct option_row *row = option_find(name);
        if (row == NULL || (row->jobs & job) == 0 || strcmp(row->name, "model_name_or_path") == 0) {
            return setting_refuse(name, call, error);
        }
        TRY(settings_set(training->config, name, value, error));
    }
    return BERTH_OK;
}

// --- the training --------------------------------------------------------------------------------

// A file and examples in memory cannot both be what is trained on, or evaluated on.
static enum berth_status check_source(const struct training *training, const char *option,
                                      const struct berth_text *examples, size_t count,
                                      struct berth_error *error) {
    if (examples == NULL) {
        return count == 0 ? BERTH_OK
                          : error_set(error, BERTH_USAGE, "the %zu examples are NULL", count);
    }
    if (count == 0) {
        return error_set(error, BERTH_USAGE,
                         "there are no examples: give at least one, or NULL and the setting %s",
                         option);
    }
    return !settings_is_given(training->config, option)
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "give examples in memory or the setting %s, not both", option);
}

static enum berth_status train(struct training *training, const struct berth_text *examples,
                               size_t count, const struct berth_text *held_out,
                               size_t held_out_count, struct berth_error *error) {
    const int has_output = training->config->run.output_dir != NULL;
    TRY(check_source(training, "train_file", examples, count, error));
    TRY(check_source(training, "validation_file", held_out, held_out_count, error));
    if (!has_output || examples != NULL || held_out != NULL) {
        const char *folder = getenv("TMPDIR");
        struct path path =
            path_in(folder != NULL && folder[0] != '\0' ? folder : "/tmp", "berth-XXXXXX");
        if (mkdtemp(path.text) == NULL) {
            return error_set_errno(error, BERTH_CANT_CREATE, errno, "%s", path.text);
        }
        training->temporary = memory_string(path.text);
        if (training->temporary == NULL) {
            return error_no_memory(error, 0, "a path");
        }
    }
    if (!has_output) {
        TRY(settings_set(training->config, "output_dir", path_in(training->temporary, "model").text,
                         error));
        if (!settings_is_given(training->config, "save_strategy")) {
            TRY(settings_set(training->config, "save_strategy", "no", error));
        }
    }
    if (examples != NULL) {
        // The columns of the examples, unless the caller has named others.
        const char *columns = training->training->form->columns;
        char name[OPTION_NAME_SIZE];
        while (option_next_name(&columns, name)) {
            char *column = strchr(name, '=');
            *column++ = '\0';
            int is_used = strcmp(column, "text") == 0;
            for (size_t i = 0; i < count; i++) {
                is_used |= (strcmp(column, "text_pair") == 0 && examples[i].pair != NULL) ||
                           (strcmp(column, "label") == 0 && examples[i].label != NULL) ||
                           (strcmp(column, "negative") == 0 && examples[i].more_count > 0);
            }
            if (is_used && !settings_is_given(training->config, name)) {
                TRY(settings_set(training->config, name, column, error));
            }
        }
        TRY(set_examples(training, "train_file", examples, count, error));
    }
    if (held_out != NULL) {
        TRY(set_examples(training, "validation_file", held_out, held_out_count, error));
    }
    return job_train(training->training->name, training->config, training->watching->log,
                     &training->watching->stop, &training->result, error);
}

// The new model keeps the temporary folder if it is in it.
static struct berth_model *open_trained(struct training *training, struct berth_error *error) {
    struct settings *config = settings_new();
    struct berth_model *model;
    const char *output = training->config->run.output_dir;
    if (config != NULL && copy_settings(training->base->config, config, ~0u, error) != BERTH_OK) {
        settings_free(config);
        return NULL;
    }
    if (model_open(output, config, &(struct model_opening){.log = &training->watching->log}, &model,
                   error) != BERTH_OK) {
        return NULL;
    }
    model->trained = training->result;
    if (training->temporary != NULL &&
        strncmp(output, training->temporary, strlen(training->temporary)) == 0) {
        model->temporary = training->temporary;
        training->temporary = NULL;
    }
    return model;
}

struct berth_model *berth_train(const struct berth_model *base, const char *task,
                                const struct berth_text *examples, size_t count,
                                const struct berth_text *held_out, size_t held_out_count,
                                const char *const *settings, const struct berth_watch *watch,
                                struct berth_error *error) {
    struct berth_error own;
    struct watching watching;
    struct berth_model *model = NULL;
    if (base == NULL) {
        return NULL;
    }
    error = error_begin(error, &own);
    watching_begin(&watching, watch);
    const struct task_row *row = task != NULL ? task_find(task) : base->own;
    const char *name = row != NULL ? row->about.name : task;
    struct training training = {.base = base,
                                .task = name,
                                .training = task_training_find(name),
                                .config = settings_new(),
                                .watching = &watching};
    if (training.training == NULL || row == NULL) {
        (void)error_set(error, BERTH_USAGE,
                        "there is no training for \"%s\"; expected one of answer, classify, tag, "
                        "embed, fill",
                        name);
    } else if (training.config == NULL) {
        (void)error_no_memory(error, 0, "settings");
    } else if (read_settings(&training, training.training->defaults, settings, error) == BERTH_OK &&
               train(&training, examples, count, held_out, held_out_count, error) == BERTH_OK) {
        model = open_trained(&training, error);
    }
    if (training.temporary != NULL) {
        struct berth_error ignored;
        (void)dir_remove(training.temporary, &ignored);
        memory_free(training.temporary);
    }
    settings_free(training.config);
    return model;
}
