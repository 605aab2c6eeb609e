// SPDX-License-Identifier: Apache-2.0
// The option table: one row per setting drives the command line, the DeepSpeed JSON, --help and the
// settings saved with a checkpoint. A new option is one row here and one field of berth_config.
#ifndef BERTH_CORE_OPTIONS_H
#define BERTH_CORE_OPTIONS_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

enum option_type { OPTION_INTEGER, OPTION_REAL, OPTION_FLAG, OPTION_TEXT, OPTION_CHOICE };

// The jobs that a row applies to; the --help of a command shows the rows of its job.
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
    // Of every task.
    JOB_FINETUNE = JOB_FINETUNE_SQUAD | JOB_FINETUNE_CLASSIFY,
    JOB_PREDICT = JOB_PREDICT_SQUAD | JOB_PREDICT_CLASSIFY | JOB_EVALUATE_PRETRAIN,
    JOB_TRAIN = JOB_FINETUNE | JOB_PRETRAIN
};

struct option_row {
    const char *name;      // the field of berth_config and the flag, with underscores
    const char *aliases;   // other names, separated by blanks; NULL: none
    const char *deepspeed; // path in a DeepSpeed JSON, "optimizer.params.lr"; NULL: none
    enum option_type type;
    size_t offset;       // of the field in struct berth_config
    const char *choices; // OPTION_CHOICE: "a|b|c"; for text fields that accept only these, or for
                         // enum fields, the names of 0, 1, ...
    double minimum, maximum;
    unsigned jobs;
    const char *unit; // what --help shows as the value: "N", "FILE", "RATE"
    const char *help;
    const char *alone;    // the value of a flag given without one; NULL: a value is required
    const char *fallback; // text for --help where the default follows a rule; or NULL
};

// The nearest spelling found so far; initialise with {.distance = ~0u}.
struct option_spelling {
    char text[64];
    unsigned distance;
};

// A default that differs in `jobs`.
struct option_job_default {
    unsigned jobs;
    const char *name, *value;
};

extern const struct option_row option_rows[];
extern const size_t option_row_count;
extern const struct option_job_default option_job_default_rows[];
extern const size_t option_job_default_count;

// Sets the default of every option that does not depend on the machine (berth_config_init sets
// those).
void option_defaults(struct berth_config *config);
// Sets the defaults that differ in a job; options that were changed keep their values.
void option_job_defaults(struct berth_config *config, unsigned job);

// The row of a name or alias; `-` equals `_`. NULL: unknown.
const struct option_row *option_find(const char *name);
// The name or alias in the rows of `jobs` that is nearest to an unknown one; NULL when none is
// near.
const char *option_nearest(const char *name, unsigned jobs, struct option_spelling *nearest);
// 1 when both names are the same option name (`-` equals `_`).
int option_same_name(const char *a, const char *b);
// The edit distance of two names: insertions, deletions, changes and swaps of neighbours, over
// their first 63 characters. `option_is_near`: near enough to be a typo.
unsigned option_distance(const char *a, const char *b);
// Keeps `known` or one of its `aliases` (separated by blanks; NULL: none) where it is nearer to
// `name` than the nearest so far.
void option_nearer(const char *name, const char *known, const char *aliases,
                   struct option_spelling *nearest);
int option_is_near(const char *typed, unsigned distance);

// Sets the field of `row` from text and marks the row as given. Text and choice values must outlive
// the config. A malformed or out-of-range value: BERTH_USAGE naming option, value and range.
enum berth_status option_set(struct berth_config *config, const struct option_row *row,
                             const char *value, struct berth_error *error);
int option_is_given(const struct berth_config *config, const struct option_row *row);
// 1 when the setting was given by name or is not the default.
int option_is_chosen(const struct berth_config *config, const struct option_row *row);
// 1 when the settings resume a run from a checkpoint.
int option_resumes(const struct berth_config *config);
// Sets an option that was not given, by its name; it still counts as not given. `value` must be
// valid.
void option_set_default(struct berth_config *config, const char *name, const char *value);
// BERTH_USAGE where the field of a row with choices holds none of them: a struct can be filled by
// hand.
enum berth_status option_check_choice(const struct berth_config *config, const char *name,
                                      struct berth_error *error);
// BERTH_USAGE where a value is neither the default nor one that option_set accepts: a struct can be
// filled by hand.
enum berth_status option_check(const struct berth_config *config, struct berth_error *error);
// The field's value as text, independent of the locale.
void option_print(const struct berth_config *config, const struct option_row *row, char *text,
                  size_t size);

#endif
