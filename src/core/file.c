// SPDX-License-Identifier: Apache-2.0
// System calls, names and reading. Writing is in file_writer.c, locks in file_lock.c, folders in
// dir.c and dir_tree.c. Interrupted calls are repeated, and short reads and writes are completed.
//
// Leaves out: memory mapping (a file that shrinks would kill the process), asynchronous I/O.
#include "core/file.h"

#include "core/file_call.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define CHUNK_SIZE ((size_t)64 << 20) // per read, so that signals are handled in between
#define WRITER_WAIT_SECONDS 10        // for a FIFO's writer
#define WRITER_POLL_MILLISECONDS 50
// A Git LFS pointer, which git checks out instead of the content, and an upper bound of its size.
#define POINTER_START "version https://git-lfs.github.com/spec/v1"
#define POINTER_LIMIT 1024

// --- the hook and the calls ---------------------------------------------------------------------

static atomic_uint_fast64_t calls;
static atomic_uint_fast64_t fail_at;
static atomic_int fail_errno;

uint64_t file_fail_at(uint64_t countdown, int errno_value) {
    atomic_store(&fail_at, 0);
    uint64_t seen = atomic_exchange(&calls, 0);
    atomic_store(&fail_errno, errno_value);
    atomic_store(&fail_at, countdown);
    return seen;
}

int file_call_fails(void) {
    if (atomic_fetch_add(&calls, 1) + 1 != atomic_load(&fail_at)) {
        return 0;
    }
    if (atomic_load(&fail_errno) < 0) {
        raise(SIGKILL);
    }
    errno = atomic_load(&fail_errno);
    return 1;
}

int file_call_open(const char *path, int flags) {
    int descriptor;
    CALL_AGAIN(descriptor, open(path, flags | O_CLOEXEC, 0666));
    return descriptor;
}

int file_call_write(int descriptor, const char *bytes, size_t length) {
    while (length > 0) {
        const ssize_t written = write(descriptor, bytes, length);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return written < 0 ? errno : EIO;
        }
        bytes += written;
        length -= (size_t)written;
    }
    return 0;
}

int file_call_sync(int descriptor) {
    int result;
    CALL_AGAIN(result, fsync(descriptor));
    return result;
}

int file_call_sync_folder(int descriptor) {
    int result = file_call_sync(descriptor);
    return result < 0 && (errno == EINVAL || errno == ENOTSUP) ? 0 : result;
}

void file_call_close(int descriptor) {
    int kept = errno;
    close(descriptor); // after a sync or a read close has no error to report
    errno = kept;
}

// --- names --------------------------------------------------------------------------------------

char *path_join(const char *folder, const char *name) {
    size_t folder_length = strlen(folder), name_length = strlen(name);
    int slash = folder_length > 0 && folder[folder_length - 1] != '/';
    char *path = memory_new(folder_length + name_length + 2);
    if (path != NULL) {
        memcpy(path, folder, folder_length);
        memcpy(path + folder_length, "/", 1);
        memcpy(path + folder_length + (size_t)slash, name, name_length + 1);
    }
    return path;
}

struct path path_format(const char *format, ...) {
    struct path path;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path.text, sizeof path.text, format, arguments);
    va_end(arguments);
    return path;
}

struct path path_in(const char *folder, const char *name) {
    const size_t length = strlen(folder);
    const int slash = length > 0 && folder[length - 1] != '/';
    return path_format("%s%s%s", folder, slash ? "/" : "", name);
}

static size_t without_slashes(const char *path, size_t length) {
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    return length;
}

static size_t before_name(const char *path, size_t length) {
    while (length > 0 && path[length - 1] != '/') {
        length--;
    }
    return length;
}

size_t path_length(const char *path) {
    return without_slashes(path, strlen(path));
}

const char *path_name(const char *path) {
    return path + before_name(path, strlen(path));
}

const char *path_name_trimmed(const char *path, size_t *length) {
    const size_t end = path_length(path), begin = before_name(path, end);
    *length = end - begin;
    return path + begin;
}

size_t path_parent_length(const char *path, size_t length) {
    return without_slashes(path, before_name(path, without_slashes(path, length)));
}

