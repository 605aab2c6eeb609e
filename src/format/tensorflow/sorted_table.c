// SPDX-License-Identifier: Apache-2.0
// Reads sorted tables in one pass from the first key to the last: the restarts and the index keys,
// which are for searching, are checked but not used. tensorflow.c reads the index of a checkpoint
// with it.
#include "format/tensorflow/sorted_table.h"

#include "core/little_endian.h"
#include "format/checksum/crc32c.h"

#include <string.h>

#define FOOTER_BYTES 48
#define MAGIC_BYTES 8
#define TRAILER_BYTES 5 // type and checksum

static const unsigned char magic[MAGIC_BYTES] = {0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb};

static enum berth_status table_error(const struct sorted_table *table, size_t offset,
                                     const char *problem, struct berth_error *error) {
    return error_set(error, BERTH_BAD_DATA, "%s: byte %zu of %zu: %s", table->name, offset,
                     table->length, problem);
}

// --- blocks -------------------------------------------------------------------------------------

struct handle {
    uint64_t begin, size;
};

// Reads a varint in its shortest form: any other form could hide a flipped bit.
static enum berth_status read_canonical(struct protobuf_reader *reader, uint64_t *value,
                                        struct berth_error *error) {
    const unsigned char *begin = reader->at;
    TRY(protobuf_varint(reader, value, error));
    return reader->at - begin > 1 && reader->at[-1] == 0
               ? error_set(error, BERTH_BAD_DATA, "%s: an overlong varint", reader->name)
               : BERTH_OK;
}

static enum berth_status read_handle(struct protobuf_reader *reader, struct handle *handle,
                                     struct berth_error *error) {
    TRY(read_canonical(reader, &handle->begin, error));
    return read_canonical(reader, &handle->size, error);
}

// Checks that the block, with its trailer, is within [begin, end).
static enum berth_status check_bounds(const struct sorted_table *table, const struct handle *handle,
                                      size_t begin, size_t end, struct berth_error *error) {
    if (handle->begin != begin || end - begin < TRAILER_BYTES ||
        handle->size > end - begin - TRAILER_BYTES) {
        return table_error(table, begin, "expected a block that ends before the next part", error);
    }
    return BERTH_OK;
}

static enum berth_status check_trailer(const struct sorted_table *table,
                                       const struct handle *handle, struct berth_error *error) {
    const unsigned char *block = table->bytes + handle->begin, *trailer = block + handle->size;
    uint32_t computed = crc32c(0, block, (size_t)handle->size + 1);
    if (computed != crc32c_unmask(little_endian_u32(trailer + 1))) {
        return table_error(
            table, (size_t)handle->begin,
            "the checksum of the block that begins here is wrong: the file is damaged", error);
    }
    if (*trailer == 1) {
        return table_error(
            table, (size_t)handle->begin,
            "a block with Snappy compression, which is not supported; TensorFlow writes "
            "checkpoints uncompressed",
            error);
    }
    return *trailer == 0
               ? BERTH_OK
               : table_error(table, (size_t)handle->begin, "a block of an unknown type", error);
}

// Opens a block whose position has been checked.
static enum berth_status open_block(const struct sorted_table *table, const struct handle *handle,
                                    struct sorted_table_block *block, struct berth_error *error) {
    TRY(check_trailer(table, handle, error));
    size_t size = (size_t)handle->size;
    const unsigned char *begin = table->bytes + handle->begin;
    uint64_t restarts = size >= 4 ? little_endian_u32(begin + size - 4) : 0;
    if (restarts == 0 || restarts > (size - 4) / 4) {
        return table_error(table, (size_t)handle->begin, "a block without restart points", error);
    }
    size_t entries = size - 4 - 4 * (size_t)restarts;
    block->begin = (size_t)handle->begin;
    block->entries = protobuf_read(begin, entries, table->name);
    block->restarts = begin + entries;
    block->restart_count = (size_t)restarts;
    block->restarts_seen = 0;
    block->has_key = 0;
    return BERTH_OK;
}

// The offset in the table of the block's next entry.
static size_t entry_offset(const struct sorted_table_block *block) {
    return block->begin + (size_t)(block->entries.at - block->entries.begin);
}

static int restarts_here(const struct sorted_table_block *block) {
    return block->restarts_seen < block->restart_count &&
           little_endian_u32(block->restarts + 4 * block->restarts_seen) ==
               (size_t)(block->entries.at - block->entries.begin);
}

