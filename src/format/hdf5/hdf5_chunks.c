// SPDX-License-Identifier: Apache-2.0
// Finds the chunks of an HDF5 data set, from a B-tree or one of the newer indexes. hdf5_read.c asks
// it for each chunk that a range of rows touches.
#include "core/little_endian.h"
#include "core/memory.h"
#include "format/hdf5/hdf5_internal.h"

#include <string.h>

enum {
    NODE_HEADER_BYTES = 24,
    LEVELS_MAX = 32,
    FIXED_HEADER_BYTES = 24,
    FIXED_BLOCK_HEADER_BYTES = 14
};

struct index {
    struct hdf5_file *file;
    struct hdf5_object *object;
    struct hdf5_chunk *chunks; // of the grid
    size_t count, found;
    uint64_t chunk_bytes;
};

uint64_t hdf5_chunk_bytes(const struct hdf5_dataset *set) {
    uint64_t bytes = tensor_dtype_size(set->dtype);
    for (int i = 0; i < set->rank; i++) {
        bytes *= (uint64_t)set->chunk[i];
    }
    return bytes;
}

int hdf5_has_filter(const struct hdf5_dataset *set, const struct hdf5_chunk *chunk,
                    enum hdf5_filter filter) {
    for (int i = 0; i < set->filter_count; i++) {
        if (set->filters[i] == filter && (chunk->mask >> i & 1) == 0) {
            return 1;
        }
    }
    return 0;
}

// Adds a chunk to the grid; its cell must be empty.
static enum berth_status put_chunk(struct index *index, uint64_t address, uint64_t number,
                                   struct hdf5_chunk chunk, struct berth_error *error) {
    uint64_t size = index->file->size;
    if (chunk.address == HDF5_UNDEFINED_ADDRESS) {
        return hdf5_error(index->file, address, "a chunk was never written: the file is incomplete",
                          error);
    }
    if (number >= index->count || index->chunks[number].size != 0 || chunk.size == 0) {
        return hdf5_error(index->file, address, "the chunk index is damaged", error);
    }
    if (chunk.address > size || chunk.size > size - chunk.address) {
        return hdf5_error(index->file, address,
                          "a chunk extends beyond the end of the file: it is truncated or damaged",
                          error);
    }
    if (hdf5_has_filter(&index->object->set, &chunk, HDF5_DEFLATE)
            ? index->chunk_bytes / DEFLATE_RATIO_LIMIT > chunk.size
            : index->chunk_bytes != chunk.size) {
        return hdf5_error(index->file, address, "the size of a chunk does not fit its shape",
                          error);
    }
    index->chunks[number] = chunk;
    index->found++;
    index->object->set.stored += chunk.size;
    return BERTH_OK;
}

// --- the B-tree ---------------------------------------------------------------------------------

// The grid index of the chunk whose offsets come next; chunk_count when they are not those of a
// chunk.
static uint64_t read_grid_index(struct index *index, struct hdf5_cursor *cursor) {
    const struct hdf5_dataset *set = &index->object->set;
    uint64_t number = 0;
    int fits = 1;
    for (int i = 0; i < set->rank; i++) {
        uint64_t offset = hdf5_read_number(cursor, 8), extent = (uint64_t)set->chunk[i];
        fits = fits && offset % extent == 0 && offset / extent < (uint64_t)set->grid[i];
        number = fits ? number * (uint64_t)set->grid[i] + offset / extent : 0;
    }
    fits = hdf5_read_number(cursor, 8) == 0 && fits; // offset within an element
    return fits ? number : index->count;
}

static enum berth_status read_tree(struct index *index, uint64_t address, int level,
                                   struct berth_error *error);

static enum berth_status read_entry(struct index *index, struct hdf5_cursor *cursor, int level,
                                    struct berth_error *error) {
    uint64_t address = cursor->begin + cursor->position;
    struct hdf5_chunk chunk = {.size = hdf5_read_number(cursor, 4)};
    chunk.mask = (uint32_t)hdf5_read_number(cursor, 4);
    uint64_t number = read_grid_index(index, cursor);
    chunk.address = hdf5_read_number(cursor, 8);
    return level > 0 ? read_tree(index, chunk.address, level - 1, error)
                     : put_chunk(index, address, number, chunk, error);
}

