// SPDX-License-Identifier: Apache-2.0
// Messages on standard error, exit codes, and input and output of the program. Every verb prints
// notes, warnings and errors through this file, so they have one form, and of several processes
// only the first one speaks. Lines of a running job go through its reporter (report/reporter.c)
// instead.
#include "cli.h"
#include "core/file.h"
#include "core/json_line.h"
#include "core/launcher.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/terminal.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGE_SIZE 4096

static int first_failure; // errno of the first failed write before cli_flush

void cli_flush_early(void) {
    if (fflush(stdout) != 0 && first_failure == 0) {
        first_failure = errno;
    }
}

// `kind` is written unchanged, the message escaped.
static void put_message(const char *kind, const char *message) {
    char shown[MESSAGE_SIZE];
    terminal_escape(shown, sizeof shown, message, "");
    cli_flush_early();
    fprintf(stderr, "berth: %s%s\n", kind, shown);
}

static int is_coloured(void) {
    return terminal_colour(STDERR_FILENO);
}

int cli_reports(void) {
    return launch_find().rank == 0;
}

void cli_plain_message(const char *message) {
    put_message("", message);
}

void cli_error(const char *message) {
    put_message(is_coloured() ? "\033[1;31merror:\033[0m " : "error: ", message);
}

static void put_formatted(const char *kind, const char *format, va_list arguments) {
    char message[1024];
    vsnprintf(message, sizeof message, format, arguments);
    put_message(kind, message);
}

void cli_warning(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (cli_reports()) {
        put_formatted(is_coloured() ? "\033[1;33mwarning:\033[0m " : "warning: ", format,
                      arguments);
    }
    va_end(arguments);
}

void cli_note(const struct cli_call *call, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!call->config.report.quiet && cli_reports()) {
        put_formatted("note: ", format, arguments);
    }
    va_end(arguments);
}

static void write_record(void *context, const struct berth_record *record) {
    const struct cli_call *call = context;
    if (record->kind == BERTH_WARNING) {
        cli_warning("%s", record->text);
    } else if (record->kind == BERTH_NOTE) {
        cli_note(call, "%s", record->text);
    } else if (call->config.report.verbose && log_detail_text(record) != NULL) {
        cli_note(call, "%s", log_detail_text(record));
    }
}

struct berth_log cli_log(struct cli_call *call) {
    return (struct berth_log){.write = write_record, .context = call};
}

enum berth_wish cli_see(void *context, const struct berth_record *record) {
    write_record(context, record);
    return BERTH_CONTINUE;
}

int cli_colour(void) {
    return terminal_colour(STDOUT_FILENO);
}

void cli_forbid_colours(void) {
    setenv("NO_COLOR", "1", 1); // the library's reporter reads it too
}

int cli_exit_code(enum berth_status status) {
    return status == BERTH_NO_MEMORY ? BERTH_INTERNAL : (int)status;
}

// --- input and output ----------------------------------------------------------------------------

#define READ_LIMIT ((size_t)1 << 30)

enum berth_status cli_read(const char *path, char **bytes, size_t *length,
                           struct berth_error *error) {
    if (strcmp(path, "-") == 0) {
        return file_read_stream(STDIN_FILENO, "standard input", READ_LIMIT, bytes, length, error);
    }
    return file_read(path, READ_LIMIT, bytes, length, error);
}

enum berth_status cli_put_json(struct json_line *line, struct berth_error *error) {
    json_line_end(line);
    if (line->failed) {
        return error_no_memory(error, line->capacity, "a line of JSON");
    }
    if (fwrite(line->text, 1, line->length, stdout) < line->length && first_failure == 0) {
        first_failure = errno;
    }
    json_line_clear(line);
    return BERTH_OK;
}

// A stream that failed earlier has no errno; its descriptor may.
static int reader_is_gone(void) {
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

enum berth_status cli_flush(struct berth_error *error) {
    errno = 0;
    int failed = ferror(stdout) | fflush(stdout);
    int reason = errno != 0 ? errno : first_failure;
    if (!failed || reason == EPIPE || (reason == 0 && reader_is_gone())) {
        return BERTH_OK;
    }
    return error_set_errno(error, BERTH_IO, reason != 0 ? reason : EIO,
                           "cannot write to standard output");
}
