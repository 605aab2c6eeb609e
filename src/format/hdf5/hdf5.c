// SPDX-License-Identifier: Apache-2.0
// Opens an HDF5 file: from its superblock through the root group to the list of data sets, whose
// headers hdf5_header.c reads. Readers of pre-training data come in here, and read rows by
// hdf5_read.c afterwards.
#include "format/hdf5/hdf5.h"

#include "core/little_endian.h"
#include "core/memory.h"
#include "format/hdf5/hdf5_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUPERBLOCK_MAX = 96,
    USER_BLOCK_MIN = 512,
    HEAP_HEADER_BYTES = 32,
    NODE_HEADER_BYTES = 24,
    SYMBOL_BYTES = 40
};

// --- the root group in the old format: a B-tree of symbol nodes, names in a heap ----------------

struct group {
    struct hdf5_file *file;
    struct hdf5_links *links;
    unsigned char *names;
    size_t names_length;
};

static enum berth_status read_heap(struct group *group, uint64_t address,
                                   struct berth_error *error) {
    unsigned char *block;
    struct hdf5_cursor cursor;
    TRY(hdf5_read_metadata(group->file, address, HEAP_HEADER_BYTES, &block, &cursor, error));
    int is_heap = memcmp(block, "HEAP\0", 5) == 0;
    hdf5_skip(&cursor, 8);
    uint64_t length = hdf5_read_number(&cursor, 8);
    hdf5_skip(&cursor, 8);
    uint64_t names = hdf5_read_number(&cursor, 8);
    memory_free(block);
    if (!is_heap) {
        return hdf5_error(group->file, address, "expected the name heap of a group", error);
    }
    TRY(hdf5_read_metadata(group->file, names, length, &group->names, &cursor, error));
    group->names_length = (size_t)length;
    return BERTH_OK;
}

static enum berth_status put_symbol(struct group *group, struct hdf5_cursor *cursor,
                                    struct berth_error *error) {
    uint64_t address = cursor->begin + cursor->position, name = hdf5_read_number(cursor, 8),
             header = hdf5_read_number(cursor, 8);
    uint64_t cache_type = hdf5_read_number(cursor, 4);
    hdf5_skip(cursor, 20);
    if (cache_type == 2) { // a soft link
        return BERTH_OK;
    }
    const unsigned char *text = name < group->names_length ? group->names + name : NULL;
    if (text == NULL || *text == '\0' ||
        memchr(text, '\0', group->names_length - (size_t)name) == NULL) {
        return hdf5_error(group->file, address, "a name is outside the group's name heap", error);
    }
    return hdf5_links_put(group->file, group->links, text, strlen((const char *)text), header,
                          error);
}

static enum berth_status read_symbols(struct group *group, uint64_t address,
                                      struct berth_error *error) {
    unsigned char *block;
    struct hdf5_cursor cursor;
    TRY(hdf5_read_metadata(group->file, address, 8, &block, &cursor, error));
    int is_node = memcmp(block, "SNOD\1", 5) == 0;
    hdf5_skip(&cursor, 6);
    uint64_t count = hdf5_read_number(&cursor, 2);
    memory_free(block);
    if (!is_node) {
        return hdf5_error(group->file, address, "expected a symbol node of a group", error);
    }
    TRY(hdf5_read_metadata(group->file, address + 8, count * SYMBOL_BYTES, &block, &cursor, error));
    enum berth_status status = BERTH_OK;
    for (uint64_t i = 0; i < count && status == BERTH_OK; i++) {
        status = put_symbol(group, &cursor, error);
    }
    memory_free(block);
    return status;
}

// Reads a node whose level must be `level`, or any level below 64 when `level` is negative.
static enum berth_status read_group_tree(struct group *group, uint64_t address, int level,
                                         struct berth_error *error) {
    unsigned char *block;
    struct hdf5_cursor cursor;
    TRY(hdf5_read_metadata(group->file, address, NODE_HEADER_BYTES, &block, &cursor, error));
    int is_node = memcmp(block, "TREE\0", 5) == 0, node_level = block[5];
    uint64_t count = little_endian(block + 6, 2);
    memory_free(block);
    if (!is_node || node_level >= 64 || (level >= 0 && node_level != level)) {
        return hdf5_error(group->file, address, "expected a B-tree node of a group", error);
    }
    TRY(hdf5_read_metadata(group->file, address + NODE_HEADER_BYTES, 16 * count, &block, &cursor,
                           error));
    enum berth_status status = BERTH_OK;
    for (uint64_t i = 0; i < count && status == BERTH_OK; i++) {
        hdf5_skip(&cursor, 8);
        uint64_t child = hdf5_read_number(&cursor, 8);
        status = node_level == 0 ? read_symbols(group, child, error)
                                 : read_group_tree(group, child, node_level - 1, error);
    }
    memory_free(block);
    return status;
}

