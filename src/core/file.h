// SPDX-License-Identifier: Apache-2.0
// Files: all code opens, reads, writes, syncs, renames, locks and removes them through these
// functions.
//
// A final name never refers to a half-written file: a file is written under a temporary name in the
// same folder, synced and renamed; so is a folder (dir_publish). A test can make the n-th call fail
// (file_fail_at), as in memory.h.
#ifndef BERTH_CORE_FILE_H
#define BERTH_CORE_FILE_H

#include "core/error.h"

#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

// --- paths --------------------------------------------------------------------------------------

// A path as a value: it needs no memory, and nothing frees it. A call such as
// file_exists(path_in(folder, name).text) is valid; a pointer to such a text is not valid after the
// statement. A path that is longer than the system allows is cut to a length that the system
// refuses too, so it never names another file. Each value takes 4 KB: recursive functions and long
// arrays use path_join instead.
struct path {
    char text[PATH_MAX + 1];
};
// FOLDER/NAME; NAME if the folder is "".
struct path path_in(const char *folder, const char *name);
// Formats a path as snprintf does.
struct path path_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
// The folder that `path` is in: "." for a bare name. A path that is too long remains so.
struct path path_parent(const char *path);
// The last part of `path`, in it: "" if it ends in a slash. path_name_trimmed leaves out final
// slashes: `*length` bytes, 0 for the root.
const char *path_name(const char *path);
const char *path_name_trimmed(const char *path, size_t *length);
// The length of `path` without final slashes, but with the root's.
size_t path_length(const char *path);
// The length of the parent folder of path[0, length); 0 for a bare name.
size_t path_parent_length(const char *path, size_t length);
// path_in and path_parent, newly allocated, for a struct that keeps the path; NULL when out of
// memory.
char *path_join(const char *folder, const char *name);
char *file_parent(const char *path);

// --- reading ------------------------------------------------------------------------------------

// Reads the whole file, newly allocated (memory_free) with a NUL after its *length bytes. Errors:
// missing file, or a FIFO without a writer after some seconds (BERTH_NO_INPUT); larger than `limit`
// or a pointer of Git LFS (BERTH_BAD_DATA); read error or too many open files (BERTH_IO).
enum berth_status file_read(const char *path, size_t limit, char **bytes, size_t *length,
                            struct berth_error *error);

// Opens a file of any kind for reading; the caller closes the descriptor. Errors as file_read.
enum berth_status file_open_stream(const char *path, int *descriptor, struct berth_error *error);
// As file_read, from an open descriptor; `name` is for messages. Stops at the first end of file (a
// terminal can have several).
enum berth_status file_read_stream(int descriptor, const char *name, size_t limit, char **bytes,
                                   size_t *length, struct berth_error *error);

// A file open for random reading.
struct file_reader {
    int descriptor;
    uint64_t size;
    char *path; // for messages
};
// Refuses a pointer of Git LFS, as file_read does.
enum berth_status file_reader_open(struct file_reader *reader, const char *path,
                                   struct berth_error *error);
// Reads exactly `bytes` bytes at `offset`; a truncated file is BERTH_BAD_DATA.
enum berth_status file_reader_at(const struct file_reader *reader, uint64_t offset, void *to,
                                 size_t bytes, struct berth_error *error);
void file_reader_close(struct file_reader *reader);

// Bytes of a file where they are, also after its reader is closed. Whoever shortens the file
// meanwhile ends the process.
struct file_mapping {
    const void *bytes;
    void *pages;
    size_t length; // of the pages
};
// 0: this file cannot be mapped, so that it has to be read.
int file_map(const struct file_reader *reader, uint64_t offset, size_t bytes,
             struct file_mapping *mapping);
// Returns its memory until the bytes are used again.
void file_map_rest(const struct file_mapping *mapping);
void file_unmap(struct file_mapping *mapping);

// The result of a function that tries to recognise a file and got `status` with the error `own`:
// BERTH_OK if the file is absent or something else. A read error and a lack of memory, which say
// nothing about the file, are passed on.
enum berth_status file_probe(enum berth_status status, const struct berth_error *own,
                             struct berth_error *error);

// How many descriptors this process may have open at a time; SIZE_MAX: any number. A program, not
// the library, may raise the limit to the most that the system allows it.
size_t file_limit(void);
void file_limit_raise(void);

// --- writing ------------------------------------------------------------------------------------