struct path path_parent(const char *path) {
    const size_t whole = strlen(path), length = path_parent_length(path, whole);
    return whole >= PATH_MAX ? path_format("%s", path)
           : length == 0     ? path_format(".")
                             : path_format("%.*s", (int)length, path);
}

char *file_parent(const char *path) {
    const size_t length = path_parent_length(path, strlen(path));
    return length == 0 ? memory_string(".") : memory_string_of(path, length);
}

// --- reading ------------------------------------------------------------------------------------

static int is_one_of(int errno_value, const int *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (errno_value == values[i]) {
            return 1;
        }
    }
    return 0;
}

// An empty path would be a gap in the message.
static const char *shown(const char *path) {
    return *path != '\0' ? path : "\"\"";
}

enum berth_status file_cannot_read(const char *path, int errno_value, struct berth_error *error) {
    static const int absent[] = {ENOENT, EACCES, EPERM, ENOTDIR, ELOOP, ENAMETOOLONG, EISDIR};
    int is_absent = is_one_of(errno_value, absent, sizeof absent / sizeof *absent);
    return error_set_errno(error, is_absent ? BERTH_NO_INPUT : BERTH_IO, errno_value,
                           "cannot read %s", shown(path));
}

enum berth_status file_cannot_create(const char *path, int errno_value, struct berth_error *error) {
    static const int io_errors[] = {ENOSPC, EDQUOT, EIO, EMFILE, ENFILE, ESTALE};
    int is_io_error = is_one_of(errno_value, io_errors, sizeof io_errors / sizeof *io_errors);
    return error_set_errno(error, is_io_error ? BERTH_IO : BERTH_CANT_CREATE, errno_value,
                           "cannot create %s", shown(path));
}

static enum berth_status refuse_pointer(const char *path, const char *bytes, size_t length,
                                        struct berth_error *error) {
    const size_t start = strlen(POINTER_START);
    return length < start || length >= POINTER_LIMIT || memcmp(bytes, POINTER_START, start) != 0
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "%s: a Git LFS pointer, not the file's content; get it with `git lfs "
                           "pull` in its folder, or download all files with `berth fetch`",
                           path);
}

// Opens without blocking: opening a FIFO without a writer would block forever.
static enum berth_status open_input(const char *path, int *descriptor, struct stat *info,
                                    struct berth_error *error) {
    *descriptor = file_call_open(path, O_RDONLY | O_NONBLOCK);
    if (*descriptor < 0) {
        return file_cannot_read(path, errno, error);
    }
    if (CALL(fstat(*descriptor, info)) < 0) {
        enum berth_status status = file_cannot_read(path, errno, error);
        file_call_close(*descriptor);
        return status;
    }
    return BERTH_OK;
}

// Whether a FIFO has a name. A pipe without a name cannot get a new writer.
static int is_named(int fifo) {
    struct statfs info;
    return fstatfs(fifo, &info) < 0 || info.f_type != PIPEFS_MAGIC;
}

// Whether a process writes to the FIFO, or has done so: the FIFO has data or is at its end, or tee
// would block. `scratch` is the write end of a pipe.
static int has_writer(int fifo, int scratch) {
    struct pollfd input = {.fd = fifo, .events = POLLIN};
    return poll(&input, 1, WRITER_POLL_MILLISECONDS) > 0 ||
           (tee(fifo, scratch, 1, SPLICE_F_NONBLOCK) < 0 && errno == EAGAIN);
}

static enum berth_status wait_for_writer(int fifo, const char *path, struct berth_error *error) {
    int scratch[2], found = 0;
    if (CALL(pipe2(scratch, O_CLOEXEC)) < 0) {
        return file_cannot_read(path, errno, error);
    }
    for (int waited = 0; !found && waited < WRITER_WAIT_SECONDS * 1000;
         waited += WRITER_POLL_MILLISECONDS) {
        found = has_writer(fifo, scratch[1]);
    }
    file_call_close(scratch[0]);
    file_call_close(scratch[1]);
    return found ? BERTH_OK
                 : error_set(error, BERTH_NO_INPUT,
                             "cannot read %s: a FIFO that no process has opened for writing within "
                             "%d seconds; start its writer, or name a file",
                             path, WRITER_WAIT_SECONDS);
}

