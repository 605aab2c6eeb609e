// SPDX-License-Identifier: Apache-2.0
// Files that grow over several runs: opens what an earlier run has written, appends, and gives the
// file its name when it is complete. Downloads (fetch/) continue so.
#include "core/file_partial.h"

#include "core/file_call.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static enum berth_status find_size(struct file_partial *partial, struct berth_error *error) {
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
        return error_no_memory(error, 0, "a path");
    }
    partial->descriptor =
        file_call_open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK);
    enum berth_status status = partial->descriptor < 0 ? file_cannot_create(path, errno, error)
                                                       : find_size(partial, error);
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
