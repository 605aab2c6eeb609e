// SPDX-License-Identifier: Apache-2.0
// on_terminal COLUMNS COMMAND...: runs a command with standard output and error on a
// pseudo-terminal of that width, copies what it prints to standard output, and exits as it did. The
// text of the variable TYPED, a line and one Ctrl-D, is typed into it.
#include <errno.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static void copy(int terminal) {
    char bytes[4096];
    for (;;) {
        ssize_t got = read(terminal, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return; // EIO: the other side is closed
        }
        fwrite(bytes, 1, (size_t)got, stdout);
    }
}

int main(int count, char **words) {
    if (count < 3) {
        fputs("usage: on_terminal COLUMNS COMMAND...\n", stderr);
        return 2;
    }
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)atoi(words[1])};
    int terminal;
    pid_t child = forkpty(&terminal, NULL, NULL, &size);
    if (child < 0) {
        perror("forkpty");
        return 1;
    }
    if (child == 0) {
        execvp(words[2], words + 2);
        _exit(127);
    }
    const char *typed = getenv("TYPED");
    if (typed != NULL &&
        (write(terminal, typed, strlen(typed)) < 0 || write(terminal, "\n\004", 2) < 0)) {
        perror("typing");
    }
    copy(terminal);
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
