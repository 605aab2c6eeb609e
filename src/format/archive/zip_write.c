// SPDX-License-Identifier: Apache-2.0
// Writes zip archives in torch's layout: CRC and sizes after the data, so that the data is read
// once, and data aligned by a padding field "FB" in the local header. torch/torch_write.c writes a
// checkpoint through it.
#include "format/archive/deflate.h"
#include "format/archive/zip.h"

#include <string.h>

enum {
    ALIGNMENT = 64,
    LOCAL_BYTES = 30,
    VERSION = 20,
    VERSION64 = 45, // of the format, needed for ZIP64
    FLAGS = 0x0808, // CRC after the data; names in UTF-8
    EXTRA_PADDING = 0x4246,
    EXTRA_ZIP64 = 1,
    DATE = 0x21 // 1 January 1980, the earliest date
};
#define CHUNK_BYTES ((uint64_t)256 << 10) // of data: still in the cache when written

enum berth_status zip_writer_open(struct zip_writer *writer, const char *path,
                                  struct berth_error *error) {
    *writer = (struct zip_writer){.zip64_threshold = UINT32_MAX};
    return file_writer_open(&writer->file, path, error);
}

void zip_writer_abort(struct zip_writer *writer) {
    file_writer_abort(&writer->file);
    buffer_done(&writer->directory);
}

// Writes `bytes` and empties it.
static enum berth_status flush(struct zip_writer *writer, struct buffer *bytes,
                               struct berth_error *error) {
    enum berth_status status =
        bytes->failed ? error_no_memory(error, bytes->length, "a zip archive's header")
                      : file_writer_put(&writer->file, bytes->bytes, bytes->length, error);
    writer->offset += bytes->length;
    buffer_done(bytes);
    return status;
}

// Appends a 4-byte number, all ones when the 8-byte form follows elsewhere.
static void put_size(struct buffer *bytes, const struct zip_writer *writer, uint64_t number) {
    buffer_put_number(bytes, number >= writer->zip64_threshold ? UINT32_MAX : number, 4);
}

// An entry in progress.
struct entry {
    const char *name;
    uint64_t header, size;
    uint32_t crc;
    int large;
};

static void put_versions(struct buffer *bytes, int large) {
    buffer_put_number(bytes, large ? VERSION64 : VERSION, 2);
    buffer_put_number(bytes, FLAGS, 2);
    buffer_put_number(bytes, 0, 2); // stored
    buffer_put_number(bytes, 0, 2); // midnight
    buffer_put_number(bytes, DATE, 2);
}

static enum berth_status put_local(struct zip_writer *writer, const struct entry *entry,
                                   struct berth_error *error) {
    struct buffer bytes = {0};
    size_t name_length = strlen(entry->name), zip64 = entry->large ? 20 : 0;
    size_t padding =
        ALIGNMENT - (writer->offset + LOCAL_BYTES + name_length + zip64 + 4) % ALIGNMENT;
    padding %= ALIGNMENT;
    buffer_put_number(&bytes, 0x04034b50, 4);
    put_versions(&bytes, entry->large);
    buffer_put_number(&bytes, 0, 4); // CRC: after the data, as are sizes that fit
    buffer_put_number(&bytes, entry->large ? UINT32_MAX : 0, 4);
    buffer_put_number(&bytes, entry->large ? UINT32_MAX : 0, 4);
    buffer_put_number(&bytes, name_length, 2);
    buffer_put_number(&bytes, zip64 + 4 + padding, 2);
    buffer_put_text(&bytes, entry->name);
    if (entry->large) {
        buffer_put_number(&bytes, EXTRA_ZIP64, 2);
        buffer_put_number(&bytes, 16, 2);
        buffer_put_number(&bytes, entry->size, 8);
        buffer_put_number(&bytes, entry->size, 8);
    }
    buffer_put_number(&bytes, EXTRA_PADDING, 2);
    buffer_put_number(&bytes, padding, 2);
    for (size_t i = 0; i < padding; i++) {
        buffer_put_text(&bytes, "Z");
    }
    return flush(writer, &bytes, error);
}

