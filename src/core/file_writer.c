// SPDX-License-Identifier: Apache-2.0
// Writes files so that no reader and no crash ever sees half of one: into a temporary file beside
// the target, synced, then renamed. Left to others: files that several processes write
// (file_ranges.c), files that grow (file_partial.c), and logs.
#include "core/file.h"
#include "core/file_call.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/text_util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_SIZE ((size_t)256 << 10)
#define CHUNK_SIZE ((size_t)64 << 20) // per write, so that signals are handled in between

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

int file_standard_descriptor(const char *path) {
    struct stat file, own;
    if (stat(path, &file) < 0) {
        return -1;
    }
    for (int descriptor = STDOUT_FILENO; descriptor <= STDERR_FILENO; descriptor++) {
        if (fstat(descriptor, &own) == 0 && own.st_dev == file.st_dev &&
            own.st_ino == file.st_ino) {
            return descriptor;
        }
    }
    return -1;
}

enum berth_status file_writer_open(struct file_writer *writer, const char *path,
                                   struct berth_error *error) {
    *writer = (struct file_writer){.descriptor = -1, .status = BERTH_FAILURE};
    // A new file must not take the name of one to which the shell sends output: what is sent would
    // be lost, and /dev/stdout would no longer be a link.
    struct stat now;
    if (stat(path, &now) == 0 && !S_ISREG(now.st_mode)) {
        return error_set(error, BERTH_CANT_CREATE,
                         "cannot create %s: it exists and is not a regular file", path);
    }
    if (file_standard_descriptor(path) >= 0) {
        return error_set(error, BERTH_CANT_CREATE,
                         "cannot create %s: the program's output goes there; name another file",
                         path);
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
        return errno_value == ENOMEM ? error_no_memory(error, 0, "a path")
                                     : file_cannot_create(path, errno_value, error);
    }
    writer->status = BERTH_OK;
    return BERTH_OK;
}

enum berth_status file_writer_open_in(struct file_writer *writer, const char *folder,
                                      const char *name, struct berth_error *error) {
    return file_writer_open(writer, path_in(folder, name).text, error);
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

// Everything but the rename. A failure of a put is reported once more.
static enum berth_status complete(struct file_writer *writer, struct berth_error *error) {
    if (writer->descriptor < 0) {
        return writer->status; // open has reported it
    }
    if (writer->status != BERTH_OK) {
        return writer_report(writer, error);
    }
    TRY(flush(writer, error));
    return file_call_sync(writer->descriptor) < 0 ? writer_fail(writer, BERTH_IO, errno, error)
                                                  : BERTH_OK;
}

static enum berth_status publish(struct file_writer *writers, size_t count, int folder,
                                 struct berth_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (CALL(rename(writers[i].temporary, writers[i].path)) < 0) {
            return writer_fail(&writers[i], BERTH_IO, errno, error);
        }
        writers[i].temporary[0] = '\0'; // abort must not remove it
    }
    return file_call_sync_folder(folder) < 0
               ? error_set_errno(error, BERTH_IO, errno, "wrote %s, but cannot sync its folder",
                                 writers[0].path)
               : BERTH_OK;
}

// The folder is opened before the first rename, so that then only renames and its sync can fail.
static enum berth_status commit(struct file_writer *writers, size_t count,
                                struct berth_error *error) {
    for (size_t i = 0; i < count; i++) {
        TRY(complete(&writers[i], error));
    }
    const int folder = file_call_open(path_parent(writers[0].path).text, O_RDONLY | O_DIRECTORY);
    if (folder < 0) {
        return writer_fail(&writers[0], BERTH_IO, errno, error);
    }
    const enum berth_status status = publish(writers, count, folder, error);
    file_call_close(folder);
    return status;
}

enum berth_status file_writer_commit_all(struct file_writer *writers, size_t count,
                                         struct berth_error *error) {
    const enum berth_status status = commit(writers, count, error);
    for (size_t i = 0; i < count; i++) {
        file_writer_abort(&writers[i]); // only closes those that were renamed
    }
    return status;
}

enum berth_status file_writer_commit(struct file_writer *writer, struct berth_error *error) {
    return file_writer_commit_all(writer, 1, error);
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
