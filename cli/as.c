// SPDX-License-Identifier: Apache-2.0
// berth as PROGRAM: runs the command line of another program. compat/ translates it; this verb
// prints the commands of Berth that it means, or replaces the process by them, so that they run as
// if they had been typed.
#include "cli.h"
#include "compat/compat.h"
#include "core/file.h"
#include "core/launcher.h"
#include "core/memory.h"
#include "core/text_util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PRINT_VARIABLE "BERTH_PRINT_COMMAND"

static enum berth_status put(const struct buffer *text, struct berth_error *error) {
    if (text->failed) {
        return error_no_memory(error, 0, "a text");
    }
    fwrite(text->bytes, 1, text->length, stdout);
    return BERTH_OK;
}

// The path of the running program, which may not be in PATH.
static enum berth_status find_self(char path[4096], struct berth_error *error) {
    const ssize_t length = readlink("/proc/self/exe", path, 4095);
    if (length <= 0) {
        return error_set_errno(error, BERTH_IO, errno, "/proc/self/exe: cannot read the link");
    }
    path[length] = '\0';
    return BERTH_OK;
}

// Replaces the process; returns only if that fails.
static enum berth_status start(const char *const *words, const char *first, size_t launcher_count,
                               struct berth_error *error) {
    fflush(NULL);
    execvp(first, (char *const *)words);
    return launcher_count == 0
               ? error_set_errno(error, BERTH_INTERNAL, errno, "%s: cannot start it", first)
               : error_set(error, BERTH_UNAVAILABLE,
                           "cannot start %s, which starts the processes; install an MPI (`berth "
                           "doctor` lists them), or print the command with `berth as "
                           "--print_command`",
                           first);
}

// One command: the launcher's words, then this program's.
static enum berth_status run_one(struct compat_plan *plan, const char *self,
                                 struct berth_error *error) {
    const char **words = compat_command_words(plan, 0);
    size_t count = 0, used = plan->launcher_count;
    while (words != NULL && words[count] != NULL) {
        count++;
    }
    OWNED const char **all = memory_array(used + count + 2, sizeof *all);
    if (words == NULL || all == NULL) {
        return error_no_memory(error, 0, "a command");
    }
    memcpy(all, plan->launcher, used * sizeof *all);
    all[used] = used > 0 ? self : "berth";
    memcpy(all + used + 1, words, (count + 1) * sizeof *all);
    return start(all, used > 0 ? all[0] : self, used, error);
}

// Several commands: a script for the shell, in which berth is this program.
static enum berth_status run_several(const struct compat_plan *plan, const char *self,
                                     struct berth_error *error) {
    struct buffer script DONE_BY(buffer_done) = {0};
    if (launch_find().size > 1) {
        return error_set(error, BERTH_CONFIG,
                         "this command line becomes several commands; print them with `berth as "
                         "--print_command` and start each one with %s",
                         launch_find().launcher->name);
    }
    setenv("BERTH_SELF", self, 1);
    buffer_put_text(&script, "berth() { \"$BERTH_SELF\" \"$@\"; }\n");
    compat_put_commands(&script, plan);
    buffer_put_byte(&script, '\0');
    const char *const words[] = {"sh", "-c", script.bytes, NULL};
    return script.failed ? error_no_memory(error, 0, "a script")
                         : start(words, "/bin/sh", 0, error);
}

static enum berth_status run_plan(struct compat_plan *plan, int prints, struct berth_error *error) {
    char self[4096];
    for (size_t i = 0; i < plan->note_count && cli_reports(); i++) {
        fprintf(stderr, "berth: note: %s\n", plan->notes[i]);
    }
    if (prints) {
        struct buffer text DONE_BY(buffer_done) = {0};
        compat_put_commands(&text, plan);
        return put(&text, error);
    }
    TRY(find_self(self, error));
    if (plan->launcher_count > 0 && geteuid() == 0) { // Open MPI asks for both
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    }
    return plan->command_count == 0   ? BERTH_OK
           : plan->command_count == 1 ? run_one(plan, self, error)
                                      : run_several(plan, self, error);
}

// A script of the package; a file of the user's is the user's to run.
static enum berth_status run_script(size_t count, const char *const *words, int prints,
                                    struct berth_error *error) {
    static const char *const folders[] = {"../share/berth/scripts", "../../deploy/scripts"};
    char self[4096], path[CLI_PATH_SIZE];
    const char *slash = strrchr(words[0], '/'), *name = slash != NULL ? slash + 1 : words[0];
    if (file_exists(words[0])) {
        return error_set(
            error, BERTH_USAGE,
            "%s is a file: run it with `bash %s ...`; `berth as` runs only scripts of its own",
            words[0], words[0]);
    }
    TRY(find_self(self, error));
    if (cli_beside_program(folders, sizeof folders / sizeof *folders, name, path) == NULL) {
        return error_set(error, BERTH_USAGE,
                         "\"%s\": no script of that name is installed (share/berth/scripts); "
                         "`berth as` alone lists the programs",
                         name);
    }
    OWNED const char **all = memory_array(count + 2, sizeof *all);
    if (all == NULL) {
        return error_no_memory(error, 0, "a command");
    }
    all[0] = "bash";
    all[1] = path;
    memcpy(all + 2, words + 1, (count - 1) * sizeof *all);
    all[count + 1] = NULL;
    setenv("BERTH", self, 0);
    if (prints) {
        setenv(PRINT_VARIABLE, "1", 1);
    }
    return start(all, "bash", 0, error);
}

