// SPDX-License-Identifier: Apache-2.0
// Decompresses chunks. The first read of a chunk passes over the whole chunk, which checks it, and
// keeps a reader after the requested rows in each plane; later rows are decompressed from there. So
// a chunk that is read from its first to its last row is decompressed less than twice, whatever its
// size and the number of calls.
#include "core/memory.h"
#include "format/hdf5/hdf5_parts.h"

#include <inttypes.h>

// A reader takes 40 KiB: 10 MiB per file. When neighbouring chunks need more, the others are
// decompressed from their start each time.
enum { READERS_MAX = 256, PLANES_MAX = 8 };

// A chunk that was read in part, and its readers.
struct hdf5_unpacking {
    struct hdf5_unpacking *next;
    const struct hdf5_dataset *set;
    const struct hdf5_chunk *chunk;
    size_t planes;
    struct deflate_reader readers[PLANES_MAX];
};

// The state of one call.
struct unpack {
    struct hdf5_file *file;
    const struct hdf5_dataset *set;
    const struct hdf5_slice *slice;
    enum berth_status status; // of reading the file
    struct berth_error *error;
};

static size_t fill(void *context, uint64_t at, unsigned char *to, size_t room) {
    struct unpack *unpack = context;
    const struct hdf5_chunk *chunk = unpack->slice->chunk;
    uint64_t left = chunk->size - at;
    size_t length = left < room ? (size_t)left : room;
    unpack->status = hdf5_bytes(unpack->file, chunk->address + at, to, length, unpack->error);
    return unpack->status == BERTH_OK ? length : 0;
}

// --- chunks read in part ----------------------------------------------------------------------

// Removes the one that `at` points to from the list.
static void drop(struct hdf5_file *file, struct hdf5_unpacking **at) {
    struct hdf5_unpacking *unpacking = *at;
    *at = unpacking->next;
    file->readers -= unpacking->planes;
    for (size_t i = 0; i < unpacking->planes; i++) {
        deflate_reader_close(&unpacking->readers[i]);
    }
    memory_free(unpacking);
}

void hdf5_forget(struct hdf5_file *file, const struct hdf5_dataset *set, size_t first, size_t end) {
    for (struct hdf5_unpacking **at = &file->unpackings; *at != NULL;) {
        const struct hdf5_unpacking *unpacking = *at;
        size_t number = (size_t)(unpacking->chunk - unpacking->set->chunks);
        if (set == NULL || (unpacking->set == set && (number < first || number >= end))) {
            drop(file, at);
        } else {
            at = &(*at)->next;
        }
    }
}

static struct hdf5_unpacking **find(struct hdf5_file *file, const struct hdf5_chunk *chunk) {
    struct hdf5_unpacking **at = &file->unpackings;
    while (*at != NULL && (*at)->chunk != chunk) {
        at = &(*at)->next;
    }
    return at;
}

// Adds one at the head of the list, with closed readers; NULL when out of memory.
static struct hdf5_unpacking *add(const struct unpack *unpack) {
    struct hdf5_unpacking *unpacked = memory_array_zeroed(1, sizeof *unpacked);
    if (unpacked != NULL) {
        unpacked->next = unpack->file->unpackings;
        unpacked->set = unpack->set;
        unpacked->chunk = unpack->slice->chunk;
        unpacked->planes = unpack->slice->planes;
        unpack->file->unpackings = unpacked;
        unpack->file->readers += unpacked->planes;
    }
    return unpacked;
}

// --- unpacking ----------------------------------------------------------------------------------

// Reads the rows of plane i with a reader that has not passed them.
static int take_plane(struct unpack *unpack, struct deflate_reader *reader, size_t i,
                      unsigned char *to) {
    const struct hdf5_slice *slice = unpack->slice;
    const struct deflate_source source = {fill, unpack};
    uint64_t begin = (uint64_t)i * slice->plane + slice->begin;
    int result = deflate_reader_take(reader, &source, NULL, begin - reader->unpacked);
    return result <= 0 ? result
                       : deflate_reader_take(reader, &source, to + i * slice->each, slice->each);
}

static int take_on(struct unpack *unpack, struct hdf5_unpacking *unpacking, unsigned char *to) {
    int result = 1;
    for (size_t i = 0; i < unpacking->planes && result > 0; i++) {
        result = take_plane(unpack, &unpacking->readers[i], i, to);
    }
    return result;
}

// Reads the whole chunk; `kept`, unless NULL, gets a reader after the rows of each plane.
static int take_through(struct unpack *unpack, struct deflate_reader *reader,
                        struct hdf5_unpacking *kept, unsigned char *to) {
    const struct hdf5_slice *slice = unpack->slice;
    const struct deflate_source source = {fill, unpack};
    int result = 1;
    for (size_t i = 0; i < slice->planes && result > 0; i++) {
        result = take_plane(unpack, reader, i, to);
        if (result > 0 && kept != NULL) {
            result = deflate_reader_copy(&kept->readers[i], reader);
        }
    }
    if (result > 0) {
        uint64_t all = (uint64_t)slice->planes * slice->plane;
        result = deflate_reader_take(reader, &source, NULL, all - reader->unpacked);
    }
    return result > 0 ? deflate_reader_finish(reader, &source) : result;
}

static int take_first(struct unpack *unpack, unsigned char *to) {
    struct deflate_reader reader;
    struct hdf5_unpacking *kept = NULL;
    int keeps =
        !unpack->slice->is_last && unpack->file->readers + unpack->slice->planes <= READERS_MAX;
    if (keeps && (kept = add(unpack)) == NULL) {
        return -1;
    }
    int result = deflate_reader_open(&reader);
    if (result > 0) {
        result = take_through(unpack, &reader, kept, to);
        deflate_reader_close(&reader);
    }
    return result;
}

static int take(struct unpack *unpack, unsigned char *to) {
    struct hdf5_unpacking **found = find(unpack->file, unpack->slice->chunk);
    if (*found != NULL && (*found)->readers[0].unpacked > unpack->slice->begin) {
        drop(unpack->file, found);
    }
    found = find(unpack->file, unpack->slice->chunk);
    return *found != NULL ? take_on(unpack, *found, to) : take_first(unpack, to);
}

enum berth_status hdf5_unpack(struct hdf5_file *file, const struct hdf5_dataset *set,
                              const struct hdf5_slice *slice, unsigned char *to,
                              struct berth_error *error) {
    struct unpack unpack = {.file = file, .set = set, .slice = slice, .error = error};
    int result = take(&unpack, to);
    struct hdf5_unpacking **kept = find(file, slice->chunk);
    if (*kept != NULL && (result <= 0 || slice->is_last)) {
        drop(file, kept);
    }
    TRY(unpack.status);
    if (result < 0) {
        return error_no_memory(error, slice->planes * slice->plane, set->name);
    }
    return result > 0
               ? BERTH_OK
               : error_set(
                     error, BERTH_BAD_DATA,
                     "%s: HDF5 file: data set %s: cannot decompress the chunk at byte %" PRIu64
                     ": the file is damaged",
                     file->file.path, set->name, slice->chunk->address);
}
