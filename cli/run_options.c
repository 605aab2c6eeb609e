// SPDX-License-Identifier: Apache-2.0
// Makes the verb `berth NAME` of each task's row: its options, its usage and its example. Called
// when the program looks for a verb or lists all of them; the verb then runs by run.c. What the
// settings of a task mean is said in its row and in task/settings.c.
#include "output_type.h"
#include "run.h"

#include <string.h>

// A verb while its options are added.
struct making {
    struct cli_verb *verb;
    struct option_row *next; // where the next option goes
    const struct task_row *task;
};

static void add(struct making *making, struct option_row row) {
    *making->next++ = row;
    making->verb->option_count++;
}

// The option of a setting of the task, or of another row that a flag asks for. The verb may have it
// by its rows of the option table.
static void add_setting(struct making *making, const struct task_row *task, const char *name) {
    const struct option_row *known = option_find(name);
    struct option_row row = task_option_of(task, name);
    if ((known != NULL && (known->jobs & making->verb->jobs) != 0) ||
        strcmp(name, "offsets") == 0) {
        return;
    }
    if (strcmp(name, "top") == 0) {
        row.shown = task->verb.top;
        row.maximum = task->verb.top_max > 0 ? (double)task->verb.top_max : row.maximum;
    }
    add(making, row);
}

// The options that name texts; and the usage, which has their names.
static void add_texts(struct making *making) {
    static const char of_lines[] = "the lines of FILE or of standard input";
    const struct task_row *task = making->task;
    const struct berth_task *about = &task->about;
    const char *file = cli_pair_file(task), *pair = about->pair;
    const char *usage = cli_say("--model DIR --%s TEXT", about->text);
    add(making, (struct option_row){CLI_TEXT(about->text, NULL), .unit = "TEXT",
                                    .help = cli_say("the %s", about->text),
                                    .shown = about->needs_pair ? NULL : of_lines});
    if (pair != NULL) {
        add(making,
            (struct option_row){CLI_TEXT(pair, NULL), .unit = "TEXT",
                                .help = about->needs_pair ? cli_pair_meaning(task)
                                                          : "second text of a pair",
                                .shown = about->needs_pair && file == NULL ? of_lines : NULL});
        usage = cli_say(about->needs_pair ? "%s [--%s TEXT" : "%s [--%s TEXT]", usage, pair);
    }
    if (file != NULL) {
        add(making,
            (struct option_row){CLI_TEXT(file, NULL), .unit = "FILE", .shown = "standard input",
                                .help = "file with that text; - is standard input"});
        usage = cli_say("%s | --%s FILE]", usage, file);
    } else {
        usage = about->needs_pair ? cli_say("%s | FILE]", usage)
                                  : cli_say("%s\n--model DIR [FILE]", usage);
    }
    add(making, (struct option_row){
                    CLI_TEXT("jsonl", NULL), .unit = "FILE",
                    .help = cli_say("texts as JSON lines, objects with the %s \"%s\"%s%s%s; "
                                    "- is standard input",
                                    pair != NULL ? "keys" : "key", about->text,
                                    pair != NULL ? " and \"" : "", pair != NULL ? pair : "",
                                    pair != NULL ? "\"" : "")});
    making->verb->usage = cli_say("%s\n--model DIR --jsonl FILE", usage);
}

// How results are printed.
static void add_output(struct making *making) {
    const struct task_row *task = making->task;
    const struct berth_task *about = &task->about;
    if (task->verb.is_ranking) {
        add(making,
            (struct option_row){CLI_INTEGER(CLI_TOP_N, NULL), AT_LEAST(1), .unit = "N",
                                .shown = "all", .aliases = "top_k",
                                .help = cli_say("print the best N of a %s only", about->text)});
    }
    add(making, (struct option_row){CLI_FLAG("json"), .help = "print JSON lines",
                                    .shown = task->verb.reader == TASK_READ_BY_PROGRAMS
                                                 ? "true: this verb always does"
                                                 : NULL});
    if (!about->has_items && about->pair == NULL) {
        add(making,
            (struct option_row){
                CLI_TEXT("output", NULL), .unit = "FILE", .shown = "JSON lines on standard output",
                .help = "file for the numbers: .npy, or JSON lines under any other name (-: "
                        "standard output)"});
        making->verb->streams_output = 1;
    }
}

// The flags that ask for other rows, and the settings that only those have.
static void add_rows_of_flags(struct making *making) {
    for (size_t i = 0; task_rows[i] != NULL; i++) {
        const struct task_row *other = task_rows[i];
        const char *settings = other->settings;
        char name[OPTION_NAME_SIZE];
        if (other->verb.of == NULL || strcmp(other->verb.of, making->task->about.name) != 0) {
            continue;
        }
        add(making, (struct option_row){CLI_FLAG(other->verb.flag), .help = other->about.help});
        while (option_next_name(&settings, name)) {
            if (!task_follows(making->task, name)) {
                add_setting(making, other, name);
            }
        }
    }
}

// What can be made of embeddings besides printing them.
static void add_types(struct making *making) {
    add(making, (struct option_row){CLI_TEXT("output_type", "float32"), .unit = "TYPE",
                                    .choices = OUTPUT_TYPES,
                                    .help = "type of the numbers: int8 and uint8 in 256 steps of "
                                            "each column's range, (u)binary 1 bit a column"});
    add(making, (struct option_row){CLI_FLAG("hash"),
                                    .help = "print the SHA-256 of the numbers in place of them: "
                                            "the texts' vectors in order, as in a .npy file"});
    add(making, (struct option_row){CLI_TEXT("calibration_file", NULL), .unit = "FILE",
                                    .shown = "the texts themselves",
                                    .help = "texts, one a line, whose vectors give the columns' "
                                            "ranges for int8 and uint8"});
}

const struct cli_verb *cli_run_verb(size_t index) {
    static struct cli_verb verbs[CLI_RUN_VERBS_MAX];
    static struct option_row options[CLI_RUN_VERBS_MAX][CLI_OPTIONS_MAX];
    const struct task_row *task = task_rows[index];
    const struct berth_task *about = &task->about;
    const unsigned jobs = task->verb.jobs != 0 ? task->verb.jobs : JOB_FILL;
    const int is_divided = (jobs & JOB_DISTRIBUTED) != 0;
    const char *const *sample = task->verb.sample;
    const char *settings = task->settings;
    char name[OPTION_NAME_SIZE];
    struct making making = {.verb = &verbs[index], .next = options[index], .task = task};
    verbs[index] = (struct cli_verb){.name = about->name,
                                     .summary = about->help,
                                     .notes = task->verb.notes,
                                     .jobs = jobs,
                                     .options = options[index],
                                     .required = "model_name_or_path",
                                     .arguments_max = !cli_has_long_pair(task),
                                     .processes = is_divided ? CLI_DIVIDED : CLI_FIRST,
                                     .settle = cli_settle_task,
                                     .run = cli_run_task};
    add_texts(&making);
    while (option_next_name(&settings, name)) {
        add_setting(&making, task, name);
    }
    add_output(&making);
    add_rows_of_flags(&making);
    if (task_follows(task, "dimensions")) {
        add_types(&making);
    }
    verbs[index].example = cli_say(
        "berth %s --model %s --%s '%s'%s", about->name, sample[0] != NULL ? sample[0] : "model",
        about->text, sample[1] != NULL ? sample[1] : "a text",
        sample[2] != NULL ? cli_say(" \\\n    --%s '%s'", about->pair, sample[2]) : "");
    return &verbs[index];
}
