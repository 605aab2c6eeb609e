// SPDX-License-Identifier: Apache-2.0
// Files behind one door: the one place that opens, reads, writes, syncs, renames, locks and
// removes.
//
// Nothing half-written is ever left under a final name: a file is written to a temporary name in
// the same folder, synced, and renamed; a folder likewise (dir_publish). A test can make the n-th
// call fail (file_fail_at), as memory.h does for memory.
#ifndef BERTH_CORE_FILE_H
#define BERTH_CORE_FILE_H

#include "core/error.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

// --- reading ------------------------------------------------------------------------------------

// The whole file, newly allocated (memory_free) with a NUL after its *length bytes. A missing file
// is BERTH_NO_INPUT, a file larger than `limit` BERTH_BAD_DATA, a read error and a lack of
// descriptors BERTH_IO. A FIFO that nobody opens for writing within seconds is BERTH_NO_INPUT.
enum berth_status file_read(const char *path, size_t limit, char **bytes, size_t *length,
                            struct berth_error *error);

// A descriptor for reading, from a file of any kind, for the caller to close; errors as file_read.
enum berth_status file_open_stream(const char *path, int *descriptor, struct berth_error *error);
// As file_read, of an open descriptor; `name` is for messages. Reads no further than the first end
// of file, as a terminal has more than one.
enum berth_status file_read_stream(int descriptor, const char *name, size_t limit, char **bytes,
                                   size_t *length, struct berth_error *error);

// A file open for random reading.
struct file_reader {
    int descriptor;
    uint64_t size;
    char *path; // for messages
};
enum berth_status file_reader_open(struct file_reader *reader, const char *path,
                                   struct berth_error *error);
// Exactly `bytes` bytes from `offset`; a short file is BERTH_BAD_DATA.
enum berth_status file_reader_at(const struct file_reader *reader, uint64_t offset, void *to,
                                 size_t bytes, struct berth_error *error);
void file_reader_close(struct file_reader *reader);

// --- writing ------------------------------------------------------------------------------------

// Writes `path` atomically: open makes a temporary file beside it (PATH.PID.N.tmp), commit flushes,
// syncs, renames and syncs the folder, abort (also right after a failure, and harmless after
// commit) removes it. A commit that fails has aborted; PATH is then what it was before, or the
// whole new file when only the folder's sync failed. PATH must be a regular file or not be there.
// Every failure is reported by all later calls too, so a series of puts may be checked at its end.
struct file_writer {
    int descriptor; // -1: not open
    char *path;
    char *temporary;
    char *buffer;
    size_t buffered;
    enum berth_status status; // the first failure
    int errno_value;          // its cause
};
enum berth_status file_writer_open(struct file_writer *writer, const char *path,
                                   struct berth_error *error);
enum berth_status file_writer_put(struct file_writer *writer, const void *bytes, size_t length,
                                  struct berth_error *error);
enum berth_status file_writer_printf(struct file_writer *writer, struct berth_error *error,
                                     const char *format, ...) __attribute__((format(printf, 3, 4)));
enum berth_status file_writer_commit(struct file_writer *writer, struct berth_error *error);
void file_writer_abort(struct file_writer *writer);

// file_writer_open, put and commit in one.
enum berth_status file_write(const char *path, const void *bytes, size_t length,
                             struct berth_error *error);

// A file that several processes fill. One makes it, with its first bytes, the rest zeros; then each
// opens it and writes its own ranges. It gets no other name at the end: it is for a folder that is
// published as a whole (dir_publish), and is removed with that folder where a run is cut off.
struct file_ranges {
    int descriptor; // -1: not open
    char *path;     // for messages
};
enum berth_status file_ranges_make(const char *path, const void *bytes, size_t length,
                                   uint64_t size, struct berth_error *error);
enum berth_status file_ranges_open(struct file_ranges *ranges, const char *path,
                                   struct berth_error *error);
