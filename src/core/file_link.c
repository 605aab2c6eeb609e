// SPDX-License-Identifier: Apache-2.0
// Symbolic links, where paths lead, and whether a file is still the same. Checkpoints and model
// folders may be links, so whoever removes or overwrites something compares where the paths lead,
// not how they are spelled.
#include "core/file.h"
#include "core/file_call.h"
#include "core/memory.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum berth_status file_link(const char *target, const char *path, struct berth_error *error) {
    static atomic_uint number;
    struct path temporary;
    int result = -1;
    for (int attempt = 0; attempt < 1000; attempt++) {
        temporary =
            path_format("%s.%ld.%u.tmp", path, (long)getpid(), atomic_fetch_add(&number, 1));
        result = CALL(symlink(target, temporary.text));
        if (result == 0 || errno != EEXIST) {
            break;
        }
    }
    if (result < 0) {
        return file_cannot_create(path, errno, error);
    }
    if (CALL(rename(temporary.text, path)) < 0) {
        const enum berth_status status = file_cannot_create(path, errno, error);
        (void)CALL(unlink(temporary.text)); // the first error has been reported
        return status;
    }
    return dir_sync_parent(path, error);
}

int path_is_inside(const char *path, const char *folder) {
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

// `path` with the links in its folder resolved; without such a folder, `path` itself.
static struct path without_links(const char *path) {
    char folder[PATH_MAX];
    return realpath(path_parent(path).text, folder) != NULL ? path_in(folder, path_name(path))
                                                            : path_format("%s", path);
}

int path_is_same(const char *first, const char *second) {
    return strcmp(without_links(first).text, without_links(second).text) == 0 ||
           file_check_output(first, second, NULL) != BERTH_OK;
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
