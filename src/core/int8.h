// SPDX-License-Identifier: Apache-2.0
// Weights in int8: a row w[k] is scale * q[k] with |q| <= 127. Leaves out activations, which a
// device quantizes (cpu/int8.h).
#ifndef BERTH_CORE_INT8_H
#define BERTH_CORE_INT8_H

#include <stdint.h>

// Quantizes a row and returns its scale: its largest absolute value / 127, with 17 significant
// bits, so that scale * q is exact in f32 and a row that was quantized before keeps its numbers.
// NaN if a value is not finite.
float int8_quantize(const float *row, int64_t count, signed char *q);

#endif
