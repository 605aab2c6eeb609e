// SPDX-License-Identifier: Apache-2.0
// Reads and writes TFRecord files. The read buffer grows to the size of the largest record. What a
// record contains is known to its reader.
#include "format/tensorflow/tfrecord.h"

#include "core/little_endian.h"
#include "core/memory.h"
#include "format/checksum/crc32c.h"

#include <inttypes.h>
#include <string.h>

#define BUFFER_BYTES ((size_t)64 << 10)

// --- reading ------------------------------------------------------------------------------------

enum berth_status tfrecord_open(struct tfrecord_reader *reader, const char *path,
                                struct berth_error *error) {
    *reader = (struct tfrecord_reader){.file = {.descriptor = -1}};
    return file_reader_open(&reader->file, path, error);
}

void tfrecord_close(struct tfrecord_reader *reader) {
    file_reader_close(&reader->file);
    memory_free(reader->buffer);
    *reader = (struct tfrecord_reader){.file = {.descriptor = -1}};
}

static uint64_t bytes_left(const struct tfrecord_reader *reader) {
    return reader->file.size - reader->offset;
}

// Reads the `size` bytes at reader->at, which the file has, into the buffer.
static enum berth_status fill(struct tfrecord_reader *reader, size_t size,
                              const unsigned char **bytes, struct berth_error *error) {
    if (reader->offset > reader->buffer_offset + reader->filled) { // records were skipped
        reader->buffer_offset = reader->offset;
        reader->filled = 0;
    }
    size_t used = (size_t)(reader->offset - reader->buffer_offset);
    if (used + size > reader->filled) {
        if (size > reader->capacity) {
            size_t capacity = size > BUFFER_BYTES ? size : BUFFER_BYTES;
            unsigned char *grown = memory_resize(reader->buffer, capacity, 1);
            if (grown == NULL) {
                return error_no_memory(error, capacity, reader->file.path);
            }
            reader->buffer = grown;
            reader->capacity = capacity;
        }
        size_t kept = reader->filled - used;
        memmove(reader->buffer, reader->buffer + used, kept);
        reader->buffer_offset = reader->offset;
        reader->filled = kept;
        used = 0;
        uint64_t rest = bytes_left(reader) - kept;
        size_t room = reader->capacity - kept, count = rest < room ? (size_t)rest : room;
        TRY(file_reader_at(&reader->file, reader->offset + kept, reader->buffer + kept, count,
                           error));
        reader->filled += count;
    }
    *bytes = reader->buffer + used;
    return BERTH_OK;
}

static enum berth_status verify_checksum(const struct tfrecord_reader *reader,
                                         const unsigned char *bytes, size_t length,
                                         const char *part, struct berth_error *error) {
    uint32_t computed = crc32c(0, bytes, length),
             stored = crc32c_unmask(little_endian_u32(bytes + length));
    return computed == stored
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "%s: record at byte %" PRIu64 ": the checksum of its %s is %08" PRIx32
                           ", expected %08" PRIx32 ": the file is damaged or not a TFRecord file",
                           reader->file.path, reader->offset, part, computed, stored);
}

static enum berth_status end_truncated(struct tfrecord_reader *reader, int *more,
                                       struct berth_error *error) {
    if (reader->may_be_torn) {
        reader->torn = bytes_left(reader);
        *more = 0;
        return BERTH_OK;
    }
    return error_set(error, BERTH_BAD_DATA,
                     "%s: the file is truncated within the record at byte %" PRIu64,
                     reader->file.path, reader->offset);
}

// Reads the length of the next record's data, which the file has in full; *more 0: no record is
// left.
static enum berth_status next_frame(struct tfrecord_reader *reader, uint64_t *size, int *more,
                                    struct berth_error *error) {
    const unsigned char *frame = NULL;
    *more = bytes_left(reader) > 0;
    if (!*more) {
        return BERTH_OK;
    }
    if (bytes_left(reader) < TFRECORD_HEADER_BYTES) {
        return end_truncated(reader, more, error);
    }
    TRY(fill(reader, TFRECORD_HEADER_BYTES, &frame, error));
    TRY(verify_checksum(reader, frame, 8, "length", error));
    *size = little_endian(frame, 8);
    uint64_t rest = bytes_left(reader) - TFRECORD_HEADER_BYTES;
    return rest < TFRECORD_FOOTER_BYTES || *size > rest - TFRECORD_FOOTER_BYTES
               ? end_truncated(reader, more, error)
               : BERTH_OK;
}

enum berth_status tfrecord_next(struct tfrecord_reader *reader, const unsigned char **bytes,
                                size_t *length, int *more, struct berth_error *error) {
    const unsigned char *frame = NULL;
    uint64_t size = 0;
    TRY(next_frame(reader, &size, more, error));
    if (!*more) {
        return BERTH_OK;
    }
    size_t whole = TFRECORD_HEADER_BYTES + (size_t)size + TFRECORD_FOOTER_BYTES;
    TRY(fill(reader, whole, &frame, error));
    TRY(verify_checksum(reader, frame + TFRECORD_HEADER_BYTES, (size_t)size, "data", error));
    *bytes = frame + TFRECORD_HEADER_BYTES;
    *length = (size_t)size;
    reader->offset += whole;
    return BERTH_OK;
}

enum berth_status tfrecord_skip(struct tfrecord_reader *reader, int *more,
                                struct berth_error *error) {
    uint64_t size = 0;
    TRY(next_frame(reader, &size, more, error));
    if (*more) {
        reader->offset += TFRECORD_HEADER_BYTES + size + TFRECORD_FOOTER_BYTES;
    }
    return BERTH_OK;
}

enum berth_status tfrecord_recognise(const char *path, int *is, struct berth_error *error) {
    struct tfrecord_reader reader;
    struct berth_error own = {0};
    uint64_t size;
    int more = 0;
    enum berth_status status = tfrecord_open(&reader, path, &own);
    if (status == BERTH_OK) {
        status = next_frame(&reader, &size, &more, &own);
    }
    tfrecord_close(&reader);
    *is = status == BERTH_OK && more;
    return file_probe(status, &own, error);
}

// --- writing ------------------------------------------------------------------------------------

static void write_checksum(const void *bytes, size_t length, unsigned char to[4]) {
    little_endian_put(to, crc32c_mask(crc32c(0, bytes, length)), 4);
}

void tfrecord_frame(const void *bytes, size_t length, unsigned char header[TFRECORD_HEADER_BYTES],
                    unsigned char footer[TFRECORD_FOOTER_BYTES]) {
    little_endian_put(header, length, 8);
    write_checksum(header, 8, header + 8);
    write_checksum(bytes, length, footer);
}

enum berth_status tfrecord_put(struct file_writer *writer, const void *bytes, size_t length,
                               struct berth_error *error) {
    unsigned char header[TFRECORD_HEADER_BYTES], footer[TFRECORD_FOOTER_BYTES];
    tfrecord_frame(bytes, length, header, footer);
    (void)file_writer_put(writer, header, sizeof header, error);
    (void)file_writer_put(writer, bytes, length, error);
    return file_writer_put(writer, footer, sizeof footer, error);
}
