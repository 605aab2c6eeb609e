// SPDX-License-Identifier: Apache-2.0
// berth_job: reads the settings of a job, runs its row's function, and keeps the summary and the
// numbers that it puts. `berth_job` and the verbs of jobs end here; which jobs there are is said by
// job_list.c, and what one does by the file of its row.
#include "api/job.h"

#include "api/jobs.h"
#include "api/model.h"
#include "core/memory.h"
#include "format/hub/model_files.h"
#include "settings/settings.h"

#include <stdarg.h>
#include <string.h>

// --- settings ------------------------------------------------------------------------------------

// The number of the row's own setting of that name; the number of rows: none.
static size_t find_own(const struct job_row *row, const char *name) {
    size_t i = 0;
    while (i < row->row_count && !option_is_named(&row->rows[i], name)) {
        i++;
    }
    return i;
}

const char *job_text(const struct job *job, const char *name) {
    const size_t own = find_own(job->row, name);
    return job->values[own] != NULL ? job->values[own] : job->row->rows[own].default_value;
}

// Values were checked when they were set.
static union option_value parsed(const struct job *job, const char *name) {
    union option_value value = {0};
    const char *text = job_text(job, name);
    if (text != NULL) {
        (void)option_parse(&job->row->rows[find_own(job->row, name)], text, &value, NULL);
    }
    return value;
}

int64_t job_integer(const struct job *job, const char *name) {
    return parsed(job, name).integer;
}

double job_real(const struct job *job, const char *name) {
    return parsed(job, name).real;
}

int job_flag(const struct job *job, const char *name) {
    return parsed(job, name).flag;
}

int job_is_given(const struct job *job, const char *name) {
    const size_t own = find_own(job->row, name);
    return own < job->row->row_count ? job->values[own] != NULL
                                     : settings_is_given(job->config, name);
}

// A setting of the option table; for the name of a fetched model or data set its path.
static enum berth_status set_found(struct job *job, const struct option_row *row, const char *value,
                                   struct berth_error *error) {
    OWNED char *path = NULL;
    if (strcmp(row->name, "model_name_or_path") == 0) {
        TRY(hub_find_model(value, &path, error));
    } else if (strcmp(row->name, "train_file") == 0) {
        TRY(hub_find_data(value, "train", &path, error));
    } else if (strcmp(row->name, "validation_file") == 0 ||
               strcmp(row->name, "predict_file") == 0) {
        TRY(hub_find_data(value, "dev", &path, error));
    }
    return settings_set(job->config, row->name, path != NULL ? path : value, error);
}

enum berth_status job_set(struct job *job, const char *name, const char *value,
                          struct berth_error *error) {
    const struct job_row *row = job->row;
    const size_t own = find_own(row, name);
    union option_value ignored;
    if (own < row->row_count) {
        TRY(option_parse(&row->rows[own], value, &ignored, error));
        job->values[own] = value;
        if (row->rows[own].type == OPTION_LIST) {
            job->list = &job->values[own];
            job->list_count = 1;
        }
        return BERTH_OK;
    }
    const struct option_row *found = option_find(name);
    return found != NULL && (found->jobs & row->jobs) != 0
               ? set_found(job, found, value, error)
               : setting_refuse(name, row->about.name, error);
}

// --- results -------------------------------------------------------------------------------------

void job_say(const struct job *job, const char *format, ...) {
    if (job->out != NULL) {
        va_list arguments;
        va_start(arguments, format);
        vfprintf(job->out, format, arguments);
        va_end(arguments);
    }
}

struct json_line *job_line(const struct job *job) {
    return &job->result->line;
}

void job_put_number(const struct job *job, const char *name, double value) {
    struct berth_result *result = job->result;
    struct result_number *numbers = memory_grow(result->numbers, &result->number_capacity,
                                                result->number_count + 1, sizeof *numbers);
    char *copy = memory_string(name);
    result->numbers = numbers != NULL ? numbers : result->numbers;
    if (numbers == NULL || copy == NULL) {
        result->line.failed = 1;
        memory_free(copy);
        return;
    }
    numbers[result->number_count++] = (struct result_number){.name = copy, .value = value};
}

void job_put_integer(const struct job *job, const char *name, int64_t value) {
    json_line_integer(job_line(job), name, value);
    job_put_number(job, name, (double)value);
}

void job_put_real(const struct job *job, const char *name, double value) {
    json_line_real(job_line(job), name, value);
    job_put_number(job, name, value);
}

enum berth_status job_perform(struct job *job, struct berth_error *error) {
    job->result = memory_array_zeroed(1, sizeof *job->result);
    if (job->result == NULL || job->config == NULL) {
        return error_no_memory(error, 0, "a job");
    }
    json_line_open(job_line(job), NULL, '{');
    const enum berth_status status = job->row->run(job, error);
    json_line_close(job_line(job), '}');
    return status != BERTH_OK || !job_line(job)->failed
               ? status
               : error_no_memory(error, 0, "the summary of a job");
}
