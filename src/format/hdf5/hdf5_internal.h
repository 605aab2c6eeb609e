// SPDX-License-Identifier: Apache-2.0
// Shared by the sources of the HDF5 reader: a cursor over metadata, object headers, chunks. Only
// hdf5*.c include it. Users of HDF5 include hdf5.h.
#ifndef BERTH_FORMAT_HDF5_INTERNAL_H
#define BERTH_FORMAT_HDF5_INTERNAL_H

#include "format/hdf5/hdf5.h"

#define HDF5_UNDEFINED_ADDRESS UINT64_MAX

// A cursor over bytes read from the file. `begin` is the address of the first, for messages.
struct hdf5_cursor {
    const unsigned char *bytes;
    size_t length, position;
    uint64_t begin;
    int is_truncated; // more bytes were taken than there are; they were zeros
};

// The next number of `size` bytes (up to 8), little-endian.
uint64_t hdf5_read_number(struct hdf5_cursor *cursor, size_t size);
void hdf5_skip(struct hdf5_cursor *cursor, uint64_t size);

// "FILE: HDF5 file, byte N: what".
enum berth_status hdf5_error(const struct hdf5_file *file, uint64_t address, const char *problem,
                             struct berth_error *error);
// Reads metadata; `block` is newly allocated (memory_free), and `cursor` is at its start. Bytes
// beyond the end of the file, or too many in all, are BERTH_BAD_DATA.
enum berth_status hdf5_read_metadata(struct hdf5_file *file, uint64_t address, uint64_t length,
                                     unsigned char **block, struct hdf5_cursor *cursor,
                                     struct berth_error *error);

// The error for a data set without an address in the file; `address` is that of its header.
enum berth_status hdf5_never_written(const struct hdf5_file *file, uint64_t address,
                                     struct berth_error *error);

// Reads bytes of the data; addresses count from the file's base.
enum berth_status hdf5_read_bytes(const struct hdf5_file *file, uint64_t address, void *to,
                                  size_t bytes, struct berth_error *error);

// An entry of the root group.
struct hdf5_link {
    char *name;
    uint64_t header;
};
struct hdf5_links {
    struct hdf5_link *items;
    size_t count, capacity;
};
#define HDF5_NAME_MAX 1024 // bytes: many links of a group may refer to one name
// Copies the name; `header` is the address of the object's header.
enum berth_status hdf5_links_put(const struct hdf5_file *file, struct hdf5_links *links,
                                 const unsigned char *name, size_t length, uint64_t header,
                                 struct berth_error *error);
void hdf5_links_done(struct hdf5_links *links);

// The kinds of chunk index.
enum hdf5_index { HDF5_INDEX_TREE, HDF5_INDEX_SINGLE, HDF5_INDEX_IMPLICIT, HDF5_INDEX_FIXED };

// The contents of an object header.
struct hdf5_object {
    uint64_t address;
    int has_space, has_type, has_layout, is_group, is_chunked;
    int is_dense;        // its links are in a fractal heap
    uint64_t tree, heap; // of a group with a symbol table
    enum hdf5_index index;
    uint64_t index_address, single_size; // single_size: of a single filtered chunk
    uint32_t single_mask;
    int chunk_rank;
    uint64_t stored; // of contiguous data
    struct hdf5_dataset set;
    struct hdf5_links *links; // of a group; NULL: not wanted
};
// Reads the header at an address. The caller sets object->links; the rest is filled in.
enum berth_status hdf5_read_header(struct hdf5_file *file, uint64_t address,
                                   struct hdf5_object *object, struct berth_error *error);
// Fills the data set's list of chunks.
enum berth_status hdf5_read_chunks(struct hdf5_file *file, struct hdf5_object *object,
                                   struct berth_error *error);
// Whether a filter was applied to the chunk.
int hdf5_has_filter(const struct hdf5_dataset *set, const struct hdf5_chunk *chunk,
                    enum hdf5_filter filter);
// The size of a decompressed chunk in bytes.
uint64_t hdf5_chunk_bytes(const struct hdf5_dataset *set);

// Rows of a compressed chunk. A shuffled chunk has `planes` planes, each with one byte of every
// number; any other chunk has one.
struct hdf5_slice {
    const struct hdf5_chunk *chunk;
    size_t plane_count, plane_bytes; // their number, and the bytes of one
    size_t begin, length;            // in each plane: bytes before the rows, and bytes of the rows
    int is_last;                     // the rest of the chunk has no row of the data set
};
// Decompresses the rows of each plane, one plane after another, to to[planes * each].
enum berth_status hdf5_decompress(struct hdf5_file *file, const struct hdf5_dataset *set,
                                  const struct hdf5_slice *slice, unsigned char *to,
                                  struct berth_error *error);
// Frees the readers of the data set's chunks outside [first, end); of all data sets if `set` is
// NULL.
void hdf5_drop_partial_chunks(struct hdf5_file *file, const struct hdf5_dataset *set, size_t first,
                              size_t end);

#endif
