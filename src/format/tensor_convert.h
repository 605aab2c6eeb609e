// SPDX-License-Identifier: Apache-2.0
// Numbers of other types to f32.
#ifndef BERTH_FORMAT_TENSOR_CONVERT_H
#define BERTH_FORMAT_TENSOR_CONVERT_H

#include "format/safetensors.h"

// Whether tensor_convert knows the type: F32, F16, BF16, F64.
int tensor_is_convertible(enum tensor_dtype dtype);
// `count` little-endian numbers at `from`, of any alignment, to f32. F64 is rounded to nearest.
void tensor_convert(enum tensor_dtype dtype, const void *from, size_t count, float *to);

#endif