// Makes the descriptor blocking again, after waiting for a FIFO's writer.
static enum berth_status make_blocking(int descriptor, const struct stat *info, const char *path,
                                       struct berth_error *error) {
    if (S_ISREG(info->st_mode)) {
        return BERTH_OK;
    }
    if (S_ISFIFO(info->st_mode) && is_named(descriptor)) {
        TRY(wait_for_writer(descriptor, path, error));
    }
    int flags = CALL(fcntl(descriptor, F_GETFL));
    if (flags < 0 || CALL(fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK)) < 0) {
        return file_cannot_read(path, errno, error);
    }
    return BERTH_OK;
}

enum berth_status file_open_stream(const char *path, int *descriptor, struct berth_error *error) {
    struct stat info;
    TRY(open_input(path, descriptor, &info, error));
    enum berth_status status = make_blocking(*descriptor, &info, path, error);
    if (status != BERTH_OK) {
        file_call_close(*descriptor);
        *descriptor = -1;
    }
    return status;
}

// read() of up to `bytes` bytes; -1 with errno.
static ssize_t read_some(int descriptor, void *to, size_t bytes) {
    ssize_t count;
    CALL_AGAIN(count, read(descriptor, to, bytes < CHUNK_SIZE ? bytes : CHUNK_SIZE));
    return count;
}

// Reads to the end of the file, whatever fstat said (pipes and growing files), into *bytes.
static enum berth_status read_all(int descriptor, const char *path, size_t expected, size_t limit,
                                  char **bytes, size_t *length, struct berth_error *error) {
    size_t capacity = expected + 1;
    *bytes = memory_new(capacity);
    *length = 0;
    while (*bytes != NULL) {
        ssize_t count = read_some(descriptor, *bytes + *length, capacity - *length);
        if (count < 0) {
            return file_cannot_read(path, errno, error);
        }
        *length += (size_t)count;
        if (*length > limit) {
            return error_set(error, BERTH_BAD_DATA, "%s: larger than the limit of %zu bytes", path,
                             limit);
        }
        if (count == 0 && *length < capacity) {
            (*bytes)[*length] = '\0';
            return BERTH_OK;
        }
        if (*length == capacity) {
            capacity = 2 * capacity + 4096;
            char *grown = memory_resize(*bytes, capacity, 1);
            if (grown == NULL) {
                break;
            }
            *bytes = grown;
        }
    }
    return error_no_memory(error, capacity, path);
}

enum berth_status file_read_stream(int descriptor, const char *name, size_t limit, char **bytes,
                                   size_t *length, struct berth_error *error) {
    enum berth_status status = read_all(descriptor, name, 0, limit, bytes, length, error);
    if (status != BERTH_OK) {
        memory_free(*bytes);
        *bytes = NULL;
    }
    return status;
}

enum berth_status file_read(const char *path, size_t limit, char **bytes, size_t *length,
                            struct berth_error *error) {
    int descriptor;
    struct stat info;
    *bytes = NULL;
    TRY(open_input(path, &descriptor, &info, error));
    enum berth_status status = make_blocking(descriptor, &info, path, error);
    if (status == BERTH_OK && S_ISREG(info.st_mode) && (uint64_t)info.st_size > limit) {
        status = error_set(error, BERTH_BAD_DATA, "%s: %lld bytes, the limit is %zu", path,
                           (long long)info.st_size, limit);
    } else if (status == BERTH_OK) {
        size_t expected = S_ISREG(info.st_mode) ? (size_t)info.st_size : 0;
        status = read_all(descriptor, path, expected, limit, bytes, length, error);
        status = status == BERTH_OK ? refuse_pointer(path, *bytes, *length, error) : status;
    }
    file_call_close(descriptor);
    if (status != BERTH_OK) {
        memory_free(*bytes);
        *bytes = NULL;
    }
    return status;
}

static enum berth_status check_content(const struct file_reader *reader,
                                       struct berth_error *error) {
    char bytes[POINTER_LIMIT];
    if (reader->size >= sizeof bytes) {
        return BERTH_OK;
    }
    TRY(file_reader_at(reader, 0, bytes, (size_t)reader->size, error));
    return refuse_pointer(reader->path, bytes, (size_t)reader->size, error);
}

