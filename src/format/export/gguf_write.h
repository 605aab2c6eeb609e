// SPDX-License-Identifier: Apache-2.0
// Writes GGUF version 3: typed key-values, tensor descriptions, aligned data. The caller chooses
// the keys and tensors. model/export_gguf.c is that caller.
#ifndef BERTH_FORMAT_GGUF_WRITE_H
#define BERTH_FORMAT_GGUF_WRITE_H

#include "core/error.h"
#include "format/tensors/tensor.h"

#include <stddef.h>
#include <stdint.h>

#define GGUF_ALIGNMENT 32     // of the data by default
#define GGUF_NAME_LIMIT 63    // bytes of a tensor's name
#define GGUF_MAX_DIMENSIONS 4 // of a tensor

enum gguf_type { // the numbers of the file format
    GGUF_U8 = 0,
    GGUF_I8 = 1,
    GGUF_U16 = 2,
    GGUF_I16 = 3,
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_F32 = 6,
    GGUF_BOOL = 7,
    GGUF_TEXT = 8,
    GGUF_U64 = 10,
    GGUF_I64 = 11,
    GGUF_F64 = 12
};

// A key with a value, or with an array of `count` values of the type where `elements` is not NULL.
struct gguf_value {
    const char *key;
    enum gguf_type type;
    int64_t integer;      // of the integer types and GGUF_BOOL
    double real;          // of GGUF_F32 and GGUF_F64
    const char *text;     // of GGUF_TEXT
    const void *elements; // const char *[count] for GGUF_TEXT, else numbers of the type's size
    size_t count;
};

// A tensor in memory and its type in the file: the same, or F16 or BF16 for F32.
struct gguf_tensor {
    struct tensor_out tensor;
    enum tensor_dtype stored;
};

struct gguf_content {
    const struct gguf_value *values;
    size_t value_count;
    const struct gguf_tensor *tensors; // keys and names are distinct
    size_t tensor_count;
};

// Writes atomically, without a copy of the data; converts it in batches where requested. A
// type, name or rank that GGUF does not support is BERTH_CANT_CREATE; the message names the tensor.
enum berth_status gguf_write(const char *path, const struct gguf_content *content,
                             struct berth_error *error);

#endif
