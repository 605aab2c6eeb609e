// SPDX-License-Identifier: Apache-2.0
// A file of named tensors in any format: the format is recognised on opening, and tensors are read
// one by one. format/containers/containers.h has the list of formats. model/weights.h loads a model
// from it.
#ifndef BERTH_FORMAT_TENSOR_FILE_H
#define BERTH_FORMAT_TENSOR_FILE_H

#include "core/error.h"
#include "core/file.h"
#include "format/tensors/tensor.h"

struct tensor_file {
    const struct tensor_format *format;
    char *path;                         // of the file that was opened, for messages
    void *container;                    // the format's own
    const struct tensor_entry *entries; // borrowed from the container
    size_t count;
    size_t ignored_keys; // unknown keys in the file's description: worth a warning
    const struct tensor_entry **by_name;
    const struct tensor_formats *formats; // for this file and the files that it refers to
};

struct tensor_format {
    const char *name; // "safetensors"
    // Whether a file with this path and these first bytes (up to TENSOR_HEAD_BYTES) has the format.
    int (*recognise)(const char *path, const unsigned char *head, size_t length);
    size_t container_size;
    // Reads file->path's description into the zeroed container; sets entries, count and
    // ignored_keys. Names may repeat: tensor_file_open_as checks that.
    enum berth_status (*open)(struct tensor_file *file, struct berth_error *error);
    // Reads bytes [first, first + bytes) of a tensor in row-major order, little-endian; both are
    // multiples of the data type's size. Thread-safe.
    enum berth_status (*read)(const struct tensor_file *file, const struct tensor_entry *entry,
                              uint64_t first, size_t bytes, void *to, struct berth_error *error);
    // Maps the bytes of a tensor instead; 0: they cannot be. NULL for formats that do not hold them
    // as one piece.
    int (*map)(const struct tensor_file *file, const struct tensor_entry *entry,
               struct file_mapping *mapping);
    // Called also after `open` failed. The caller owns the container's memory.
    void (*close)(void *container);
    // Finds the newest file of the format in a folder with other files: *path is newly allocated,
    // NULL when there is none. find is NULL for formats with fixed file names
    // (src/model/folder_weights.c).
    enum berth_status (*find)(const char *folder, char **path, struct berth_error *error);
};
#define TENSOR_HEAD_BYTES 64
// Reads the first bytes of a file; *length is less than TENSOR_HEAD_BYTES only if the file is.
enum berth_status tensor_file_head(const char *path, unsigned char head[TENSOR_HEAD_BYTES],
                                   size_t *length, struct berth_error *error);

struct tensor_formats {
    const struct tensor_format *const *rows; // the first that recognises a file opens it
    size_t count;
    const char *names; // for messages
};

// Recognises and opens the file. An unknown format is BERTH_BAD_DATA; the message names the known
// ones.
enum berth_status tensor_file_open_as(struct tensor_file *file, const char *path,
                                      const struct tensor_formats *formats,
                                      struct berth_error *error);
void tensor_file_close(struct tensor_file *file);
// The tensor of that name, or NULL.
const struct tensor_entry *tensor_file_find(const struct tensor_file *file, const char *name);
// Reads a whole tensor in its own type to to[end - begin].
enum berth_status tensor_file_read(const struct tensor_file *file, const struct tensor_entry *entry,
                                   void *to, struct berth_error *error);
// Reads elements [first, first + count) as f32, converted from F32, F16, BF16 or F64; other types
// are BERTH_BAD_DATA, with the tensor and its type in the message.
enum berth_status tensor_file_read_f32(const struct tensor_file *file,
                                       const struct tensor_entry *entry, int64_t first,
                                       int64_t count, float *to, struct berth_error *error);

// For read(): BERTH_INTERNAL unless bytes [first, first + bytes) are in the tensor.
enum berth_status tensor_check_range(const char *path, const struct tensor_entry *entry,
                                     uint64_t first, size_t bytes, struct berth_error *error);

// tensor_index_new sorts entries[count] by name into a new array (memory_free; after a failure,
// too, when it may be NULL). A duplicate name is BERTH_BAD_DATA, with `path` and the tensor in the
// message. tensor_index_find: the entry of that name, or NULL.
enum berth_status tensor_index_new(const struct tensor_entry *entries, size_t count,
                                   const char *path, const struct tensor_entry ***by_name,
                                   struct berth_error *error);
const struct tensor_entry *tensor_index_find(const struct tensor_entry *const *by_name,
                                             size_t count, const char *name);

#endif
