// SPDX-License-Identifier: Apache-2.0
// What a named tensor is, whatever file it is in: name, data type and shape, the conversion of its
// numbers, and what a writer is given. All weight formats share it; the model that tensors belong
// to is known to the room model alone.
#ifndef BERTH_FORMAT_TENSOR_H
#define BERTH_FORMAT_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#define TENSOR_MAX_RANK 8

enum tensor_dtype {
    TENSOR_BOOL,
    TENSOR_U8,
    TENSOR_I8,
    TENSOR_I16,
    TENSOR_U16,
    TENSOR_F16,
    TENSOR_BF16,
    TENSOR_I32,
    TENSOR_U32,
    TENSOR_F32,
    TENSOR_F64,
    TENSOR_I64,
    TENSOR_U64,
    TENSOR_OTHER
};

struct tensor_entry {
    const char *name;
    char dtype_name[16]; // "F32"
    enum tensor_dtype dtype;
    int rank;
    int64_t shape[TENSOR_MAX_RANK];
    // Offsets in bytes, counted through all files of the container: two tensors have the same ones
    // only if they are the same bytes.
    uint64_t begin, end;
};

// Counts the elements of a shape from an untrusted file; 0 when they exceed INT64_MAX.
int tensor_entry_elements(const struct tensor_entry *entry, uint64_t *count);

// A tensor to be written: `data` in the given dtype, row-major (little-endian).
struct tensor_out {
    const char *name;
    enum tensor_dtype dtype;
    int rank;
    int64_t shape[TENSOR_MAX_RANK];
    const void *data;
};
size_t tensor_out_elements(const struct tensor_out *tensor);
size_t tensor_out_bytes(const struct tensor_out *tensor);

#define TENSOR_SHAPE_SIZE (TENSOR_MAX_RANK * 22 + 2) // of the text of any shape

// Writes "[2, 3]" to text[size], as far as it fits.
void tensor_print_shape(char *text, size_t size, const int64_t *shape, int rank);

// Data types have safetensors' names: "F32", "BF16", ... tensor_dtype_parse sets the entry's dtype
// and dtype_name; 0 when the name is unknown. tensor_dtype_bits of an unknown name is 0.
int tensor_dtype_parse(const char *name, struct tensor_entry *entry);
unsigned tensor_dtype_bits(const char *name);
const char *tensor_dtype_name(enum tensor_dtype dtype);
size_t tensor_dtype_size(enum tensor_dtype dtype); // bytes; 0 for TENSOR_OTHER

// Whether tensor_convert knows the type: F32, F16, BF16, F64.
int tensor_is_convertible(enum tensor_dtype dtype);
// Converts `count` little-endian numbers at `from`, of any alignment, to f32. F64 is rounded to
// nearest.
void tensor_convert(enum tensor_dtype dtype, const void *from, size_t count, float *to);
// Converts f32 to F16 or BF16, rounded to nearest (ties to even); `to` may have any alignment.
void tensor_narrow(enum tensor_dtype dtype, const float *from, size_t count, void *to);
// The number of finite values that tensor_narrow makes infinite.
size_t tensor_count_overflows(enum tensor_dtype dtype, const float *from, size_t count);

// Transposes from[rows, cols], with elements of `size` bytes, to to[cols, rows].
void tensor_transpose(const void *from, int64_t rows, int64_t cols, size_t size, void *to);

#endif
