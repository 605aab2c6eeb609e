// SPDX-License-Identifier: Apache-2.0
#include "recorded_disk.h"

#include "core/harness.h"
#include "core/memory.h"
#include "core/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum call { MAKE_FILE, MAKE_FOLDER, WRITE, RESIZE, SYNC, RENAME, REMOVE, MARK };

// In a record each is followed by its two paths, which end with NUL, and its bytes.
struct event {
    enum call call;
    uint32_t path_size, target_size;
    uint64_t offset; // or size, or number of a mark
    uint64_t length;
};

// --- recording ----------------------------------------------------------------------------------

static char recorded_root[PATH_MAX];
static int recorder = -1;

// The path below the root; NULL: it is elsewhere.
static const char *below_root(const char *path) {
    const size_t length = strlen(recorded_root);
    const int is_below = recorder >= 0 && strncmp(path, recorded_root, length) == 0;
    return !is_below              ? NULL
           : path[length] == '/'  ? path + length + 1
           : path[length] == '\0' ? ""
                                  : NULL;
}

static void append(struct event event, const char *path, const char *target, const void *bytes) {
    const int errno_value = errno;
    if (path != NULL && target != NULL) {
        event.path_size = (uint32_t)strlen(path) + 1;
        event.target_size = (uint32_t)strlen(target) + 1;
        const struct iovec parts[] = {{&event, sizeof event},
                                      {(void *)(uintptr_t)path, event.path_size},
                                      {(void *)(uintptr_t)target, event.target_size},
                                      {(void *)(uintptr_t)bytes, (size_t)event.length}};
        const ssize_t all =
            (ssize_t)(sizeof event + event.path_size + event.target_size + event.length);
        if (syscall(SYS_writev, recorder, parts, 4) != all) {
            abort();
        }
    }
    errno = errno_value;
}

static const char *path_of(int descriptor, char path[PATH_MAX]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    const ssize_t length = recorder >= 0 ? readlink(link, path, PATH_MAX - 1) : -1;
    path[length > 0 ? length : 0] = '\0';
    return below_root(path);
}

static const char *path_at(int folder, const char *name, char path[PATH_MAX]) {
    if (folder == AT_FDCWD || name[0] == '/') {
        return below_root(name);
    }
    if (path_of(folder, path) == NULL) {
        return NULL;
    }
    const size_t length = strlen(path);
    snprintf(path + length, PATH_MAX - length, "/%s", name);
    return below_root(path);
}

void disk_record(const char *root, const char *record) {
    snprintf(recorded_root, sizeof recorded_root, "%s", root);
    recorder = (int)syscall(SYS_openat, AT_FDCWD, record,
                            O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
}

void disk_record_mark(int64_t number) {
    append((struct event){.call = MARK, .offset = (uint64_t)number}, "", "", NULL);
}

// The C library's functions, for Berth's calls of them in this program.

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const int mode = (flags & O_CREAT) != 0 ? va_arg(arguments, int) : 0;
    va_end(arguments);
    struct stat info;
    const int is_new = (flags & O_CREAT) != 0 && below_root(path) != NULL && stat(path, &info) != 0;
    const int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (descriptor >= 0 && is_new) {
        append((struct event){.call = MAKE_FILE}, below_root(path), "", NULL);
    } else if (descriptor >= 0 && (flags & O_TRUNC) != 0) {
        append((struct event){.call = RESIZE}, below_root(path), "", NULL);
    }
    return descriptor;
}

ssize_t write(int descriptor, const void *bytes, size_t length) {
    char path[PATH_MAX];
    const ssize_t count = syscall(SYS_write, descriptor, bytes, length);
    if (count > 0 && path_of(descriptor, path) != NULL) {
        const off_t end = lseek(descriptor, 0, SEEK_CUR);
        append((struct event){.call = WRITE,
                              .offset = (uint64_t)(end - count),
                              .length = (uint64_t)count},
               below_root(path), "", bytes);
    }
    return count;
}

ssize_t pwrite(int descriptor, const void *bytes, size_t length, off_t offset) {
    char path[PATH_MAX];
    const ssize_t count = syscall(SYS_pwrite64, descriptor, bytes, length, offset);
    if (count > 0) {
        append((struct event){.call = WRITE, .offset = (uint64_t)offset, .length = (uint64_t)count},
               path_of(descriptor, path), "", bytes);
    }
    return count;
}

