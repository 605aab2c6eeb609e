// SPDX-License-Identifier: Apache-2.0
// Reads tensors from the files of this folder (README.md lists them) in tests: a missing or
// different tensor fails the test. The tensor's name is `prefix``name`; the result is newly
// allocated; release it with free.
#ifndef BERTH_TESTS_GOLDEN_GOLDEN_FILE_H
#define BERTH_TESTS_GOLDEN_GOLDEN_FILE_H

#include "format/safetensors/safetensors.h"

// Close it with safetensors_close.
void golden_file_open(struct safetensors *file, const char *path);

int golden_has(const struct safetensors *file, const char *prefix, const char *name);
const struct tensor_entry *golden_entry(const struct safetensors *file, const char *prefix,
                                        const char *name);
// *count elements; count may be NULL.
float *golden_floats(const struct safetensors *file, const char *prefix, const char *name,
                     int64_t *count);
// The same in double, from F32 or F64.
double *golden_doubles(const struct safetensors *file, const char *prefix, const char *name,
                       int64_t *count);
int32_t *golden_integers(const struct safetensors *file, const char *prefix, const char *name,
                         int64_t *count);
// The first element.
double golden_number(const struct safetensors *file, const char *prefix, const char *name);

int64_t golden_count(const struct tensor_entry *entry);

#endif
