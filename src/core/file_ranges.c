// SPDX-License-Identifier: Apache-2.0
// Files that several processes write together, each its own ranges, such as the weights of a
// checkpoint: one makes the file with its full size, all write at their offsets and sync, and then
// it is renamed. The functions are declared in file.h.
#include "core/file.h"
#include "core/file_call.h"
#include "core/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define CHUNK_SIZE ((size_t)1 << 30) // of one system call

static enum berth_status open_ranges(struct file_ranges *ranges, const char *path, int flags,
                                     struct berth_error *error) {
    *ranges = (struct file_ranges){.descriptor = -1, .path = memory_string(path)};
    if (ranges->path == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    ranges->descriptor = file_call_open(path, flags);
    if (ranges->descriptor >= 0) {
        return BERTH_OK;
    }
    const int errno_value = errno;
    memory_free(ranges->path);
    ranges->path = NULL;
    return file_cannot_create(path, errno_value, error);
}

enum berth_status file_ranges_make(const char *path, const void *bytes, size_t length,
                                   uint64_t size, struct berth_error *error) {
    struct file_ranges ranges;
    TRY(open_ranges(&ranges, path, O_WRONLY | O_CREAT | O_EXCL, error));
    enum berth_status status = file_ranges_put(&ranges, 0, bytes, length, error);
    if (status == BERTH_OK && CALL(ftruncate(ranges.descriptor, (off_t)size)) < 0) {
        status = error_set_errno(error, BERTH_IO, errno, "cannot write %s", path);
    }
    return file_ranges_close(&ranges, status, error);
}

enum berth_status file_ranges_open(struct file_ranges *ranges, const char *path,
                                   struct berth_error *error) {
    return open_ranges(ranges, path, O_WRONLY, error);
}

enum berth_status file_ranges_put(struct file_ranges *ranges, uint64_t offset, const void *bytes,
                                  size_t length, struct berth_error *error) {
    const char *from = bytes;
    while (length > 0) {
        ssize_t count;
        CALL_AGAIN(count, pwrite(ranges->descriptor, from,
                                 length < CHUNK_SIZE ? length : CHUNK_SIZE, (off_t)offset));
        if (count < 0) {
            return error_set_errno(error, BERTH_IO, errno, "cannot write %s", ranges->path);
        }
        from += count;
        offset += (uint64_t)count;
        length -= (size_t)count;
    }
    return BERTH_OK;
}

enum berth_status file_ranges_close(struct file_ranges *ranges, enum berth_status status,
                                    struct berth_error *error) {
    if (ranges->descriptor < 0) {
        return status;
    }
    if (status == BERTH_OK && file_call_sync(ranges->descriptor) < 0) {
        status = error_set_errno(error, BERTH_IO, errno, "cannot write %s", ranges->path);
    }
    file_call_close(ranges->descriptor);
    memory_free(ranges->path);
    *ranges = (struct file_ranges){.descriptor = -1};
    return status;
}

enum berth_status file_publish(const char *temporary, const char *path, struct berth_error *error) {
    if (CALL(rename(temporary, path)) < 0) {
        return file_cannot_create(path, errno, error);
    }
    return dir_sync_parent(path, error);
}
