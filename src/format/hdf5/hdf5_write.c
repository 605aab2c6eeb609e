// SPDX-License-Identifier: Apache-2.0
// Writes HDF5: superblock 0, the root group's header, B-tree, names and symbol nodes, the header of
// each data set, the B-trees of the chunks, then the chunks. All offsets are computed before the
// first byte is written, because a file is written from start to end.
// data/pretraining/pretraining_hdf5.c gives it blocks of rows.
#include "core/little_endian.h"
#include "core/memory.h"
#include "format/hdf5/hdf5.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_BYTES = 128 << 10, // of a chunk, uncompressed, approximately
    SUPERBLOCK_BYTES = 96,
    ROOT_HEADER_BYTES = 40,
    HEAP_BYTES = 32,
    SYMBOLS = 8, // entries of a symbol node
    SYMBOL_NODE_BYTES = 8 + SYMBOLS * 40,
    GROUP_CHILDREN = 32,
    GROUP_TREE_BYTES = 24 + (2 * GROUP_CHILDREN + 1) * 8,
    CHUNK_CHILDREN = 64
};
#define UNDEFINED_ADDRESS UINT64_MAX

static uint64_t aligned(uint64_t bytes) {
    return (bytes + 7) / 8 * 8;
}

// --- rows ---------------------------------------------------------------------------------------