// Reads a node of level `level`, or of any level when it is negative.
static enum berth_status read_tree(struct index *index, uint64_t address, int level,
                                   struct berth_error *error) {
    unsigned char *block;
    struct hdf5_cursor cursor;
    TRY(hdf5_read_metadata(index->file, address, NODE_HEADER_BYTES, &block, &cursor, error));
    int is_node = memcmp(block, "TREE\1", 5) == 0, node_level = block[5];
    uint64_t count = little_endian(block + 6, 2);
    memory_free(block);
    if (!is_node || node_level >= LEVELS_MAX || (level >= 0 && node_level != level)) {
        return hdf5_error(index->file, address, "expected a B-tree node of chunks", error);
    }
    uint64_t entry = 8 + 8 * ((uint64_t)index->object->set.rank + 1) + 8;
    TRY(hdf5_read_metadata(index->file, address + NODE_HEADER_BYTES, count * entry, &block, &cursor,
                           error));
    enum berth_status status = BERTH_OK;
    for (uint64_t i = 0; i < count && status == BERTH_OK; i++) {
        status = read_entry(index, &cursor, node_level, error);
    }
    memory_free(block);
    return status;
}

static enum berth_status read_tree_index(struct index *index, struct berth_error *error) {
    return read_tree(index, index->object->index_address, -1, error);
}

// --- the newer indexes --------------------------------------------------------------------------

static enum berth_status read_single(struct index *index, struct berth_error *error) {
    const struct hdf5_object *object = index->object;
    struct hdf5_chunk chunk = {object->index_address, object->single_size, object->single_mask};
    chunk.size = object->set.filter_count == 0 ? index->chunk_bytes : chunk.size;
    return put_chunk(index, object->address, 0, chunk, error);
}

static enum berth_status read_implicit(struct index *index, struct berth_error *error) {
    for (size_t i = 0; i < index->count; i++) {
        struct hdf5_chunk chunk = {.address = index->object->index_address + i * index->chunk_bytes,
                                   .size = index->chunk_bytes};
        if (index->object->index_address > index->file->size) {
            chunk.address = HDF5_UNDEFINED_ADDRESS;
        }
        TRY(put_chunk(index, index->object->address, i, chunk, error));
    }
    return BERTH_OK;
}

// A fixed array: entries in one run, or in pages with a checksum each.
struct fixed {
    size_t entry_bytes;
    uint64_t count, page_entries, block_address;
};

static enum berth_status read_fixed_header(struct index *index, struct fixed *fixed,
                                           struct berth_error *error) {
    unsigned char *block;
    struct hdf5_cursor cursor;
    uint64_t address = index->object->index_address;
    TRY(hdf5_read_metadata(index->file, address, FIXED_HEADER_BYTES, &block, &cursor, error));
    int filtered = index->object->set.filter_count > 0;
    int fits = memcmp(block, "FAHD\0", 5) == 0 && block[5] == filtered;
    hdf5_skip(&cursor, 6);
    fixed->entry_bytes = (size_t)hdf5_read_number(&cursor, 1);
    uint64_t page_bits = hdf5_read_number(&cursor, 1);
    fixed->count = hdf5_read_number(&cursor, 8);
    fixed->block_address = hdf5_read_number(&cursor, 8);
    memory_free(block);
    fits = fits && page_bits > 0 && page_bits < 32 && fixed->count == index->count;
    fits = fits && (filtered ? fixed->entry_bytes > 12 && fixed->entry_bytes <= 20
                             : fixed->entry_bytes == 8);
    fixed->page_entries = fits ? (uint64_t)1 << page_bits : 1;
    return fits ? BERTH_OK
                : hdf5_error(index->file, address, "expected a fixed array of chunks", error);
}

