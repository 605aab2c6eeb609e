// SPDX-License-Identifier: Apache-2.0
// `berth as PROGRAM`: the command line of another program (DeepSpeed's, Google's, Intel's,
// NVIDIA's, Habana's, CSCS's, Hugging Face's) as command lines of Berth.
//
// This is the only room that knows other programs' words. A program is a row (programs.c) with its
// flags (a file for each system); translate.c reads a command line by the row, and text.c prints
// the result. Nothing runs here: cli/as.c does that.
#ifndef BERTH_COMPAT_COMPAT_H
#define BERTH_COMPAT_COMPAT_H

#include "core/buffer.h"
#include "core/error.h"

#include <stddef.h>

struct compat_program;

// "--name value", or a word alone where the name is NULL.
struct compat_option {
    const char *name, *value;
};

// One command of Berth. Invariant: an option's name occurs once; the last value wins.
struct compat_command {
    const char *verb; // one word or two: "finetune squad"
    struct compat_option *options;
    size_t count, capacity;
};

enum { COMPAT_COMMANDS_MAX = 4, COMPAT_LAUNCHER_MAX = 16 };

// What a command line means: commands that follow each other, each started by the same launcher.
// The words live as long as the plan.
struct compat_plan {
    const struct compat_program *program;
    struct compat_command commands[COMPAT_COMMANDS_MAX];
    size_t command_count;
    const char *launcher[COMPAT_LAUNCHER_MAX]; // "mpirun", "-np", "8"; none: [0] is NULL
    size_t launcher_count;
    const char **notes; // what the user should know: flags that are not needed, other meanings
    size_t note_count, note_capacity;
    void **owned; // memory of the words
    size_t owned_count, owned_capacity;
    int failed; // out of memory
};

// The words after `berth as`: options of Berth's own as "--name=value", which all commands get; a
// program, of whose path the last part counts; its arguments. BERTH_USAGE: an unknown program or
// flag, a missing or wrong value, several programs of that name that could have this command line.
// The plan is to be freed after errors, too.
enum berth_status compat_read(struct compat_plan *plan, size_t count, const char *const *words,
                              struct berth_error *error);
void compat_plan_free(struct compat_plan *plan);

// Whether the word names a shell script of the programs, which is a file to run and no row.
int compat_is_script(const char *word);

// The words of a command after "berth", NULL at the end: an array that the plan owns; NULL: out of
// memory.
const char **compat_command_words(struct compat_plan *plan, size_t index);

// The commands as lines for a shell.
void compat_put_commands(struct buffer *text, const struct compat_plan *plan);
// All programs by system. `width`: columns to fill.
void compat_put_programs(struct buffer *text);
// A program's flags and what each becomes, for the program that the words name as in compat_read.
enum berth_status compat_put_help(struct buffer *text, const char *word, struct berth_error *error);
// "3_squad_bert_deepspeed.py", ... by number, for completion; NULL at the end.
const char *compat_program_name(size_t index);

// If other programs have a flag of that name, writes what it is there for the message of an unknown
// option: "--fp16 is an option of run_qa.py (`berth as run_qa.py`)"; "" if none has.
void compat_describe_flag(const char *name, char *text, size_t size);

#endif