enum berth_status hdf5_writer_open(struct hdf5_writer *writer, const struct hdf5_column *columns,
                                   size_t count, int level, struct berth_error *error) {
    *writer = (struct hdf5_writer){.level = level};
    if (count > HDF5_COLUMNS_MAX) {
        return error_set(error, BERTH_INTERNAL, "%zu columns for an HDF5 file; the limit is %d",
                         count, HDF5_COLUMNS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        writer->count++;
        struct hdf5_dataset_writer *set = &writer->sets[i];
        size_t width = columns[i].width > 0 ? (size_t)columns[i].width : 1;
        set->column = columns[i];
        set->row_bytes = width * tensor_dtype_size(columns[i].dtype);
        set->chunk_rows = set->row_bytes < CHUNK_BYTES ? CHUNK_BYTES / set->row_bytes : 1;
        set->rows = memory_array_zeroed(set->chunk_rows, set->row_bytes);
        set->shuffled = memory_array_zeroed(set->chunk_rows, set->row_bytes);
        if (set->rows == NULL || set->shuffled == NULL) {
            return error_no_memory(error, 2 * set->chunk_rows * set->row_bytes, columns[i].name);
        }
    }
    return BERTH_OK;
}

static int is_shuffled(const struct hdf5_dataset_writer *set) {
    return tensor_dtype_size(set->column.dtype) > 1;
}

// Groups the first bytes of all numbers, then the second ones, and so on.
static const unsigned char *shuffle(struct hdf5_dataset_writer *set, size_t bytes) {
    size_t size = tensor_dtype_size(set->column.dtype), count = bytes / size;
    if (!is_shuffled(set)) {
        return set->rows;
    }
    for (size_t byte = 0; byte < size; byte++) {
        for (size_t i = 0; i < count; i++) {
            set->shuffled[byte * count + i] = set->rows[i * size + byte];
        }
    }
    return set->shuffled;
}

// Compresses the filled rows; an incomplete chunk is padded with zeros.
static enum berth_status flush(struct hdf5_writer *writer, struct hdf5_dataset_writer *set,
                               struct berth_error *error) {
    size_t before = set->data.length, full = set->chunk_rows * set->row_bytes;
    size_t used = set->filled * set->row_bytes;
    memset(set->rows + used, 0, full - used);
    TRY(deflate_compress(&writer->compressor, writer->level, shuffle(set, full), full, &set->data,
                         error));
    buffer_put_number(&set->index, set->data.length - before, 8);
    set->filled = 0;
    return set->index.failed ? error_no_memory(error, set->index.length, "an index") : BERTH_OK;
}

enum berth_status hdf5_writer_put(struct hdf5_writer *writer, size_t column, const void *rows,
                                  size_t count, struct berth_error *error) {
    struct hdf5_dataset_writer *set = &writer->sets[column];
    const unsigned char *from = rows;
    while (count > 0) {
        size_t room = set->chunk_rows - set->filled, now = count < room ? count : room;
        memcpy(set->rows + set->filled * set->row_bytes, from, now * set->row_bytes);
        from += now * set->row_bytes;
        count -= now;
        set->filled += now;
        set->row_count += now;
        if (set->filled == set->chunk_rows) {
            TRY(flush(writer, set, error));
        }
    }
    return BERTH_OK;
}

void hdf5_writer_done(struct hdf5_writer *writer) {
    for (size_t i = 0; i < writer->count; i++) {
        memory_free(writer->sets[i].rows);
        memory_free(writer->sets[i].shuffled);
        buffer_done(&writer->sets[i].index);
        buffer_done(&writer->sets[i].data);
    }
    deflate_compressor_done(&writer->compressor);
    *writer = (struct hdf5_writer){0};
}

// --- offsets ------------------------------------------------------------------------------------

static int rank_of(const struct hdf5_dataset_writer *set) {
    return set->column.width > 0 ? 2 : 1;
}

static uint64_t key_bytes(const struct hdf5_dataset_writer *set) {
    return 8 + 8 * ((uint64_t)rank_of(set) + 1);
}

static uint64_t node_bytes(const struct hdf5_dataset_writer *set) {
    return 24 + CHUNK_CHILDREN * 8 + (CHUNK_CHILDREN + 1) * key_bytes(set);
}

static uint64_t chunk_count(const struct hdf5_dataset_writer *set) {
    return set->index.length / 8;
}

// The number of nodes of a level with `count` children.
static uint64_t nodes_for(uint64_t count) {
    return (count + CHUNK_CHILDREN - 1) / CHUNK_CHILDREN;
}

static uint64_t tree_bytes(const struct hdf5_dataset_writer *set) {
    uint64_t nodes = 0, level = chunk_count(set);
    do {
        level = nodes_for(level);
        nodes += level;
    } while (level > 1);
    return nodes * node_bytes(set);
}

static uint64_t filters_bytes(const struct hdf5_dataset_writer *set) {
    return 8 + 24 * (1 + (uint64_t)is_shuffled(set));
}

static uint64_t dataset_header_bytes(const struct hdf5_dataset_writer *set) {
    uint64_t rank = (uint64_t)rank_of(set);
    uint64_t space = 8 + 16 * rank, layout = aligned(11 + 4 * (rank + 1));
    return 16 + 5 * 8 + space + 16 + 8 + filters_bytes(set) + layout;
}

struct layout {
    const struct hdf5_dataset_writer *order[HDF5_COLUMNS_MAX]; // by name
    size_t count;
    uint64_t tree, heap, names, names_bytes, nodes, end;
};

static int compare_names(const void *a, const void *b) {
    const struct hdf5_dataset_writer *left = *(const struct hdf5_dataset_writer *const *)a;
    const struct hdf5_dataset_writer *right = *(const struct hdf5_dataset_writer *const *)b;
    return strcmp(left->column.name, right->column.name);
}

static size_t symbol_nodes(const struct layout *layout) {
    return (layout->count + SYMBOLS - 1) / SYMBOLS;
}

static void compute_layout(struct hdf5_writer *writer, struct layout *layout) {
    layout->names_bytes = 8;
    for (size_t i = 0; i < writer->count; i++) {
        layout->order[layout->count++] = &writer->sets[i];
        layout->names_bytes += aligned(strlen(writer->sets[i].column.name) + 1);
    }
    qsort(layout->order, layout->count, sizeof *layout->order, compare_names);
    layout->tree = SUPERBLOCK_BYTES + ROOT_HEADER_BYTES;
    layout->heap = layout->tree + GROUP_TREE_BYTES;
    layout->names = layout->heap + HEAP_BYTES;
    layout->nodes = layout->names + layout->names_bytes;
    uint64_t offset = layout->nodes + symbol_nodes(layout) * SYMBOL_NODE_BYTES;
    for (size_t i = 0; i < writer->count; i++) {
        struct hdf5_dataset_writer *set = &writer->sets[i];
        set->header = offset;
        set->tree = offset + dataset_header_bytes(set);
        set->begin = set->tree + tree_bytes(set);
        offset = aligned(set->begin + set->data.length);
    }
    layout->end = offset;
}

// --- the root group -----------------------------------------------------------------------------

static void put(struct buffer *bytes, uint64_t number, size_t size) {
    buffer_put_number(bytes, number, size);
}

static void pad(struct buffer *bytes, uint64_t length) {
    while (bytes->length < length && !bytes->failed) {
        put(bytes, 0, 1);
    }
}

static void put_symbol(struct buffer *bytes, uint64_t name, uint64_t header, int is_group) {
    put(bytes, name, 8);
    put(bytes, header, 8);
    put(bytes, (uint64_t)is_group, 8); // the contents of the next 16 bytes
}

static void put_superblock(struct buffer *bytes, const struct layout *layout) {
    buffer_put(bytes, HDF5_SIGNATURE, HDF5_SIGNATURE_BYTES);
    put(bytes, 0, 5); // versions
    put(bytes, 8, 1); // bytes of an address
    put(bytes, 8, 2); // bytes of a length
    put(bytes, SYMBOLS / 2, 2);
    put(bytes, GROUP_CHILDREN / 2, 2);
    put(bytes, 0, 4);
    put(bytes, 0, 8);
    put(bytes, UNDEFINED_ADDRESS, 8);
    put(bytes, layout->end, 8);
    put(bytes, UNDEFINED_ADDRESS, 8);
    put_symbol(bytes, 0, SUPERBLOCK_BYTES, 1);
    put(bytes, layout->tree, 8);
    put(bytes, layout->heap, 8);
}

static void put_header_head(struct buffer *bytes, uint64_t messages, uint64_t length) {
    put(bytes, 1, 2);
    put(bytes, messages, 2);
    put(bytes, 1, 4);
    put(bytes, length, 8);
}

static void put_message(struct buffer *bytes, uint64_t type, uint64_t length, uint64_t flags) {
    put(bytes, type, 2);
    put(bytes, length, 2);
    put(bytes, flags, 4);
}

// Writes a B-tree node up to its siblings.
static void put_node_head(struct buffer *bytes, uint64_t type, uint64_t level, uint64_t entries) {
    buffer_put_text(bytes, "TREE");
    put(bytes, type, 1);
    put(bytes, level, 1);
    put(bytes, entries, 2);
}

// The offset of a name in the heap, which begins with an empty name.
static uint64_t name_offset(const struct layout *layout, size_t index) {
    uint64_t offset = 8;
    for (size_t i = 0; i < index; i++) {
        offset += aligned(strlen(layout->order[i]->column.name) + 1);
    }
    return offset;
}

static void put_group_tree(struct buffer *bytes, const struct layout *layout) {
    size_t nodes = symbol_nodes(layout);
    put_node_head(bytes, 0, 0, nodes);
    put(bytes, UNDEFINED_ADDRESS, 8);
    put(bytes, UNDEFINED_ADDRESS, 8);
    put(bytes, 0, 8);
    for (size_t i = 0; i < nodes; i++) {
        size_t last = (i + 1) * SYMBOLS < layout->count ? (i + 1) * SYMBOLS : layout->count;
        put(bytes, layout->nodes + i * SYMBOL_NODE_BYTES, 8);
        put(bytes, name_offset(layout, last - 1), 8);
    }
    pad(bytes, layout->heap);
}

static void put_heap(struct buffer *bytes, const struct layout *layout) {
    buffer_put_text(bytes, "HEAP");
    put(bytes, 0, 4);
    put(bytes, layout->names_bytes, 8);
    put(bytes, 1, 8); // no free block
    put(bytes, layout->names, 8);
    put(bytes, 0, 8);
    for (size_t i = 0; i < layout->count; i++) {
        buffer_put_text(bytes, layout->order[i]->column.name);
        pad(bytes, layout->names + name_offset(layout, i + 1));
    }
}

static void put_symbol_nodes(struct buffer *bytes, const struct layout *layout) {
    for (size_t node = 0; node < symbol_nodes(layout); node++) {
        size_t left = layout->count - node * SYMBOLS, count = left < SYMBOLS ? left : SYMBOLS;
        buffer_put_text(bytes, "SNOD");
        put(bytes, 1, 2);
        put(bytes, count, 2);
        for (size_t i = 0; i < count; i++) {
            size_t index = node * SYMBOLS + i;
            put_symbol(bytes, name_offset(layout, index), layout->order[index]->header, 0);
            put(bytes, 0, 8);
            put(bytes, 0, 8);
        }
        pad(bytes, layout->nodes + (node + 1) * SYMBOL_NODE_BYTES);
    }
}

static void put_group(struct buffer *bytes, const struct layout *layout) {
    put_superblock(bytes, layout);
    put_header_head(bytes, 1, 24);
    put_message(bytes, 0x11, 16, 0);
    put(bytes, layout->tree, 8);
    put(bytes, layout->heap, 8);
    put_group_tree(bytes, layout);
    put_heap(bytes, layout);
    put_symbol_nodes(bytes, layout);
}

// --- data sets ----------------------------------------------------------------------------------

static void put_space(struct buffer *bytes, const struct hdf5_dataset_writer *set) {
    int rank = rank_of(set);
    put_message(bytes, 1, 8 + 16 * (uint64_t)rank, 0);
    put(bytes, 1, 1);
    put(bytes, (uint64_t)rank, 1);
    put(bytes, 1, 6); // has the maximum shape
    for (int i = 0; i < 2; i++) {
        put(bytes, set->row_count, 8);
        if (rank == 2) {
            put(bytes, (uint64_t)set->column.width, 8);
        }
    }
}

static int is_signed(enum tensor_dtype dtype) {
    return dtype == TENSOR_I8 || dtype == TENSOR_I16 || dtype == TENSOR_I32 || dtype == TENSOR_I64;
}

static void put_layout(struct buffer *bytes, const struct hdf5_dataset_writer *set) {
    uint64_t rank = (uint64_t)rank_of(set), begin = bytes->length + 8;
    uint64_t length = aligned(11 + 4 * (rank + 1));
    put_message(bytes, 8, length, 0);
    put(bytes, 3, 1);
    put(bytes, 2, 1);
    put(bytes, rank + 1, 1);
    put(bytes, set->tree, 8);
    put(bytes, set->chunk_rows, 4);
    if (rank == 2) {
        put(bytes, (uint64_t)set->column.width, 4);
    }
    put(bytes, tensor_dtype_size(set->column.dtype), 4);
    pad(bytes, begin + length);
}

// Writes a filter with one parameter.
static void put_filter(struct buffer *bytes, enum hdf5_filter filter, const char name[8],
                       uint64_t value) {
    put(bytes, filter, 2);
    put(bytes, 8, 2);
    put(bytes, 1, 2); // optional
    put(bytes, 1, 2);
    buffer_put(bytes, name, 8);
    put(bytes, value, 8);
}

static void put_dataset_header(struct buffer *bytes, const struct hdf5_writer *writer,
                               const struct hdf5_dataset_writer *set) {
    put_header_head(bytes, 5, dataset_header_bytes(set) - 16);
    put_space(bytes, set);
    size_t size = tensor_dtype_size(set->column.dtype);
    put_message(bytes, 3, 16, 1);
    put(bytes, 0x10, 1);
    put(bytes, is_signed(set->column.dtype) ? 8 : 0, 3);
    put(bytes, size, 4);
    put(bytes, 0, 2);
    put(bytes, 8 * size, 2);
    put(bytes, 0, 4);
    put_message(bytes, 5, 8, 1); // the fill value is the default
    put(bytes, 0x01020302, 8);
    put_message(bytes, 11, filters_bytes(set), 1);
    put(bytes, 1, 1);
    put(bytes, 1 + (uint64_t)is_shuffled(set), 7);
    if (is_shuffled(set)) {
        put_filter(bytes, HDF5_SHUFFLE, "shuffle", tensor_dtype_size(set->column.dtype));
    }
    put_filter(bytes, HDF5_DEFLATE, "deflate", (uint64_t)writer->level);
    put_layout(bytes, set);
}

// --- the B-tree of a data set's chunks ----------------------------------------------------------

// The children of the nodes of one level.
struct level {
    uint64_t number;      // 0: the children are chunks
    uint64_t count;       // of children
    uint64_t chunks_each; // chunks below a child
    uint64_t address;     // of the first child, when they are nodes
};

static uint64_t chunk_size(const struct hdf5_dataset_writer *set, uint64_t chunk) {
    return little_endian(set->index.bytes + 8 * chunk, 8);
}

// Writes the key before a chunk, or after the last.
static void put_key(struct buffer *bytes, const struct hdf5_dataset_writer *set, uint64_t chunk) {
    int last = chunk >= chunk_count(set);
    put(bytes, last ? 0 : chunk_size(set, chunk), 4);
    put(bytes, 0, 4);
    put(bytes, (last ? chunk_count(set) : chunk) * set->chunk_rows, 8);
    if (rank_of(set) == 2) {
        put(bytes, last ? (uint64_t)set->column.width : 0, 8);
    }
    put(bytes, last ? tensor_dtype_size(set->column.dtype) : 0, 8);
}

// Writes the nodes of one level, after those of the level below.
static void put_level(struct buffer *bytes, const struct hdf5_dataset_writer *set,
                      const struct level *level) {
    uint64_t nodes = nodes_for(level->count), size = node_bytes(set);
    uint64_t begin = bytes->length, data = set->begin;
    uint64_t here = level->number == 0 ? set->tree : level->address + level->count * size;
    for (uint64_t node = 0; node < nodes; node++) {
        uint64_t first = node * CHUNK_CHILDREN, left = level->count - first;
        uint64_t count = left < CHUNK_CHILDREN ? left : CHUNK_CHILDREN;
        put_node_head(bytes, 1, level->number, count);
        put(bytes, node > 0 ? here + (node - 1) * size : UNDEFINED_ADDRESS, 8);
        put(bytes, node + 1 < nodes ? here + (node + 1) * size : UNDEFINED_ADDRESS, 8);
        for (uint64_t i = first; i < first + count; i++) {
            put_key(bytes, set, i * level->chunks_each);
            put(bytes, level->number == 0 ? data : level->address + i * size, 8);
            data += level->number == 0 ? chunk_size(set, i) : 0;
        }
        put_key(bytes, set, (first + count) * level->chunks_each);
        pad(bytes, begin + (node + 1) * size);
    }
}

// Writes the levels from the chunks up. The root may be anywhere (as in h5py's files); here it is
// the last node.
static void put_chunk_tree(struct buffer *bytes, const struct hdf5_dataset_writer *set) {
    struct level level = {.count = chunk_count(set), .chunks_each = 1};
    put_level(bytes, set, &level);
    uint64_t address = set->tree;
    while (nodes_for(level.count) > 1) {
        uint64_t children = nodes_for(level.count);
        level = (struct level){.number = level.number + 1,
                               .count = children,
                               .chunks_each = level.chunks_each * CHUNK_CHILDREN,
                               .address = address};
        put_level(bytes, set, &level);
        address += children * node_bytes(set);
    }
}

// --- the file -----------------------------------------------------------------------------------

static enum berth_status put_bytes(struct file_writer *file, struct buffer *bytes,
                                   struct berth_error *error) {
    enum berth_status status = bytes->failed
                                   ? error_no_memory(error, bytes->length, "an HDF5 file's header")
                                   : file_writer_put(file, bytes->bytes, bytes->length, error);
    buffer_done(bytes);
    return status;
}

static enum berth_status put_dataset(struct file_writer *file, const struct hdf5_writer *writer,
                                     const struct hdf5_dataset_writer *set,
                                     struct berth_error *error) {
    static const char zeros[8];
    struct buffer bytes = {0};
    struct hdf5_dataset_writer with_root = *set;
    // The root is the last node.
    with_root.tree = set->tree + tree_bytes(set) - node_bytes(set);
    put_dataset_header(&bytes, writer, &with_root);
    put_chunk_tree(&bytes, set);
    TRY(put_bytes(file, &bytes, error));
    uint64_t end = set->begin + set->data.length;
    (void)file_writer_put(file, set->data.bytes, set->data.length, error);
    return file_writer_put(file, zeros, aligned(end) - end, error);
}

static enum berth_status write_file(struct hdf5_writer *writer, struct file_writer *file,
                                    struct berth_error *error) {
    struct layout layout = {0};
    struct buffer bytes = {0};
    compute_layout(writer, &layout);
    put_group(&bytes, &layout);
    TRY(put_bytes(file, &bytes, error));
    for (size_t i = 0; i < writer->count; i++) {
        TRY(put_dataset(file, writer, &writer->sets[i], error));
    }
    return BERTH_OK;
}

enum berth_status hdf5_writer_commit(struct hdf5_writer *writer, const char *path,
                                     struct berth_error *error) {
    struct file_writer file;
    for (size_t i = 0; i < writer->count; i++) {
        struct hdf5_dataset_writer *set = &writer->sets[i];
        if (set->row_count == 0 || set->row_count != writer->sets->row_count) {
            return error_set(error, BERTH_INTERNAL,
                             "%s: data set %s has %" PRIu64 " rows, %s has %" PRIu64
                             ": expected the same number, and at least one",
                             path, set->column.name, set->row_count, writer->sets->column.name,
                             writer->sets->row_count);
        }
        if (set->filled > 0) {
            TRY(flush(writer, set, error));
        }
    }
    TRY(file_writer_open(&file, path, error));
    enum berth_status status = write_file(writer, &file, error);
    if (status == BERTH_OK) {
        return file_writer_commit(&file, error);
    }
    file_writer_abort(&file);
    return status;
}
