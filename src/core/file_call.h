// SPDX-License-Identifier: Apache-2.0
// What file.c, file_lock.c, file_partial.c, dir.c and report's log files share: system calls behind
// the test hook (file_fail_at), and their errors.
#ifndef BERTH_CORE_FILE_CALL_H
#define BERTH_CORE_FILE_CALL_H

#include "core/error.h"

#include <errno.h>

// Counts one call; 1 when the hook makes it fail, with errno set.
int file_call_fails(void);

#define CALL(expression) (file_call_fails() ? -1 : (expression))
// Repeats while a signal interrupts.
#define CALL_AGAIN(result, expression)                                                             \
    do {                                                                                           \
        (result) = CALL(expression);                                                               \
    } while ((result) < 0 && errno == EINTR)

// -1 with errno, as the calls they stand for. Close keeps errno. Some file systems have nothing to
// sync in a folder and say so: that is no failure.
int file_call_open(const char *path, int flags);
int file_call_sync(int descriptor);
int file_call_sync_folder(int descriptor);
void file_call_close(int descriptor);

// The folder that `path` lies in, newly allocated: "." for a bare name. NULL: out of memory.
char *file_parent(const char *path);

// What is not there, or may not be read, is BERTH_NO_INPUT; any other failure, a lack of
// descriptors among them, is BERTH_IO.
enum berth_status file_cannot_read(const char *path, int errno_value, struct berth_error *error);
// A full or broken disk and a lack of descriptors are BERTH_IO; any other refusal is
// BERTH_CANT_CREATE.
enum berth_status file_cannot_create(const char *path, int errno_value, struct berth_error *error);

#endif
