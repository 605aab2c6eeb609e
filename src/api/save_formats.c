// SPDX-License-Identifier: Apache-2.0
// Writes the result of training also in the formats of --save_format, by the targets of a
// conversion (conversion.h), into the output folder and under the names that those programs give
// it. jobs.c has the names checked before the run and the files written after it. Checkpoints in
// those formats are written by train/checkpoint/foreign_write.h.
#include "api/save_formats.h"

#include "api/conversion.h"
#include "core/file.h"
#include "core/memory.h"
#include "model/folder.h"
#include "settings/settings.h"
#include "train/checkpoint/foreign_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TORCH_WEIGHTS "pytorch_model.bin"

enum { NAME_SIZE = 96, FILES_MAX = 4 };

// The files that convert writes, and their names in the result; %s is the step.
static const struct format {
    const char *name, *to; // to: convert's name
    struct {
        const char *from, *to;
    } files[FILES_MAX];
} formats[] = {
    {"hf", "hf", {{NULL, NULL}}}, // always written
    {"torch", "torch", {{TORCH_WEIGHTS, TORCH_WEIGHTS}}},
    {"nvidia", "nvidia", {{"ckpt_%s.pt", "ckpt_%s.pt"}, {"bert_config.json", "bert_config.json"}}},
    {"nvidia_finetuned",
     "nvidia",
     {{"ckpt_%s.pt", TORCH_WEIGHTS}, {"bert_config.json", "bert_config.json"}}},
    {"tensorflow",
     "tensorflow",
     {{"bert_model.ckpt.data-00000-of-00001", "model.ckpt-%s.data-00000-of-00001"},
      {"bert_model.ckpt.index", "model.ckpt-%s.index"},
      {"bert_config.json", "bert_config.json"}}},
};
#define FORMATS (sizeof formats / sizeof *formats)

// Finds the format that the next word of the comma-separated list names, and moves *list past it.
static enum berth_status next_format(const char **list, const struct format **format,
                                     struct berth_error *error) {
    const size_t length = strcspn(*list, ",");
    for (size_t i = 0; i < FORMATS; i++) {
        if (strlen(formats[i].name) == length && strncmp(formats[i].name, *list, length) == 0) {
            *format = &formats[i];
            *list += length + ((*list)[length] == ',');
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_USAGE,
                     "option save_format: expected hf, torch, nvidia, nvidia_finetuned or "
                     "tensorflow, separated by commas, found \"%.*s\"",
                     (int)(length < 80 ? length : 80), *list);
}

enum berth_status save_formats_check(const char *list, struct berth_error *error) {
    const struct format *format;
    int weights = 0;
    while (list != NULL) {
        TRY(next_format(&list, &format, error));
        weights += format->files[0].to != NULL && strcmp(format->files[0].to, TORCH_WEIGHTS) == 0;
        list = *list != '\0' ? list : NULL;
    }
    return weights <= 1
               ? BERTH_OK
               : error_set(
                     error, BERTH_USAGE,
                     "option save_format: torch and nvidia_finetuned both write " TORCH_WEIGHTS
                     "; leave one of them out");
}

// FOLDER/NAME with %s replaced by the step.
static struct path result_path(const char *folder, const char *name, const char *step) {
    const char *gap = strstr(name, "%s");
    const int before = gap != NULL ? (int)(gap - name) : (int)strlen(name);
    const struct path own =
        path_format("%.*s%s%s", before, name, gap != NULL ? step : "", gap != NULL ? gap + 2 : "");
    return path_in(folder, own.text);
}

static enum berth_status save(const struct format *format, const char *output, const char *step,
                              struct berth_error *error) {
    struct job job = {.row = &job_convert}; // silent: names and types are those of the result
    // Named like a half-written checkpoint, so the next run in the folder removes what is left.
    const struct path name = path_format(".tmp-checkpoint-%s-%s", step, format->name);
    const struct path folder = path_in(output, name.text);
    enum berth_status status;
    TRY_DONE(dir_remove(folder.text, error));
    TRY_DONE(job_set(&job, "input", output, error));
    TRY_DONE(job_set(&job, "output", folder.text, error));
    TRY_DONE(job_set(&job, "to", format->to, error));
    TRY_DONE(job_set(&job, "step", step, error));
    TRY_DONE(convert_model(&job, error));
    for (size_t i = 0; i < FILES_MAX && format->files[i].from != NULL; i++) {
        const struct path made = result_path(folder.text, format->files[i].from, step);
        TRY_DONE(
            file_publish(made.text, result_path(output, format->files[i].to, step).text, error));
    }
    // TensorFlow's programs find their newest checkpoint by this file.
    if (strcmp(format->name, "tensorflow") == 0) {
        char text[2 * NAME_SIZE];
        snprintf(text, sizeof text,
                 "model_checkpoint_path: \"model.ckpt-%s\"\nall_model_checkpoint_paths: "
                 "\"model.ckpt-%s\"\n",
                 step, step);
        TRY_DONE(file_write(path_in(output, "checkpoint").text, text, strlen(text), error));
    }
done:
    (void)dir_remove(folder.text, NULL);
    return status;
}

// Whether the last checkpoint is in the folder and was also written in NVIDIA's format, in which
// case the result must not replace it. Independent workers have theirs in their own folders.
static int has_original(const struct settings *config, const char *step) {
    const char *const folder = config->run.output_dir;
    return foreign_is_written(&config->run) &&
           file_exists(result_path(folder, "ckpt_%s.pt", step).text) &&
           dir_exists(result_path(folder, "checkpoint-%s", step).text);
}

// Writes bert_config.json, which that checkpoint lacks.
static enum berth_status save_configuration(const char *output, struct berth_error *error) {
    struct bert_config config DONE_BY(bert_config_done) = {0};
    TRY(folder_read_config(output, &config, error));
    return bert_config_write_google(&config, path_in(output, "bert_config.json").text, error);
}

enum berth_status save_formats_write(const struct settings *config, int64_t steps,
                                     const struct berth_log *log, struct berth_error *error) {
    const char *list = config->run.save_format;
    char step[32];
    snprintf(step, sizeof step, "%" PRId64, steps);
    while (list != NULL && *list != '\0') {
        const struct format *format;
        TRY(next_format(&list, &format, error));
        if (format->files[0].from == NULL) {
            continue;
        }
        const int has = strcmp(format->name, "nvidia") == 0 && has_original(config, step);
        TRY(has ? save_configuration(config->run.output_dir, error)
                : save(format, config->run.output_dir, step, error));
        if (has && config->run.load_best_model_at_end) {
            // Next to the best model, the file of this step has the last one.
            log_note(log,
                     "%s contains the last model as nvidia, in ckpt_%s.pt, from which a run can be "
                     "resumed; "
                     "with load_best_model_at_end the best one is in the file of its own update",
                     config->run.output_dir, step);
        } else {
            log_note(log, "%s also contains the result as %s", config->run.output_dir,
                     format->name);
        }
    }
    return BERTH_OK;
}
