// SPDX-License-Identifier: Apache-2.0
// The verbs of the program, in the order of its help. Only main.c knows them all: what the verbs
// share (verbs.c) is given this list.
#include "cli.h"

#define TASK(index) &cli_task_verbs[index]

const struct cli_verb *const cli_verb_list[] = {
    TASK(0),       TASK(1),    TASK(2),      TASK(3),      TASK(4),         TASK(5),
    TASK(6),       TASK(7),    TASK(8),      TASK(9),      TASK(10),        TASK(11),
    TASK(12),      TASK(13),   &cli_answer,  &cli_fill,    &cli_show,       &cli_tokenize,
    &cli_features, &cli_embed, &cli_inspect, &cli_convert, &cli_compare,    &cli_init,
    &cli_verify,   &cli_bench, &cli_doctor,  &cli_fetch,   &cli_prepare,    &cli_pack,
    &cli_vocab,    &cli_serve, &cli_help,    &cli_man,     &cli_completion, &cli_report,
    &cli_plot,     &cli_as,    NULL};
