// SPDX-License-Identifier: Apache-2.0
// Reads and writes HDF5 files of data sets, as h5py and NVIDIA's and Habana's scripts do.
//
// Reads superblock 0 to 3 and, in the root group, data sets of little-endian integers of 1 to 8
// bytes and floats of 2 to 8, compact, contiguous or chunked (gzip and shuffle filters; chunks
// indexed by a B-tree, or the newest format's single chunk, implicit index or fixed array). Ignores
// nested groups, attributes and soft links, and skips a user block. Files are untrusted: every
// address is checked against the file's size, no byte of the metadata is read more than twice, and
// the decompressed size of a chunk is bounded by its stored size. Reading takes memory for the
// requested rows plus at most 10 MiB to continue from there, however large a chunk is. Writes
// superblock 0 and one chunked data set per column, shuffled and compressed as by h5py with
// compression="gzip", shuffle=True. The instances in such files are data/pretraining's.
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
    uint32_t mask;          // bit i: filter i was not applied
};

enum hdf5_filter { HDF5_DEFLATE = 1, HDF5_SHUFFLE = 2 };

struct hdf5_dataset {
    char *name;
    enum tensor_dtype dtype;
    int rank; // 0: one number
    int64_t shape[TENSOR_MAX_RANK];
    uint64_t bytes;                 // of the data, decompressed
    uint64_t stored;                // bytes in the file
    uint64_t address;               // of contiguous data
    int64_t chunk[TENSOR_MAX_RANK]; // shape of a chunk; chunk_count 0: contiguous data
    int64_t grid[TENSOR_MAX_RANK];  // number of chunks in each dimension
    struct hdf5_chunk *chunks;      // [chunk_count] in row-major order of the grid
    size_t chunk_count;
    enum hdf5_filter filters[2]; // in the order of their application when writing
    int filter_count;
};

struct hdf5_file {
    struct file_reader file;
    uint64_t base, size;       // offset of the HDF5 file after its user block; its size from there
    struct hdf5_dataset *sets; // sorted by name
    size_t count;
    uint64_t metadata_left, data_left; // bytes of metadata and of data that may still be read
    struct hdf5_partial_chunk *partial_chunks; // compressed chunks that were read in part
    size_t readers;                            // total number of their readers
};

// Sets *is to whether there is such a file with HDF5's signature, at its start or after a user
// block. A read error is BERTH_IO.
enum berth_status hdf5_recognise(const char *path, int *is, struct berth_error *error);
// Reads the metadata of every data set. A file that is not HDF5, unsupported (see above),
// inconsistent or truncated is BERTH_BAD_DATA. After a failure there is nothing to close; closing
// twice is allowed.
enum berth_status hdf5_open(struct hdf5_file *file, const char *path, struct berth_error *error);
void hdf5_close(struct hdf5_file *file);
// The data set of that name, or NULL.
const struct hdf5_dataset *hdf5_find(const struct hdf5_file *file, const char *name);
// Bytes of one row: one index of the first dimension.
uint64_t hdf5_row_bytes(const struct hdf5_dataset *set);
// Reads rows [first, first + rows) of the first dimension, in the file's type, row-major. Later
// rows of a chunk are decompressed from where the last call ended, earlier ones from its start.
// Damaged data is BERTH_BAD_DATA, also when only other rows of the chunk are damaged. Not
// thread-safe.
enum berth_status hdf5_read(struct hdf5_file *file, const struct hdf5_dataset *set, int64_t first,
                            int64_t rows, void *to, struct berth_error *error);
// As hdf5_read for integer types, converted to int32; an overflow is BERTH_BAD_DATA.
enum berth_status hdf5_read_i32(struct hdf5_file *file, const struct hdf5_dataset *set,
                                int64_t first, int64_t rows, int32_t *to,
                                struct berth_error *error);

// --- writing ------------------------------------------------------------------------------------

// A data set to write, of shape [rows, width], or [rows] when width is 0.
struct hdf5_column {
    const char *name;
    enum tensor_dtype dtype;
    int64_t width;
};

#define HDF5_COLUMNS_MAX 16

struct hdf5_dataset_writer {
    struct hdf5_column column;
    size_t row_bytes, chunk_rows, filled; // filled: rows in `rows` that are not written yet
    unsigned char *rows;                  // [chunk_rows] of them
    unsigned char *shuffled;              // a chunk before compression
    struct buffer index;                  // the size of each chunk, 8 bytes each
    struct buffer data;                   // all chunks, compressed
    uint64_t row_count;
    uint64_t header, tree, begin; // their offsets in the file
};

// A file that is kept in memory until it is committed: the compressed data, and an uncompressed
// chunk per column.
struct hdf5_writer {
    struct hdf5_dataset_writer sets[HDF5_COLUMNS_MAX];
    size_t count;
    int level; // of compression
    struct deflate_compressor compressor;
};

// At most HDF5_COLUMNS_MAX columns with distinct names. Call hdf5_writer_done at the end and after
// a failure.
enum berth_status hdf5_writer_open(struct hdf5_writer *writer, const struct hdf5_column *columns,
                                   size_t count, int level, struct berth_error *error);
// Appends rows to column `column`, in its type, row-major.
enum berth_status hdf5_writer_put(struct hdf5_writer *writer, size_t column, const void *rows,
                                  size_t count, struct berth_error *error);
// Writes the file, atomically. All columns must have the same number of rows, at least one.
enum berth_status hdf5_writer_commit(struct hdf5_writer *writer, const char *path,
                                     struct berth_error *error);
void hdf5_writer_done(struct hdf5_writer *writer);

#endif
