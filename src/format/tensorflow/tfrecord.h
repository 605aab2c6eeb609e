// SPDX-License-Identifier: Apache-2.0
// TFRecord: a file of records, each framed as u64 length, its masked CRC-32C, the data, their
// masked CRC-32C (all little-endian). TensorFlow's data sets and TensorBoard's event files use it.
#ifndef BERTH_FORMAT_TFRECORD_H
#define BERTH_FORMAT_TFRECORD_H

#include "core/error.h"
#include "core/file.h"

#include <stddef.h>
#include <stdint.h>

#define TFRECORD_HEADER_BYTES 12 // before a record's data
#define TFRECORD_FOOTER_BYTES 4  // after the data

// --- reading ------------------------------------------------------------------------------------

struct tfrecord_reader {
    struct file_reader file;
    uint64_t offset;        // offset of the next record in the file
    uint64_t buffer_offset; // offset of the buffer's first byte in the file
    unsigned char *buffer;  // capacity bytes, the first `filled` read
    size_t filled, capacity;
    // Set it after opening when the writer may still be running or was killed: a truncated record
    // at the end then counts as the end of the file, and `torn` is its size in bytes.
    int may_be_torn;
    uint64_t torn;
};

enum berth_status tfrecord_open(struct tfrecord_reader *reader, const char *path,
                                struct berth_error *error);
// The next record's data, borrowed until the next call; *more is 0 at the end of the file. A wrong
// checksum or a truncated record is BERTH_BAD_DATA, with file and offset in the message. Memory is
// bounded by the bytes that remain in the file.
enum berth_status tfrecord_next(struct tfrecord_reader *reader, const unsigned char **bytes,
                                size_t *length, int *more, struct berth_error *error);
// Skips the next record without reading or checking its data; *more as above.
enum berth_status tfrecord_skip(struct tfrecord_reader *reader, int *more,
                                struct berth_error *error);
void tfrecord_close(struct tfrecord_reader *reader);
// Sets *is to whether there is such a file that begins with a complete record, by its length and
// the length's checksum. A read error is BERTH_IO.
enum berth_status tfrecord_recognise(const char *path, int *is, struct berth_error *error);

// --- writing ------------------------------------------------------------------------------------

// Computes the header and footer of a record.
void tfrecord_frame(const void *bytes, size_t length, unsigned char header[TFRECORD_HEADER_BYTES],
                    unsigned char footer[TFRECORD_FOOTER_BYTES]);
// Writes a record.
enum berth_status tfrecord_put(struct file_writer *writer, const void *bytes, size_t length,
                               struct berth_error *error);

#endif