// Less than, equal to or greater than 0, as memcmp; a key is greater than its prefixes.
static int compare(const unsigned char *a, size_t a_length, const unsigned char *b,
                   size_t b_length) {
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order != 0 ? order : (a_length > b_length) - (a_length < b_length);
}

static int compare_keys(const struct sorted_table_key *a, const struct sorted_table_key *b) {
    return compare(a->bytes, a->length, b->bytes, b->length);
}

static void copy_key(struct sorted_table_key *to, const struct sorted_table_key *from) {
    to->length = from->length;
    memcpy(to->bytes, from->bytes, from->length + 1);
}

// Sets the block's key to the first `shared` bytes of the previous key, followed by `own` bytes.
static enum berth_status read_key(const struct sorted_table *table,
                                  struct sorted_table_block *block, uint64_t shared, uint64_t own,
                                  struct berth_error *error) {
    size_t left = (size_t)(block->entries.end - block->entries.at);
    if (shared > (block->has_key ? block->key.length : 0) || own > left) {
        return table_error(table, entry_offset(block), "a key that extends beyond its block",
                           error);
    }
    if (own > SORTED_TABLE_KEY_LIMIT - shared) {
        return table_error(table, entry_offset(block), "a key longer than 1024 bytes", error);
    }
    struct sorted_table_key *key = &block->key;
    const unsigned char *bytes = block->entries.at;
    size_t common = (size_t)shared;
    if (block->has_key &&
        compare(bytes, (size_t)own, key->bytes + common, key->length - common) <= 0) {
        return table_error(table, entry_offset(block),
                           "a key that is not greater than the previous one", error);
    }
    memcpy(key->bytes + common, bytes, (size_t)own);
    key->length = common + (size_t)own;
    key->bytes[key->length] = '\0';
    block->has_key = 1;
    block->entries.at += own;
    return BERTH_OK;
}

// Reads the next entry of a block; block->key is its key.
static enum berth_status next_in_block(const struct sorted_table *table,
                                       struct sorted_table_block *block,
                                       struct sorted_table_entry *entry, int *more,
                                       struct berth_error *error) {
    struct protobuf_reader *entries = &block->entries;
    *more = entries->at < entries->end;
    int restart = restarts_here(block);
    // A block without entries has one restart, at 0.
    block->restarts_seen += restart && (*more || entries->at == entries->begin);
    if (!*more) {
        return block->restarts_seen == block->restart_count
                   ? BERTH_OK
                   : table_error(table, entry_offset(block),
                                 "a restart point that is not the offset of an entry", error);
    }
    if (entries->at == entries->begin && !restart) {
        return table_error(table, entry_offset(block),
                           "the first entry is not the first restart point", error);
    }
    uint64_t shared, own, value;
    TRY(protobuf_varint(entries, &shared, error));
    TRY(protobuf_varint(entries, &own, error));
    TRY(protobuf_varint(entries, &value, error));
    if (restart && shared != 0) {
        return table_error(table, entry_offset(block),
                           "a restart point that shares bytes with the previous key", error);
    }
    TRY(read_key(table, block, shared, own, error));
    if (value > (uint64_t)(entries->end - entries->at)) {
        return table_error(table, entry_offset(block), "a value that extends beyond its block",
                           error);
    }
    *entry = (struct sorted_table_entry){.key = (const char *)block->key.bytes,
                                         .key_length = block->key.length,
                                         .value = entries->at,
                                         .value_length = (size_t)value};
    entries->at += value;
    return BERTH_OK;
}

// --- the table ----------------------------------------------------------------------------------

static enum berth_status read_footer(const struct sorted_table *table, struct handle *empty,
                                     struct handle *index, struct berth_error *error) {
    if (table->length < FOOTER_BYTES) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: %zu bytes are too few for the index of a TensorFlow checkpoint",
                         table->name, table->length);
    }
    const unsigned char *footer = table->bytes + table->length - FOOTER_BYTES;
    if (memcmp(footer + FOOTER_BYTES - MAGIC_BYTES, magic, MAGIC_BYTES) != 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected the end of a TensorFlow checkpoint's index: the file is "
                         "truncated, or of another kind",
                         table->name);
    }
    struct protobuf_reader reader = protobuf_read(footer, FOOTER_BYTES - MAGIC_BYTES, table->name);
    TRY(read_handle(&reader, empty, error));
    TRY(read_handle(&reader, index, error));
    for (; reader.at < reader.end; reader.at++) {
        if (*reader.at != 0) {
            return table_error(table, (size_t)(reader.at - table->bytes),
                               "expected zeros up to the end of the footer", error);
        }
    }
    return BERTH_OK;
}