enum berth_status file_ranges_put(struct file_ranges *ranges, uint64_t offset, const void *bytes,
                                  size_t length, struct berth_error *error);
// Syncs and closes, also after a failure, which is `status` then: returns it or its own.
enum berth_status file_ranges_close(struct file_ranges *ranges, enum berth_status status,
                                    struct berth_error *error);

// Whether a file of this name (of its folder, or a path) is one that a writer had not finished when
// it was killed: "NAME.PID.N.tmp".
int file_is_temporary(const char *name);
// Removes a file (or link); fine when it is not there.
enum berth_status file_remove(const char *path, struct berth_error *error);

// --- folders ------------------------------------------------------------------------------------

int file_exists(const char *path);
int dir_exists(const char *path);
// Whether dir_make has a chance, as far as can be told without making anything: the folder, or the
// nearest one above it that is there, must be a folder that may be written into; else
// BERTH_CANT_CREATE.
enum berth_status dir_check(const char *path, struct berth_error *error);
// Makes the folder and its missing parents; fine when it is there and writable, else
// BERTH_CANT_CREATE.
enum berth_status dir_make(const char *path, struct berth_error *error);
// How much of `path`, in bytes, names a folder that is there: to be asked before dir_make, for
// dir_remove_made, which removes the folder and those above it that are longer than `kept` and
// hold nothing.
size_t dir_existing(const char *path);
void dir_remove_made(const char *path, size_t kept);
// Whether the folder has no entries (a missing one counts as empty).
int dir_is_empty(const char *path);
// Removes a folder tree; fine when it is not there. No symlink is followed (links themselves are
// removed), no other file system entered; "", "/", "." and ".." are refused.
enum berth_status dir_remove(const char *path, struct berth_error *error);
// Removes a folder that holds nothing; fine when it is not there. One that is not empty stays:
// BERTH_CANT_CREATE, for what was to take its place.
enum berth_status dir_remove_empty(const char *path, struct berth_error *error);
// Syncs the folder `temporary` and everything in it, renames it to `path` (which must not exist),
// syncs the parent.
enum berth_status dir_publish(const char *temporary, const char *path, struct berth_error *error);
// Syncs the folder that `path` lies in, so that a new name in it lasts.
enum berth_status dir_sync_parent(const char *path, struct berth_error *error);
// Names (not paths) in a folder, sorted, without . and ..; a NULL-terminated array in one block
// (memory_free).
enum berth_status dir_list(const char *path, char ***names, struct berth_error *error);
// "a/b" from "a" and "b"; newly allocated, NULL when memory is out.
char *path_join(const char *folder, const char *name);
// BERTH_NO_MEMORY, for a path that could not be made.
enum berth_status file_no_path(struct berth_error *error);

// --- locks --------------------------------------------------------------------------------------

// Takes the lock file <folder>/.lock for this process. Held by another: BERTH_CANT_CREATE, naming
// its pid and host. A lock left by a dead process is taken over (the kernel drops it).
struct file_lock {
    int descriptor; // -1: not held
    char *path;
};
enum berth_status file_lock_take(struct file_lock *lock, const char *folder,
                                 struct berth_error *error);
// Whether the lock file is still the one that was taken. Where it, or the folder, was removed or
// replaced the lock protects nothing any more: BERTH_IO. To be asked before each write.
enum berth_status file_lock_check(const struct file_lock *lock, struct berth_error *error);
// Removes the lock file, unless it is another's by now.
void file_lock_release(struct file_lock *lock);

// --- test hook ----------------------------------------------------------------------------------

// The `countdown`-th system call of file.c, file_lock.c, file_partial.c and dir.c from now (close,
// stat, poll and access aside) fails with `errno_value`; a countdown of 0 switches the hook off;
// with errno_value < 0 the process is killed (SIGKILL) right before the call. Returns the number of
// calls since the last use.
uint64_t file_fail_at(uint64_t countdown, int errno_value);

#endif