// Writes `path` atomically: open creates a temporary file next to it (PATH.PID.N.tmp); commit
// flushes, syncs, renames and syncs the folder; abort removes it (allowed after any failure and
// after commit). A commit that fails aborts; PATH is then unchanged, or the complete new file when
// only the folder's sync failed. PATH must be a regular file or not exist. All later calls repeat
// the first failure, so a series of puts may be checked at its end.
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
// The same for FOLDER/NAME.
enum berth_status file_writer_open_in(struct file_writer *writer, const char *folder,
                                      const char *name, struct berth_error *error);
enum berth_status file_writer_put(struct file_writer *writer, const void *bytes, size_t length,
                                  struct berth_error *error);
enum berth_status file_writer_printf(struct file_writer *writer, struct berth_error *error,
                                     const char *format, ...) __attribute__((format(printf, 3, 4)));
enum berth_status file_writer_commit(struct file_writer *writer, struct berth_error *error);
// Commits files of one folder together (count > 0): each is complete on the disk before the first
// is renamed, so a full disk changes none of them.
enum berth_status file_writer_commit_all(struct file_writer *writers, size_t count,
                                         struct berth_error *error);
void file_writer_abort(struct file_writer *writer);

// file_writer_open, put and commit in one.
enum berth_status file_write(const char *path, const void *bytes, size_t length,
                             struct berth_error *error);

// Writes a copy of the regular file `from`, of any size.
enum berth_status file_copy(const char *from, const char *path, struct berth_error *error);

// A file that several processes write. One creates it with its first bytes and zeros after them;
// then each opens it and writes its own ranges. It is not renamed at the end: it must be in a
// folder that is published as a whole (dir_publish) or whose files are moved out of it
// (file_publish), and that is removed if the run is interrupted.
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
// Syncs and closes. The caller passes an earlier failure as `status`; the file is then only closed,
// and that failure is returned.
enum berth_status file_ranges_close(struct file_ranges *ranges, enum berth_status status,
                                    struct berth_error *error);

// Renames a synced file to `path`, replacing an existing one, and syncs the folder.
enum berth_status file_publish(const char *temporary, const char *path, struct berth_error *error);

// Whether the name or path is that of a file_writer's temporary file, "NAME.PID.N.tmp".
int file_is_temporary(const char *name);
// Removes a file or link; a missing one is no error.
enum berth_status file_remove(const char *path, struct berth_error *error);

// --- folders ------------------------------------------------------------------------------------

int file_exists(const char *path);
int dir_exists(const char *path);
// Whether `path` itself is a symbolic link, wherever it leads.
int path_is_link(const char *path);
// Whether `path` leads to a FIFO, such as a shell's <(command), which can be read only once.
int path_is_fifo(const char *path);
// BERTH_OK if `path` names a file, a folder, or either. Otherwise an error, usually BERTH_NO_INPUT,
// that says what was found (nothing, the other type, or a path that cannot be searched) and
// `expected`.
enum berth_status file_require(const char *path, const char *expected, struct berth_error *error);
enum berth_status dir_require(const char *path, const char *expected, struct berth_error *error);
enum berth_status path_require(const char *path, const char *expected, struct berth_error *error);
// Checks, without creating anything, whether dir_make is likely to succeed: the folder, or its
// nearest existing ancestor, must be a writable folder; else BERTH_CANT_CREATE.
enum berth_status dir_check(const char *path, struct berth_error *error);
// BERTH_CANT_CREATE if `output` names the same file as `input`, which would be lost.
enum berth_status file_check_output(const char *output, const char *input,
                                    struct berth_error *error);
// A kind of output file, recognised by how it begins. An output may replace a file of its own kind.
struct file_kind {
    const char *name;              // "a report of Berth"
    const char *const *beginnings; // every such file begins with one of them; NULL-terminated
};
// BERTH_CANT_CREATE if `path` is a regular file that has bytes and is not of this kind.
enum berth_status file_check_kind(const char *path, const struct file_kind *kind,
                                  struct berth_error *error);
// Creates the folder and its missing parents. An existing writable folder is no error; other
// failures are BERTH_CANT_CREATE.
enum berth_status dir_make(const char *path, struct berth_error *error);
// dir_make of the folder that `path` is in.
enum berth_status dir_make_parent(const char *path, struct berth_error *error);
// Creates a new folder PATH.PID.N.tmp, and missing parents, for dir_publish; *temporary is its
// path, "" after a failure. A folder that a process with the same pid, dead or on another host, has
// left is not used.
enum berth_status dir_make_temporary(const char *path, struct path *temporary,
                                     struct berth_error *error);