static enum berth_status read_fixed_page(struct index *index, const struct fixed *fixed,
                                         uint64_t address, uint64_t first,
                                         struct berth_error *error) {
    unsigned char *block;
    struct hdf5_cursor cursor;
    uint64_t left = fixed->count - first,
             count = left < fixed->page_entries ? left : fixed->page_entries;
    enum berth_status status = BERTH_OK;
    TRY(hdf5_read_metadata(index->file, address, count * fixed->entry_bytes, &block, &cursor,
                           error));
    for (uint64_t i = first; i < first + count && status == BERTH_OK; i++) {
        uint64_t entry_address = cursor.begin + cursor.position;
        struct hdf5_chunk chunk = {.address = hdf5_read_number(&cursor, 8),
                                   .size = index->chunk_bytes};
        if (fixed->entry_bytes > 8) {
            chunk.size = hdf5_read_number(&cursor, fixed->entry_bytes - 12);
            chunk.mask = (uint32_t)hdf5_read_number(&cursor, 4);
        }
        status = put_chunk(index, entry_address, i, chunk, error);
    }
    memory_free(block);
    return status;
}

static enum berth_status read_fixed(struct index *index, struct berth_error *error) {
    struct fixed fixed = {0};
    unsigned char *block;
    struct hdf5_cursor cursor;
    TRY(read_fixed_header(index, &fixed, error));
    TRY(hdf5_read_metadata(index->file, fixed.block_address, FIXED_BLOCK_HEADER_BYTES, &block,
                           &cursor, error));
    int is_block = memcmp(block, "FADB\0", 5) == 0;
    memory_free(block);
    if (!is_block) {
        return hdf5_error(index->file, fixed.block_address, "expected a fixed array of chunks",
                          error);
    }
    uint64_t offset = fixed.block_address + FIXED_BLOCK_HEADER_BYTES,
             pages = (fixed.count + fixed.page_entries - 1) / fixed.page_entries;
    offset += pages > 1 ? (pages + 7) / 8 + 4 : 0; // the bitmap of pages, and a checksum
    for (uint64_t first = 0; first < fixed.count; first += fixed.page_entries) {
        TRY(read_fixed_page(index, &fixed, offset, first, error));
        offset += fixed.page_entries * fixed.entry_bytes + 4;
    }
    return BERTH_OK;
}

// --- all indexes --------------------------------------------------------------------------------

// Computes the number of chunks; each takes at least one byte of the file.
static enum berth_status count_chunks(struct index *index, struct berth_error *error) {
    const struct hdf5_dataset *set = &index->object->set;
    uint64_t count = 1;
    for (int i = 0; i < set->rank; i++) {
        uint64_t extent = (uint64_t)set->grid[i];
        if (extent > 0 && count > index->file->size / extent) {
            return hdf5_error(index->file, index->object->address,
                              "more chunks than fit in the file", error);
        }
        count *= extent;
    }
    index->count = (size_t)count;
    return BERTH_OK;
}

enum berth_status hdf5_read_chunks(struct hdf5_file *file, struct hdf5_object *object,
                                   struct berth_error *error) {
    static enum berth_status (*const readers[])(struct index *, struct berth_error *) = {
        [HDF5_INDEX_TREE] = read_tree_index,
        [HDF5_INDEX_SINGLE] = read_single,
        [HDF5_INDEX_IMPLICIT] = read_implicit,
        [HDF5_INDEX_FIXED] = read_fixed,
    };
    struct index index = {
        .file = file, .object = object, .chunk_bytes = hdf5_chunk_bytes(&object->set)};
    if (!object->is_chunked || object->set.bytes == 0) {
        return BERTH_OK;
    }
    if (object->index_address == HDF5_UNDEFINED_ADDRESS) {
        return hdf5_never_written(file, object->address, error);
    }
    TRY(count_chunks(&index, error));
    index.chunks = memory_array_zeroed(index.count, sizeof *index.chunks);
    if (index.chunks == NULL) {
        return error_no_memory(error, index.count * sizeof *index.chunks, file->file.path);
    }
    object->set.chunks = index.chunks;
    object->set.chunk_count = index.count;
    TRY(readers[object->index](&index, error));
    return index.found == index.count
               ? BERTH_OK
               : hdf5_error(file, object->address, "missing chunks: the file is incomplete", error);
}
