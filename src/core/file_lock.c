// SPDX-License-Identifier: Apache-2.0
// Locks on a folder that a run writes to, and on a permanent file. The kernel releases them when
// the process ends; the lock file in the folder only names the holder.
#include "core/file.h"
#include "core/file_call.h"
#include "core/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// Closing is not enough: a child that was forked meanwhile has the descriptor, too.
static void unlock(int descriptor) {
    (void)CALL(flock(descriptor, LOCK_UN));
    file_call_close(descriptor);
}

// Whether `path` no longer names the open file: its last holder or another host has removed it. A
// file that cannot be examined now, as when a file server does not answer, is not lost.
static int is_lost(int descriptor, const char *path) {
    struct stat held, named;
    if (fstat(descriptor, &held) != 0 || stat(path, &named) != 0) {
        return errno == ENOENT || errno == ENOTDIR || errno == ESTALE;
    }
    return held.st_ino != named.st_ino || held.st_dev != named.st_dev;
}

// Returns as flock. Some file systems have no locks, such as Lustre mounted without the option
// flock.
static int lock_file(int descriptor, int *unsupported) {
    int result;
    CALL_AGAIN(result, flock(descriptor, LOCK_EX | LOCK_NB));
    *unsupported = result < 0 && (errno == ENOSYS || errno == ENOLCK || errno == EOPNOTSUPP);
    return *unsupported ? 0 : result;
}

// Opens and locks; lock->descriptor is -1 on failure and when the file was removed between the two
// steps.
static enum berth_status try_lock(struct file_lock *lock, const char *folder,
                                  struct berth_error *error) {
    const char *path = lock->path;
    int opened = file_call_open(path, O_RDWR | O_CREAT);
    if (opened < 0) {
        return file_cannot_create(path, errno, error);
    }
    const int result = lock_file(opened, &lock->unsupported);
    enum berth_status status = BERTH_OK;
    if (result < 0 && errno == EWOULDBLOCK) {
        char holder[256] = "";
        ssize_t length;
        CALL_AGAIN(length, pread(opened, holder, sizeof holder - 1, 0));
        holder[length > 0 ? length : 0] = '\0';
        holder[strcspn(holder, "\n")] = '\0';
        status =
            error_set(error, BERTH_CANT_CREATE,
                      "the folder %s is in use by another run (%s): wait for it or choose another "
                      "folder",
                      folder, holder[0] != '\0' ? holder : "unknown process");
    } else if (result < 0) {
        status = error_set_errno(error, BERTH_CANT_CREATE, errno, "cannot lock %s", path);
    } else if (!is_lost(opened, path)) {
        lock->descriptor = opened;
        return BERTH_OK;
    }
    file_call_close(opened);
    return status;
}

enum berth_status file_lock_acquire(struct file_lock *lock, const char *folder,
                                    struct berth_error *error) {
    *lock = (struct file_lock){.descriptor = -1, .path = path_join(folder, ".lock")};
    if (lock->path == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    enum berth_status status = BERTH_OK;
    while (status == BERTH_OK && lock->descriptor < 0) {
        status = try_lock(lock, folder, error);
    }
    if (status == BERTH_OK) {
        // For users and for the error above; the lock is valid without it.
        char host[128] = "unknown host", text[256];
        gethostname(host, sizeof host - 1);
        int length = snprintf(text, sizeof text, "pid %ld on %s\n", (long)getpid(), host);
        if (CALL(ftruncate(lock->descriptor, 0)) == 0) {
            (void)!CALL(pwrite(lock->descriptor, text, (size_t)length, 0));
        }
    } else {
        memory_free(lock->path);
        lock->path = NULL;
    }
    return status;
}

enum berth_status file_lock_check(const struct file_lock *lock, struct berth_error *error) {
    return !is_lost(lock->descriptor, lock->path)
               ? BERTH_OK
               : error_set(error, BERTH_IO,
                           "%s: the lock of this run is lost: its folder was removed or replaced, "
                           "and another run may use it; nothing more is written",
                           lock->path);
}

void file_lock_release(struct file_lock *lock) {
    if (lock->descriptor < 0) {
        return;
    }
    if (!is_lost(lock->descriptor, lock->path)) { // else it belongs to another process
        (void)CALL(unlink(lock->path));           // while still locked: see is_lost
    }
    unlock(lock->descriptor);
    memory_free(lock->path);
    *lock = (struct file_lock){.descriptor = -1};
}

// --- permanent lock files -----------------------------------------------------------------------

enum berth_status file_lock_try(struct file_lock *lock, const char *path, int *taken,
                                struct berth_error *error) {
    *taken = 0;
    *lock = (struct file_lock){.descriptor = -1};
    int opened = file_call_open(path, O_RDWR | O_CREAT | O_NOFOLLOW);
    if (opened < 0) {
        return file_cannot_create(path, errno, error);
    }
    if (lock_file(opened, &lock->unsupported) == 0) {
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

void file_lock_unlock(struct file_lock *lock) {
    if (lock->descriptor >= 0) {
        unlock(lock->descriptor);
        lock->descriptor = -1;
    }
}