// Undoes dir_make. dir_existing, called before it, returns the length of the longest prefix of
// `path` that is an existing folder. dir_remove_created gets it as `kept` and removes the folder
// and those parents whose paths are longer, as long as they are empty.
size_t dir_existing(const char *path);
void dir_remove_created(const char *path, size_t kept);
// Whether the folder is empty or missing.
int dir_is_empty(const char *path);
// Removes a folder tree; a missing one is no error. Does not follow symbolic links (it removes the
// links) or enter other file systems; refuses "", "/", "." and "..".
enum berth_status dir_remove(const char *path, struct berth_error *error);
// Removes an empty folder; a missing one is no error. A folder that is not empty is
// BERTH_CANT_CREATE, because the caller wants to create something under its name.
enum berth_status dir_remove_empty(const char *path, struct berth_error *error);
// Syncs the folder `temporary` and everything in it, renames it to `path` (which must not exist),
// syncs the parent.
enum berth_status dir_publish(const char *temporary, const char *path, struct berth_error *error);
// Renames a file, a folder or a link (not its target) to `path`, which must not exist, and syncs
// the parent of `path`.
enum berth_status path_rename(const char *from, const char *path, struct berth_error *error);
// Syncs the parent folder of `path`, so that a new name in it survives a crash.
enum berth_status dir_sync_parent(const char *path, struct berth_error *error);
// Bytes that may still be written to a folder; UINT64_MAX when unknown.
uint64_t dir_free_bytes(const char *path);
// Names (not paths) in a folder, sorted, without . and ..; a NULL-terminated array in one block
// (memory_free).
enum berth_status dir_list(const char *path, char ***names, struct berth_error *error);
// Calls `visit` for each entry of a folder, sorted by name, until it fails.
typedef enum berth_status dir_visit(const char *path, void *context, struct berth_error *error);
enum berth_status dir_each(const char *folder, dir_visit *visit, void *context,
                           struct berth_error *error);
// Splits a list of paths separated by commas into a NULL-terminated array in one block
// (memory_free). If the whole list is the name of a file or folder, it is one path. An empty path
// is BERTH_USAGE. path_expand also replaces each pattern (glob(7)) that is not itself an existing
// path by the sorted paths that match it, possibly none.
enum berth_status path_split(const char *list, char ***paths, struct berth_error *error);
enum berth_status path_expand(const char *list, char ***paths, struct berth_error *error);

// --- links --------------------------------------------------------------------------------------

// Creates the symbolic link `path` to `target`, atomically replacing an existing entry.
enum berth_status file_link(const char *target, const char *path, struct berth_error *error);

// Whether `path`, with all links resolved, is inside the folder `folder`, or is that folder. 0 when
// either is missing.
int path_is_inside(const char *path, const char *folder);

// `path` with all links resolved, as an absolute path (memory_free); NULL when it does not exist or
// when out of memory.
char *file_resolve(const char *path);
// Whether two paths name the same file, which need not exist.
int path_is_same(const char *first, const char *second);

// Detects whether a file has changed. Links are not followed; anything but a regular file is
// BERTH_NO_INPUT.
struct file_stamp {
    uint64_t size, number; // number: the inode
    int64_t modified_ns, changed_ns;
    int is_own; // owned by this user, and not writable by everybody
};
enum berth_status file_stamp_of(const char *path, struct file_stamp *stamp,
                                struct berth_error *error);

// --- locks --------------------------------------------------------------------------------------

// Acquires the lock file <folder>/.lock for this process. BERTH_CANT_CREATE when another process
// holds it, with that process's pid and host in the message. The kernel releases the lock of a dead
// process, so the next one gets it.
struct file_lock {
    int descriptor; // -1: not held
    char *path;
    int unsupported; // held, but the file system has no locks: it keeps no other process away
};
enum berth_status file_lock_acquire(struct file_lock *lock, const char *folder,
                                    struct berth_error *error);
// BERTH_IO when the lock file or its folder was removed or replaced: the lock then protects
// nothing. Call it before each write.
enum berth_status file_lock_check(const struct file_lock *lock, struct berth_error *error);
// Removes the lock file, unless another process has taken the lock in the meantime.
void file_lock_release(struct file_lock *lock);

// Tries to lock the file `path`; *taken is 0 if another process holds the lock. file_lock_unlock
// keeps the file, as other programs that lock it expect.
enum berth_status file_lock_try(struct file_lock *lock, const char *path, int *taken,
                                struct berth_error *error);
void file_lock_unlock(struct file_lock *lock);

// --- test hook ----------------------------------------------------------------------------------

// The `countdown`-th system call of these functions from now (close, stat, poll and access aside)
// fails with `errno_value`; a countdown of 0 disables the hook; with errno_value < 0 the process is
// killed (SIGKILL) right before the call. Returns the number of such calls since the last call of
// this function.
uint64_t file_fail_at(uint64_t countdown, int errno_value);

#endif
