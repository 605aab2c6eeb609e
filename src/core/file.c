// SPDX-License-Identifier: Apache-2.0
// Reading files and writing them atomically; locks are in file_lock.c, folders in dir.c.
// Interrupted calls are repeated, and short reads and writes are completed.
//
// Leaves out: memory mapping (a file that shrinks would kill the process), asynchronous I/O.
#include "core/file.h"

#include "core/file_call.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/words.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define BUFFER_SIZE ((size_t)256 << 10)
#define CHUNK_SIZE ((size_t)64 << 20) // per read or write, so that signals are handled in between
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

char *file_parent(const char *path) {
    const size_t length = path_parent_length(path, strlen(path));
    return length == 0 ? memory_string(".") : memory_string_of(path, length);
}

enum berth_status path_no_memory(struct berth_error *error) {
    return error_no_memory(error, 0, "a file name");
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

enum berth_status file_cannot_read(const char *path, int errno_value, struct berth_error *error) {
    static const int absent[] = {ENOENT, EACCES, EPERM, ENOTDIR, ELOOP, ENAMETOOLONG, EISDIR};
    int is_absent = is_one_of(errno_value, absent, sizeof absent / sizeof *absent);
    return error_set_errno(error, is_absent ? BERTH_NO_INPUT : BERTH_IO, errno_value,
                           "cannot read %s", path);
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
        status = reader->path == NULL ? path_no_memory(error) : BERTH_OK;
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

void file_reader_close(struct file_reader *reader) {
    if (reader->descriptor >= 0) {
        file_call_close(reader->descriptor);
    }
    memory_free(reader->path);
    *reader = (struct file_reader){.descriptor = -1};
}

enum berth_status file_check_size(const char *path, uint64_t bytes, struct berth_error *error) {
    struct file_reader file;
    TRY(file_reader_open(&file, path, error));
    const uint64_t found = file.size;
    file_reader_close(&file);
    return found == bytes
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA, "%s: expected %" PRIu64 " bytes, found %" PRIu64,
                           path, bytes, found);
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

// --- writing ------------------------------------------------------------------------------------

enum berth_status file_cannot_create(const char *path, int errno_value, struct berth_error *error) {
    static const int io_errors[] = {ENOSPC, EDQUOT, EIO, EMFILE, ENFILE, ESTALE};
    int is_io_error = is_one_of(errno_value, io_errors, sizeof io_errors / sizeof *io_errors);
    return error_set_errno(error, is_io_error ? BERTH_IO : BERTH_CANT_CREATE, errno_value,
                           "cannot create %s", path);
}

static enum berth_status writer_report(const struct file_writer *writer,
                                       struct berth_error *error) {
    if (writer->status == BERTH_NO_MEMORY) {
        return error_set(error, BERTH_NO_MEMORY, "out of memory while writing %s", writer->path);
    }
    return error_set_errno(error, writer->status, writer->errno_value,
                           "cannot write %s (the file is unchanged)", writer->path);
}

static enum berth_status writer_fail(struct file_writer *writer, enum berth_status status,
                                     int errno_value, struct berth_error *error) {
    writer->status = status;
    writer->errno_value = errno_value;
    return writer_report(writer, error);
}

// Creates a new file next to the final one. A process with the same pid, dead or on another host,
// may have left the same name; then the next number is tried.
static int open_temporary(struct file_writer *writer) {
    static atomic_uint number;
    size_t size = strlen(writer->path) + 48;
    writer->temporary = memory_new(size);
    if (writer->temporary == NULL) {
        errno = ENOMEM;
        return -1;
    }
    int descriptor = -1;
    for (int attempt = 0; attempt < 1000; attempt++) {
        snprintf(writer->temporary, size, "%s.%ld.%u.tmp", writer->path, (long)getpid(),
                 atomic_fetch_add(&number, 1));
        descriptor = file_call_open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL);
        if (descriptor >= 0 || errno != EEXIST) {
            break;
        }
    }
    return descriptor;
}

static void writer_forget(struct file_writer *writer) {
    memory_free(writer->path);
    memory_free(writer->temporary);
    memory_free(writer->buffer);
    writer->path = writer->temporary = writer->buffer = NULL;
    writer->buffered = 0;
}

enum berth_status file_writer_open(struct file_writer *writer, const char *path,
                                   struct berth_error *error) {
    *writer = (struct file_writer){.descriptor = -1, .status = BERTH_FAILURE};
    struct stat stat_now;
    if (stat(path, &stat_now) == 0 && !S_ISREG(stat_now.st_mode)) {
        return error_set(error, BERTH_CANT_CREATE,
                         "cannot create %s: it exists and is not a regular file", path);
    }
    writer->path = memory_string(path);
    writer->buffer = memory_new(BUFFER_SIZE);
    if (writer->path == NULL || writer->buffer == NULL) {
        writer_forget(writer);
        return error_no_memory(error, BUFFER_SIZE, path);
    }
    writer->descriptor = open_temporary(writer);
    if (writer->descriptor < 0) {
        int errno_value = errno;
        writer_forget(writer);
        return errno_value == ENOMEM ? path_no_memory(error)
                                     : file_cannot_create(path, errno_value, error);
    }
    writer->status = BERTH_OK;
    return BERTH_OK;
}

static enum berth_status write_through(struct file_writer *writer, const char *bytes, size_t length,
                                       struct berth_error *error) {
    while (length > 0) {
        ssize_t count;
        CALL_AGAIN(count,
                   write(writer->descriptor, bytes, length < CHUNK_SIZE ? length : CHUNK_SIZE));
        if (count < 0) {
            return writer_fail(writer, BERTH_IO, errno, error);
        }
        bytes += count;
        length -= (size_t)count;
    }
    return BERTH_OK;
}

static enum berth_status flush(struct file_writer *writer, struct berth_error *error) {
    size_t length = writer->buffered;
    writer->buffered = 0;
    return write_through(writer, writer->buffer, length, error);
}

enum berth_status file_writer_put(struct file_writer *writer, const void *bytes, size_t length,
                                  struct berth_error *error) {
    if (writer->descriptor < 0) {
        return writer->status; // open has reported it
    }
    if (writer->status != BERTH_OK) {
        return writer_report(writer, error);
    }
    if (length > BUFFER_SIZE - writer->buffered) {
        TRY(flush(writer, error));
    }
    if (length > BUFFER_SIZE) {
        return write_through(writer, bytes, length, error);
    }
    if (length > 0) {
        memcpy(writer->buffer + writer->buffered, bytes, length);
        writer->buffered += length;
    }
    return BERTH_OK;
}

enum berth_status file_writer_printf(struct file_writer *writer, struct berth_error *error,
                                     const char *format, ...) {
    char text[512], *longer = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = number_format_list(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof text) {
        longer = memory_new((size_t)length + 1);
        if (longer == NULL) {
            return writer_fail(writer, BERTH_NO_MEMORY, 0, error);
        }
        va_start(arguments, format);
        number_format_list(longer, (size_t)length + 1, format, arguments);
        va_end(arguments);
    }
    enum berth_status status =
        file_writer_put(writer, longer != NULL ? longer : text, (size_t)length, error);
    memory_free(longer);
    return status;
}

// The steps of commit that can fail. The folder is opened first, so that after the rename only its
// sync can fail.
static enum berth_status commit(struct file_writer *writer, const char *parent,
                                struct berth_error *error) {
    TRY(flush(writer, error));
    int folder = file_call_open(parent, O_RDONLY | O_DIRECTORY);
    if (folder < 0) {
        return writer_fail(writer, BERTH_IO, errno, error);
    }
    enum berth_status status = BERTH_OK;
    if (file_call_sync(writer->descriptor) < 0 ||
        CALL(rename(writer->temporary, writer->path)) < 0) {
        status = writer_fail(writer, BERTH_IO, errno, error);
    } else if (file_call_sync_folder(folder) < 0) {
        writer->temporary[0] = '\0'; // renamed to its final name: abort must not remove it
        status = error_set_errno(error, BERTH_IO, errno, "wrote %s, but cannot sync its folder",
                                 writer->path);
        writer->status = status;
    }
    file_call_close(folder);
    return status;
}

enum berth_status file_writer_commit(struct file_writer *writer, struct berth_error *error) {
    enum berth_status status = writer->status;
    if (writer->descriptor < 0) {
        return status; // open has reported it
    }
    char *parent = file_parent(writer->path);
    if (status != BERTH_OK) {
        (void)writer_report(writer, error);
    } else if (parent == NULL) {
        status = path_no_memory(error);
    } else {
        status = commit(writer, parent, error);
    }
    memory_free(parent);
    if (status != BERTH_OK) {
        file_writer_abort(writer);
        return status;
    }
    file_call_close(writer->descriptor);
    writer->descriptor = -1;
    writer_forget(writer);
    return BERTH_OK;
}

void file_writer_abort(struct file_writer *writer) {
    if (writer->descriptor < 0) {
        return;
    }
    file_call_close(writer->descriptor);
    writer->descriptor = -1;
    if (writer->temporary[0] != '\0') {
        (void)CALL(unlink(writer->temporary)); // the first error has been reported
    }
    writer_forget(writer);
}

enum berth_status file_write(const char *path, const void *bytes, size_t length,
                             struct berth_error *error) {
    struct file_writer writer;
    TRY(file_writer_open(&writer, path, error));
    (void)file_writer_put(&writer, bytes, length, error);
    return file_writer_commit(&writer, error);
}

static enum berth_status copy_bytes(const struct file_reader *reader, struct file_writer *writer,
                                    char *buffer, struct berth_error *error) {
    for (uint64_t done = 0; done < reader->size;) {
        const uint64_t left = reader->size - done;
        const size_t count = left < BUFFER_SIZE ? (size_t)left : BUFFER_SIZE;
        TRY(file_reader_at(reader, done, buffer, count, error));
        TRY(file_writer_put(writer, buffer, count, error));
        done += count;
    }
    return file_writer_commit(writer, error);
}

enum berth_status file_copy(const char *from, const char *path, struct berth_error *error) {
    struct file_reader reader;
    struct file_writer writer;
    char *buffer = memory_array(BUFFER_SIZE, 1);
    enum berth_status status = buffer != NULL
                                   ? file_reader_open(&reader, from, error)
                                   : error_no_memory(error, BUFFER_SIZE, "the copy of a file");
    if (status == BERTH_OK) {
        status = file_writer_open(&writer, path, error);
        if (status == BERTH_OK) {
            status = copy_bytes(&reader, &writer, buffer, error);
            file_writer_abort(&writer);
        }
        file_reader_close(&reader);
    }
    memory_free(buffer);
    return status;
}

int file_is_temporary(const char *name) {
    if (!name_has_suffix(name, ".tmp")) {
        return 0;
    }
    size_t at = strlen(name) - strlen(".tmp");
    for (int part = 0; part < 2; part++) {
        size_t end = at;
        while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') {
            at--;
        }
        if (at == end || at < 2 || name[at - 1] != '.') {
            return 0;
        }
        at--;
    }
    return 1;
}

enum berth_status file_remove(const char *path, struct berth_error *error) {
    if (CALL(unlink(path)) < 0 && errno != ENOENT) {
        return error_set_errno(error, BERTH_IO, errno, "cannot remove %s", path);
    }
    return BERTH_OK;
}
