// SPDX-License-Identifier: Apache-2.0
// Sorted tables of keys and values in LevelDB's file format, which TensorFlow uses for the index of
// a checkpoint: data blocks, an empty block, an index block, a footer of 48 bytes.
//
//   block   entries, u32 offsets of the restart entries, their u32 count; then, outside the block,
//           a type byte (0: uncompressed, 1: Snappy) and the masked CRC-32C of block and type
//   entry   varints: bytes shared with the previous key, own bytes, bytes of the value; then those
//           bytes of key and value. Nothing is shared where a restart points.
//   handle  varints: offset and size of a block without its 5 bytes of type and checksum
//   index   key: from the block's last key to below the next block's first; value: its handle
//   footer  handles of the empty block and of the index, zeros up to 40 bytes, 8 bytes of magic
//
// Only tables with exactly this layout are read, so that the checksums and the rules above cover
// every byte. What keys and values mean is tensorflow.c's.
#ifndef BERTH_FORMAT_SORTED_TABLE_H
#define BERTH_FORMAT_SORTED_TABLE_H

#include "core/error.h"
#include "format/protobuf/protobuf.h"

#include <stddef.h>
#include <stdint.h>

#define SORTED_TABLE_KEY_LIMIT 1024 // longest key

// --- reading ------------------------------------------------------------------------------------

struct sorted_table_key {
    size_t length;
    unsigned char bytes[SORTED_TABLE_KEY_LIMIT + 1]; // NUL-terminated
};

struct sorted_table_block {
    size_t begin; // in the table
    struct protobuf_reader entries;
    const unsigned char *restarts;
    size_t restart_count, restarts_seen;
    struct sorted_table_key key; // of the last entry
    int has_key;
};

// A table in memory, which the caller owns, and the read position.
struct sorted_table {
    const unsigned char *bytes;
    size_t length;
    const char *name; // for messages
    size_t data_end;  // end of the data blocks
    size_t read_end;  // end of the blocks read so far
    struct sorted_table_block index, data;
    int has_key;                       // an entry was read
    struct sorted_table_key last;      // its key
    struct sorted_table_key separator; // the index key of the previous block
};

// Checks footer, empty block and index block.
enum berth_status sorted_table_open(struct sorted_table *table, const void *bytes, size_t length,
                                    const char *name, struct berth_error *error);
// Reads the next entry: its NUL-terminated key, valid until the next call, and its value in the
// table. *more is 0 at the end. Keys ascend strictly. Anything else is BERTH_BAD_DATA.
struct sorted_table_entry {
    const char *key;
    size_t key_length;
    const unsigned char *value;
    size_t value_length;
};
enum berth_status sorted_table_next(struct sorted_table *table, struct sorted_table_entry *entry,
                                    int *more, struct berth_error *error);

// --- writing ------------------------------------------------------------------------------------

// A block in progress.
struct sorted_table_builder {
    struct buffer bytes;
    struct buffer restarts;
    int entries_since_restart, restart_interval;
    struct sorted_table_key last;
};

// A table in progress: zero-initialise, put entries in the order of their keys (at most
// SORTED_TABLE_KEY_LIMIT bytes each), finish; then `bytes` holds the file, byte for byte as
// TensorFlow writes it.
struct sorted_table_writer {
    struct buffer bytes; // failed: out of memory
    struct sorted_table_builder data, index;
    size_t block_begin, block_size; // of the last data block, until its index entry is written
    int begun, index_is_due;
};
void sorted_table_put(struct sorted_table_writer *writer, const char *key, const void *value,
                      size_t length);
void sorted_table_finish(struct sorted_table_writer *writer);
void sorted_table_writer_done(struct sorted_table_writer *writer);

#endif
