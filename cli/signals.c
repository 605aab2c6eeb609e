// SPDX-License-Identifier: Apache-2.0
// Signals while a job runs: ask it to save and stop. Handlers do only what is safe in a handler.
#include "cli.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile int stop;
static const char *what_follows;
static volatile sig_atomic_t first_signal;

static void say(const char *text) {
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

static void on_signal(int number) {
    if (number == SIGINT && first_signal == SIGINT) {
        say("\nberth: stopped at once\n");
        _exit(130); // checkpoints appear under their names only when they are whole
    }
    if (first_signal == 0 || number == SIGINT) {
        first_signal = number;
    }
    stop = 1;
    say(number == SIGINT ? "\nberth: interrupted: " : "\nberth: asked to stop: ");
    say(what_follows);
    say(number == SIGINT ? "; Ctrl-C again stops at once\n" : "\n");
}

const volatile int *cli_stop_on_signals(const char *follows) {
    what_follows = follows;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    return &stop;
}

int cli_signal_exit_code(void) {
    switch (first_signal) {
    case SIGINT:
        return 130;
    case SIGTERM:
        return 143;
    case SIGUSR1:
        return BERTH_INTERRUPTED;
    default:
        return 0;
    }
}
