// SPDX-License-Identifier: Apache-2.0
// A task that only the tests have: how many words and bytes a text has. Its row is all that the
// library, the command line, the server and the Python package know of it.
#include "task/network.h"

#include <string.h>

enum { WIDTH = 2 };

static enum berth_status open_row(struct task_model *model, const struct task_opening *opening,
                                  struct berth_error *error) {
    (void)model;
    (void)opening;
    (void)error;
    return BERTH_OK;
}

static size_t width(const struct task_model *model) {
    (void)model;
    return WIDTH;
}

static size_t count_words(const char *text) {
    size_t count = 0;
    for (text += strspn(text, " "); *text != '\0'; text += strspn(text, " ")) {
        text += strcspn(text, " ");
        count++;
    }
    return count;
}

static enum berth_status run_row(const struct task_model *model, struct task_text *const *texts,
                                 size_t count, struct berth_error *error) {
    (void)model;
    (void)error;
    for (size_t i = 0; i < count; i++) {
        const char *text = texts[i]->texts[0];
        float *numbers = task_text_rows(texts[i], 1, WIDTH);
        if (numbers != NULL) {
            numbers[0] = (float)count_words(text);
            numbers[1] = (float)strlen(text);
        }
    }
    return BERTH_OK;
}

const struct task_row berth_added_task = {
    .about = {.name = "count",
              .pipeline = "word-count",
              .text = "text",
              .has_rows = 1,
              .help = "the number of words and of bytes of a text"},
    .architectures = {"ForCounting"},
    .tasks = {"count tokenize"},
    .job = JOB_TOKENIZE,
    .settings = "",
    .open = open_row,
    .run = run_row,
    .width = width,
    .write = task_write_numbers,
    .outputs = {{"counts", TASK_NUMBERS}}};
