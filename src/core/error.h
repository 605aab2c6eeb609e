// SPDX-License-Identifier: Apache-2.0
// Errors: functions that fill `struct berth_error` (declared in berth.h) and pass it up.
//
// A fallible function returns an `enum berth_status` and takes a `struct berth_error *` that may be
// NULL. The message names the file, the tensor or key, what was expected, what was found and the
// remedy. Nothing here prints or exits.
#ifndef BERTH_CORE_ERROR_H
#define BERTH_CORE_ERROR_H

#include "berth.h"

// Fills `error` (if not NULL) with a formatted message and returns `status`, so that a failing
// function can end in `return error_set(error, BERTH_BAD_DATA, "...")`.
enum berth_status error_set(struct berth_error *error, enum berth_status status, const char *format,
                            ...) __attribute__((format(printf, 3, 4)));

// As error_set, and appends ": " and the text of `errno_value`.
enum berth_status error_set_errno(struct berth_error *error, enum berth_status status,
                                  int errno_value, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Prepends "formatted: " to the message in `error`; returns its code.
enum berth_status error_prefix(struct berth_error *error, enum berth_status status,
                               const char *format, ...) __attribute__((format(printf, 3, 4)));

// As error_set, of a tensor, a key or a line (from 1) of a file: the message begins with
// `FILE: tensor "NAME": `, `FILE: key "NAME": ` or `FILE: line N: `.
enum berth_status error_tensor(struct berth_error *error, enum berth_status status,
                               const char *file, const char *tensor, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
enum berth_status error_key(struct berth_error *error, enum berth_status status, const char *file,
                            const char *key, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
enum berth_status error_line(struct berth_error *error, enum berth_status status, const char *file,
                             size_t line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

// BERTH_OK if the setting is from `low` to `high` (INT64_MAX: any number from `low`), else
// BERTH_USAGE and "SETTING: expected LOW to HIGH, found N".
enum berth_status error_outside(struct berth_error *error, const char *setting, int64_t low,
                                int64_t high, int64_t found);

// Fills `error` (if not NULL) with another error, unless that is BERTH_OK; returns its code.
enum berth_status error_copy(struct berth_error *error, const struct berth_error *other);

// Reports a failed allocation of `bytes` (0: unknown) for `purpose`.
enum berth_status error_no_memory(struct berth_error *error, size_t bytes, const char *purpose);

// Returns from the current function when `call` fails; the callee has filled the error.
#define TRY(call)                                                                                  \
    do {                                                                                           \
        enum berth_status try_status_ = (call);                                                    \
        if (try_status_ != BERTH_OK) {                                                             \
            return try_status_;                                                                    \
        }                                                                                          \
    } while (0)

// Like TRY, but jumps to the label `done` with `status` set, for functions that must clean up.
#define TRY_DONE(call)                                                                             \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != BERTH_OK) {                                                                  \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

#endif
