// SPDX-License-Identifier: Apache-2.0
// Partial files, symbolic links, and locks that the caller polls for.
#include "core/file_partial.h"

#include "core/file_call.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

// --- partial files ------------------------------------------------------------------------------

static enum berth_status begin_at_the_end(struct file_partial *partial, struct berth_error *error) {
    struct stat info;
    if (CALL(fstat(partial->descriptor, &info)) < 0) {
        return file_cannot_create(partial->path, errno, error);
    }
    if (!S_ISREG(info.st_mode)) {
        return error_set(error, BERTH_CANT_CREATE,
                         "cannot create %s: it exists and is not a regular file", partial->path);
    }
    partial->size = (uint64_t)info.st_size;
    return BERTH_OK;
}

enum berth_status file_partial_open(struct file_partial *partial, const char *path,
                                    struct berth_error *error) {
    *partial = (struct file_partial){.descriptor = -1, .path = memory_string(path)};
    if (partial->path == NULL) {
        return file_no_path(error);
    }
    partial->descriptor =
        file_call_open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK);
    enum berth_status status = partial->descriptor < 0 ? file_cannot_create(path, errno, error)
                                                       : begin_at_the_end(partial, error);
    if (status != BERTH_OK) {
        file_partial_close(partial);
    }
    return status;
}

static enum berth_status cannot_write(const struct file_partial *partial,
                                      struct berth_error *error) {
    return error_set_errno(error, BERTH_IO, errno, "cannot write %s", partial->path);
}

enum berth_status file_partial_put(struct file_partial *partial, const void *bytes, size_t length,
                                   struct berth_error *error) {
    for (size_t done = 0; done < length;) {
        ssize_t count;
        CALL_AGAIN(count, write(partial->descriptor, (const char *)bytes + done, length - done));
        if (count < 0) {
            return cannot_write(partial, error);
        }
        done += (size_t)count;
        partial->size += (size_t)count;
    }
    return BERTH_OK;
}

enum berth_status file_partial_restart(struct file_partial *partial, struct berth_error *error) {
    int result;
    CALL_AGAIN(result, ftruncate(partial->descriptor, 0));
    if (result < 0) {
        return cannot_write(partial, error);
    }
    partial->size = 0;
    return BERTH_OK;
}

enum berth_status file_partial_publish(struct file_partial *partial, const char *path,
                                       struct berth_error *error) {
    if (file_call_sync(partial->descriptor) < 0) {
        return cannot_write(partial, error);
    }
    if (CALL(rename(partial->path, path)) < 0) {
        return file_cannot_create(path, errno, error);
    }
    file_partial_close(partial);
    return dir_sync_parent(path, error);
}

void file_partial_close(struct file_partial *partial) {
    if (partial->descriptor >= 0) {
        file_call_close(partial->descriptor);
    }
    memory_free(partial->path);
    *partial = (struct file_partial){.descriptor = -1};
}

// --- links --------------------------------------------------------------------------------------

enum berth_status file_link(const char *target, const char *path, struct berth_error *error) {
    static atomic_uint number;
    size_t size = strlen(path) + 48;
    char *temporary = memory_new(size);
    if (temporary == NULL) {
        return file_no_path(error);
    }
    int result = -1;
    for (int attempt = 0; attempt < 1000; attempt++) {
        snprintf(temporary, size, "%s.%ld.%u.tmp", path, (long)getpid(),
                 atomic_fetch_add(&number, 1));
        result = CALL(symlink(target, temporary));
        if (result == 0 || errno != EEXIST) {
            break;
        }
    }
    enum berth_status status = BERTH_OK;
    if (result < 0) {
        status = file_cannot_create(path, errno, error);
    } else if (CALL(rename(temporary, path)) < 0) {
        status = file_cannot_create(path, errno, error);
        (void)CALL(unlink(temporary)); // the first error has been reported
    } else {
        status = dir_sync_parent(path, error);
    }
    memory_free(temporary);
    return status;
}

int file_lies_in(const char *path, const char *folder) {
    char real_path[PATH_MAX], real_folder[PATH_MAX];
    if (realpath(path, real_path) == NULL || realpath(folder, real_folder) == NULL) {
        return 0;
    }
    size_t length = strlen(real_folder);
    return strncmp(real_path, real_folder, length) == 0 &&
           (real_path[length] == '/' || real_path[length] == '\0' || length == 1);
}

char *file_resolve(const char *path) {
    char real[PATH_MAX];
    return realpath(path, real) != NULL ? memory_string(real) : NULL;
}

static int64_t nanoseconds(struct timespec time) {
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

enum berth_status file_stamp_of(const char *path, struct file_stamp *stamp,
                                struct berth_error *error) {
    struct stat info;
    if (lstat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
        return error_set(error, BERTH_NO_INPUT, "%s: expected a file", path);
    }
    *stamp =
        (struct file_stamp){.size = (uint64_t)info.st_size,
                            .number = (uint64_t)info.st_ino,
                            .modified_ns = nanoseconds(info.st_mtim),
                            .changed_ns = nanoseconds(info.st_ctim),
                            .is_own = info.st_uid == geteuid() && (info.st_mode & S_IWOTH) == 0};
    return BERTH_OK;
}

// --- locks --------------------------------------------------------------------------------------

enum berth_status file_lock_try(struct file_lock *lock, const char *path, int *taken,
                                struct berth_error *error) {
    *taken = 0;
    *lock = (struct file_lock){.descriptor = -1};
    int opened = file_call_open(path, O_RDWR | O_CREAT | O_NOFOLLOW);
    if (opened < 0) {
        return file_cannot_create(path, errno, error);
    }
    int result;
    CALL_AGAIN(result, flock(opened, LOCK_EX | LOCK_NB));
    if (result == 0) {
        lock->descriptor = opened;
        *taken = 1;
        return BERTH_OK;
    }
    enum berth_status status =
        errno == EWOULDBLOCK
            ? BERTH_OK
            : error_set_errno(error, BERTH_CANT_CREATE, errno, "cannot lock %s", path);
    file_call_close(opened);
    return status;
}

void file_lock_let_go(struct file_lock *lock) {
    if (lock->descriptor >= 0) {
        file_call_close(lock->descriptor);
        lock->descriptor = -1;
    }
}

// --- disk space ----------------------------------------------------------------------------------

uint64_t dir_free_bytes(const char *path) {
    struct statvfs info;
    return statvfs(path, &info) == 0 ? (uint64_t)info.f_bavail * info.f_frsize : UINT64_MAX;
}
