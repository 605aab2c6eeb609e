// SPDX-License-Identifier: Apache-2.0
// Files that grow over several runs, and what a cache of files needs besides: links that appear at
// once, locks that are waited for, room on the disk. All behind the same door as file.h.
#ifndef BERTH_CORE_FILE_PARTIAL_H
#define BERTH_CORE_FILE_PARTIAL_H

#include "core/error.h"
#include "core/file.h"

#include <stddef.h>
#include <stdint.h>

// A file that is appended to until it is whole; what was written stays behind for the next run.
// Readers never see it under its final name before file_partial_publish.
struct file_partial {
    int descriptor; // -1: not open
    uint64_t size;  // bytes that stand in it
    char *path;
};
// Opens or makes it; a link or anything but a regular file is BERTH_CANT_CREATE.
enum berth_status file_partial_open(struct file_partial *partial, const char *path,
                                    struct berth_error *error);
// Appends. A full disk is BERTH_IO; `size` counts what did go in.
enum berth_status file_partial_put(struct file_partial *partial, const void *bytes, size_t length,
                                   struct berth_error *error);
// Throws its content away.
enum berth_status file_partial_restart(struct file_partial *partial, struct berth_error *error);
// Syncs, renames to `path`, syncs the folder, closes. After a failure the partial file is still
// open, or stands whole at `path` when only the folder's sync failed.
enum berth_status file_partial_publish(struct file_partial *partial, const char *path,
                                       struct berth_error *error);
// The file stays. Closing twice is fine.
void file_partial_close(struct file_partial *partial);

// Makes the symbolic link `path` to `target`, in place of what stood there, in one step.
enum berth_status file_link(const char *target, const char *path, struct berth_error *error);

// Takes the lock file `path` if nobody holds it (*taken is 0 otherwise). It stays behind when it is
// let go, as other programs that lock the same file expect.
enum berth_status file_lock_try(struct file_lock *lock, const char *path, int *taken,
                                struct berth_error *error);
void file_lock_let_go(struct file_lock *lock);

// Whether `path`, all links followed, lies in the folder `folder`, or is it. 0 when either is not
// there.
int file_lies_in(const char *path, const char *folder);

// The file that `path` leads to, all links followed, as an absolute path (memory_free); NULL when
// there is none or memory is out.
char *file_resolve(const char *path);

// What tells whether a file has changed. Links are not followed; anything but a regular file is
// BERTH_NO_INPUT.
struct file_stamp {
    uint64_t size, number; // number: the file's in its file system
    int64_t modified_ns, changed_ns;
    int is_own; // this user's, and nobody else may write it
};
enum berth_status file_stamp_of(const char *path, struct file_stamp *stamp,
                                struct berth_error *error);

// Bytes that may still be written in a folder; UINT64_MAX when the system does not tell.
uint64_t dir_free_bytes(const char *path);

#endif
