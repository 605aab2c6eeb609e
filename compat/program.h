// SPDX-License-Identifier: Apache-2.0
// The rows of other programs, and what their functions may do with a command line that was read.
// translate.c goes through a row; the files of the systems define them.
#ifndef BERTH_COMPAT_PROGRAM_H
#define BERTH_COMPAT_PROGRAM_H

#include "compat.h"

#include <stdint.h>

enum compat_kind {
    COMPAT_VALUE,    // a value follows
    COMPAT_SWITCH,   // true alone; true or false may follow, and --noNAME is false
    COMPAT_OPTIONAL, // a value may follow
    COMPAT_LIST      // all words up to the next flag
};

// Flags of one kind that become the same thing.
struct compat_flag {
    const char *names; // separated by blanks; a single letter is a short flag (-d)
    enum compat_kind kind;
    const char *option;  // the option of Berth; "": the one of the same name; NULL: none
    const char *on;      // of a switch: the option's value; NULL: true and false
    const char *off;     // and if it is false; NULL: nothing is set
    const char *values;  // "theirs=ours ...": other words for a value; "theirs=": not given
    const char *only;    // values that change nothing; others are refused
    const char *meaning; // for `--help` and notes: why it is not needed, or what it becomes
};

// Options of Berth with the same name, and with another one.
#define SAME(its_kind, its_names)                                                                  \
    { .names = (its_names), .kind = (its_kind), .option = "" }
#define TO(its_kind, its_names, its_option)                                                        \
    { .names = (its_names), .kind = (its_kind), .option = (its_option) }
// A switch that gives an option a value.
#define SETS(its_names, its_option, if_true, if_false)                                             \
    {                                                                                              \
        .names = (its_names), .kind = COMPAT_SWITCH, .option = (its_option), .on = (if_true),      \
        .off = (if_false)                                                                          \
    }
#define NOT_NEEDED(its_kind, its_names, why)                                                       \
    { .names = (its_names), .kind = (its_kind), .meaning = (why) }
// Accepted at the values with which it changes nothing.
#define ONLY(its_kind, its_names, its_values, why)                                                 \
    { .names = (its_names), .kind = (its_kind), .only = (its_values), .meaning = (why) }
// Read by the program's function.
#define READS(its_kind, its_names, becomes)                                                        \
    { .names = (its_names), .kind = (its_kind), .option = COMPAT_READ, .meaning = (becomes) }
#define FLAGS_END                                                                                  \
    { .names = NULL }

extern const char COMPAT_READ[];

struct compat_given {
    const struct compat_flag *flag;
    const char *name; // as the row spells it
    const char *value;
};

enum { COMPAT_ARGUMENTS_MAX = 2 };

// A command line of a program, while it is read.
struct compat_line {
    const struct compat_program *program;
    struct compat_plan *plan;
    struct compat_given *given;
    size_t given_count, given_capacity;
    const char *arguments[COMPAT_ARGUMENTS_MAX]; // words that are no flags
    size_t argument_count;
};

struct compat_program {
    const char *system;   // "habana"
    const char *name;     // "run_squad.py"
    const char *verb;     // the command that it is
    const char *settings; // "option=value ...": what is fixed or a default in the program
    const char *required; // flags, separated by blanks
    const struct compat_flag *flags[8]; // arrays that end with FLAGS_END
    size_t arguments_max;               // words that are no flags; at most COMPAT_ARGUMENTS_MAX
    // Completes the command, after the flags have set their options; NULL: nothing to do.
    enum berth_status (*finish)(struct compat_line *line, struct berth_error *error);
    const char *summary;
};

extern const struct compat_program *const compat_systems[]; // arrays that end with name NULL

// The last part of a path.
const char *compat_last_part(const char *path);
// The programs that a name means: those of the system that the folder before it or BERTH_AS names,
// if there are any, else all of that name. Returns how many.
enum { COMPAT_CANDIDATES_MAX = 8 };
size_t compat_find_programs(const char *path,
                            const struct compat_program *found[COMPAT_CANDIDATES_MAX]);
// The only program that a name or SYSTEM/name means. BERTH_USAGE: there is none, or several.
enum berth_status compat_find_program(const char *path, const struct compat_program **found,
                                      struct berth_error *error);

// --- for the programs' functions -----------------------------------------------------------------

// The value of a flag that was given, by its name, or by its names separated by blanks: the last
// one given. NULL: it was not. A switch has true or false.
const char *compat_value(const struct compat_line *line, const char *names);
// Whether a switch was given and is true.
int compat_is_on(const struct compat_line *line, const char *name);
// Records a flag of the command line.
void compat_add_given(struct compat_line *line, const struct compat_flag *flag, const char *name,
                      const char *value);
// As if the flag had been given with this value, to be read by compat_value.
void compat_give(struct compat_line *line, const char *name, const char *value);
// A value that must be a whole number of at least `least`; `otherwise` where it was not given.
enum berth_status compat_integer(const struct compat_line *line, const char *name, int64_t least,
                                 int64_t otherwise, int64_t *value, struct berth_error *error);

// Sets an option of any command, or adds a word alone (name NULL).
void compat_put_option(struct compat_plan *plan, struct compat_command *command, const char *name,
                       const char *value);
// Sets an option of the last command; compat_default only if it has none.
void compat_set(struct compat_line *line, const char *option, const char *value);
void compat_default(struct compat_line *line, const char *option, const char *value);
void compat_set_integer(struct compat_line *line, const char *option, int64_t value);
void compat_drop(struct compat_line *line, const char *option);
const char *compat_get(const struct compat_line *line, const char *option);
// Moves the value of an option to another one, if it has any.
void compat_rename(struct compat_line *line, const char *from, const char *to);
// Another verb for the last command, which loses the options that this verb does not have.
void compat_verb(struct compat_line *line, const char *verb);
// Begins another command: a copy of the last one, with another verb as above.
void compat_then(struct compat_line *line, const char *verb);
void compat_argument(struct compat_line *line, const char *word);
void compat_note(struct compat_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// A text that lives as long as the plan: printf's; "" when out of memory.
const char *compat_text(struct compat_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Adds words of the launcher.
void compat_launch(struct compat_line *line, const char *word, const char *value);
// The launcher for `count` processes, if that is more than one.
void compat_launch_processes(struct compat_line *line, int64_t count);

// --- what several programs have in common (common.c) ---------------------------------------------

// The batch of one process, cut into `accumulation` micro-batches: what `train_batch_size` is in
// programs of PyTorch and Intel.
enum berth_status compat_batch_of_process(struct compat_line *line, const char *batch,
                                          const char *accumulation, int64_t otherwise,
                                          struct berth_error *error);
// --fp16: bf16, or fp16 on a GPU that the options name.
void compat_half(struct compat_line *line, const char *flag);
// What trains, evaluates and predicts of questions: do_train, do_predict, and do_eval where the
// program has it. predict_file is the file of both.
enum berth_status compat_squad_modes(struct compat_line *line, struct berth_error *error);
// The same of texts: do_train, do_eval and do_predict.
enum berth_status compat_classify_modes(struct compat_line *line, struct berth_error *error);
// A checkpoint without a configuration beside it gets that of the model `name`, with its
// vocabulary.
void compat_geometry(struct compat_line *line, const char *flag, const char *name);
// Whether a file or folder of that name exists: FOLDER/NAME, as a text of the plan; NULL: none.
const char *compat_file_in(struct compat_line *line, const char *folder, const char *name);

// Flags of several programs.
extern const struct compat_flag compat_tensorflow_flags[], compat_question_flags[],
    compat_pytorch_flags[], compat_dllogger_flags[];

#endif
