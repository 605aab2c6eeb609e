// SPDX-License-Identifier: Apache-2.0
// Questions of a data set with the model's answers, for people to look at, and which of them are
// wanted. show.c makes them and hands each to a callback, which prints it (cli/show.c).
#ifndef BERTH_TASK_SAMPLES_H
#define BERTH_TASK_SAMPLES_H

#include <stdint.h>

struct berth_answer {
    char *text;         /* characters [start, end) of the context; "" for "no answer" */
    double probability; /* as config->answer_score says */
    double start_logit, end_logit;
    int64_t start, end; /* characters of the context, end exclusive; -1 for "no answer" */
};

/* One question of a data set with the model's answer. Strings are valid until the callback
 * returns. */
struct berth_sample {
    int64_t index;
    const char *title, *question, *context, *reference;
    struct berth_answer answer;
    double exact_match, f1;
};

/* Which samples: `count` of them from index `first` on, or, with `random`, `count` distinct ones
 * drawn with config->seed, in ascending order. */
struct berth_selection {
    int64_t first, count;
    int random; /* ignores `first` */
};

#endif
