// SPDX-License-Identifier: Apache-2.0
// The settings of all jobs, each in the struct of its owner, and the option table: one row per
// setting drives the command line, the defaults, the DeepSpeed JSON, --help, the settings saved
// beside a checkpoint and what a resumed run may change of them. A new setting is one row and one
// field of its owner. Jobs fill and resolve the whole; every room below gets its own struct. What a
// setting does is said in the struct of its owner.
#ifndef BERTH_SETTINGS_SETTINGS_H
#define BERTH_SETTINGS_SETTINGS_H

#include "core/log.h"
#include "core/options.h"
#include "settings/engine.h"
#include "settings/features.h"
#include "settings/machine.h"
#include "settings/model.h"
#include "settings/optimizer.h"
#include "settings/report.h"
#include "settings/run.h"
#include "settings/task.h"

struct settings {
    struct model_settings model;
    struct feature_settings features;
    struct task_settings task;
    struct optimizer_settings optimizer;
    struct engine_settings engine;
    struct run_settings run;
    struct report_settings report;
    struct machine_settings machine;
    uint64_t given[4]; // bit set of the rows that were set by name, which override a DeepSpeed file
    char **owned;      // copies of texts, of a struct made by settings_new
};

extern const struct option_row option_rows[];
extern const size_t option_row_count;

// The row of a name or alias; `-` and `_` are the same. NULL: unknown.
const struct option_row *option_find(const char *name);
// The name or alias in the rows of `jobs` that is nearest to an unknown one; NULL when none is
// near.
const char *option_nearest(const char *name, unsigned jobs, struct option_spelling *nearest);
// Sets every option to the default of its row.
void settings_init(struct settings *config);
// A struct with the defaults, for programs that set every field by its name. NULL: out of memory.
struct settings *settings_new(void);
void settings_free(struct settings *settings);
// Sets a field by its name or one of its aliases ("learning_rate", "3e-5"). A struct made by
// settings_new copies `value`; any other borrows it, and `value` must outlive it. An unknown name
// is BERTH_USAGE; the error suggests the nearest known one. Some jobs and recipes have defaults of
// their own for some fields. A field that was set by its name keeps its value; one that was
// assigned keeps it if it differs from the default.
enum berth_status settings_set(struct settings *settings, const char *name, const char *value,
                               struct berth_error *error);
int64_t option_default_integer(const char *name, unsigned job);
// Sets the option of that name, or every one, to its default in a job unless it was chosen. It does
// not count as given.
void settings_apply_default(struct settings *config, const char *name, unsigned job);
void settings_apply_defaults(struct settings *config, unsigned job);

// Sets the field of `row` from text and marks the row as given. Text and choice values must outlive
// the config. A malformed or out-of-range value: BERTH_USAGE naming option, value and range.
enum berth_status settings_set_row(struct settings *config, const struct option_row *row,
                                   const char *value, struct berth_error *error);
int settings_row_is_given(const struct settings *config, const struct option_row *row);
// Sets the field of `row` to its default; it no longer counts as given.
void settings_forget(struct settings *config, const struct option_row *row);
// 1 when the setting was given by name or is not the default.
int settings_row_is_chosen(const struct settings *config, const struct option_row *row);
// The same of the option of that name.
int settings_is_given(const struct settings *config, const char *name);
int settings_is_chosen(const struct settings *config, const char *name);
// 1 when the settings resume a run from a checkpoint.
int settings_resume(const struct settings *config);
// 1 when each process trains a model of its own.
int settings_are_independent(const struct settings *config);
// The field's value as text, independent of the locale.
void settings_print(const struct settings *config, const struct option_row *row, char *text,
                    size_t size);
// Logs "Config": the name and text of every setting of the jobs `jobs`.
enum berth_status log_settings(const struct berth_log *log, const struct settings *config,
                               unsigned jobs, struct berth_error *error);

#endif
