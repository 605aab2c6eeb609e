// SPDX-License-Identifier: Apache-2.0
// What the readers of an HDF5 file's parts share: bytes of its description, taken one number at a
// time, and what an object's header says. Only hdf5*.c include it.
#ifndef BERTH_FORMAT_HDF5_PARTS_H
#define BERTH_FORMAT_HDF5_PARTS_H

#include "format/hdf5/hdf5.h"

#define HDF5_NOWHERE UINT64_MAX

// A run of bytes of the file while it is read. `begin` is its address, for messages.
struct hdf5_run {
    const unsigned char *bytes;
    size_t length, at;
    uint64_t begin;
    int is_short; // more was taken than there is; zeros were given
};

// The next number of `size` bytes (up to 8), little-endian.
uint64_t hdf5_take(struct hdf5_run *run, size_t size);
void hdf5_skip(struct hdf5_run *run, uint64_t size);

// "FILE: HDF5 file, byte N: what".
enum berth_status hdf5_wrong(const struct hdf5_file *file, uint64_t at, const char *what,
                             struct berth_error *error);
// Reads bytes of the description; `block` is newly allocated (memory_free) and `run` stands at its
// begin. What the file has not, or too much in all, is BERTH_BAD_DATA.
enum berth_status hdf5_describe(struct hdf5_file *file, uint64_t address, uint64_t length,
                                unsigned char **block, struct hdf5_run *run,
                                struct berth_error *error);

// The same of a data set, at its header, that has no place in the file.
enum berth_status hdf5_never_written(const struct hdf5_file *file, uint64_t at,
                                     struct berth_error *error);

// Reads bytes of the data; addresses count from the file's base.
enum berth_status hdf5_bytes(const struct hdf5_file *file, uint64_t address, void *to, size_t bytes,
                             struct berth_error *error);

// An entry of the root group.
struct hdf5_link {
    char *name;
    uint64_t header;
};
struct hdf5_links {
    struct hdf5_link *items;
    size_t count, capacity;
};
enum berth_status hdf5_links_put(struct hdf5_links *links, const unsigned char *name, size_t length,
                                 uint64_t header, struct berth_error *error);
void hdf5_links_done(struct hdf5_links *links);

// How chunks are found.
enum hdf5_index { HDF5_INDEX_TREE, HDF5_INDEX_ONE, HDF5_INDEX_IMPLICIT, HDF5_INDEX_FIXED };

// What an object's header says.
struct hdf5_object {
    uint64_t address;
    int has_space, has_type, has_layout, is_group, is_chunked;
    int is_dense;        // its links are in a heap
    uint64_t tree, heap; // of a group with a symbol table
    enum hdf5_index index;
    uint64_t index_address, one_size; // one_size: of a filtered only chunk
    uint32_t one_mask;
    int chunk_rank;
    uint64_t stored; // of data in one piece
    struct hdf5_dataset set;
    struct hdf5_links *links; // of a group; NULL: they are left out
};
// Reads the header at an address; object->links as the caller set it, the rest is filled in.
enum berth_status hdf5_read_header(struct hdf5_file *file, uint64_t address,
                                   struct hdf5_object *object, struct berth_error *error);
// Fills the data set's list of chunks.
enum berth_status hdf5_read_chunks(struct hdf5_file *file, struct hdf5_object *object,
                                   struct berth_error *error);
// Bytes of an unpacked chunk.
uint64_t hdf5_chunk_bytes(const struct hdf5_dataset *set);

// Rows of a packed chunk. Shuffled, the chunk is `planes` parts, of which each holds one byte of
// every number; else it is one part.
struct hdf5_slice {
    const struct hdf5_chunk *chunk;
    size_t planes, plane; // bytes of a plane
    size_t begin, each;   // of each plane: bytes before the rows, and of the rows
    int is_last;          // no row that the data set uses follows in the chunk
};
// Unpacks the rows of each plane, one plane after the other, to to[planes * each].
enum berth_status hdf5_unpack(struct hdf5_file *file, const struct hdf5_dataset *set,
                              const struct hdf5_slice *slice, unsigned char *to,
                              struct berth_error *error);
// Forgets the data set's chunks outside [first, end); those of all data sets when it is NULL.
void hdf5_forget(struct hdf5_file *file, const struct hdf5_dataset *set, size_t first, size_t end);

#endif
