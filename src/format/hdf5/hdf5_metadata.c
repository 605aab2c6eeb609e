// SPDX-License-Identifier: Apache-2.0
// Reads a block of HDF5's metadata after a check of its bounds, and the numbers of whatever width
// that are in it. All other files of the reader take their bytes from here, so none of them sees
// past the end of a file; data of chunks goes another way (hdf5_decompress.c).
#include "core/little_endian.h"
#include "core/memory.h"
#include "format/hdf5/hdf5_internal.h"

#include <inttypes.h>

// --- the metadata -------------------------------------------------------------------------------

uint64_t hdf5_read_number(struct hdf5_cursor *cursor, size_t size) {
    if (size > cursor->length - cursor->position) {
        cursor->is_truncated = 1;
        cursor->position = cursor->length;
        return 0;
    }
    cursor->position += size;
    return little_endian(cursor->bytes + cursor->position - size, size);
}

void hdf5_skip(struct hdf5_cursor *cursor, uint64_t size) {
    if (size > cursor->length - cursor->position) {
        cursor->is_truncated = 1;
        cursor->position = cursor->length;
        return;
    }
    cursor->position += (size_t)size;
}

enum berth_status hdf5_error(const struct hdf5_file *file, uint64_t address, const char *problem,
                             struct berth_error *error) {
    return error_set(error, BERTH_BAD_DATA, "%s: HDF5 file, byte %" PRIu64 ": %s", file->file.path,
                     address, problem);
}

enum berth_status hdf5_never_written(const struct hdf5_file *file, uint64_t address,
                                     struct berth_error *error) {
    return hdf5_error(file, address, "the data was never written: the file is incomplete", error);
}

enum berth_status hdf5_read_bytes(const struct hdf5_file *file, uint64_t address, void *to,
                                  size_t bytes, struct berth_error *error) {
    return file_reader_at(&file->file, file->base + address, to, bytes, error);
}

enum berth_status hdf5_read_metadata(struct hdf5_file *file, uint64_t address, uint64_t length,
                                     unsigned char **block, struct hdf5_cursor *cursor,
                                     struct berth_error *error) {
    *block = NULL;
    *cursor = (struct hdf5_cursor){.begin = address};
    if (address > file->size || length > file->size - address) {
        return hdf5_error(file, address,
                          "metadata extends beyond the end of the file: it is truncated or damaged",
                          error);
    }
    if (length > file->metadata_left) {
        return hdf5_error(file, address, "metadata overlaps or forms cycles: the file is damaged",
                          error);
    }
    file->metadata_left -= length;
    *block = memory_new((size_t)length + 1);
    if (*block == NULL) {
        return error_no_memory(error, (size_t)length, file->file.path);
    }
    enum berth_status status = hdf5_read_bytes(file, address, *block, (size_t)length, error);
    if (status != BERTH_OK) {
        memory_free(*block);
        *block = NULL;
        return status;
    }
    *cursor = (struct hdf5_cursor){.bytes = *block, .length = (size_t)length, .begin = address};
    return BERTH_OK;
}

// --- links --------------------------------------------------------------------------------------

enum berth_status hdf5_links_put(const struct hdf5_file *file, struct hdf5_links *links,
                                 const unsigned char *name, size_t length, uint64_t header,
                                 struct berth_error *error) {
    size_t needed = links->count + 1;
    if (length > HDF5_NAME_MAX) {
        return hdf5_error(file, header, "an object with a name of more than 1,024 bytes", error);
    }
    struct hdf5_link *grown = memory_grow(links->items, &links->capacity, needed, sizeof *grown);
    if (grown == NULL) {
        return error_no_memory(error, needed * sizeof *grown, "the list of data sets");
    }
    links->items = grown;
    char *copy = memory_string_of((const char *)name, length);
    if (copy == NULL) {
        return error_no_memory(error, length, "a data set's name");
    }
    links->items[links->count++] = (struct hdf5_link){copy, header};
    return BERTH_OK;
}

void hdf5_links_done(struct hdf5_links *links) {
    for (size_t i = 0; i < links->count; i++) {
        memory_free(links->items[i].name);
    }
    memory_free(links->items);
    *links = (struct hdf5_links){0};
}
