// SPDX-License-Identifier: Apache-2.0
// The tables that berth.h gives away: which tasks, jobs and settings there are, and what uses each
// setting, so that a program of somebody else can offer them without knowing them. They are read
// from the rows of task/task.h, job_list.c and settings/rows.c, which say it once.
#include "api/job.h"
#include "api/model.h"
#include "core/text_util.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

const struct berth_task *berth_task_at(size_t index) {
    size_t count = 0;
    while (count < index && task_rows[count] != NULL) {
        count++;
    }
    return task_rows[count] != NULL ? &task_rows[count]->about : NULL;
}

const struct berth_job_row *berth_job_at(size_t index) {
    size_t count = 0;
    while (count < index && job_rows[count] != NULL) {
        count++;
    }
    return job_rows[count] != NULL ? &job_rows[count]->about : NULL;
}

// --- settings ------------------------------------------------------------------------------------

// Built once: the settings of models and jobs, then those of calls that have no such namesake.
enum { OPTIONS_MAX = 256, USES_SIZE = 256 };
static struct berth_option options[OPTIONS_MAX];
static char uses[OPTIONS_MAX][USES_SIZE];
static size_t option_count;
static pthread_once_t options_built = PTHREAD_ONCE_INIT;

static void add_use(char *list, const char *prefix, const char *name) {
    const size_t used = strlen(list);
    snprintf(list + used, USES_SIZE - used, "%s%s%s", used > 0 ? " " : "", prefix, name);
}

static void add_option(const struct option_row *row, int is_of_jobs) {
    static const char *const types[] = {
        [OPTION_INTEGER] = "integer", [OPTION_REAL] = "real",     [OPTION_FLAG] = "flag",
        [OPTION_TEXT] = "text",       [OPTION_CHOICE] = "choice", [OPTION_LIST] = "text"};
    char *list = uses[option_count];
    const int is_number = row->type == OPTION_INTEGER || row->type == OPTION_REAL;
    if (is_of_jobs && model_opens_with(row)) {
        add_use(list, "", "open");
    }
    for (size_t i = 0; task_rows[i] != NULL; i++) {
        if (task_option_find(row->name) != NULL && task_follows(task_rows[i], row->name)) {
            add_use(list, "", task_rows[i]->about.name);
        }
    }
    for (size_t i = 0; task_rows[i] != NULL; i++) {
        const struct training_task *training = task_rows[i]->training;
        if (is_of_jobs && training != NULL && (row->jobs & training->defaults) != 0) {
            add_use(list, "train-", task_rows[i]->about.name);
        }
    }
    for (size_t i = 0; job_rows[i] != NULL; i++) {
        if (is_of_jobs && (row->jobs & job_rows[i]->jobs) != 0) {
            add_use(list, "", job_rows[i]->about.name);
        }
    }
    if (list[0] == '\0') {
        return; // a setting of the program alone
    }
    options[option_count++] =
        (struct berth_option){.name = row->name,
                              .aliases = row->aliases != NULL ? row->aliases : "",
                              .uses = list,
                              .type = row->choices != NULL ? "choice" : types[row->type],
                              .value = row->default_value,
                              .choices = row->choices,
                              .minimum = is_number ? row->minimum : NAN,
                              .maximum = is_number ? row->maximum : NAN,
                              .help = row->help,
                              .group = row->group != NULL ? row->group : "task",
                              .only_with = row->only_with};
}

static void build_options(void) {
    for (size_t i = 0; i < option_row_count && option_count < OPTIONS_MAX; i++) {
        add_option(&option_rows[i], 1);
    }
    for (size_t i = 0; i < task_option_count && option_count < OPTIONS_MAX; i++) {
        if (option_find(task_options[i].name) == NULL) {
            add_option(&task_options[i], 0);
        }
    }
}

const struct berth_option *berth_option_at(size_t index) {
    pthread_once(&options_built, build_options);
    return index < option_count ? &options[index] : NULL;
}
