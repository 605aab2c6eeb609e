// SPDX-License-Identifier: Apache-2.0
#include "format/hdf5/hdf5_parts.h"

#include "core/little_endian.h"
#include "core/memory.h"

#include <inttypes.h>

// --- the metadata -------------------------------------------------------------------------------

uint64_t hdf5_take(struct hdf5_run *run, size_t size) {
    if (size > run->length - run->at) {
        run->is_short = 1;
        run->at = run->length;
        return 0;
    }
    run->at += size;
    return little_endian(run->bytes + run->at - size, size);
}

void hdf5_skip(struct hdf5_run *run, uint64_t size) {
    if (size > run->length - run->at) {
        run->is_short = 1;
        run->at = run->length;
        return;
    }
    run->at += (size_t)size;
}

enum berth_status hdf5_error(const struct hdf5_file *file, uint64_t at, const char *problem,
                             struct berth_error *error) {
    return error_set(error, BERTH_BAD_DATA, "%s: HDF5 file, byte %" PRIu64 ": %s", file->file.path,
                     at, problem);
}

enum berth_status hdf5_never_written(const struct hdf5_file *file, uint64_t at,
                                     struct berth_error *error) {
    return hdf5_error(file, at, "the data was never written: the file is incomplete", error);
}

enum berth_status hdf5_bytes(const struct hdf5_file *file, uint64_t address, void *to, size_t bytes,
                             struct berth_error *error) {
    return file_reader_at(&file->file, file->base + address, to, bytes, error);
}

enum berth_status hdf5_describe(struct hdf5_file *file, uint64_t address, uint64_t length,
                                unsigned char **block, struct hdf5_run *run,
                                struct berth_error *error) {
    *block = NULL;
    *run = (struct hdf5_run){.begin = address};
    if (address > file->size || length > file->size - address) {
        return hdf5_error(file, address,
                          "metadata extends beyond the end of the file: it is truncated or damaged",
                          error);
    }
    if (length > file->description_left) {
        return hdf5_error(file, address, "metadata overlaps or forms cycles: the file is damaged",
                          error);
    }
    file->description_left -= length;
    *block = memory_new((size_t)length + 1);
    if (*block == NULL) {
        return error_no_memory(error, (size_t)length, file->file.path);
    }
    enum berth_status status = hdf5_bytes(file, address, *block, (size_t)length, error);
    if (status != BERTH_OK) {
        memory_free(*block);
        *block = NULL;
        return status;
    }
    *run = (struct hdf5_run){.bytes = *block, .length = (size_t)length, .begin = address};
    return BERTH_OK;
}

// --- links --------------------------------------------------------------------------------------

enum berth_status hdf5_links_put(struct hdf5_links *links, const unsigned char *name, size_t length,
                                 uint64_t header, struct berth_error *error) {
    size_t needed = links->count + 1;
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
