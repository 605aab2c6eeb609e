// SPDX-License-Identifier: Apache-2.0
// Formatting of errors. Messages that are too long are truncated, after a whole character. They may
// quote untrusted files, so control characters are escaped: they must not reach the terminal.
#include "core/error.h"

#include "core/number.h"
#include "core/terminal.h"
#include "core/utf8.h"

#include <inttypes.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void write_message(struct berth_error *error, enum berth_status status, const char *format,
                          va_list arguments) {
    error->status = status;
    error->input = -1;
    char raw[sizeof error->message]; // a character cut at its end, escaped, would not fit
    number_format_list(raw, sizeof raw, format, arguments);
    terminal_escape(error->message, sizeof error->message, raw, "");
}

// Used in a function whose arguments end with `format, ...`.
#define WRITE_MESSAGE(error, status, format)                                                       \
    do {                                                                                           \
        va_list arguments_;                                                                        \
        va_start(arguments_, format);                                                              \
        write_message(error, status, format, arguments_);                                          \
        va_end(arguments_);                                                                        \
    } while (0)

enum berth_status error_set(struct berth_error *error, enum berth_status status, const char *format,
                            ...) {
    if (error != NULL) {
        WRITE_MESSAGE(error, status, format);
    }
    return status;
}

// Appends ": " and the text.
static void append(struct berth_error *error, const char *text) {
    const size_t used = strlen(error->message) + 2;
    if (used < sizeof error->message) {
        const size_t left = sizeof error->message - used - 1;
        snprintf(error->message + used - 2, left + 3, ": %.*s", UTF8_SHOWN(text, left));
    }
}

enum berth_status error_set_errno(struct berth_error *error, enum berth_status status,
                                  int errno_value, const char *format, ...) {
    if (error != NULL) {
        WRITE_MESSAGE(error, status, format);
        // In plain ASCII, whatever the locale of the program that calls the library.
        const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        if (plain != (locale_t)0) {
            append(error, strerror_l(errno_value, plain));
            freelocale(plain);
        }
    }
    return status;
}

enum berth_status error_prefix(struct berth_error *error, enum berth_status status,
                               const char *format, ...) {
    if (error != NULL) {
        char old_message[sizeof error->message];
        memcpy(old_message, error->message, sizeof old_message);
        WRITE_MESSAGE(error, status, format);
        append(error, old_message);
    }
    return status;
}

enum berth_status error_tensor(struct berth_error *error, enum berth_status status,
                               const char *file, const char *tensor, const char *format, ...) {
    if (error != NULL) {
        WRITE_MESSAGE(error, status, format);
    }
    return error_prefix(error, status, "%s: tensor \"%s\"", file, tensor);
}

enum berth_status error_key(struct berth_error *error, enum berth_status status, const char *file,
                            const char *key, const char *format, ...) {
    if (error != NULL) {
        WRITE_MESSAGE(error, status, format);
    }
    return error_prefix(error, status, "%s: key \"%s\"", file, key);
}

enum berth_status error_line(struct berth_error *error, enum berth_status status, const char *file,
                             size_t line, const char *format, ...) {
    if (error != NULL) {
        WRITE_MESSAGE(error, status, format);
    }
    return error_prefix(error, status, "%s: line %zu", file, line);
}

enum berth_status error_outside(struct berth_error *error, const char *setting, int64_t low,
                                int64_t high, int64_t found) {
    return found >= low && found <= high ? BERTH_OK
           : high == INT64_MAX
               ? error_set(error, BERTH_USAGE, "%s: expected at least %" PRId64 ", found %" PRId64,
                           setting, low, found)
               : error_set(error, BERTH_USAGE,
                           "%s: expected %" PRId64 " to %" PRId64 ", found %" PRId64, setting, low,
                           high, found);
}

enum berth_status error_copy(struct berth_error *error, const struct berth_error *other) {
    if (error != NULL && other->status != BERTH_OK) {
        *error = *other;
    }
    return other->status;
}

enum berth_status error_no_memory(struct berth_error *error, size_t bytes, const char *purpose) {
    return bytes == 0 ? error_set(error, BERTH_NO_MEMORY, "out of memory for %s", purpose)
                      : error_set(error, BERTH_NO_MEMORY, "out of memory: %zu bytes for %s", bytes,
                                  purpose);
}