static int asks_for_help(size_t count, const char *const *words) {
    for (size_t i = 1; i < count; i++) {
        if (strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0) {
            return 1;
        }
    }
    return 0;
}

static enum berth_status translate(size_t count, const char *const *words, int prints,
                                   struct berth_error *error) {
    struct compat_plan plan DONE_BY(compat_plan_free);
    TRY(compat_read(&plan, count, words, error));
    return run_plan(&plan, prints, error);
}

// A JSON file as the only argument of the program has its options.
static enum berth_status translate_file(const char *const *words, size_t program, int prints,
                                        struct berth_error *error) {
    int count;
    char **options;
    TRY(cli_read_arguments_file(words[program + 1], &count, &options, error));
    const char **all = cli_own(memory_array(program + 1 + (size_t)count, sizeof *all));
    if (all == NULL) {
        return error_no_memory(error, 0, words[program + 1]);
    }
    memcpy(all, words, (program + 1) * sizeof *all);
    memcpy(all + program + 1, options, (size_t)count * sizeof *all);
    return translate(program + 1 + (size_t)count, all, prints, error);
}

static enum berth_status take(size_t count, const char *const *given, struct berth_error *error) {
    size_t program = 0, kept = 0; // the program's index among the words that are kept
    const char *variable = getenv(PRINT_VARIABLE);
    int prints = variable != NULL && variable[0] != '\0', is_option = 1;
    const char **words = cli_own(memory_array(count + 1, sizeof *words));
    if (words == NULL) {
        return error_no_memory(error, 0, "berth as");
    }
    for (size_t i = 0; i < count; i++) {
        is_option = is_option && strncmp(given[i], "--", 2) == 0;
        if (is_option && (strcmp(given[i], "--print_command") == 0 ||
                          strcmp(given[i], "--print-command") == 0)) {
            prints = 1;
            continue;
        }
        program += is_option;
        words[kept++] = given[i];
    }
    count = kept;
    if (program == count) {
        return error_set(error, BERTH_USAGE,
                         "`berth as` needs the name of a program; `berth as` alone lists them");
    }
    if (compat_is_script(words[program])) {
        return run_script(count - program, words + program, prints, error);
    }
    if (asks_for_help(count - program, words + program)) {
        struct buffer text DONE_BY(buffer_done) = {0};
        TRY(compat_put_help(&text, words[program], error));
        return put(&text, error);
    }
    const int has_file = count == program + 2 && words[program + 1][0] != '-' &&
                         name_has_suffix(words[program + 1], ".json");
    const enum berth_status status = has_file ? translate_file(words, program, prints, error)
                                              : translate(count, words, prints, error);
    cli_free_owned();
    return status;
}

static enum berth_status run_as(struct cli_call *call, struct berth_error *error) {
    (void)call;
    struct buffer text DONE_BY(buffer_done) = {0};
    buffer_put_text(&text,
                    "usage: berth as [--print_command] [--OPTION=VALUE...] PROGRAM ...\n\n"
                    "Put `berth as` in the place of `python` or `bash`. PROGRAM is one of\n");
    compat_put_programs(&text);
    buffer_put_text(&text, "\n`berth as SYSTEM/PROGRAM --help` lists its flags and what each "
                           "becomes.\n");
    return put(&text, error);
}

const struct cli_verb cli_as = {
    .name = "as",
    .summary = "run the command line of another program: berth as run_squad.py ...",
    .usage = "[--print_command] [--OPTION=VALUE...] PROGRAM [ARGUMENT...]",
    .example = "berth as 3_squad_bert_deepspeed.py --deepspeed_config ds_config.json\n"
               "berth as --print_command google/run_squad.py --do_train=True ...\n"
               "berth as habana/run_squad.py --help\n"
               "berth as",
    .notes =
        "Put `berth as` in the place of `python` or `bash`. Only the last part of PROGRAM's path "
        "counts. If several systems have a program of that name, Berth takes the one that has "
        "these flags, or the one that SYSTEM/PROGRAM or BERTH_AS names. --print_command prints the "
        "commands of Berth that would run, and runs nothing. Options of Berth's own precede the "
        "program, as --NAME=VALUE. Alone, the verb lists the programs.",
    .argument_at = compat_program_name,
    .processes = CLI_FIRST,
    .take = take,
    .run = run_as,
};
