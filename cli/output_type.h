// SPDX-License-Identifier: Apache-2.0
// Embeddings as numbers of few bits, like sentence-transformers' quantize_embeddings: int8 and
// uint8 in 256 steps between the least and the largest value of each column, binary and ubinary one
// bit a column, set where the number is above 0. Of binary and int8 128 is subtracted. run.c gives
// a round's vectors here, and gets back bytes of .npy or lines of JSON to write.
#ifndef BERTH_CLI_OUTPUT_TYPE_H
#define BERTH_CLI_OUTPUT_TYPE_H

#include "core/buffer.h"
#include "core/error.h"

#include <stddef.h>

#define OUTPUT_TYPES "float32|int8|uint8|binary|ubinary" // enum output_type
enum output_type { OUTPUT_FLOAT32, OUTPUT_INT8, OUTPUT_UINT8, OUTPUT_BINARY, OUTPUT_UBINARY };

int output_type_find(const char *name); // a name that is one
const char *output_type_numpy(enum output_type type);
int output_type_has_ranges(enum output_type type);
// How many numbers `width` columns become.
size_t output_type_width(enum output_type type, size_t width);

// The least and the largest number of each column.
struct output_ranges {
    float *least, *largest; // [width]; NULL: of no row yet
};

// Where vectors become numbers of a type other than OUTPUT_FLOAT32. Zero-initialise.
struct typed_output {
    enum output_type type;
    int npy;         // bytes alone; 0: lines of JSON, with `key`
    const char *key; // of a vector
    size_t width;    // of a vector before its conversion
    // What is written; `context` is passed to it.
    enum berth_status (*put)(void *context, const char *bytes, size_t length,
                             struct berth_error *error);
    void *context;
    struct output_ranges ranges;
    int has_ranges;      // they are those of all vectors
    struct buffer waits; // vectors until they are
    size_t written;
};
// Vectors, as the bytes of their floats. Without ranges they wait for typed_output_end.
enum berth_status typed_output_put(struct typed_output *output, const char *bytes, size_t length,
                                   struct berth_error *error);
// Vectors that only widen the ranges. A number outside them counts as the nearest end.
enum berth_status typed_output_calibrate(struct typed_output *output, const char *bytes,
                                         size_t length, struct berth_error *error);
// Writes the vectors that wait, in the ranges of all of them.
enum berth_status typed_output_end(struct typed_output *output, struct berth_error *error);
void typed_output_done(struct typed_output *output);

#endif