int ftruncate(int descriptor, off_t size) {
    char path[PATH_MAX];
    const int result = (int)syscall(SYS_ftruncate, descriptor, size);
    if (result == 0) {
        append((struct event){.call = RESIZE, .offset = (uint64_t)size}, path_of(descriptor, path),
               "", NULL);
    }
    return result;
}

int fsync(int descriptor) {
    char path[PATH_MAX];
    const int result = (int)syscall(SYS_fsync, descriptor);
    if (result == 0) {
        append((struct event){.call = SYNC}, path_of(descriptor, path), "", NULL);
    }
    return result;
}

int mkdir(const char *path, mode_t mode) {
    const int result = (int)syscall(SYS_mkdir, path, mode);
    if (result == 0) {
        append((struct event){.call = MAKE_FOLDER}, below_root(path), "", NULL);
    }
    return result;
}

int renameat2(int from, const char *path, int to, const char *target, unsigned flags) {
    char one[PATH_MAX], two[PATH_MAX];
    const char *below = path_at(from, path, one), *target_below = path_at(to, target, two);
    const int result = (int)syscall(SYS_renameat2, from, path, to, target, flags);
    if (result == 0) {
        append((struct event){.call = RENAME}, below, target_below, NULL);
    }
    return result;
}

int rename(const char *path, const char *target) {
    return renameat2(AT_FDCWD, path, AT_FDCWD, target, 0);
}

int unlinkat(int folder, const char *name, int flags) {
    char path[PATH_MAX];
    const int result = (int)syscall(SYS_unlinkat, folder, name, flags);
    if (result == 0) {
        append((struct event){.call = REMOVE}, path_at(folder, name, path), "", NULL);
    }
    return result;
}

int unlink(const char *path) {
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path) {
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

// --- the disk -----------------------------------------------------------------------------------

#define BLOCK ((size_t)4096)

struct image {
    char *bytes;
    size_t size;
};

struct names {
    struct entry {
        char *name;
        struct node *node;
    } * entries;
    size_t count, capacity;
};

// The states of a folder's names: at present, at its last sync, after a power failure.
enum state { NOW, SYNCED, FAILED, STATES };

// A file or a folder; nodes are never freed before the disk, since a removed one may come back.
struct node {
    int is_folder;
    struct image now, synced;   // of a file
    struct names names[STATES]; // of a folder
    struct node *next;
};

// A change of names: made (from NULL), removed (to NULL) or renamed.
struct change {
    struct node *from, *to, *what;
    char *from_name, *to_name;
};

struct disk {
    char *record;
    size_t size, at;
    struct node *root, *all;
    struct change *changes; // since the last syncs of their folders
    size_t change_count, change_capacity;
    char **texts; // of all names; owned
    size_t text_count, text_capacity;
    int ignores_syncs;
};

static void *checked(void *block) {
    assert_non_null(block);
    return block;
}

static struct node *node_new(struct disk *disk, int is_folder) {
    struct node *node = checked(memory_array_zeroed(1, sizeof *node));
    node->is_folder = is_folder;
    node->next = disk->all;
    return disk->all = node;
}

static struct entry *names_find(const struct names *names, const char *name) {
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->entries[i].name, name) == 0) {
            return &names->entries[i];
        }
    }
    return NULL;
}

// A NULL node removes the name, which is there.
static void names_set(struct names *names, char *name, struct node *node) {
    struct entry *found = names_find(names, name);
    if (node == NULL) {
        *found = names->entries[--names->count];
    } else if (found != NULL) {
        found->node = node;
    } else {
        names->entries = checked(memory_grow(names->entries, &names->capacity, names->count + 1,
                                             sizeof *names->entries));
        names->entries[names->count++] = (struct entry){name, node};
    }
}

// Splits the last name off; NULL: the folder does not exist.
static struct node *find_parent(const struct disk *disk, const char *path, const char **last) {
    struct node *node = disk->root;
    for (const char *slash; (slash = strchr(path, '/')) != NULL; path = slash + 1) {
        char name[NAME_MAX + 1];
        snprintf(name, sizeof name, "%.*s", (int)(slash - path), path);
        const struct entry *entry = names_find(&node->names[NOW], name);
        if (entry == NULL) {
            return NULL;
        }
        node = entry->node;
    }
    *last = path;
    return node;
}

static struct node *find(const struct disk *disk, const char *path) {
    const char *last = "";
    struct node *parent = find_parent(disk, path, &last);
    if (parent == NULL || last[0] == '\0') {
        return parent;
    }
    const struct entry *entry = names_find(&parent->names[NOW], last);
    return entry != NULL ? entry->node : NULL;
}

