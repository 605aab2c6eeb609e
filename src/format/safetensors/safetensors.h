// SPDX-License-Identifier: Apache-2.0
// The safetensors container: u64 header length (little-endian), JSON header, data. Rules and errors
// are those of the reference implementation, stricter where doc/formats.md says so. Models and
// checkpoints are saved in it; which tensors they have is model's and train's.
#ifndef BERTH_FORMAT_SAFETENSORS_H
#define BERTH_FORMAT_SAFETENSORS_H

#include "core/error.h"
#include "core/file.h"
#include "format/tensors/tensor_file.h"

#include <stddef.h>
#include <stdint.h>

struct safetensors {
    struct file_reader file;
    uint64_t data_begin;          // offset of the data part in the file
    struct tensor_entry *entries; // sorted by offset
    size_t count;
    const struct tensor_entry **by_name; // the same entries, sorted by name
    char **metadata;                     // key, value, key, value, ..., NULL
    size_t metadata_count;               // keys and values together
    size_t ignored_keys;                 // unknown keys in entries
    char *header;                        // owns every name and string above
};

// Reads and checks the header; the data stays on disk. The header's limit is 16 MiB.
enum berth_status safetensors_open(struct safetensors *container, const char *path,
                                   struct berth_error *error);
void safetensors_close(struct safetensors *container);
// The entry of that name, or NULL.
const struct tensor_entry *safetensors_find(const struct safetensors *container, const char *name);
const char *safetensors_metadata(const struct safetensors *container, const char *key);
// Reads `count` elements from element `first` as f32, converted from F32, F16, BF16 or F64; other
// types are BERTH_BAD_DATA, with the tensor and its type in the message.
enum berth_status safetensors_read_f32(const struct safetensors *container,
                                       const struct tensor_entry *entry, int64_t first,
                                       int64_t count, float *to, struct berth_error *error);
// Reads the raw bytes of a tensor from byte `first`.
enum berth_status safetensors_read_raw(const struct safetensors *container,
                                       const struct tensor_entry *entry, uint64_t first,
                                       size_t bytes, void *to, struct berth_error *error);

// Writes atomically; names must be distinct. Tensors are laid out by descending alignment of their
// dtype, then by name; the header is padded to a multiple of 8. `metadata` as in struct
// safetensors, may be NULL.
enum berth_status safetensors_write(const char *path, const struct tensor_out *tensors,
                                    size_t count, const char *const *metadata,
                                    struct berth_error *error);

// Creates the file that safetensors_write would write, but with zeros for all tensors, whose `data`
// is not read: their owners write them by ranges (file_ranges_open), at the offsets that
// safetensors_open finds.
enum berth_status safetensors_make(const char *path, const struct tensor_out *tensors, size_t count,
                                   const char *const *metadata, struct berth_error *error);

// The format for tensor_file.h.
extern const struct tensor_format safetensors_format;

#endif
