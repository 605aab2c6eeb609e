// SPDX-License-Identifier: Apache-2.0
// What describes an option: a setting (settings/rows.c), or an option of the program that is no
// setting (cli/). Parsing, help, completion and the checks of a resumed run follow from a row.
#ifndef BERTH_CORE_OPTIONS_H
#define BERTH_CORE_OPTIONS_H

#include "core/error.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

// OPTION_LIST, all words up to the next option, is for options of the program that are no settings.
enum option_type {
    OPTION_INTEGER,
    OPTION_REAL,
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_CHOICE,
    OPTION_LIST
};

// The jobs that a row applies to. The --help of a command shows the rows of its job.
enum option_job {
    JOB_FINETUNE_SQUAD = 1 << 0,
    JOB_PREDICT_SQUAD = 1 << 1,
    JOB_ANSWER = 1 << 2,
    JOB_SHOW = 1 << 3,
    JOB_TOKENIZE = 1 << 4,
    JOB_FEATURES = 1 << 5,
    JOB_BENCH = 1 << 6,
    JOB_FINETUNE_CLASSIFY = 1 << 7,
    JOB_PREDICT_CLASSIFY = 1 << 8,
    JOB_EMBED = 1 << 9,
    JOB_PREPARE = 1 << 10,
    JOB_PACK = 1 << 11,
    JOB_PRETRAIN = 1 << 12,
    JOB_VOCAB = 1 << 13,
    JOB_EVALUATE_PRETRAIN = 1 << 14,
    JOB_PRETRAIN_MLM = 1 << 15,
    JOB_EVALUATE_MLM = 1 << 16,
    JOB_FILL = 1 << 17,
    JOB_FINETUNE_TOKENS = 1 << 18,
    JOB_PREDICT_TOKENS = 1 << 19,
    JOB_FINETUNE_EMBED = 1 << 20,
    JOB_EVALUATE_EMBED = 1 << 21,
    JOB_MINE = 1 << 22,
    JOB_FINETUNE_RERANK = 1 << 23,
    JOB_EVALUATE_RERANK = 1 << 24,
    JOB_CLASSIFY = 1 << 25, // texts to classes and scores: berth classify, tag and rerank
    JOB_SERVE = 1 << 26,    // beside the jobs of its models: other descriptions of their defaults
    // Jobs of every task.
    JOB_FINETUNE = JOB_FINETUNE_SQUAD | JOB_FINETUNE_CLASSIFY | JOB_FINETUNE_TOKENS |
                   JOB_FINETUNE_EMBED | JOB_FINETUNE_RERANK,
    JOB_PREDICT = JOB_PREDICT_SQUAD | JOB_PREDICT_CLASSIFY | JOB_PREDICT_TOKENS |
                  JOB_EVALUATE_PRETRAIN | JOB_EVALUATE_MLM | JOB_EVALUATE_EMBED |
                  JOB_EVALUATE_RERANK,
    // Jobs that can start from random weights.
    JOB_FROM_SCRATCH = JOB_PRETRAIN | JOB_PRETRAIN_MLM,
    JOB_TRAIN = JOB_FINETUNE | JOB_FROM_SCRATCH,
    // Jobs that several processes can do together.
    JOB_DISTRIBUTED = JOB_TRAIN | JOB_PREDICT | JOB_EMBED | JOB_PREPARE | JOB_PACK | JOB_MINE
};

// What a resumed run may do with a setting.
enum option_resume {
    OPTION_RESUME_NONE, // does not apply: no row of JOB_TRAIN
    // Another value is refused: the option decides the order of the data, the number format, the
    // meaning of the moments or the initial values of the head.
    OPTION_KEPT,
    OPTION_NOTED, // it may change, with a note
    OPTION_FREE   // it may change without a note
};

// A default in some jobs.
struct option_default {
    unsigned jobs;
    const char *value; // as in option_row; NULL: the row's own
    const char *shown; // as in option_row
};

// What an option means in some jobs.
struct option_help {
    unsigned jobs;
    const char *help;
    const char *choices; // those that these jobs have; NULL: the row's
};

