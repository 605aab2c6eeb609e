// SPDX-License-Identifier: Apache-2.0
// Reads and writes zip archives as PyTorch does: stored (uncompressed) entries, ZIP64 for large
// archives.
//
// Refuses compression, encryption, multi-part archives and comments. So the entries are never
// larger than the file, and no data can hide before or after the archive. The contents of entries
// are read by format/torch.
#ifndef BERTH_FORMAT_ZIP_H
#define BERTH_FORMAT_ZIP_H

#include "core/buffer.h"
#include "core/error.h"
#include "core/file.h"

#include <stddef.h>
#include <stdint.h>

struct zip_entry {
    const char *name;
    uint64_t header;      // offset of its local header in the file
    uint64_t begin, size; // of its data
    uint32_t crc;         // CRC-32 of its data
    uint16_t flags;
};

struct zip {
    struct file_reader file;
    struct zip_entry *entries; // sorted by name
    size_t count;
    int has_crc;              // 0: written without checksums, all of them 0
    unsigned char *directory; // the central directory as in the file
    char *names;
};

// Reads the central directory and checks every local header against it. Names must be distinct and
// relative, without "..", backslashes and control characters; entries must not overlap.
enum berth_status zip_open(struct zip *zip, const char *path, struct berth_error *error);
void zip_close(struct zip *zip);
// The entry of that name, or NULL.
const struct zip_entry *zip_find(const struct zip *zip, const char *name);
// Checks the CRC of an entry's data, if the archive has any.
enum berth_status zip_check(const struct zip *zip, const struct zip_entry *entry,
                            struct berth_error *error);

// Writes an archive atomically, with the data aligned to 64 bytes. After a failed call, call abort;
// it is allowed after commit, too.
struct zip_writer {
    struct file_writer file;
    uint64_t offset;
    struct buffer directory; // the central directory so far
    uint64_t count;
    uint64_t zip64_threshold; // numbers from this one on use ZIP64 fields: 2^32 - 1, less in tests
};
enum berth_status zip_writer_open(struct zip_writer *writer, const char *path,
                                  struct berth_error *error);
enum berth_status zip_writer_add(struct zip_writer *writer, const char *name, const void *data,
                                 uint64_t size, struct berth_error *error);
enum berth_status zip_writer_commit(struct zip_writer *writer, struct berth_error *error);
void zip_writer_abort(struct zip_writer *writer);

#endif
