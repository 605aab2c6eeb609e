// SPDX-License-Identifier: Apache-2.0
// Reads the header of an HDF5 object: messages in one or more blocks, in the old format and the
// new. Called by hdf5.c for the root group and each data set.
#include "core/memory.h"
#include "format/hdf5/hdf5_internal.h"

#include <string.h>

enum {
    CHUNK_WIDTH_LIMIT = 16,
    BLOCKS_MAX = 64,
    FLAG_SHARED = 2,
    PREFIX_MIN = 16,
    PREFIX_MAX = 34
}; // prefix: bytes

struct block {
    uint64_t address, length;
};

// A header that is being read.
struct header {
    struct hdf5_file *file;
    struct hdf5_object *object;
    struct block blocks[BLOCKS_MAX]; // that hold messages
    size_t block_count;
    int version;
    int tracks_order; // messages of the new format have 2 more bytes
};

static enum berth_status header_error(const struct header *header, const struct hdf5_cursor *cursor,
                                      const char *problem, struct berth_error *error) {
    return hdf5_error(header->file, cursor->begin + cursor->position, problem, error);
}

// --- messages -----------------------------------------------------------------------------------

static enum berth_status read_space(struct header *header, struct hdf5_cursor *cursor,
                                    struct berth_error *error) {
    struct hdf5_dataset *set = &header->object->set;
    uint64_t version = hdf5_read_number(cursor, 1), rank = hdf5_read_number(cursor, 1);
    hdf5_skip(cursor, 1);
    uint64_t kind = hdf5_read_number(cursor, 1); // in version 2; 2: no data
    hdf5_skip(cursor, version == 1 ? 4 : 0);
    if (version < 1 || version > 2 || rank > TENSOR_MAX_RANK || (version == 2 && kind > 1)) {
        return header_error(header, cursor, "unsupported shape", error);
    }
    set->rank = (int)rank;
    for (uint64_t i = 0; i < rank; i++) {
        uint64_t extent = hdf5_read_number(cursor, 8);
        set->shape[i] = (int64_t)extent;
        if (extent > INT64_MAX) {
            return header_error(header, cursor, "invalid shape", error);
        }
    }
    header->object->has_space = 1;
    return BERTH_OK;
}

// The type for a kind (float, signed) and the logarithm of its size.
static enum tensor_dtype dtype_of(int is_float, int is_signed, uint64_t size) {
    static const enum tensor_dtype integers[2][4] = {
        {TENSOR_U8, TENSOR_U16, TENSOR_U32, TENSOR_U64},
        {TENSOR_I8, TENSOR_I16, TENSOR_I32, TENSOR_I64}};
    static const enum tensor_dtype floats[4] = {TENSOR_OTHER, TENSOR_F16, TENSOR_F32, TENSOR_F64};
    for (uint64_t i = 0; i < 4; i++) {
        if (size == (uint64_t)1 << i) {
            return is_float ? floats[i] : integers[is_signed][i];
        }
    }
    return TENSOR_OTHER;
}

static enum berth_status read_type(struct header *header, struct hdf5_cursor *cursor,
                                   struct berth_error *error) {
    uint64_t kind = hdf5_read_number(cursor, 1) & 15, flags = hdf5_read_number(cursor, 3),
             size = hdf5_read_number(cursor, 4);
    uint64_t offset = hdf5_read_number(cursor, 2), bits = hdf5_read_number(cursor, 2);
    enum tensor_dtype dtype = dtype_of(kind == 1, (flags & 8) != 0, size);
    if (kind > 1 || (flags & 1) != 0 || (kind == 1 && (flags & 64) != 0) || offset != 0 ||
        bits != 8 * size || dtype == TENSOR_OTHER) {
        return header_error(
            header, cursor,
            "unsupported data type: expected little-endian integers of 1 to 8 bytes or floats of "
            "2 to 8",
            error);
    }
    header->object->set.dtype = dtype;
    header->object->has_type = 1;
    return BERTH_OK;
}

