// SPDX-License-Identifier: Apache-2.0
// Trees of folders: remove and publish. They are walked by folder descriptors with O_NOFOLLOW, so
// that nobody can redirect the walk by replacing a folder with a link.
#include "core/file.h"
#include "core/file_call.h"
#include "core/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEPTH_LIMIT 32    // of trees to remove or sync
#define ENTRIES_SIZE 2048 // of a folder's entries that are read at a time

// --- walking a tree -----------------------------------------------------------------------------

// One level of a walk. The walk is a loop over a stack of these, not a recursion: the disk decides
// the depth. It takes no memory, so that files can be removed when there is none.
struct level {
    int descriptor;
    char name[NAME_MAX + 1]; // in the level above; of the first one none
    size_t at, length;       // in the entries
    int visited;             // files and folders since the folder was read from its beginning
    _Alignas(struct dirent64) char entries[ENTRIES_SIZE];
};

struct walk {
    const char *root; // for messages
    dev_t device;     // the walk stays on this file system
    int depth;
    struct level levels[DEPTH_LIMIT];
};

static enum berth_status walk_error(const struct walk *walk, const char *action, const char *name,
                                    struct berth_error *error) {
    return error_set_errno(error, BERTH_IO, errno, "cannot %s %s in the folder %s", action, name,
                           walk->root);
}

// Descends into the folder `name` of `parent`.
static enum berth_status walk_enter(struct walk *walk, int parent, const char *name,
                                    struct berth_error *error) {
    struct stat info;
    if (walk->depth == DEPTH_LIMIT) {
        return error_set(error, BERTH_IO, "%s: folders nested deeper than %d", walk->root,
                         DEPTH_LIMIT);
    }
    int descriptor;
    CALL_AGAIN(descriptor, openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (descriptor < 0) {
        return walk_error(walk, "open", name, error);
    }
    enum berth_status status = BERTH_OK;
    if (CALL(fstat(descriptor, &info)) < 0) {
        status = walk_error(walk, "examine", name, error);
    } else if (walk->depth > 0 && info.st_dev != walk->device) {
        status = error_set(error, BERTH_IO, "%s: %s is on another file system", walk->root, name);
    }
    if (status != BERTH_OK) {
        file_call_close(descriptor);
        return status;
    }
    struct level *level = &walk->levels[walk->depth++];
    walk->device = info.st_dev;
    level->descriptor = descriptor;
    level->at = level->length = 0;
    level->visited = 0;
    level->name[0] = '\0';
    if (walk->depth > 1) {
        snprintf(level->name, sizeof level->name, "%s", name);
    }
    return BERTH_OK;
}

static void walk_leave(struct walk *walk) {
    file_call_close(walk->levels[--walk->depth].descriptor);
}

// The next name in the folder of the deepest level, valid until the next call for it; NULL: no
// more.
static enum berth_status walk_next(struct walk *walk, const char **name,
                                   struct berth_error *error) {
    struct level *level = &walk->levels[walk->depth - 1];
    for (;;) {
        if (level->at == level->length) {
            const ssize_t length =
                CALL(getdents64(level->descriptor, (void *)level->entries, sizeof level->entries));
            if (length < 0) {
                return walk_error(walk, "list", level->name, error);
            }
            level->at = 0;
            level->length = (size_t)length;
        }
        if (level->length == 0) {
            *name = NULL;
            return BERTH_OK;
        }
        const struct dirent64 *entry = (const void *)(level->entries + level->at);
        level->at += entry->d_reclen;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            level->visited++;
            *name = entry->d_name;
            return BERTH_OK;
        }
    }
}

// The callbacks of a walk: for a file, and for a folder after everything in it. `folder` is the
// open folder itself; parent is -1 for the root.
struct visitor {
    enum berth_status (*file)(struct walk *walk, int parent, const char *name,
                              struct berth_error *error);
    enum berth_status (*folder)(struct walk *walk, int folder, int parent, const char *name,
                                struct berth_error *error);
    // Whether folders are read again until nothing is found: names that are removed can hide
    // others.
    int rereads;
};

static enum berth_status walk_entry(struct walk *walk, const struct visitor *visitor,
                                    const char *name, struct berth_error *error) {
    struct stat info;
    int parent = walk->levels[walk->depth - 1].descriptor;
    if (CALL(fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW)) < 0) {
        return walk_error(walk, "examine", name, error);
    }
    return S_ISDIR(info.st_mode) ? walk_enter(walk, parent, name, error)
                                 : visitor->file(walk, parent, name, error);
}

// Visits the folder of the deepest level, whose entries are done, and goes up one level.
static enum berth_status walk_close(struct walk *walk, const struct visitor *visitor,
                                    struct berth_error *error) {
    const struct level *level = &walk->levels[walk->depth - 1];
    const int is_root = walk->depth == 1, parent = is_root ? -1 : level[-1].descriptor;
    enum berth_status status =
        visitor->folder(walk, level->descriptor, parent, is_root ? walk->root : level->name, error);
    walk_leave(walk);
    return status;
}

