// SPDX-License-Identifier: Apache-2.0
// What the sources of the verbs `berth answer`, `berth embed`, ... share. run_options.c makes a
// verb of each task's row, texts.c reads the texts that the command line names, and run.c runs them
// and writes what was found. Leaves the tasks themselves to src/task, and embeddings of few bits to
// output_type.h.
#ifndef BERTH_CLI_RUN_H
#define BERTH_CLI_RUN_H

#include "cli.h"
#include "task/task.h"

// The option of a task that ranks: how many it prints.
#define CLI_TOP_N "top_n"

// `settle` and `run` of such a verb (run.c).
enum berth_status cli_settle_task(struct cli_call *call, struct berth_error *error);
enum berth_status cli_run_task(struct cli_call *call, struct berth_error *error);

// --- the texts of a call (texts.c) ---------------------------------------------------------------

// Words that are made from a row, each kept once for as long as the program runs.
const char *cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Whether the second text of a task is read whole, like an article.
int cli_has_long_pair(const struct task_row *task);
// The name of the option for a file with the pair; NULL: there is none.
const char *cli_pair_file(const struct task_row *task);
// What the second text is, for people.
const char *cli_pair_meaning(const struct task_row *task);

struct cli_texts {
    struct berth_text *items; // [count]
    size_t count;
    const char *source; // whose lines they are, for messages; NULL: they are on the command line
    // What the items borrow from; NULL: nothing of it.
    const char **lines;     // [count], without line ends, in:
    char *bytes;            // of the source
    char *pair_bytes;       // of the file with the pair
    char *of_first_process; // all texts, in another process
};

// Checks the options that name texts, before standard input is read or a model is opened.
enum berth_status cli_texts_check(const struct cli_call *call, const struct task_row *task,
                                  struct berth_error *error);
// Reads the texts of the command line, of a file or of standard input. Call cli_texts_done even on
// failure.
enum berth_status cli_texts_read(const struct cli_call *call, const struct task_row *task,
                                 struct cli_texts *texts, struct berth_error *error);
// Reads a file of which each line is a text; the same holds.
enum berth_status cli_texts_read_lines(const struct cli_call *call, const char *path,
                                       struct cli_texts *texts, struct berth_error *error);
// Gives all processes the texts that the first one has read.
enum berth_status cli_texts_share(struct cli_texts *texts, struct comm *comm,
                                  struct berth_error *error);
void cli_texts_done(struct cli_texts *texts);

#endif
