// SPDX-License-Identifier: Apache-2.0
// HDF5 files of data sets, as h5py and NVIDIA's and Habana's scripts write them: reading and
// writing.
//
// Read: superblock 0 to 3; in the root group, data sets of little-endian integers and floats of 1
// to 8 bytes, compact, contiguous or in chunks (gzip and shuffle filters; indexed by a B-tree, or
// as one chunk, implicitly or in a fixed array as the newest format has it). Groups inside the root
// group, attributes and soft links are left out. Nothing in a file is believed: every address is
// checked against the file's size, no byte of its description is read more than twice, and what a
// chunk may unpack to is bounded by the bytes it takes; reading takes as much memory as the rows
// that are asked for and at most 10 MiB to go on from there, however large a chunk is. A user block
// before the file is passed over.
// Written: superblock 0, one chunked data set for each column, its numbers' bytes shuffled and
// compressed, as h5py does with compression="gzip", shuffle=True.
#ifndef BERTH_FORMAT_HDF5_H
#define BERTH_FORMAT_HDF5_H

#include "core/buffer.h"
#include "core/file.h"
#include "format/archive/deflate.h"
#include "format/tensors/tensor.h"

#include <stddef.h>
#include <stdint.h>

#define HDF5_SIGNATURE "\x89HDF\r\n\x1a\n"
#define HDF5_SIGNATURE_BYTES 8

// --- reading ------------------------------------------------------------------------------------

struct hdf5_chunk {
    uint64_t address, size; // as stored
    uint32_t mask;          // filters that were left out, by bit
};

enum hdf5_filter { HDF5_DEFLATE = 1, HDF5_SHUFFLE = 2 };

struct hdf5_dataset {
    char *name;
    enum tensor_dtype dtype;
    int rank; // 0: one number
    int64_t shape[TENSOR_MAX_RANK];
    uint64_t bytes;                 // of the data, unpacked
    uint64_t stored;                // bytes in the file
    uint64_t address;               // of data in one piece
    int64_t chunk[TENSOR_MAX_RANK]; // shape of a chunk; chunk_count 0: data in one piece
    int64_t grid[TENSOR_MAX_RANK];  // how many chunks in each direction
    struct hdf5_chunk *chunks;      // [chunk_count] in row-major order of the grid
    size_t chunk_count;
    enum hdf5_filter filters[2]; // in the order of writing
    int filter_count;
};

struct hdf5_file {
    struct file_reader file;
    uint64_t base, size; // where the HDF5 file begins after its user block; its bytes from there on
    struct hdf5_dataset *sets; // in the order of their names
    size_t count;
    uint64_t description_left, data_left; // what may still be read or claimed, in bytes
    struct hdf5_unpacking *unpackings;    // packed chunks of which a part was read
    size_t readers;                       // of these, in all
};

// Whether the file has HDF5's signature, at its begin or after a user block; 0 when it cannot be
// read.
int hdf5_recognise(const char *path);
// Reads the description of every data set. Other files, later versions and kinds of data than the
// head of this file names, contradictions and truncation are BERTH_BAD_DATA. On failure nothing is
// left to close; closing twice is fine.
enum berth_status hdf5_open(struct hdf5_file *file, const char *path, struct berth_error *error);
void hdf5_close(struct hdf5_file *file);
// The data set of that name, or NULL.
const struct hdf5_dataset *hdf5_find(const struct hdf5_file *file, const char *name);
// Bytes of one row: one index of the first dimension.
uint64_t hdf5_row_bytes(const struct hdf5_dataset *set);
// Rows [first, first + rows) of the first dimension, in the file's own type, row-major. Later
// rows of a chunk are unpacked from where the last call ended; earlier ones from its beginning.
// Damaged data is BERTH_BAD_DATA, also where another row of the chunk is damaged. One thread at a
// time.
enum berth_status hdf5_read(struct hdf5_file *file, const struct hdf5_dataset *set, int64_t first,
                            int64_t rows, void *to, struct berth_error *error);
// As hdf5_read for integer types, each number as int32; one that does not fit is BERTH_BAD_DATA.
enum berth_status hdf5_read_i32(struct hdf5_file *file, const struct hdf5_dataset *set,
                                int64_t first, int64_t rows, int32_t *to,
                                struct berth_error *error);

// --- writing ------------------------------------------------------------------------------------

// A data set to write: of shape [rows, width], or [rows] when width is 0.
struct hdf5_column {
    const char *name;
    enum tensor_dtype dtype;
    int64_t width;
};

#define HDF5_COLUMNS_MAX 16

struct hdf5_written {
    struct hdf5_column column;
    size_t row_bytes, chunk_rows, filled; // filled: rows waiting in `rows`
    unsigned char *rows;                  // [chunk_rows] of them
    unsigned char *shuffled;              // a chunk, as it is compressed
    struct buffer index;                  // the size of each chunk, in 8 bytes
    struct buffer data;                   // all chunks, compressed
    uint64_t row_count;
    uint64_t header, tree, begin; // where they come to lie
};

// A file in memory until it is committed: compressed, and one chunk of each column beside.
struct hdf5_writer {
    struct hdf5_written columns[HDF5_COLUMNS_MAX];
    size_t count;
    int level; // of compression
    struct deflate_packer packer;
};

// At most HDF5_COLUMNS_MAX columns with names of their own. After a failure and at the end: done.
enum berth_status hdf5_writer_open(struct hdf5_writer *writer, const struct hdf5_column *columns,
                                   size_t count, int level, struct berth_error *error);
// Appends rows to column number `column`, in its type, row-major.
enum berth_status hdf5_writer_put(struct hdf5_writer *writer, size_t column, const void *rows,
                                  size_t count, struct berth_error *error);
// Writes the file, atomically. All columns must have the same number of rows, at least one.
enum berth_status hdf5_writer_commit(struct hdf5_writer *writer, const char *path,
                                     struct berth_error *error);
void hdf5_writer_done(struct hdf5_writer *writer);

#endif
