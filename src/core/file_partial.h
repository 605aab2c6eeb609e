// SPDX-License-Identifier: Apache-2.0
// Files that grow over several runs, for downloads that are continued. As in file.h, every system
// call passes the test hook. Files that are written in one go are file_writer.c's.
#ifndef BERTH_CORE_FILE_PARTIAL_H
#define BERTH_CORE_FILE_PARTIAL_H

#include "core/error.h"
#include "core/file.h"

#include <stddef.h>
#include <stdint.h>

// A file that is appended to until it is complete; an interrupted run leaves its bytes for the next
// one. The final name does not exist before file_partial_publish.
struct file_partial {
    int descriptor; // -1: not open
    uint64_t size;  // bytes in it
    char *path;
};
// Opens or creates it; anything but a regular file (a link, too) is BERTH_CANT_CREATE.
enum berth_status file_partial_open(struct file_partial *partial, const char *path,
                                    struct berth_error *error);
// Appends. A full disk is BERTH_IO; `size` counts the bytes written.
enum berth_status file_partial_put(struct file_partial *partial, const void *bytes, size_t length,
                                   struct berth_error *error);
// Truncates it to no bytes.
enum berth_status file_partial_restart(struct file_partial *partial, struct berth_error *error);
// Syncs, renames to `path`, syncs the folder, closes. After a failure the partial file is still
// open, or complete at `path` when only the folder's sync failed.
enum berth_status file_partial_publish(struct file_partial *partial, const char *path,
                                       struct berth_error *error);
// Closes it and keeps the file. Closing twice is allowed.
void file_partial_close(struct file_partial *partial);

#endif