// --- the superblock -----------------------------------------------------------------------------

struct superblock {
    uint64_t address_bytes, length_bytes, base, end, root;
};

// Finds the signature: at the start, or after a user block of 512, 1024, ... bytes.
static enum berth_status find_signature(const struct file_reader *file, uint64_t *base,
                                        struct berth_error *error) {
    char head[HDF5_SIGNATURE_BYTES];
    for (*base = 0; *base < file->size && file->size - *base >= sizeof head;
         *base = *base == 0 ? USER_BLOCK_MIN : 2 * *base) {
        TRY(file_reader_at(file, *base, head, sizeof head, error));
        if (memcmp(head, HDF5_SIGNATURE, sizeof head) == 0) {
            return BERTH_OK;
        }
    }
    return error_set(
        error, BERTH_BAD_DATA,
        "%s: not an HDF5 file: no HDF5 signature at its start or after a user block of "
        "512, 1024, ... bytes",
        file->path);
}

static void parse_superblock(struct hdf5_cursor *cursor, uint64_t version,
                             struct superblock *block) {
    if (version >= 2) {
        block->address_bytes = hdf5_read_number(cursor, 1);
        block->length_bytes = hdf5_read_number(cursor, 1);
        hdf5_skip(cursor, 1);
        block->base = hdf5_read_number(cursor, 8);
        hdf5_skip(cursor, 8);
        block->end = hdf5_read_number(cursor, 8);
        block->root = hdf5_read_number(cursor, 8);
        return;
    }
    hdf5_skip(cursor, 4);
    block->address_bytes = hdf5_read_number(cursor, 1);
    block->length_bytes = hdf5_read_number(cursor, 1);
    hdf5_skip(cursor, version == 1 ? 13 : 9);
    block->base = hdf5_read_number(cursor, 8);
    hdf5_skip(cursor, 8);
    block->end = hdf5_read_number(cursor, 8);
    hdf5_skip(cursor, 16);
    block->root = hdf5_read_number(cursor, 8);
}

static enum berth_status check_superblock(const struct hdf5_file *file, uint64_t version,
                                          const struct superblock *block,
                                          struct berth_error *error) {
    if (version > 3 || block->address_bytes != 8 || block->length_bytes != 8 ||
        block->base != file->base) {
        return hdf5_error(file, 8,
                          "unsupported superblock: expected version 0 to 3 with 8-byte addresses",
                          error);
    }
    if (block->end > file->file.size) { // counted from the start of the user block
        return error_set(error, BERTH_BAD_DATA,
                         "%s: HDF5 file: truncated: expected %" PRIu64 " bytes, found %" PRIu64,
                         file->file.path, block->end, file->file.size);
    }
    return BERTH_OK;
}

static enum berth_status read_superblock(struct hdf5_file *file, uint64_t *root,
                                         struct berth_error *error) {
    unsigned char bytes[SUPERBLOCK_MAX + 8] = {0};
    TRY(find_signature(&file->file, &file->base, error));
    uint64_t size = file->size = file->file.size - file->base;
    struct hdf5_cursor cursor = {.bytes = bytes,
                                 .length = size < sizeof bytes ? (size_t)size : sizeof bytes};
    struct superblock block = {0};
    TRY(hdf5_read_bytes(file, 0, bytes, cursor.length, error));
    hdf5_skip(&cursor, HDF5_SIGNATURE_BYTES);
    uint64_t version = hdf5_read_number(&cursor, 1);
    parse_superblock(&cursor, version, &block);
    if (cursor.is_truncated) {
        return hdf5_error(file, size, "truncated within its first block", error);
    }
    *root = block.root;
    return check_superblock(file, version, &block, error);
}

// --- data sets ----------------------------------------------------------------------------------

static enum berth_status check_data(struct hdf5_file *file, const struct hdf5_dataset *set,
                                    uint64_t address, struct berth_error *error) {
    int beyond = set->chunk_count == 0 && set->bytes > 0 &&
                 (set->address > file->size || set->bytes > file->size - set->address);
    if (beyond && set->address == HDF5_UNDEFINED_ADDRESS) {
        return hdf5_never_written(file, address, error);
    }
    if (beyond || set->stored > file->data_left) {
        return hdf5_error(file, address,
                          "the data is larger than the file: it is truncated or damaged", error);
    }
    file->data_left -= set->stored;
    return BERTH_OK;
}

