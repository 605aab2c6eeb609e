// SPDX-License-Identifier: Apache-2.0
// Signals during a job: they request a save and a stop, by a flag that the job looks at between
// updates or texts (cli_stop_on_signals); before a job with files has begun its work, when there is
// nothing to save, they end the program at once. Handlers do only what is safe in a handler; main.c
// turns the signal that came into the exit code.
#include "cli.h"
#include "core/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

// Closing the terminal and exceeding the processor-time limit also request a stop.
static const struct {
    int number, exit_code;
    int may_be_ignored; // nohup ignores it deliberately
} signals[] = {{SIGINT, 130, 0},
               {SIGTERM, 143, 0},
               {SIGUSR1, BERTH_INTERRUPTED, 0},
               {SIGHUP, 129, 1},
               {SIGXCPU, 152, 0}};
#define SIGNAL_COUNT (sizeof signals / sizeof *signals)

static atomic_int stop;
static const char *what_follows; // NULL: another process of the job says it
static volatile sig_atomic_t first_signal;
static volatile sig_atomic_t is_preparing; // there is nothing to save yet, and nobody to tell

// Keeps errno, which belongs to the code that was interrupted.
static void say(const char *text) {
    const int kept = errno;
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
    errno = kept;
}

static void on_signal(int number) {
    if (number == SIGINT && first_signal == SIGINT) {
        say(what_follows != NULL ? "\nberth: stopped immediately\n" : "");
        _exit(130); // checkpoints get their final names only when they are complete
    }
    if (first_signal == 0 || number == SIGINT) {
        first_signal = number;
    }
    if (is_preparing) {
        say("\nberth: stopped before any work was done\n");
        _exit(cli_signal_exit_code());
    }
    stop = STOP_AND_SAVE;
    if (what_follows == NULL) {
        return;
    }
    say(number == SIGINT ? "\nberth: interrupted: " : "\nberth: stop requested: ");
    say(what_follows);
    say(number == SIGINT ? "; Ctrl-C again stops immediately\n" : "\n");
}

const atomic_int *cli_stop_on_signals(const char *follows) {
    what_follows = cli_reports() ? follows : NULL;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        struct sigaction before;
        sigaction(signals[i].number, NULL, &before);
        if (!signals[i].may_be_ignored || before.sa_handler != SIG_IGN) {
            sigaction(signals[i].number, &action, NULL);
        }
    }
    return &stop;
}

void cli_set_preparing(int preparing) {
    is_preparing = preparing;
}

int cli_signal_exit_code(void) {
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        if (signals[i].number == first_signal) {
            return signals[i].exit_code;
        }
    }
    return 0;
}
