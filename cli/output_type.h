// SPDX-License-Identifier: Apache-2.0
// Embeddings as numbers of few bits, like sentence-transformers' quantize_embeddings: int8 and
// uint8 in 256 steps between the least and the largest value of each column, binary and ubinary one
// bit a column, set where the number is above 0. Of binary and int8 128 is subtracted.
#ifndef BERTH_CLI_OUTPUT_TYPE_H
#define BERTH_CLI_OUTPUT_TYPE_H

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
    size_t width;
};
// Widens the ranges by a row; 0: out of memory. Zero-initialise.
int output_ranges_add(struct output_ranges *ranges, const float *row, size_t width);
void output_ranges_done(struct output_ranges *ranges);

// Writes output_type_width bytes; not of OUTPUT_FLOAT32. A number outside the ranges counts as the
// nearest end.
void output_type_convert(enum output_type type, const struct output_ranges *ranges,
                         const float *row, size_t width, unsigned char *to);
// The value of such a byte.
int output_type_value(enum output_type type, unsigned char byte);

#endif
