// SPDX-License-Identifier: Apache-2.0
#include "core/mat.h"

const char *dtype_name(enum dtype dtype) {
    static const char *const names[] = {"f32", "bf16", "f16"};
    return names[dtype];
}
