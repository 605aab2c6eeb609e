// SPDX-License-Identifier: Apache-2.0
// The verbs of the program, in the order of its help. Only main.c knows them all: it gives this
// list to verbs.c, so what the verbs share does not depend on each of them.
#include "cli.h"
#include "task/task.h"

#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const struct {
    const struct cli_verb *verb;
    const struct job_row *job;
} others[] = {{.verb = &cli_show},   {.verb = &cli_features}, {.job = &job_inspect},
              {.job = &job_convert}, {.job = &job_compare},   {.job = &job_init},
              {.job = &job_verify},  {.verb = &cli_bench},    {.verb = &cli_doctor},
              {.verb = &cli_fetch},  {.job = &job_prepare},   {.job = &job_pack},
              {.job = &job_vocab},   {.job = &job_mine},      {.verb = &cli_serve},
              {.verb = &cli_help},   {.verb = &cli_man},      {.verb = &cli_completion},
              {.verb = &cli_report}, {.verb = &cli_plot},     {.verb = &cli_as}};

const struct cli_verb *const *cli_list_verbs(void) {
    static const struct cli_verb *list[CLI_TASK_VERBS_MAX + CLI_RUN_VERBS_MAX + COUNT(others) + 1];
    if (list[0] != NULL) { // made before, in a process that runs several verbs
        return list;
    }
    size_t count = cli_task_verbs(list);
    for (size_t i = 0; task_rows[i] != NULL; i++) {
        if (task_rows[i]->verb.of != NULL) {
            continue;
        }
        list[count++] = strcmp(task_rows[i]->about.name, cli_tokenize.name) == 0 ? &cli_tokenize
                                                                                 : cli_run_verb(i);
    }
    for (size_t i = 0; i < COUNT(others); i++) {
        list[count++] = others[i].verb != NULL ? others[i].verb : cli_job_verb(others[i].job);
    }
    return list;
}