// Without the removal of a name that is not there, because the change that made it is lost.
static void apply(const struct change *change, enum state state) {
    struct node *from = change->from, *to = change->to;
    if (from != NULL && names_find(&from->names[state], change->from_name) != NULL) {
        names_set(&from->names[state], change->from_name, NULL);
    }
    if (to != NULL) {
        names_set(&to->names[state], change->to_name, change->what);
    }
}

static char *keep(struct disk *disk, const char *text) {
    disk->texts = checked(
        memory_grow(disk->texts, &disk->text_capacity, disk->text_count + 1, sizeof *disk->texts));
    return disk->texts[disk->text_count++] = checked(memory_string(text));
}

static void change_names(struct disk *disk, const char *from, const char *to, struct node *made) {
    struct change change = {.what = made};
    const char *last = "";
    if (from != NULL) {
        change.what = checked(find(disk, from));
        change.from = checked(find_parent(disk, from, &last));
        change.from_name = keep(disk, last);
    }
    if (to != NULL) {
        change.to = checked(find_parent(disk, to, &last));
        change.to_name = keep(disk, last);
    }
    apply(&change, NOW);
    disk->changes = checked(
        memory_grow(disk->changes, &disk->change_capacity, disk->change_count + 1, sizeof change));
    disk->changes[disk->change_count++] = change;
}

static void resize(struct image *image, size_t size) {
    if (size > image->size) {
        image->bytes = checked(memory_resize(image->bytes, size, 1));
        memset(image->bytes + image->size, 0, size - image->size);
    }
    image->size = size;
}

static void copy_image(struct image *to, const struct image *from) {
    resize(to, from->size);
    if (from->size > 0) {
        memcpy(to->bytes, from->bytes, from->size);
    }
}

static int touches(const struct change *change, struct node *const *folders, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (folders[i] != NULL && (change->from == folders[i] || change->to == folders[i])) {
            return 1;
        }
    }
    return 0;
}

// The changes of the folder's names become certain, and with a renaming the earlier ones of its
// other folder.
static void sync_folder(struct disk *disk, struct node *folder) {
    struct node **folders = checked(memory_array(2 * disk->change_count + 1, sizeof *folders));
    char *is_synced = checked(memory_array_zeroed(disk->change_count + 1, 1));
    size_t count = 0, left = 0;
    folders[count++] = folder;
    for (size_t i = disk->change_count; i-- > 0;) {
        const struct change *change = &disk->changes[i];
        if ((is_synced[i] = (char)touches(change, folders, count)) != 0) {
            folders[count++] = change->from;
            folders[count++] = change->to;
        }
    }
    for (size_t i = 0; i < disk->change_count; i++) {
        if (is_synced[i]) {
            apply(&disk->changes[i], SYNCED);
        } else {
            disk->changes[left++] = disk->changes[i];
        }
    }
    disk->change_count = left;
    memory_free(folders);
    memory_free(is_synced);
}

static void sync_node(struct disk *disk, struct node *node) {
    if (disk->ignores_syncs) {
        return;
    }
    if (node->is_folder) {
        sync_folder(disk, node);
    } else {
        copy_image(&node->synced, &node->now);
    }
}

