// SPDX-License-Identifier: Apache-2.0
// Files that grow over several runs, and what else a cache of files needs: atomic symbolic links,
// locks that the caller polls for, free disk space. As in file.h, all of it passes the test hook.
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

// Creates the symbolic link `path` to `target`, atomically replacing an existing entry.
enum berth_status file_link(const char *target, const char *path, struct berth_error *error);

// Locks the file `path` if nobody holds it (*taken is 0 otherwise). Releasing the lock keeps the
// file, as other programs that lock it expect.
enum berth_status file_lock_try(struct file_lock *lock, const char *path, int *taken,
                                struct berth_error *error);
void file_lock_let_go(struct file_lock *lock);

// Whether `path`, with all links resolved, is inside the folder `folder`, or is that folder. 0 when
// either is missing.
int file_lies_in(const char *path, const char *folder);

// `path` with all links resolved, as an absolute path (memory_free); NULL when it does not exist or
// when out of memory.
char *file_resolve(const char *path);

// Detects whether a file has changed. Links are not followed; anything but a regular file is
// BERTH_NO_INPUT.
struct file_stamp {
    uint64_t size, number; // number: the inode
    int64_t modified_ns, changed_ns;
    int is_own; // owned by this user, and not writable by everybody
};
enum berth_status file_stamp_of(const char *path, struct file_stamp *stamp,
                                struct berth_error *error);

// Bytes that may still be written to a folder; UINT64_MAX when unknown.
uint64_t dir_free_bytes(const char *path);

#endif
