// SPDX-License-Identifier: Apache-2.0
// System calls with the test hook (file_fail_at), and their errors: shared by the sources of
// file.h and report's log files.
#ifndef BERTH_CORE_FILE_CALL_H
#define BERTH_CORE_FILE_CALL_H

#include "core/error.h"

#include <errno.h>
#include <stddef.h>

// Counts one call; 1 when the hook makes it fail, with errno set.
int file_call_fails(void);

#define CALL(expression) (file_call_fails() ? -1 : (expression))
// Repeats the call while signals interrupt it.
#define CALL_AGAIN(result, expression)                                                             \
    do {                                                                                           \
        (result) = CALL(expression);                                                               \
    } while ((result) < 0 && errno == EINTR)

// Standard output or standard error, if the shell has already sent it to this file, as with
// /dev/stdout; else -1.
int file_standard_descriptor(const char *path);

// Return -1 and set errno, as the system calls do. Close preserves errno. file_call_sync_folder
// ignores EINVAL and ENOTSUP: some file systems cannot sync a folder.
int file_call_open(const char *path, int flags);
int file_call_sync(int descriptor);
int file_call_sync_folder(int descriptor);
void file_call_close(int descriptor);
// Writes all of it, without the hook; 0, or the errno of the first write that failed.
int file_call_write(int descriptor, const char *bytes, size_t length);

// A missing or unreadable file is BERTH_NO_INPUT; any other failure, such as too many open files,
// is BERTH_IO.
enum berth_status file_cannot_read(const char *path, int errno_value, struct berth_error *error);
// A full or broken disk and too many open files are BERTH_IO; any other failure is
// BERTH_CANT_CREATE.
enum berth_status file_cannot_create(const char *path, int errno_value, struct berth_error *error);

#endif
