// SPDX-License-Identifier: Apache-2.0
// One run of an operation on a device: inputs with gaps between their rows and garbage in the
// slack, outputs filled with NaN, and comparison with expected values. Everything these functions
// return is valid until op_end.
//
// Operands exist twice: in host memory, where a case fills and checks them, and in a block of the
// device. run->dev translates between them: it uploads all operands before each operation and
// downloads them after it.
#ifndef BERTH_TESTS_DEVICE_OP_RUN_H
#define BERTH_TESTS_DEVICE_OP_RUN_H

#include "translated_device.h"

#include <string.h>

#define SEQUENCES_MAX 6
#define OP_WORDS 50 // the ids of op_batch are below

struct case_shape {
    const char *name;
    int32_t lengths[SEQUENCES_MAX]; // ends at 0
    int64_t hidden, heads, intermediate, vocabulary;
    const char *only; // prefix of the operations to run; NULL: all
};

struct op_run {
    // given
    struct device *dev; // from op_begin to op_end that of `operands`
    const struct case_shape *shape;
    enum dtype compute;
    uint32_t threshold; // of dropout
    enum activation activation;
    int hash_only; // 1: no comparison with a reference
    // found
    uint64_t hash;     // of all numbers that were compared
    char failure[200]; // "" when everything is right
    // during the run
    struct batch batch;
    uint64_t drawn;
    struct translated_device operands; // in host memory, of the device
    void *blocks[128];                 // in host memory
    int block_count;
};

void op_begin(struct op_run *run);
// Asks the device for errors and frees everything.
void op_end(struct op_run *run);
// Fills run->batch; the second sequence's end label is out of range.
void op_batch(struct op_run *run, const int32_t *lengths, int count);

// --- inputs and outputs -------------------------------------------------------------------------

void *op_alloc(struct op_run *run, size_t bytes); // an operand, zeroed
double op_random(struct op_run *run);             // in [-1, 1)
// A matrix without numbers yet.
struct mat op_matrix(struct op_run *run, int64_t rows, int64_t cols, enum dtype dtype);
double op_from_f16(uint16_t bits);
uint16_t op_to_f16(double x); // to nearest, ties to even

static inline double op_number_at(struct mat m, int64_t row, int64_t col) {
    if (m.dtype == DTYPE_F32) {
        return (double)((const float *)m.data)[row * m.stride + col];
    }
    const uint16_t number = ((const uint16_t *)m.data)[row * m.stride + col];
    if (m.dtype == DTYPE_F16) {
        return op_from_f16(number);
    }
    uint32_t bits = (uint32_t)number << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

static inline void op_set_number(struct mat m, int64_t row, int64_t col, double value) {
    float x = (float)value;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (m.dtype == DTYPE_F32) {
        ((float *)m.data)[row * m.stride + col] = x;
    } else if (m.dtype == DTYPE_F16) {
        ((uint16_t *)m.data)[row * m.stride + col] = op_to_f16(value);
    } else { // round to nearest, ties to even
        ((uint16_t *)m.data)[row * m.stride + col] =
            (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    }
}

// An output, filled with NaN; the operation must write all of it.
struct mat op_output(struct op_run *run, int64_t rows, int64_t cols, enum dtype dtype);
// Random numbers in [-size, size].
struct mat op_input(struct op_run *run, int64_t rows, int64_t cols, enum dtype dtype, double size);
// Rows of the batch, with garbage in the slack, as activations may have.
struct mat op_activation(struct op_run *run, int64_t cols, enum dtype dtype, double size);
// Rows of the batch, with zeros in the slack, as gradients of activations have.
struct mat op_gradient(struct op_run *run, int64_t cols, enum dtype dtype, double size);
// Random numbers in [shift - size, shift + size].
float *op_vector(struct op_run *run, int64_t count, double size, double shift);

double *op_doubles(struct op_run *run, int64_t count); // zeros
double *op_dense(struct op_run *run, struct mat m);    // the numbers of m without gaps

// --- checks -------------------------------------------------------------------------------------

// Records a failure of the run, unless it already has one.
void op_fail(struct op_run *run, const char *what, const char *why, double found);
// The relative L2 distance from `expected` must be at most `tolerance`, and the largest difference
// at most 8 * tolerance times the largest number.
void op_compare(struct op_run *run, const char *what, const double *found, const double *expected,
                int64_t count, double tolerance);
// Checks that nothing was written between the rows.
void op_check_gaps(struct op_run *run, const char *what, struct mat m);
// op_compare of the first `rows` rows, and op_check_gaps.
void op_check(struct op_run *run, const char *what, struct mat m, const double *expected,
              int64_t rows, double tolerance);
void op_check_vector(struct op_run *run, const char *what, const float *x, const double *expected,
                     int64_t count, double tolerance);
// Checks that the rows from `first` on are zero.
void op_check_zeros(struct op_run *run, const char *what, struct mat m, int64_t first);

#endif