static enum berth_status read_filters(struct header *header, struct hdf5_cursor *cursor,
                                      struct berth_error *error) {
    struct hdf5_dataset *set = &header->object->set;
    uint64_t version = hdf5_read_number(cursor, 1), count = hdf5_read_number(cursor, 1);
    hdf5_skip(cursor, version == 1 ? 6 : 0);
    if (version < 1 || version > 2 || count > 2) {
        return header_error(header, cursor, "unsupported filters: expected gzip or shuffle", error);
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t filter = hdf5_read_number(cursor, 2),
                 name = version == 1 ? hdf5_read_number(cursor, 2) : 0;
        hdf5_skip(cursor, 2);
        uint64_t values = hdf5_read_number(cursor, 2);
        hdf5_skip(cursor, (name + 7) / 8 * 8 + 4 * (values + (version == 1 ? values % 2 : 0)));
        if (filter != HDF5_DEFLATE && filter != HDF5_SHUFFLE) {
            return header_error(header, cursor, "unsupported filter: expected gzip or shuffle",
                                error);
        }
        if (i > 0 && set->filters[0] == (enum hdf5_filter)filter) {
            return header_error(header, cursor, "unsupported: duplicate filter", error);
        }
        set->filters[i] = (enum hdf5_filter)filter;
    }
    if (count == 2 && set->filters[0] == HDF5_DEFLATE) {
        return header_error(header, cursor, "unsupported: gzip before shuffle", error);
    }
    set->filter_count = (int)count;
    return BERTH_OK;
}

static void read_chunk_shape(struct header *header, struct hdf5_cursor *cursor, uint64_t count,
                             size_t size) {
    for (uint64_t i = 0; i < count; i++) {
        header->object->set.chunk[i] = (int64_t)(hdf5_read_number(cursor, size) & INT64_MAX);
    }
    hdf5_skip(cursor, size); // of an element
    header->object->chunk_rank = (int)count;
}

// The newest format: flags, shape, and one of several kinds of index.
static enum berth_status read_new_chunks(struct header *header, struct hdf5_cursor *cursor,
                                         struct berth_error *error) {
    struct hdf5_object *object = header->object;
    uint64_t flags = hdf5_read_number(cursor, 1), count = hdf5_read_number(cursor, 1),
             size = hdf5_read_number(cursor, 1);
    if (count < 1 || count > TENSOR_MAX_RANK + 1 || size < 1 || size > 8) {
        return header_error(header, cursor, "invalid chunk shape", error);
    }
    read_chunk_shape(header, cursor, count - 1, (size_t)size);
    uint64_t index = hdf5_read_number(cursor, 1);
    object->index = (enum hdf5_index)index;
    if (index < HDF5_INDEX_SINGLE || index > HDF5_INDEX_FIXED) {
        return header_error(header, cursor,
                            "unsupported chunk index: write the file with h5py's default libver",
                            error);
    }
    if (index == HDF5_INDEX_SINGLE && (flags & 2) != 0) {
        object->single_size = hdf5_read_number(cursor, 8);
        object->single_mask = (uint32_t)hdf5_read_number(cursor, 4);
    }
    hdf5_skip(cursor, index == HDF5_INDEX_FIXED ? 1 : 0);
    object->index_address = hdf5_read_number(cursor, 8);
    return BERTH_OK;
}

static enum berth_status read_chunked(struct header *header, struct hdf5_cursor *cursor,
                                      uint64_t version, struct berth_error *error) {
    struct hdf5_object *object = header->object;
    object->is_chunked = 1;
    if (version >= 4) {
        return read_new_chunks(header, cursor, error);
    }
    uint64_t count = hdf5_read_number(cursor, 1);
    object->index = HDF5_INDEX_TREE;
    object->index_address = hdf5_read_number(cursor, 8);
    if (count < 1 || count > TENSOR_MAX_RANK + 1) {
        return header_error(header, cursor, "invalid chunk shape", error);
    }
    read_chunk_shape(header, cursor, count - 1, 4);
    return BERTH_OK;
}

static enum berth_status read_layout(struct header *header, struct hdf5_cursor *cursor,
                                     struct berth_error *error) {
    struct hdf5_object *object = header->object;
    uint64_t version = hdf5_read_number(cursor, 1), kind = hdf5_read_number(cursor, 1);
    object->has_layout = 1;
    if (version < 3 || version > 5 || kind > 2) {
        return header_error(header, cursor, "unsupported layout", error);
    }
    if (kind == 2) {
        return read_chunked(header, cursor, version, error);
    }
    object->set.address = kind == 1 ? hdf5_read_number(cursor, 8) : 0;
    object->stored = hdf5_read_number(cursor, kind == 1 ? 8 : 2);
    if (kind == 0) {
        object->set.address = cursor->begin + cursor->position;
        hdf5_skip(cursor, object->stored);
    }
    return BERTH_OK;
}

static enum berth_status read_symbol_table(struct header *header, struct hdf5_cursor *cursor,
                                           struct berth_error *error) {
    (void)error;
    header->object->is_group = 1;
    header->object->tree = hdf5_read_number(cursor, 8);
    header->object->heap = hdf5_read_number(cursor, 8);
    return BERTH_OK;
}