struct option_row {
    const char *name;    // the field and the flag, with underscores
    const char *aliases; // other names, separated by blanks; NULL: none
    enum option_type type;
    size_t offset;       // of the field in struct settings
    const char *choices; // OPTION_CHOICE: "a|b|c"; for text fields that accept only these, or for
                         // enum fields, the names of 0, 1, ...
    int may_be_list;     // of OPTION_TEXT: several of `choices` with commas between them, too
    double minimum, maximum;
    int may_be_empty; // OPTION_TEXT: "" is also a value
    // "auto" is also a value: what a default that follows a rule is called. It is stored as
    // OPTION_AUTO, of OPTION_REAL as NaN: never as a number that a user may mean.
    int has_auto;
    int has_fraction;          // OPTION_INTEGER: a fraction of the updates, "0.1", is also a value
                               // (option_fraction)
    const char *default_value; // as text; NULL: a text that is not set
    const char *shown;         // text for --help if the default follows a rule; or NULL
    // Defaults of particular jobs. JOB_SERVE comes before the jobs of its models.
    struct option_default job_defaults[8];
    const char *alone; // the value of a flag given without one; NULL: a value is required
    unsigned jobs;
    enum option_resume resume;
    // The settings without which this one has no effect (settings/effects.h); NULL: it always has.
    // Requirements are separated by "; ", alternatives of one by " or ". "name": it is set (a text,
    // true, above 0); "!name": it is not; "name=one|other": it has one of these values, or auto;
    // "name!=one": another. "processes" is set in a job of several, "ranks" if they divide the
    // updates.
    const char *only_with;
    // 1: training replaces the default by what it means for the data, which is then kept.
    int resolved;
    // 1: ranks of a job may differ in it: a path, a resource of the host, or what they print and
    // record
    int local;
    const char *deepspeed;         // path of a DeepSpeed JSON, "optimizer.params.lr"; NULL: none
    const char *deepspeed_default; // DeepSpeed's value where the key is absent; NULL: none
    const char *group;             // heading in --help; the rows of a group follow each other
    int common;                    // 1: --help shows it first
    const char *unit;              // what --help shows as the value: "N", "FILE", "RATE"
    const char *help;
    // Where it says something else in particular jobs: --help of a verb has no text of others.
    struct option_help job_helps[6];
};

#define OPTION_AUTO (-1)

// The fraction of the updates, from 1e-6 to below 1, that a value of a row with `has_fraction`
// stands for; 0: the value is a number.
double option_fraction(int64_t value);

// The range of a row.
#define AT_LEAST(low) .minimum = (low), .maximum = INFINITY
#define BETWEEN(low, high) .minimum = (low), .maximum = (high)

// A value of a row, by its type.
union option_value {
    int64_t integer;
    double real;
    int flag;
    int choice;
    const char *text;
};

#define OPTION_NAME_SIZE 64

// The nearest spelling found so far; initialise with {.distance = ~0u}.
struct option_spelling {
    char text[OPTION_NAME_SIZE];
    unsigned distance;
};

// The row's default in a job, and what --help shows for it (NULL: the value). `jobs` 0: in any; of
// several the one that comes first in job_defaults.
struct option_default option_default(const struct option_row *row, unsigned jobs);
// What the row means in a job; its own text and choices where `job_helps` has none.
struct option_help option_help(const struct option_row *row, unsigned jobs);
// Takes the next of the names that are separated by blanks; 0 at the end. NULL is an empty list.
int option_next_name(const char **names, char name[OPTION_NAME_SIZE]);
// 1 when `name` is the row's or one of its aliases; `-` and `_` are the same.
int option_is_named(const struct option_row *row, const char *name);
// 1 when both names are the same option name (`-` equals `_`).
int option_same_name(const char *a, const char *b);
// The edit distance of two names: insertions, deletions, changes and swaps of neighbours, over
// their first 63 characters. `option_is_near`: near enough to be a typo.
unsigned option_distance(const char *a, const char *b);
// Takes one of `names` (separated by blanks; NULL: none), or the row's name or an alias, where that
// is nearer to `name` than what was found so far.
void option_nearer(const char *name, const char *names, struct option_spelling *nearest);
void option_row_nearer(const char *name, const struct option_row *row,
                       struct option_spelling *nearest);
int option_is_near(const char *typed, unsigned distance);

// The value that `text` is for a row; a text is borrowed. Errors as of settings_set_row.
enum berth_status option_parse(const struct option_row *row, const char *text,
                               union option_value *value, struct berth_error *error);

#endif