enum berth_status sorted_table_open(struct sorted_table *table, const void *bytes, size_t length,
                                    const char *name, struct berth_error *error) {
    struct handle empty, index;
    *table = (struct sorted_table){.bytes = bytes, .length = length, .name = name};
    TRY(read_footer(table, &empty, &index, error));
    size_t end = length - FOOTER_BYTES;
    if (index.begin > end) {
        return table_error(table, end, "the index begins after its end", error);
    }
    TRY(check_bounds(table, &index, (size_t)index.begin, end, error));
    if (empty.begin > index.begin) {
        return table_error(table, end, "the parts of the file are out of order", error);
    }
    TRY(check_bounds(table, &empty, (size_t)empty.begin, (size_t)index.begin, error));
    if (index.begin + index.size + TRAILER_BYTES != end ||
        empty.begin + empty.size + TRAILER_BYTES != index.begin) {
        return table_error(table, end, "unused bytes between the parts of the file", error);
    }
    // TensorFlow leaves this block empty.
    struct sorted_table_block block = {0};
    struct sorted_table_entry entry;
    int more;
    TRY(open_block(table, &empty, &block, error));
    TRY(next_in_block(table, &block, &entry, &more, error));
    if (more) {
        return table_error(table, block.begin, "expected a block without entries", error);
    }
    TRY(open_block(table, &index, &table->index, error));
    table->data_end = (size_t)empty.begin;
    return BERTH_OK;
}

// Checks that the last key of the block just read is not greater than its index entry.
static enum berth_status check_separator(struct sorted_table *table, struct berth_error *error) {
    if (!table->has_key) {
        return BERTH_OK;
    }
    copy_key(&table->separator, &table->index.key);
    return compare_keys(&table->separator, &table->last) >= 0
               ? BERTH_OK
               : table_error(table, entry_offset(&table->index),
                             "an index key that is less than the last key of its block", error);
}

// Opens the next data block; *more is 0 after the last.
static enum berth_status next_block(struct sorted_table *table, int *more,
                                    struct berth_error *error) {
    struct sorted_table_entry entry;
    TRY(check_separator(table, error));
    TRY(next_in_block(table, &table->index, &entry, more, error));
    if (!*more) {
        return table->read_end == table->data_end
                   ? BERTH_OK
                   : table_error(table, table->read_end, "a block that is not in the index", error);
    }
    struct protobuf_reader value = protobuf_read(entry.value, entry.value_length, table->name);
    struct handle handle;
    TRY(read_handle(&value, &handle, error));
    if (value.at != value.end) {
        return table_error(table, entry_offset(&table->index), "an index entry that is too long",
                           error);
    }
    TRY(check_bounds(table, &handle, table->read_end, table->data_end, error));
    table->read_end += (size_t)handle.size + TRAILER_BYTES;
    return open_block(table, &handle, &table->data, error);
}

// Reads the first entry of the next block, which must be greater than the index key before it.
static enum berth_status first_of_block(struct sorted_table *table,
                                        struct sorted_table_entry *entry, int *more,
                                        struct berth_error *error) {
    TRY(next_block(table, more, error));
    if (!*more) {
        return BERTH_OK;
    }
    TRY(next_in_block(table, &table->data, entry, more, error));
    if (!*more) {
        return table_error(table, table->data.begin, "a data block without entries", error);
    }
    return !table->has_key || compare_keys(&table->data.key, &table->separator) > 0
               ? BERTH_OK
               : table_error(table, entry_offset(&table->data),
                             "a key that is not greater than the previous block", error);
}

enum berth_status sorted_table_next(struct sorted_table *table, struct sorted_table_entry *entry,
                                    int *more, struct berth_error *error) {
    TRY(next_in_block(table, &table->data, entry, more, error));
    if (!*more) {
        TRY(first_of_block(table, entry, more, error));
    }
    if (*more) {
        copy_key(&table->last, &table->data.key);
        table->has_key = 1;
    }
    return BERTH_OK;
}