static void put_record(struct zip_writer *writer, const struct entry *entry) {
    struct buffer *bytes = &writer->directory;
    int has_large_offset = entry->header >= writer->zip64_threshold;
    size_t extra = (entry->large ? 16 : 0) + (has_large_offset ? 8 : 0);
    buffer_put_number(bytes, 0x02014b50, 4);
    buffer_put_number(bytes, extra > 0 ? VERSION64 : VERSION, 2);
    put_versions(bytes, extra > 0);
    buffer_put_number(bytes, entry->crc, 4);
    put_size(bytes, writer, entry->size);
    put_size(bytes, writer, entry->size);
    buffer_put_number(bytes, strlen(entry->name), 2);
    buffer_put_number(bytes, extra > 0 ? extra + 4 : 0, 2);
    buffer_put_number(bytes, 0, 2 + 2 + 2); // no comment; part 0; no attributes
    buffer_put_number(bytes, 0, 4);
    put_size(bytes, writer, entry->header);
    buffer_put_text(bytes, entry->name);
    if (extra > 0) {
        buffer_put_number(bytes, EXTRA_ZIP64, 2);
        buffer_put_number(bytes, extra, 2);
    }
    if (entry->large) {
        buffer_put_number(bytes, entry->size, 8);
        buffer_put_number(bytes, entry->size, 8);
    }
    if (has_large_offset) {
        buffer_put_number(bytes, entry->header, 8);
    }
}

enum berth_status zip_writer_add(struct zip_writer *writer, const char *name, const void *data,
                                 uint64_t size, struct berth_error *error) {
    struct entry entry = {.name = name,
                          .header = writer->offset,
                          .size = size,
                          .large = size >= writer->zip64_threshold};
    TRY(put_local(writer, &entry, error));
    for (uint64_t done = 0; done < entry.size; done += CHUNK_BYTES) {
        uint64_t left = entry.size - done;
        size_t now = (size_t)(left < CHUNK_BYTES ? left : CHUNK_BYTES);
        entry.crc = deflate_crc32(entry.crc, data + done, now);
        TRY(file_writer_put(&writer->file, data + done, now, error));
    }
    writer->offset += entry.size;
    struct buffer bytes = {0};
    size_t width = entry.large ? 8 : 4;
    buffer_put_number(&bytes, 0x08074b50, 4);
    buffer_put_number(&bytes, entry.crc, 4);
    buffer_put_number(&bytes, entry.size, width);
    buffer_put_number(&bytes, entry.size, width);
    TRY(flush(writer, &bytes, error));
    put_record(writer, &entry);
    writer->count++;
    return BERTH_OK;
}

// Appends the ZIP64 end record (the directory's offset in 8-byte numbers) and its locator.
static void put_end64(const struct zip_writer *writer, uint64_t size, struct buffer *bytes) {
    uint64_t end = writer->offset + size;
    buffer_put_number(bytes, 0x06064b50, 4);
    buffer_put_number(bytes, 44, 8); // bytes that follow
    buffer_put_number(bytes, VERSION64, 2);
    buffer_put_number(bytes, VERSION64, 2);
    buffer_put_number(bytes, 0, 8); // one part
    buffer_put_number(bytes, writer->count, 8);
    buffer_put_number(bytes, writer->count, 8);
    buffer_put_number(bytes, size, 8);
    buffer_put_number(bytes, writer->offset, 8);
    buffer_put_number(bytes, 0x07064b50, 4);
    buffer_put_number(bytes, 0, 4);
    buffer_put_number(bytes, end, 8);
    buffer_put_number(bytes, 1, 4);
}

enum berth_status zip_writer_commit(struct zip_writer *writer, struct berth_error *error) {
    struct buffer *bytes = &writer->directory;
    uint64_t size = bytes->length;
    int large = writer->offset >= writer->zip64_threshold || writer->count >= UINT16_MAX;
    if (large) {
        put_end64(writer, size, bytes);
    }
    buffer_put_number(bytes, 0x06054b50, 4);
    buffer_put_number(bytes, 0, 4); // one part
    buffer_put_number(bytes, large ? UINT16_MAX : writer->count, 2);
    buffer_put_number(bytes, large ? UINT16_MAX : writer->count, 2);
    buffer_put_number(bytes, large ? UINT32_MAX : size, 4);
    buffer_put_number(bytes, large ? UINT32_MAX : writer->offset, 4);
    buffer_put_number(bytes, 0, 2); // no comment
    enum berth_status status = flush(writer, bytes, error);
    if (status == BERTH_OK) {
        status = file_writer_commit(&writer->file, error);
    }
    zip_writer_abort(writer);
    return status;
}