static enum berth_status read_link_info(struct header *header, struct hdf5_cursor *cursor,
                                        struct berth_error *error) {
    (void)error;
    hdf5_skip(cursor, 1);
    hdf5_skip(cursor, (hdf5_read_number(cursor, 1) & 1) != 0 ? 8 : 0);
    header->object->is_dense = hdf5_read_number(cursor, 8) != HDF5_UNDEFINED_ADDRESS;
    return BERTH_OK;
}

static enum berth_status read_link(struct header *header, struct hdf5_cursor *cursor,
                                   struct berth_error *error) {
    uint64_t version = hdf5_read_number(cursor, 1), flags = hdf5_read_number(cursor, 1);
    uint64_t kind = (flags & 8) != 0 ? hdf5_read_number(cursor, 1) : 0;
    hdf5_skip(cursor, ((flags & 4) != 0 ? 8 : 0) + ((flags & 16) != 0 ? 1 : 0));
    uint64_t length = hdf5_read_number(cursor, (size_t)1 << (flags & 3));
    const unsigned char *name = cursor->bytes + cursor->position;
    hdf5_skip(cursor, length);
    if (kind != 0 || header->object->links == NULL) { // a soft link, or links are not wanted
        return BERTH_OK;
    }
    uint64_t address = hdf5_read_number(cursor, 8);
    if (version != 1 || cursor->is_truncated || length == 0 ||
        memchr(name, '\0', (size_t)length) != NULL) {
        return header_error(header, cursor, "damaged group entry", error);
    }
    return hdf5_links_put(header->file, header->object->links, name, (size_t)length, address,
                          error);
}

static enum berth_status read_continuation(struct header *header, struct hdf5_cursor *cursor,
                                           struct berth_error *error) {
    struct block block = {.address = hdf5_read_number(cursor, 8)};
    block.length = hdf5_read_number(cursor, 8);
    if (header->version == 2) { // a signature before the messages, a checksum after them
        int fits = block.length >= 8 && block.address <= UINT64_MAX - 4;
        block.address += fits ? 4 : 0;
        block.length -= fits ? 8 : 0;
    }
    if (header->block_count == BLOCKS_MAX) {
        return header_error(header, cursor, "too many header blocks", error);
    }
    header->blocks[header->block_count++] = block;
    return BERTH_OK;
}

static enum berth_status read_message(struct header *header, uint64_t type,
                                      struct hdf5_cursor *cursor, struct berth_error *error) {
    static const struct {
        uint64_t type;
        enum berth_status (*read)(struct header *, struct hdf5_cursor *, struct berth_error *);
    } message_types[] = {
        {1, read_space},  {2, read_link_info}, {3, read_type},          {6, read_link},
        {8, read_layout}, {11, read_filters},  {16, read_continuation}, {17, read_symbol_table},
    };
    for (size_t i = 0; i < sizeof message_types / sizeof *message_types; i++) {
        if (message_types[i].type == type) {
            TRY(message_types[i].read(header, cursor, error));
            return cursor->is_truncated
                       ? header_error(header, cursor, "a header message is too short", error)
                       : BERTH_OK;
        }
    }
    return BERTH_OK;
}

// --- blocks -------------------------------------------------------------------------------------

static enum berth_status read_messages(struct header *header, struct hdf5_cursor *cursor,
                                       struct berth_error *error) {
    size_t head = header->version == 1 ? 8 : header->tracks_order ? 6 : 4;
    while (cursor->length - cursor->position >= head) {
        uint64_t type = hdf5_read_number(cursor, header->version == 1 ? 2 : 1),
                 length = hdf5_read_number(cursor, 2);
        uint64_t flags = hdf5_read_number(cursor, 1);
        hdf5_skip(cursor, head - (header->version == 1 ? 5 : 4));
        struct hdf5_cursor message = {.bytes = cursor->bytes + cursor->position,
                                      .length = (size_t)length,
                                      .begin = cursor->begin + cursor->position};
        hdf5_skip(cursor, length);
        if (cursor->is_truncated) {
            return header_error(header, cursor, "a header message extends beyond its block", error);
        }
        if ((flags & FLAG_SHARED) != 0 && (type == 1 || type == 3 || type == 11)) {
            return header_error(header, cursor, "unsupported: a shared header message", error);
        }
        TRY(read_message(header, type, &message, error));
    }
    return BERTH_OK;
}

