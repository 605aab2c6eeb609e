// SPDX-License-Identifier: Apache-2.0
// Filters standard output on a terminal: names and texts from files pass through core/terminal.h,
// so that control sequences in them are shown and not executed. main.c turns it on before a verb
// prints anything. Pipes and files get unfiltered output.
#include "cli.h"
#include "core/terminal.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static struct {
    struct terminal_filter filter;
    int is_own; // the output is the program's own
} guard;

static int write_out(const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t written = write(STDOUT_FILENO, bytes, length);
        if (written < 0) {
            return 0;
        }
        bytes += written;
        length -= (size_t)written;
    }
    return 1;
}

static ssize_t take(void *cookie, const char *bytes, size_t length) {
    (void)cookie;
    if (guard.is_own) {
        return write_out(bytes, length) ? (ssize_t)length : 0;
    }
    char shown[4096];
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        used += terminal_filter_put(&guard.filter, bytes[i], shown + used);
        if (used + 2 * TERMINAL_SHOWN > sizeof shown || i + 1 == length) {
            if (!write_out(shown, used)) {
                return 0;
            }
            used = 0;
        }
    }
    return (ssize_t)length;
}

static int finish(void *cookie) {
    (void)cookie;
    char shown[TERMINAL_SHOWN];
    return write_out(shown, terminal_filter_end(&guard.filter, shown)) ? 0 : EOF;
}

// Only glibc lets a program replace stdout. With musl it is linked with --wrap for each name below
// (cli/CMakeLists.txt), so that a use of NAME, here or elsewhere, is one of __wrap_NAME; musl's own
// printf and the like have no variable. musl also writes the first line of a file at once, so that
// the reason of a failure would be lost before cli_flush: here it waits in a buffer, as with glibc.
#ifdef __GLIBC__
static void replace_output(FILE *stream) {
    stdout = stream;
}
#else
extern FILE *const __real_stdout;
FILE *__wrap_stdout;
int __wrap_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
int __wrap_puts(const char *text);
int __wrap_putchar(int byte);

int __wrap_printf(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = vfprintf(__wrap_stdout, format, arguments);
    va_end(arguments);
    return length;
}

int __wrap_puts(const char *text) {
    return fprintf(__wrap_stdout, "%s\n", text);
}

int __wrap_putchar(int byte) {
    return putc(byte, __wrap_stdout);
}

static __attribute__((constructor)) void find_output(void) {
    static char buffer[4096];
    __wrap_stdout = __real_stdout;
    if (!terminal_is(STDOUT_FILENO)) {
        setvbuf(__wrap_stdout, buffer, _IOFBF, sizeof buffer);
    }
}

static void replace_output(FILE *stream) {
    __wrap_stdout = stream;
}
#endif

void cli_guard_output(void) {
    if (!terminal_is(STDOUT_FILENO)) {
        return;
    }
    FILE *guarded = fopencookie(NULL, "w", (cookie_io_functions_t){.write = take, .close = finish});
    if (guarded != NULL) {
        setvbuf(guarded, NULL, _IOLBF, 0);
        replace_output(guarded);
    }
}

void cli_style(const char *sequence) {
    cli_flush_early();
    guard.is_own = 1;
    fputs(sequence, stdout);
    cli_flush_early();
    guard.is_own = 0;
}

const char *cli_escape_name(const char *name) {
    static char shown[4][4096];
    static unsigned turn;
    char *text = shown[turn++ % 4];
    terminal_escape(text, sizeof shown[0], name, "");
    return text;
}
