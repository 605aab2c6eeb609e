// SPDX-License-Identifier: Apache-2.0
// Writes sorted tables with TensorFlow's settings: blocks of 256 KiB, a restart at every 16th key
// of a data block and at every index key, no compression. tensorflow_write.c gives the keys in
// order.
#include "format/checksum/crc32c.h"
#include "format/tensorflow/sorted_table.h"

#include <string.h>

#define BLOCK_BYTES ((size_t)256 << 10)
#define RESTART_INTERVAL 16
#define FOOTER_HANDLES 40
#define MAGIC 0xdb4775248b80fb57u

// --- one block ----------------------------------------------------------------------------------

static size_t shared_bytes(const struct sorted_table_key *last, const char *key, size_t length) {
    size_t limit = last->length < length ? last->length : length, shared = 0;
    while (shared < limit && last->bytes[shared] == (unsigned char)key[shared]) {
        shared++;
    }
    return shared;
}

static void begin_block(struct sorted_table_builder *block, int restart_interval) {
    buffer_clear(&block->bytes);
    buffer_clear(&block->restarts);
    buffer_put_number(&block->restarts, 0, 4);
    block->entries_since_restart = 0;
    block->restart_interval = restart_interval;
    block->last.length = 0;
}

static void add_entry(struct sorted_table_builder *block, const char *key, size_t key_length,
                      const void *value, size_t length) {
    size_t shared = 0;
    if (block->entries_since_restart < block->restart_interval) {
        shared = shared_bytes(&block->last, key, key_length);
    } else {
        buffer_put_number(&block->restarts, (uint32_t)block->bytes.length, 4);
        block->entries_since_restart = 0;
    }
    protobuf_raw_varint(&block->bytes, shared);
    protobuf_raw_varint(&block->bytes, key_length - shared);
    protobuf_raw_varint(&block->bytes, length);
    buffer_put(&block->bytes, key + shared, key_length - shared);
    buffer_put(&block->bytes, value, length);
    memcpy(block->last.bytes, key, key_length);
    block->last.length = key_length;
    block->entries_since_restart++;
}

// The size of a block with its restarts.
static size_t block_size(const struct sorted_table_builder *block) {
    return block->bytes.length + block->restarts.length + 4;
}

// Appends the block and its trailer to the file.
static void write_block(struct sorted_table_writer *writer,
                        const struct sorted_table_builder *block) {
    struct buffer *bytes = &writer->bytes;
    size_t begin = bytes->length;
    bytes->failed |= block->bytes.failed || block->restarts.failed;
    buffer_put(bytes, block->bytes.bytes, block->bytes.length);
    buffer_put(bytes, block->restarts.bytes, block->restarts.length);
    buffer_put_number(bytes, (uint32_t)(block->restarts.length / 4), 4);
    buffer_put(bytes, "", 1); // not compressed
    if (!bytes->failed) {
        uint32_t checksum = crc32c(0, bytes->bytes + begin, bytes->length - begin);
        buffer_put_number(bytes, crc32c_mask(checksum), 4);
    }
}

// --- the table ----------------------------------------------------------------------------------

// Shortens the key to the shortest one that is not less than it and less than `next`.
static size_t shorten_below(struct sorted_table_key *key, const char *next, size_t next_length) {
    size_t shared = shared_bytes(key, next, next_length);
    if (shared < key->length && shared < next_length && key->bytes[shared] < 0xff &&
        key->bytes[shared] + 1 < (unsigned char)next[shared]) {
        key->bytes[shared]++;
        return shared + 1;
    }
    return key->length;
}

// Shortens the key to a greater one: up to its first byte below 255, which is incremented.
static size_t shorten_above(struct sorted_table_key *key) {
    for (size_t i = 0; i < key->length; i++) {
        if (key->bytes[i] != 0xff) {
            key->bytes[i]++;
            return i + 1;
        }
    }
    return key->length;
}

static void put_handle(struct buffer *to, size_t begin, size_t size) {
    protobuf_raw_varint(to, begin);
    protobuf_raw_varint(to, size);
}

// Writes the index entry of the last block; `next` is the key after it, or NULL.
static void put_index(struct sorted_table_writer *writer, const char *next, size_t next_length) {
    struct sorted_table_key key = writer->data.last;
    struct buffer handle = {0};
    size_t length = next != NULL ? shorten_below(&key, next, next_length) : shorten_above(&key);
    put_handle(&handle, writer->block_begin, writer->block_size);
    writer->bytes.failed |= handle.failed;
    add_entry(&writer->index, (const char *)key.bytes, length, handle.bytes, handle.length);
    buffer_done(&handle);
    writer->index_is_due = 0;
}

static void flush(struct sorted_table_writer *writer) {
    writer->block_begin = writer->bytes.length;
    writer->block_size = block_size(&writer->data);
    write_block(writer, &writer->data);
    writer->index_is_due = 1;
}

static void begin_table(struct sorted_table_writer *writer) {
    if (!writer->begun) {
        begin_block(&writer->data, RESTART_INTERVAL);
        begin_block(&writer->index, 1);
        writer->begun = 1;
    }
}

void sorted_table_put(struct sorted_table_writer *writer, const char *key, const void *value,
                      size_t length) {
    size_t key_length = strlen(key);
    begin_table(writer);
    if (writer->index_is_due) {
        put_index(writer, key, key_length);
        begin_block(&writer->data, RESTART_INTERVAL);
    }
    add_entry(&writer->data, key, key_length, value, length);
    if (block_size(&writer->data) >= BLOCK_BYTES) {
        flush(writer);
    }
}

void sorted_table_finish(struct sorted_table_writer *writer) {
    struct buffer *bytes = &writer->bytes;
    begin_table(writer);
    if (writer->data.bytes.length > 0 && !writer->index_is_due) {
        flush(writer);
    }
    if (writer->index_is_due) {
        put_index(writer, NULL, 0);
    }
    size_t empty_begin = bytes->length;
    begin_block(&writer->data, RESTART_INTERVAL);
    size_t empty_size = block_size(&writer->data);
    write_block(writer, &writer->data);
    size_t index_begin = bytes->length, index_size = block_size(&writer->index);
    write_block(writer, &writer->index);
    size_t footer = bytes->length;
    put_handle(bytes, empty_begin, empty_size);
    put_handle(bytes, index_begin, index_size);
    static const char zeros[FOOTER_HANDLES];
    buffer_put(bytes, zeros, FOOTER_HANDLES - (bytes->length - footer));
    buffer_put_number(bytes, (uint32_t)MAGIC, 4);
    buffer_put_number(bytes, (uint32_t)(MAGIC >> 32), 4);
}

void sorted_table_writer_done(struct sorted_table_writer *writer) {
    buffer_done(&writer->bytes);
    buffer_done(&writer->data.bytes);
    buffer_done(&writer->data.restarts);
    buffer_done(&writer->index.bytes);
    buffer_done(&writer->index.restarts);
    *writer = (struct sorted_table_writer){0};
}
