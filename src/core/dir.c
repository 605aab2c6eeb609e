// SPDX-License-Identifier: Apache-2.0
// Folders: create and list. Also whether an output may be written, lists of paths, and free space.
// Whole trees are in dir_tree.c.
#include "core/file.h"
#include "core/file_call.h"
#include "core/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

int file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && !S_ISDIR(info.st_mode);
}

int dir_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

int path_is_link(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

int path_is_fifo(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISFIFO(info.st_mode);
}

struct kind {
    const char *name;
    int is_file, is_folder; // what it may be
};

static enum berth_status need(const struct kind *kind, const char *path, const char *expected,
                              struct berth_error *error) {
    struct stat info;
    if (stat(path, &info) < 0) {
        return errno != ENOENT ? file_cannot_read(path, errno, error)
                               : error_set(error, BERTH_NO_INPUT, "%s: no such %s; expected %s",
                                           path, kind->name, expected);
    }
    const int is_folder = S_ISDIR(info.st_mode);
    return (is_folder ? kind->is_folder : kind->is_file)
               ? BERTH_OK
               : error_set(error, BERTH_NO_INPUT, "%s is a %s; expected %s", path,
                           is_folder ? "folder" : "file", expected);
}

enum berth_status file_require(const char *path, const char *expected, struct berth_error *error) {
    return need(&(struct kind){.name = "file", .is_file = 1}, path, expected, error);
}

enum berth_status dir_require(const char *path, const char *expected, struct berth_error *error) {
    return need(&(struct kind){.name = "folder", .is_folder = 1}, path, expected, error);
}

enum berth_status path_require(const char *path, const char *expected, struct berth_error *error) {
    return need(&(struct kind){.name = "file or folder", .is_file = 1, .is_folder = 1}, path,
                expected, error);
}

static enum berth_status sync_folder(const char *path, struct berth_error *error) {
    int descriptor = file_call_open(path, O_RDONLY | O_DIRECTORY);
    int result = descriptor < 0 ? -1 : file_call_sync_folder(descriptor);
    int errno_value = errno;
    if (descriptor >= 0) {
        file_call_close(descriptor);
    }
    return result == 0 ? BERTH_OK
                       : error_set_errno(error, BERTH_IO, errno_value, "cannot sync %s", path);
}

enum berth_status dir_sync_parent(const char *path, struct berth_error *error) {
    return sync_folder(path_parent(path).text, error);
}

enum berth_status dir_check(const char *path, struct berth_error *error) {
    struct path existing = path_format("%s", path);
    const char *const at = existing.text;
    while (!dir_exists(at) && !file_exists(at) && !path_is_link(at)) {
        const struct path parent = path_parent(at);
        if (strcmp(parent.text, at) == 0) {
            break; // a "." that cannot be searched, or a path that is too long
        }
        existing = parent;
    }
    if (file_exists(at)) {
        return error_set(error, BERTH_CANT_CREATE,
                         "cannot create the folder %s: %s is a file; choose another folder", path,
                         at);
    }
    if (path_is_link(at) && !dir_exists(at)) {
        return error_set(error, BERTH_CANT_CREATE,
                         "cannot create the folder %s: %s is a symbolic link whose target is "
                         "missing or cannot be reached; make the target, or choose another folder",
                         path, at);
    }
    return access(at, W_OK | X_OK) == 0 ? BERTH_OK
                                        : error_set_errno(error, BERTH_CANT_CREATE, errno,
                                                          "cannot write to the folder %s", at);
}

enum berth_status file_check_output(const char *output, const char *input,
                                    struct berth_error *error) {
    struct stat to, from;
    const int is_same = stat(output, &to) == 0 && stat(input, &from) == 0 &&
                        to.st_dev == from.st_dev && to.st_ino == from.st_ino;
    return !is_same ? BERTH_OK
                    : error_set(error, BERTH_CANT_CREATE,
                                "the output %s is the same file as the input %s, which would be "
                                "lost; choose another output",
                                output, input);
}

static int has_beginning(const struct file_kind *kind, const char *bytes, size_t length) {
    for (size_t i = 0; kind->beginnings[i] != NULL; i++) {
        const size_t expected = strlen(kind->beginnings[i]);
        if (expected <= length && memcmp(bytes, kind->beginnings[i], expected) == 0) {
            return 1;
        }
    }
    return 0;
}

enum berth_status file_check_kind(const char *path, const struct file_kind *kind,
                                  struct berth_error *error) {
    struct stat info;
    char bytes[512];
    ssize_t length;
    if (stat(path, &info) < 0 || !S_ISREG(info.st_mode) || info.st_size == 0) {
        return BERTH_OK;
    }
    const int descriptor = file_call_open(path, O_RDONLY);
    if (descriptor < 0) {
        return file_cannot_create(path, errno, error);
    }
    CALL_AGAIN(length, read(descriptor, bytes, sizeof bytes));
    const int errno_value = errno;
    file_call_close(descriptor);
    if (length < 0) {
        return file_cannot_create(path, errno_value, error);
    }
    return has_beginning(kind, bytes, (size_t)length)
               ? BERTH_OK
               : error_set(error, BERTH_CANT_CREATE,
                           "%s exists and is not %s: it would be lost; choose another file, or "
                           "remove this one",
                           path, kind->name);
}

// Creates one folder, whose parent exists.
static enum berth_status make_one(const char *path, struct berth_error *error) {
    if (dir_exists(path)) {
        return BERTH_OK;
    }
    if (CALL(mkdir(path, 0777)) < 0) {
        int errno_value = errno;
        // Another process may have created it first.
        return dir_exists(path) ? BERTH_OK : file_cannot_create(path, errno_value, error);
    }
    return dir_sync_parent(path, error);
}

enum berth_status dir_make(const char *path, struct berth_error *error) {
    TRY(dir_check(path, error));
    struct path prefix = path_format("%s", path);
    for (char *at = prefix.text + 1; prefix.text[0] != '\0' && *at != '\0'; at++) {
        if (*at == '/' && at[-1] != '/') {
            *at = '\0';
            TRY(make_one(prefix.text, error));
            *at = '/';
        }
    }
    TRY(make_one(path, error));
    return dir_check(path, error);
}

enum berth_status dir_make_parent(const char *path, struct berth_error *error) {
    return dir_make(path_parent(path).text, error);
}

enum berth_status dir_make_temporary(const char *path, struct path *temporary,
                                     struct berth_error *error) {
    temporary->text[0] = '\0';
    TRY(dir_make_parent(path, error));
    struct path name;
    int result = -1;
    errno = EEXIST;
    for (int i = 0; result < 0 && errno == EEXIST && i < 1000; i++) {
        name = path_format("%.*s.%ld.%d.tmp", (int)path_length(path), path, (long)getpid(), i);
        result = CALL(mkdir(name.text, 0777));
    }
    if (result < 0) {
        return file_cannot_create(name.text, errno, error);
    }
    *temporary = name;
    return BERTH_OK;
}

size_t dir_existing(const char *path) {
    struct path at = path_format("%s", path);
    size_t length = strlen(at.text);
    while (length > 0 && !dir_exists(at.text)) {
        length = path_parent_length(at.text, length);
        at.text[length] = '\0';
    }
    return length;
}

void dir_remove_created(const char *path, size_t kept) {
    struct path at = path_format("%s", path);
    size_t length = strlen(at.text);
    while (length > kept && (CALL(rmdir(at.text)) == 0 || errno == ENOENT)) {
        length = path_parent_length(at.text, length);
        at.text[length] = '\0';
    }
}

// --- listing ------------------------------------------------------------------------------------

struct names {
    char *text; // "first\0second\0"
    size_t length, capacity, count;
};

static int add_name(struct names *names, const char *name) {
    size_t bytes = strlen(name) + 1;
    char *text = memory_grow(names->text, &names->capacity, names->length + bytes, 1);
    if (text == NULL) {
        return 0;
    }
    names->text = text;
    memcpy(names->text + names->length, name, bytes);
    names->length += bytes;
    names->count++;
    return 1;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Puts the pointers and the text into one block.
static char **block_of(const struct names *names) {
    size_t pointers = (names->count + 1) * sizeof(char *);
    char **block = memory_new(pointers + names->length);
    if (block == NULL) {
        return NULL;
    }
    char *at = (char *)block + pointers;
    if (names->length > 0) {
        memcpy(at, names->text, names->length);
    }
    for (size_t i = 0; i < names->count; i++) {
        block[i] = at;
        at += strlen(at) + 1;
    }
    block[names->count] = NULL;
    return block;
}

static enum berth_status collect_names(DIR *stream, const char *path, struct names *names,
                                       struct berth_error *error) {
    for (;;) {
        errno = 0;
        struct dirent *entry = file_call_fails() ? NULL : readdir(stream);
        if (entry == NULL) {
            return errno == 0 ? BERTH_OK : file_cannot_read(path, errno, error);
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (!add_name(names, entry->d_name)) {
            return error_no_memory(error, 0, "a path");
        }
    }
}

enum berth_status dir_list(const char *path, char ***names, struct berth_error *error) {
    *names = NULL;
    int descriptor = file_call_open(path, O_RDONLY | O_DIRECTORY);
    DIR *stream = descriptor < 0 || file_call_fails() ? NULL : fdopendir(descriptor);
    if (stream == NULL) {
        enum berth_status status = file_cannot_read(path, errno, error);
        if (descriptor >= 0) {
            file_call_close(descriptor);
        }
        return status;
    }
    struct names found = {0};
    enum berth_status status = collect_names(stream, path, &found, error);
    closedir(stream);
    if (status == BERTH_OK) {
        *names = block_of(&found);
        status = *names != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
    }
    if (status == BERTH_OK) {
        qsort(*names, found.count, sizeof **names, compare_names);
    }
    memory_free(found.text);
    return status;
}

enum berth_status dir_each(const char *folder, dir_visit *visit, void *context,
                           struct berth_error *error) {
    char **names;
    TRY(dir_list(folder, &names, error));
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; names[i] != NULL && status == BERTH_OK; i++) {
        status = visit(path_in(folder, names[i]).text, context, error);
    }
    memory_free(names);
    return status;
}

static int path_exists(const char *path) {
    return file_exists(path) || dir_exists(path);
}

static enum berth_status add_part(struct names *names, const char *part, int expands,
                                  struct berth_error *error) {
    if (expands && strpbrk(part, "*?[") != NULL && !path_exists(part)) {
        // Sorted by bytes, whatever the locale.
        glob_t found;
        const int answer = glob(part, GLOB_NOSORT, NULL, &found);
        int fits = answer != GLOB_NOSPACE;
        if (answer == 0) {
            qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_names);
            for (size_t i = 0; i < found.gl_pathc && fits; i++) {
                fits = add_name(names, found.gl_pathv[i]);
            }
            globfree(&found);
        }
        return fits ? BERTH_OK : error_no_memory(error, 0, "a path");
    }
    return add_name(names, part) ? BERTH_OK : error_no_memory(error, 0, "a path");
}

static enum berth_status add_parts(struct names *names, const char *list, int expands,
                                   struct berth_error *error) {
    const char *const separator = path_exists(list) ? "" : ",";
    for (const char *at = list; *at != '\0';) {
        const size_t length = strcspn(at, separator);
        if (length == 0) {
            return error_set(
                error, BERTH_USAGE,
                "\"%s\": a path in this list is empty; separate paths by single commas", list);
        }
        char *part = memory_string_of(at, length);
        enum berth_status status = part != NULL ? add_part(names, part, expands, error)
                                                : error_no_memory(error, 0, "a path");
        memory_free(part);
        TRY(status);
        at += length + (at[length] == ',');
    }
    return BERTH_OK;
}

static enum berth_status list_paths(const char *list, int expands, char ***paths,
                                    struct berth_error *error) {
    struct names found = {0};
    enum berth_status status = add_parts(&found, list, expands, error);
    *paths = status == BERTH_OK ? block_of(&found) : NULL;
    memory_free(found.text);
    return status == BERTH_OK && *paths == NULL ? error_no_memory(error, 0, "a path") : status;
}

enum berth_status path_split(const char *list, char ***paths, struct berth_error *error) {
    return list_paths(list, 0, paths, error);
}

enum berth_status path_expand(const char *list, char ***paths, struct berth_error *error) {
    return list_paths(list, 1, paths, error);
}

int dir_is_empty(const char *path) {
    char **names;
    if (!dir_exists(path)) {
        return !file_exists(path);
    }
    if (dir_list(path, &names, NULL) != BERTH_OK) {
        return 0;
    }
    int empty = names[0] == NULL;
    memory_free(names);
    return empty;
}

uint64_t dir_free_bytes(const char *path) {
    struct statvfs info;
    return statvfs(path, &info) == 0 ? (uint64_t)info.f_bavail * info.f_frsize : UINT64_MAX;
}
