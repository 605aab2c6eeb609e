// SPDX-License-Identifier: Apache-2.0
// Decompresses chunks. The first read of a chunk passes over the whole chunk, which checks it, and
// keeps a reader after the requested rows in each plane; later rows are decompressed from there. So
// a chunk that is read from its first to its last row is decompressed less than twice, whatever its
// size and the number of calls. hdf5_read.c calls it for each chunk that a range of rows touches.
#include "core/memory.h"
#include "format/hdf5/hdf5_internal.h"

#include <inttypes.h>

// A reader takes 40 KiB: 10 MiB per file. When neighbouring chunks need more, the others are
// decompressed from their start each time.
enum { READERS_MAX = 256, PLANES_MAX = 8 };

// A chunk that was read in part, and its readers.
struct hdf5_partial_chunk {
    struct hdf5_partial_chunk *next;
    const struct hdf5_dataset *set;
    const struct hdf5_chunk *chunk;
    size_t plane_count;
    struct deflate_reader readers[PLANES_MAX];
};

// The state of one call.
struct request {
    struct hdf5_file *file;
    const struct hdf5_dataset *set;
    const struct hdf5_slice *slice;
    enum berth_status status; // of reading the file
    struct berth_error *error;
};

static size_t read_source(void *context, uint64_t offset, unsigned char *to, size_t room) {
    struct request *request = context;
    const struct hdf5_chunk *chunk = request->slice->chunk;
    uint64_t left = chunk->size - offset;
    size_t length = left < room ? (size_t)left : room;
    request->status =
        hdf5_read_bytes(request->file, chunk->address + offset, to, length, request->error);
    return request->status == BERTH_OK ? length : 0;
}

// --- chunks read in part ------------------------------------------------------------------------

// Removes the one that `link` points to from the list.
static void drop_partial(struct hdf5_file *file, struct hdf5_partial_chunk **link) {
    struct hdf5_partial_chunk *partial = *link;
    *link = partial->next;
    file->readers -= partial->plane_count;
    for (size_t i = 0; i < partial->plane_count; i++) {
        deflate_reader_close(&partial->readers[i]);
    }
    memory_free(partial);
}

void hdf5_drop_partial_chunks(struct hdf5_file *file, const struct hdf5_dataset *set, size_t first,
                              size_t end) {
    for (struct hdf5_partial_chunk **link = &file->partial_chunks; *link != NULL;) {
        const struct hdf5_partial_chunk *partial = *link;
        size_t number = (size_t)(partial->chunk - partial->set->chunks);
        if (set == NULL || (partial->set == set && (number < first || number >= end))) {
            drop_partial(file, link);
        } else {
            link = &(*link)->next;
        }
    }
}

static struct hdf5_partial_chunk **find_partial(struct hdf5_file *file,
                                                const struct hdf5_chunk *chunk) {
    struct hdf5_partial_chunk **link = &file->partial_chunks;
    while (*link != NULL && (*link)->chunk != chunk) {
        link = &(*link)->next;
    }
    return link;
}

// Adds one at the head of the list, with closed readers; NULL when out of memory.
static struct hdf5_partial_chunk *add_partial(const struct request *request) {
    struct hdf5_partial_chunk *partial = memory_array_zeroed(1, sizeof *partial);
    if (partial != NULL) {
        partial->next = request->file->partial_chunks;
        partial->set = request->set;
        partial->chunk = request->slice->chunk;
        partial->plane_count = request->slice->plane_count;
        request->file->partial_chunks = partial;
        request->file->readers += partial->plane_count;
    }
    return partial;
}

// --- decompression ------------------------------------------------------------------------------

// Reads the rows of plane i with a reader that has not passed them.
static int read_plane(struct request *request, struct deflate_reader *reader, size_t i,
                      unsigned char *to) {
    const struct hdf5_slice *slice = request->slice;
    const struct deflate_source source = {read_source, request};
    uint64_t begin = (uint64_t)i * slice->plane_bytes + slice->begin;
    int result = deflate_reader_read(reader, &source, NULL, begin - reader->decompressed);
    return result <= 0
               ? result
               : deflate_reader_read(reader, &source, to + i * slice->length, slice->length);
}

// Reads the whole chunk; `kept`, unless NULL, gets a reader after the rows of each plane.
static int read_whole_chunk(struct request *request, struct deflate_reader *reader,
                            struct hdf5_partial_chunk *kept, unsigned char *to) {
    const struct hdf5_slice *slice = request->slice;
    const struct deflate_source source = {read_source, request};
    int result = 1;
    for (size_t i = 0; i < slice->plane_count && result > 0; i++) {
        result = read_plane(request, reader, i, to);
        if (result > 0 && kept != NULL) {
            result = deflate_reader_copy(&kept->readers[i], reader);
        }
    }
    if (result > 0) {
        uint64_t all = (uint64_t)slice->plane_count * slice->plane_bytes;
        result = deflate_reader_read(reader, &source, NULL, all - reader->decompressed);
    }
    return result > 0 ? deflate_reader_finish(reader, &source) : result;
}

static int read_first(struct request *request, unsigned char *to) {
    struct deflate_reader reader;
    struct hdf5_partial_chunk *kept = NULL;
    int keeps = !request->slice->is_last &&
                request->file->readers + request->slice->plane_count <= READERS_MAX;
    if (keeps && (kept = add_partial(request)) == NULL) {
        return -1;
    }
    int result = deflate_reader_open(&reader);
    if (result > 0) {
        result = read_whole_chunk(request, &reader, kept, to);
        deflate_reader_close(&reader);
    }
    return result;
}

static int read_rows(struct request *request, unsigned char *to) {
    struct hdf5_partial_chunk **found = find_partial(request->file, request->slice->chunk);
    if (*found != NULL && (*found)->readers[0].decompressed > request->slice->begin) {
        drop_partial(request->file, found);
    }
    found = find_partial(request->file, request->slice->chunk);
    if (*found != NULL) {
        int result = 1;
        for (size_t i = 0; i < (*found)->plane_count && result > 0; i++) {
            result = read_plane(request, &(*found)->readers[i], i, to);
        }
        return result;
    }
    return read_first(request, to);
}

enum berth_status hdf5_decompress(struct hdf5_file *file, const struct hdf5_dataset *set,
                                  const struct hdf5_slice *slice, unsigned char *to,
                                  struct berth_error *error) {
    struct request request = {.file = file, .set = set, .slice = slice, .error = error};
    int result = read_rows(&request, to);
    struct hdf5_partial_chunk **kept = find_partial(file, slice->chunk);
    if (*kept != NULL && (result <= 0 || slice->is_last)) {
        drop_partial(file, kept);
    }
    TRY(request.status);
    if (result < 0) {
        return error_no_memory(error, slice->plane_count * slice->plane_bytes, set->name);
    }
    return result > 0
               ? BERTH_OK
               : error_set(
                     error, BERTH_BAD_DATA,
                     "%s: HDF5 file: data set %s: cannot decompress the chunk at byte %" PRIu64
                     ": the file is damaged",
                     file->file.path, set->name, slice->chunk->address);
}