// Adds the object to the file's data sets if it is one (not a group, for example).
static enum berth_status add_object(struct hdf5_file *file, struct hdf5_link *link,
                                    struct berth_error *error) {
    struct hdf5_object object = {0};
    TRY(hdf5_read_header(file, link->header, &object, error));
    if (!object.has_layout) {
        return BERTH_OK;
    }
    struct hdf5_dataset *set = &file->sets[file->count];
    enum berth_status status = hdf5_read_chunks(file, &object, error);
    *set = object.set;
    set->name = link->name;
    if (status == BERTH_OK) {
        status = check_data(file, set, link->header, error);
    }
    link->name = NULL;
    file->count++;
    return status;
}

static int compare_names(const void *a, const void *b) {
    const struct hdf5_dataset *left = a, *right = b;
    return strcmp(left->name, right->name);
}

static enum berth_status read_root(struct hdf5_file *file, struct hdf5_links *links,
                                   struct berth_error *error) {
    uint64_t address = 0;
    struct hdf5_object root = {.links = links};
    TRY(read_superblock(file, &address, error));
    TRY(hdf5_read_header(file, address, &root, error));
    if (root.is_dense) {
        return hdf5_error(
            file, address,
            "the links of the root group are in a heap (the newest format, for many data sets), "
            "which is not supported: write the file with h5py's default libver",
            error);
    }
    if (root.is_group) {
        struct group group = {.file = file, .links = root.links};
        enum berth_status status = read_heap(&group, root.heap, error);
        if (status == BERTH_OK) {
            status = read_group_tree(&group, root.tree, -1, error);
        }
        memory_free(group.names);
        TRY(status);
    }
    file->sets = memory_array_zeroed(links->count + 1, sizeof *file->sets);
    if (file->sets == NULL) {
        return error_no_memory(error, links->count * sizeof *file->sets, file->file.path);
    }
    for (size_t i = 0; i < links->count; i++) {
        char name[64];
        memcpy(name, links->items[i].name, strnlen(links->items[i].name, sizeof name - 1) + 1);
        name[sizeof name - 1] = '\0';
        enum berth_status status = add_object(file, &links->items[i], error);
        if (status != BERTH_OK) {
            return error_prefix(error, status, "data set %s", name);
        }
    }
    qsort(file->sets, file->count, sizeof *file->sets, compare_names);
    for (size_t i = 1; i < file->count; i++) {
        if (strcmp(file->sets[i - 1].name, file->sets[i].name) == 0) {
            return error_set(error, BERTH_BAD_DATA, "%s: HDF5 file: duplicate data set %s",
                             file->file.path, file->sets[i].name);
        }
    }
    return BERTH_OK;
}

enum berth_status hdf5_recognise(const char *path, int *is, struct berth_error *error) {
    struct file_reader file;
    struct berth_error own = {0};
    uint64_t base;
    enum berth_status status = file_reader_open(&file, path, &own);
    if (status == BERTH_OK) {
        status = find_signature(&file, &base, &own);
        file_reader_close(&file);
    }
    *is = status == BERTH_OK;
    return file_probe(status, &own, error);
}

enum berth_status hdf5_open(struct hdf5_file *file, const char *path, struct berth_error *error) {
    struct hdf5_links links = {0};
    *file = (struct hdf5_file){.file = {.descriptor = -1}};
    TRY(file_reader_open(&file->file, path, error));
    file->metadata_left = 2 * file->file.size;
    file->data_left = file->file.size;
    enum berth_status status = read_root(file, &links, error);
    hdf5_links_done(&links);
    if (status != BERTH_OK) {
        hdf5_close(file);
    }
    return status;
}

void hdf5_close(struct hdf5_file *file) {
    hdf5_drop_partial_chunks(file, NULL, 0, 0);
    for (size_t i = 0; i < file->count; i++) {
        memory_free(file->sets[i].name);
        memory_free(file->sets[i].chunks);
    }
    memory_free(file->sets);
    file_reader_close(&file->file);
    *file = (struct hdf5_file){.file = {.descriptor = -1}};
}

const struct hdf5_dataset *hdf5_find(const struct hdf5_file *file, const char *name) {
    for (size_t i = 0; i < file->count; i++) {
        if (strcmp(file->sets[i].name, name) == 0) {
            return &file->sets[i];
        }
    }
    return NULL;
}