static enum berth_status read_prefix(struct header *header, uint64_t address,
                                     struct berth_error *error) {
    unsigned char *bytes;
    struct hdf5_cursor cursor;
    uint64_t left = address < header->file->size ? header->file->size - address : 0;
    uint64_t length = left < PREFIX_MAX ? left : PREFIX_MAX;
    length = length > PREFIX_MIN ? length
                                 : PREFIX_MIN; // if the file has fewer, hdf5_read_metadata fails
    TRY(hdf5_read_metadata(header->file, address, length, &bytes, &cursor, error));
    if (memcmp(bytes, "OHDR\2", 5) == 0) {
        hdf5_skip(&cursor, 5);
        uint64_t flags = hdf5_read_number(&cursor, 1);
        hdf5_skip(&cursor, ((flags & 32) != 0 ? 16 : 0) + ((flags & 16) != 0 ? 4 : 0));
        header->version = 2;
        header->tracks_order = (flags & 4) != 0;
        header->blocks->length = hdf5_read_number(&cursor, (size_t)1 << (flags & 3));
    } else {
        header->version = (int)hdf5_read_number(&cursor, 1);
        hdf5_skip(&cursor, 7);
        header->blocks->length = hdf5_read_number(&cursor, 4);
        hdf5_skip(&cursor, 4);
    }
    header->blocks->address = address + cursor.position;
    header->block_count = 1;
    int is_truncated = cursor.is_truncated;
    memory_free(bytes);
    return is_truncated || header->version < 1 || header->version > 2
               ? hdf5_error(header->file, address,
                            "expected the object header of a group or data set", error)
               : BERTH_OK;
}

// The size of a shape with elements of `bytes` each; *fits is 0 when no file can be that large.
static uint64_t volume(const int64_t *shape, int rank, uint64_t bytes, int *fits) {
    for (int i = 0; i < rank; i++) {
        if (shape[i] > 0 && bytes > (uint64_t)INT64_MAX / (uint64_t)shape[i]) {
            *fits = 0;
            return 0;
        }
        bytes *= (uint64_t)shape[i];
    }
    return bytes;
}

// Whether a row of a chunk is far wider than one of the data set (which may be narrower if it can
// grow).
static int is_wide(const struct hdf5_dataset *set) {
    int fits = 1;
    uint64_t size = tensor_dtype_size(set->dtype);
    uint64_t chunk = volume(set->chunk + 1, set->rank - 1, size, &fits);
    uint64_t row = volume(set->shape + 1, set->rank - 1, size, &fits);
    return !fits || chunk / CHUNK_WIDTH_LIMIT > row + ((uint64_t)1 << 16);
}

static enum berth_status check_set(struct header *header, struct berth_error *error) {
    struct hdf5_object *object = header->object;
    struct hdf5_dataset *set = &object->set;
    int fits = object->has_space && object->has_type;
    set->bytes = volume(set->shape, set->rank, tensor_dtype_size(set->dtype), &fits);
    if (!object->is_chunked) {
        fits = fits && set->filter_count == 0 &&
               (object->stored == set->bytes || set->address == HDF5_UNDEFINED_ADDRESS);
        set->stored = set->bytes;
    }
    fits = fits && (!object->is_chunked || (set->rank > 0 && object->chunk_rank == set->rank));
    for (int i = 0; object->is_chunked && i < set->rank; i++) {
        fits = fits && set->chunk[i] > 0;
        set->grid[i] =
            fits ? set->shape[i] / set->chunk[i] + (set->shape[i] % set->chunk[i] > 0) : 0;
    }
    int small = fits && (!object->is_chunked || !is_wide(set));
    fits = fits &&
           (!object->is_chunked ||
            volume(set->chunk, set->rank, tensor_dtype_size(set->dtype), &small) <= UINT32_MAX);
    return fits && small
               ? BERTH_OK
               : hdf5_error(header->file, object->address,
                            "shape, type and layout of the data set are inconsistent", error);
}

enum berth_status hdf5_read_header(struct hdf5_file *file, uint64_t address,
                                   struct hdf5_object *object, struct berth_error *error) {
    struct header header = {.file = file, .object = object};
    object->address = address;
    TRY(read_prefix(&header, address, error));
    for (size_t i = 0; i < header.block_count; i++) {
        unsigned char *bytes;
        struct hdf5_cursor cursor;
        TRY(hdf5_read_metadata(file, header.blocks[i].address, header.blocks[i].length, &bytes,
                               &cursor, error));
        enum berth_status status = read_messages(&header, &cursor, error);
        memory_free(bytes);
        TRY(status);
    }
    return object->has_layout ? check_set(&header, error) : BERTH_OK;
}