struct disk *disk_open(const char *record) {
    struct disk *disk = checked(memory_array_zeroed(1, sizeof *disk));
    FILE *file = fopen(record, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    disk->size = (size_t)ftell(file);
    rewind(file);
    disk->record = checked(memory_new(disk->size));
    assert_int_equal(fread(disk->record, 1, disk->size, file), disk->size);
    fclose(file);
    disk->root = node_new(disk, 1);
    return disk;
}

void disk_close(struct disk *disk) {
    for (struct node *node = disk->all, *next; node != NULL; node = next) {
        next = node->next;
        memory_free(node->now.bytes);
        memory_free(node->synced.bytes);
        for (int state = 0; state < STATES; state++) {
            memory_free(node->names[state].entries);
        }
        memory_free(node);
    }
    for (size_t i = 0; i < disk->text_count; i++) {
        memory_free(disk->texts[i]);
    }
    memory_free(disk->texts);
    memory_free(disk->changes);
    memory_free(disk->record);
    memory_free(disk);
}

void disk_ignore_syncs(struct disk *disk) {
    disk->ignores_syncs = 1;
}

static size_t event_size(const struct event *event) {
    return sizeof *event + event->path_size + event->target_size + event->length;
}

size_t disk_events(const struct disk *disk) {
    size_t count = 0;
    struct event event;
    for (size_t at = 0; at < disk->size; at += event_size(&event)) {
        memcpy(&event, disk->record + at, sizeof event);
        count++;
    }
    return count;
}

int64_t disk_step(struct disk *disk) {
    struct event event;
    memcpy(&event, disk->record + disk->at, sizeof event);
    const char *path = disk->record + disk->at + sizeof event, *target = path + event.path_size;
    const char *bytes = target + event.target_size;
    disk->at += event_size(&event);
    struct image *now = event.call == WRITE || event.call == RESIZE ? &find(disk, path)->now : NULL;
    switch (event.call) {
    case MAKE_FILE:
        change_names(disk, NULL, path, node_new(disk, 0));
        break;
    case MAKE_FOLDER:
        change_names(disk, NULL, path, node_new(disk, 1));
        break;
    case WRITE:
        resize(now,
               event.offset + event.length > now->size ? event.offset + event.length : now->size);
        memcpy(now->bytes + event.offset, bytes, event.length);
        break;
    case RESIZE:
        resize(now, event.offset);
        break;
    case SYNC:
        sync_node(disk, checked(find(disk, path)));
        break;
    case RENAME:
        change_names(disk, path, target, NULL);
        break;
    case REMOVE:
        change_names(disk, path, NULL, NULL);
        break;
    case MARK:
        return (int64_t)event.offset;
    }
    return -1;
}

const char *disk_file(const struct disk *disk, const char *path, size_t *length) {
    const struct node *node = find(disk, path);
    *length = node != NULL ? node->now.size : 0;
    return node != NULL ? node->now.bytes : NULL;
}

// --- failing ------------------------------------------------------------------------------------

struct failure {
    uint64_t seed, draws;
    uint32_t lost; // of 16: how likely something that was not synced is lost
};

static int is_lost(struct failure *failure) {
    return rng_below(failure->seed, 5, &failure->draws, 16) < failure->lost;
}

static void write_file(const struct image *image, const char *path) {
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, image->bytes, image->size), image->size);
    close(descriptor);
}

static void fail_file(const struct node *node, struct failure *failure, const char *path) {
    struct image left = {0};
    const struct image *now = &node->now, *synced = &node->synced;
    resize(&left, is_lost(failure) ? synced->size : now->size);
    for (size_t at = 0; at < left.size; at += BLOCK) {
        const struct image *from = now;
        const size_t end = at + BLOCK < left.size ? at + BLOCK : left.size;
        const int is_same = now->size >= end && synced->size >= end &&
                            memcmp(now->bytes + at, synced->bytes + at, end - at) == 0;
        if (!is_same && is_lost(failure)) {
            from = synced;
        }
        if (at < from->size) {
            memcpy(left.bytes + at, from->bytes + at, (end < from->size ? end : from->size) - at);
        }
    }
    write_file(&left, path);
    memory_free(left.bytes);
}

static void fail_folder(const struct node *node, struct failure *failure, const char *path) {
    const struct names *names = &node->names[FAILED];
    for (size_t i = 0; i < names->count; i++) {
        const struct entry *entry = &names->entries[i];
        char inside[PATH_MAX];
        snprintf(inside, sizeof inside, "%s/%s", path, entry->name);
        if (entry->node->is_folder) {
            assert_int_equal(mkdir(inside, 0777), 0);
            fail_folder(entry->node, failure, inside);
        } else {
            fail_file(entry->node, failure, inside);
        }
    }
}

void disk_fail(const struct disk *disk, uint64_t seed, const char *folder) {
    static const uint32_t chances[] = {0, 1, 4, 8, 12, 15, 16};
    struct failure failure = {.seed = seed};
    failure.lost = chances[rng_below(seed, 5, &failure.draws, sizeof chances / sizeof *chances)];
    for (struct node *node = disk->all; node != NULL; node = node->next) {
        const struct names *synced = &node->names[SYNCED];
        node->names[FAILED].count = 0;
        for (size_t i = 0; i < synced->count; i++) {
            names_set(&node->names[FAILED], synced->entries[i].name, synced->entries[i].node);
        }
    }
    for (size_t i = 0; i < disk->change_count; i++) {
        if (!is_lost(&failure)) {
            apply(&disk->changes[i], FAILED);
        }
    }
    fail_folder(disk->root, &failure, folder);
}