static enum berth_status walk_tree(const char *path, const struct visitor *visitor,
                                   struct berth_error *error) {
    struct walk walk; // large, so that only what is used is set
    walk.root = path;
    walk.depth = 0;
    enum berth_status status = walk_enter(&walk, AT_FDCWD, path, error);
    while (status == BERTH_OK && walk.depth > 0) {
        struct level *level = &walk.levels[walk.depth - 1];
        const char *name;
        status = walk_next(&walk, &name, error);
        if (status == BERTH_OK && name != NULL) {
            status = walk_entry(&walk, visitor, name, error);
        } else if (status == BERTH_OK && visitor->rereads && level->visited > 0) {
            level->visited = 0;
            status = lseek(level->descriptor, 0, SEEK_SET) == 0
                         ? BERTH_OK
                         : walk_error(&walk, "list", level->name, error);
        } else if (status == BERTH_OK) {
            status = walk_close(&walk, visitor, error);
        }
    }
    while (walk.depth > 0) {
        walk_leave(&walk);
    }
    return status;
}

// --- removing -----------------------------------------------------------------------------------

static enum berth_status remove_file(struct walk *walk, int parent, const char *name,
                                     struct berth_error *error) {
    return CALL(unlinkat(parent, name, 0)) == 0 ? BERTH_OK
                                                : walk_error(walk, "remove", name, error);
}

static enum berth_status remove_folder(struct walk *walk, int folder, int parent, const char *name,
                                       struct berth_error *error) {
    int result = parent < 0 ? CALL(rmdir(name)) : CALL(unlinkat(parent, name, AT_REMOVEDIR));
    return result == 0 ? BERTH_OK : walk_error(walk, "remove", name, error);
}

enum berth_status dir_remove(const char *path, struct berth_error *error) {
    static const struct visitor visitor = {remove_file, remove_folder, .rereads = 1};
    struct stat info;
    char trimmed[PATH_MAX];
    const size_t length = path_length(path); // "link/" would be followed
    if (length >= sizeof trimmed) {
        errno = ENAMETOOLONG;
        return error_set_errno(error, BERTH_USAGE, errno, "cannot remove %.*s...",
                               UTF8_SHOWN(path, 80));
    }
    memcpy(trimmed, path, length);
    trimmed[length] = '\0';
    // The last part of the path must be a real name, not "", "." or "..".
    const char *name = path_name(trimmed);
    if (strcmp(name, "") == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return error_set(error, BERTH_USAGE,
                         "cannot remove \"%s\": the path must end in the name of a folder", path);
    }
    return lstat(trimmed, &info) < 0 && errno == ENOENT ? BERTH_OK
                                                        : walk_tree(trimmed, &visitor, error);
}

enum berth_status dir_remove_empty(const char *path, struct berth_error *error) {
    return CALL(rmdir(path)) == 0 || errno == ENOENT ? BERTH_OK
                                                     : file_cannot_create(path, errno, error);
}

// --- publishing ---------------------------------------------------------------------------------

static enum berth_status sync_file(struct walk *walk, int parent, const char *name,
                                   struct berth_error *error) {
    int descriptor;
    CALL_AGAIN(descriptor, openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (descriptor < 0) {
        return walk_error(walk, "open", name, error);
    }
    enum berth_status status =
        file_call_sync(descriptor) == 0 ? BERTH_OK : walk_error(walk, "sync", name, error);
    file_call_close(descriptor);
    return status;
}

static enum berth_status sync_open_folder(struct walk *walk, int folder, int parent,
                                          const char *name, struct berth_error *error) {
    return file_call_sync_folder(folder) == 0 ? BERTH_OK : walk_error(walk, "sync", name, error);
}

#ifndef RENAME_NOREPLACE // glibc has both, musl 1.2.3 neither
#define RENAME_NOREPLACE 1u
#define renameat2(from_folder, from, to_folder, to, flags)                                         \
    (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags)
#endif

// renameat2 checks for an existing target atomically; file systems without it get a separate check.
static int rename_to_new(const char *from, const char *to) {
    int result = CALL(renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE));
    if (result < 0 && (errno == EINVAL || errno == ENOSYS)) {
        struct stat info;
        if (lstat(to, &info) == 0) {
            errno = EEXIST;
            return -1;
        }
        result = CALL(rename(from, to));
    }
    return result;
}

enum berth_status path_rename(const char *from, const char *path, struct berth_error *error) {
    if (rename_to_new(from, path) < 0) {
        return file_cannot_create(path, errno, error);
    }
    return dir_sync_parent(path, error);
}

enum berth_status dir_publish(const char *temporary, const char *path, struct berth_error *error) {
    static const struct visitor visitor = {sync_file, sync_open_folder, .rereads = 0};
    TRY(walk_tree(temporary, &visitor, error));
    return path_rename(temporary, path, error);
}
