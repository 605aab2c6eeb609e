// SPDX-License-Identifier: Apache-2.0
// The verbs of the program, in the order of its help. Only main.c knows them all: what the verbs
// share (verbs.c) is given this list.
#include "cli.h"
#include "task/task.h"

#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const struct cli_verb *const others[] = {
    &cli_show,  &cli_features, &cli_inspect,    &cli_convert, &cli_compare, &cli_init,  &cli_verify,
    &cli_bench, &cli_doctor,   &cli_fetch,      &cli_prepare, &cli_pack,    &cli_vocab, &cli_serve,
    &cli_help,  &cli_man,      &cli_completion, &cli_report,  &cli_plot,    &cli_as};

const struct cli_verb *const *cli_list_verbs(void) {
    static const struct cli_verb *list[CLI_TASK_VERBS_MAX + CLI_RUN_VERBS_MAX + COUNT(others) + 1];
    size_t count = cli_task_verbs(list);
    for (size_t i = 0; task_rows[i] != NULL; i++) {
        list[count++] = strcmp(task_rows[i]->about.name, cli_tokenize.name) == 0 ? &cli_tokenize
                                                                                 : cli_run_verb(i);
    }
    for (size_t i = 0; i < COUNT(others); i++) {
        list[count++] = others[i];
    }
    return list;
}