enum berth_status file_reader_open(struct file_reader *reader, const char *path,
                                   struct berth_error *error) {
    int descriptor;
    struct stat info;
    *reader = (struct file_reader){.descriptor = -1};
    TRY(open_input(path, &descriptor, &info, error));
    enum berth_status status = BERTH_OK;
    if (!S_ISREG(info.st_mode)) {
        status = error_set(error, BERTH_NO_INPUT, "cannot read %s: not a regular file", path);
    } else {
        reader->path = memory_string(path);
        status = reader->path == NULL ? error_no_memory(error, 0, "a path") : BERTH_OK;
    }
    if (status != BERTH_OK) {
        file_call_close(descriptor);
        return status;
    }
    reader->descriptor = descriptor;
    reader->size = (uint64_t)info.st_size;
    status = check_content(reader, error);
    if (status != BERTH_OK) {
        file_reader_close(reader);
    }
    return status;
}

enum berth_status file_reader_at(const struct file_reader *reader, uint64_t offset, void *to,
                                 size_t bytes, struct berth_error *error) {
    for (size_t done = 0; done < bytes;) {
        size_t chunk = bytes - done < CHUNK_SIZE ? bytes - done : CHUNK_SIZE;
        ssize_t count;
        CALL_AGAIN(count,
                   pread(reader->descriptor, (char *)to + done, chunk, (off_t)(offset + done)));
        if (count < 0) {
            return file_cannot_read(reader->path, errno, error);
        }
        if (count == 0) {
            return error_set(error, BERTH_BAD_DATA,
                             "%s: the file is truncated: it ends at byte %" PRIu64
                             ", expected %zu bytes from byte %" PRIu64,
                             reader->path, offset + done, bytes, offset);
        }
        done += (size_t)count;
    }
    return BERTH_OK;
}

int file_map(const struct file_reader *reader, uint64_t offset, size_t bytes,
             struct file_mapping *mapping) {
    const size_t before = (size_t)(offset % (uint64_t)sysconf(_SC_PAGESIZE));
    *mapping = (struct file_mapping){.length = before + bytes};
    if (bytes == 0 || offset > reader->size || bytes > reader->size - offset) {
        return 0;
    }
    void *pages = mmap(NULL, mapping->length, PROT_READ, MAP_PRIVATE, reader->descriptor,
                       (off_t)(offset - before));
    if (pages == MAP_FAILED) {
        return 0;
    }
    mapping->pages = pages;
    mapping->bytes = (const char *)pages + before;
    return 1;
}

void file_map_rest(const struct file_mapping *mapping) {
    if (mapping->pages != NULL) {
        madvise(mapping->pages, mapping->length, MADV_DONTNEED);
    }
}

void file_unmap(struct file_mapping *mapping) {
    if (mapping->pages != NULL) {
        munmap(mapping->pages, mapping->length);
    }
    *mapping = (struct file_mapping){0};
}

void file_reader_close(struct file_reader *reader) {
    if (reader->descriptor >= 0) {
        file_call_close(reader->descriptor);
    }
    memory_free(reader->path);
    *reader = (struct file_reader){.descriptor = -1};
}

enum berth_status file_probe(enum berth_status status, const struct berth_error *own,
                             struct berth_error *error) {
    if (status != BERTH_IO && status != BERTH_NO_MEMORY) {
        return BERTH_OK;
    }
    if (error != NULL) {
        *error = *own;
    }
    return status;
}

enum berth_status file_remove(const char *path, struct berth_error *error) {
    if (CALL(unlink(path)) < 0 && errno != ENOENT) {
        return error_set_errno(error, BERTH_IO, errno, "cannot remove %s", path);
    }
    return BERTH_OK;
}

// --- the number of open files --------------------------------------------------------------------

// Writers of many shards and the server raise it to what the system allows, and stay below it.
size_t file_limit(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < SIZE_MAX
               ? (size_t)limit.rlim_cur
               : SIZE_MAX;
}

void file_limit_raise(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}
