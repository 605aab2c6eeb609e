// SPDX-License-Identifier: Apache-2.0
// The program `berth`: finds the verb that the words name (verbs.c), parses its words
// (arguments.c), finds the models and data that they name (find_files.c), runs the verb, and turns
// its status into an exit code. The verbs of tasks are rows of tasks.c and run_options.c, those of
// jobs of jobs.c; each other verb has a file of its own, which is all that knows what it does.
#include "cli.h"
#include "comm/comm.h"
#include "core/launcher.h"
#include "core/terminal.h"
#include "core/utf8.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_SECONDS 300 // the default of --start_timeout

static int is_help(const char *word) {
    return strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0;
}

static int is_version(const char *word) {
    static const char *const words[] = {"--version", "version", "-V", "-v"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

// --help counts anywhere before "--"; *topic gets the word after it or after its "=", NULL where
// there is none.
static int asks_for_help(int count, char **words, const char **topic) {
    static const char with_topic[] = "--help=";
    const size_t length = sizeof with_topic - 1;
    for (int i = 0; i < count && strcmp(words[i], "--") != 0; i++) {
        if (strncmp(words[i], with_topic, length) == 0) {
            *topic = words[i] + length;
            return 1;
        }
        if (is_help(words[i])) {
            *topic = i + 1 < count && words[i + 1][0] != '-' ? words[i + 1] : NULL;
            return 1;
        }
    }
    return 0;
}

// Prints the error, unless another process does, and returns the exit code. Several processes all
// exit with the same code, whichever of them got the signal.
static int finish(enum berth_status status, struct berth_error *error) {
    if (status == BERTH_OK) {
        status = cli_flush(error);
    }
    if (status == BERTH_INTERRUPTED) {
        const int code = cli_signal_exit_code();
        if (cli_reports() && error->message[0] != '\0') {
            cli_plain_message(error->message); // requested, so not an error
        }
        return code != 0 && launch_find().size <= 1 ? code : BERTH_INTERRUPTED;
    }
    // The processes agree on an error (comm/comm.h), which is empty in all but one; if they could
    // not, because none had opened a communicator, they probably have the same words.
    const int is_reported_elsewhere =
        error->message[0] == '\0' ||
        (status == BERTH_USAGE && !cli_reports() && !comm_was_opened());
    if (status != BERTH_OK && !is_reported_elsewhere) {
        cli_error(error->message);
    }
    return cli_exit_code(status);
}

// For a verb of several tasks that got no word: prints a line for each of them.
static void print_tasks(const char *name) {
    const struct cli_verb *verb;
    fprintf(stderr, "usage: berth %s TASK [options]\n\n", name);
    for (size_t i = 0; (verb = cli_verb_at(i)) != NULL; i++) {
        if (strcmp(name, verb->name) == 0 && !cli_shares_words(verb)) {
            const int used = fprintf(stderr, "  %-10s", verb->task);
            cli_wrap(stderr, verb->summary, terminal_width(STDERR_FILENO), used, used);
        }
    }
    fprintf(stderr, "\nSee `berth %s TASK --help`.\n", name);
}

static enum berth_status skip_task(const struct cli_verb *verb, int *count, char ***words,
                                   struct berth_error *error) {
    if (verb->task == NULL) {
        return BERTH_OK;
    }
    if (*count == 0 || !cli_is_task(verb, (*words)[0])) {
        int other = *count > 0 && (*words)[0][0] != '-'; // a word that is not a task
        char tasks[128];
        cli_list_tasks(verb->name, tasks, sizeof tasks);
        if (*count == 0 && strchr(tasks, ' ') != NULL && cli_reports()) {
            print_tasks(verb->name);
        }
        return error_set(error, BERTH_USAGE,
                         "`berth %s` needs a task (%s)%s%.*s%s: berth %s %s %.*s", verb->name,
                         tasks, other ? ", found \"" : "", UTF8_SHOWN(other ? (*words)[0] : "", 40),
                         other ? "\"" : "", verb->name, verb->task, (int)strcspn(verb->usage, "\n"),
                         verb->usage);
    }
    --*count;
    ++*words;
    return BERTH_OK;
}

// For a verb that needs words and got none: prints its usage.
static enum berth_status report_missing_words(const struct cli_verb *verb,
                                              struct berth_error *error) {
    const char *space = verb->task != NULL ? " " : "", *task = verb->task != NULL ? verb->task : "";
    if (cli_reports()) {
        const char *before = "usage:";
        struct cli_line line = {.next = verb->usage}; // each is a command
        for (; cli_next_line(&line); before = "      ") {
            fprintf(stderr, "%s berth %s%s%s %.*s\n", before, verb->name, space, task,
                    (int)line.length, line.text);
        }
        fprintf(stderr, "\n%s\n\nSee `berth %s%s%s --help`.\n", verb->example, verb->name, space,
                task);
    }
    return error_set(error, BERTH_USAGE, "`berth %s%s%s` needs %s", verb->name, space, task,
                     verb->arguments_min > 0 ? "arguments" : "options");
}

// A model that cannot be found is reported only when the verb needs it, after errors in its
// options.
static enum berth_status run_with_models(struct cli_call *call, struct berth_error *error) {
    struct berth_error missing;
    enum berth_status found = cli_find_files(call, &missing);
    if (found != BERTH_OK && found != BERTH_NO_INPUT) {
        return error_set(error, found, "%s", missing.message);
    }
    enum berth_status status = call->verb->run(call, error);
    return found != BERTH_OK && status == BERTH_NO_INPUT && error->message[0] != '\0'
               ? error_set(error, found, "%s", missing.message)
               : status;
}

// Runs the verb, unless it was started as one of several processes and does its work in the first
// one only, or refuses: processes would each do all of the work and overwrite each other's files.
static enum berth_status run_parsed(struct cli_call *call, struct berth_error *error) {
    const struct cli_verb *verb = call->verb;
    const struct launch launch = launch_find();
    const enum cli_processes processes =
        verb->processes_of != NULL ? verb->processes_of(call) : verb->processes;
    const int runs_in_each = processes == CLI_EACH || processes == CLI_DIVIDED;
    if (launch.size > 1 && !runs_in_each) {
        if (processes == CLI_ALONE || !launch.is_numbered) {
            return !cli_reports()
                       ? error_set(error, BERTH_CONFIG, "%s", "")
                       : error_set(error, BERTH_CONFIG,
                                   "started as process %" PRId64 " of %" PRId64
                                   " by %s (%s is %s), but `berth %s` is one process, which uses "
                                   "all cores: %s",
                                   launch.rank + 1, launch.size, launch.launcher->name,
                                   launch.variable, getenv(launch.variable), verb->name,
                                   launch.launcher->alone);
        }
        cli_note(call,
                 "started as %" PRId64 " processes by %s: `berth %s` runs in the first one only",
                 launch.size, launch.launcher->name, verb->name);
    }
    if (launch_is_parallel(&launch) && processes == CLI_DIVIDED) {
        TRY(comm_expect((double)call->config.machine.start_timeout, error));
    } else {
        comm_expect_none(); // this process will not connect to the others
    }
    return launch.size <= 1 || runs_in_each || launch.rank == 0 ? run_with_models(call, error)
                                                                : BERTH_OK;
}

// Makes the processes agree on an error in the words, which may be those of one process alone: the
// others open the communicator for their work.
static enum berth_status agree_on_words(const struct cli_call *call, enum berth_status status,
                                        struct berth_error *error) {
    const struct comm_options options = {
        .name = "auto",
        .timeout_seconds = (double)call->config.machine.comm_timeout,
        .start_timeout_seconds = (double)call->config.machine.start_timeout};
    struct comm *comm;
    if (status != BERTH_USAGE || call->verb->processes != CLI_DIVIDED || launch_find().size <= 1 ||
        comm_was_opened() || comm_open(&options, &comm, &(struct berth_error){0}) != BERTH_OK) {
        return status;
    }
    status = comm_settle(comm, status, error);
    comm->close(comm);
    return status;
}

// Runs the verb with the words after it.
static enum berth_status run_verb(const struct cli_verb *verb, int count, char **words,
                                  struct berth_error *error) {
    static struct cli_call call; // static because it is large: it holds a path
    TRY(skip_task(verb, &count, &words, error));
    if (count == 0 && (verb->required != NULL || verb->arguments_min > 0)) {
        return report_missing_words(verb, error);
    }
    enum berth_status status = cli_parse(&call, verb, count, words, error);
    if (status == BERTH_OK) {
        status = run_parsed(&call, error);
    }
    status = agree_on_words(&call, status, error);
    cli_free_owned();
    return status;
}

static enum berth_status run_command_line(int count, char **words, struct berth_error *error) {
    const char *topic;
    if (is_version(words[0])) {
        printf("berth %s\n", berth_version());
        return BERTH_OK;
    }
    if (is_help(words[0])) {
        cli_help_program(stdout);
        return BERTH_OK;
    }
    const char *const *read = (const char *const *)words;
    if (strcmp(words[0], CLI_COMPLETE) == 0) {
        return cli_complete((size_t)count - 1, read + 1, error);
    }
    const struct cli_verb *verb =
        cli_find_verb(words[0], count > 1 ? words[1] : NULL, cli_objective_of((size_t)count, read));
    if (verb == NULL) {
        return cli_unknown_word("verb", words[0], error);
    }
    if (verb->take != NULL && count > 1 && !is_help(words[1])) {
        return verb->take((size_t)count - 1, read + 1, error);
    }
    return asks_for_help(count - 1, words + 1, &topic)
               ? cli_help_verb(verb, topic, error)
               : run_verb(verb, count - 1, words + 1, error);
}

int main(int count, char **words) {
    struct berth_error error = {.status = BERTH_OK};
    cli_spin_briefly(words);
    cli_use_verbs(cli_list_verbs());
    const struct launch launch = launch_find();
    if (launch_is_parallel(&launch) && // until the words are read, and with them --start_timeout
        comm_expect(START_SECONDS, &error) != BERTH_OK) {
        return finish(error.status, &error);
    }
    cli_guard_output();
    signal(SIGPIPE, SIG_IGN); // a closed pipe is detected when writing (cli_flush)
    signal(SIGXFSZ, SIG_IGN); // so is a file that exceeds its size limit
    while (count > 1 &&
           (strcmp(words[1], "--no-color") == 0 || strcmp(words[1], "--no_color") == 0)) {
        cli_forbid_colours();
        count--;
        words++;
    }
    if (count < 2) {
        cli_help_program(stderr);
        return BERTH_USAGE;
    }
    return finish(run_command_line(count - 1, words + 1, &error), &error);
}
