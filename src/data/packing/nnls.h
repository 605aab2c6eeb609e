// SPDX-License-Identifier: Apache-2.0
// Non-negative least squares for packing, where a column has at most three ones: how often each
// strategy should be used so that the sum comes closest to the histogram of lengths. packing.c sets
// the problem up and rounds the solution.
#ifndef BERTH_DATA_NNLS_H
#define BERTH_DATA_NNLS_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

enum { NNLS_ROWS = 3 };

// min | W (A x - b) | over x >= 0. Column j of A is the sum of the unit vectors of its rows (a row
// may occur twice); weights is W's squared diagonal.
struct nnls {
    size_t rows, columns;
    const uint16_t (*column)[NNLS_ROWS]; // [columns] rows, from 1; 0 after the last
    const double *weights, *b;           // [rows + 1]; index 0 is unused
};

// Solves with the active-set method of Lawson and Hanson into x[columns]. The only error is
// BERTH_NO_MEMORY.
enum berth_status nnls_solve(const struct nnls *problem, double *x, struct berth_error *error);

#endif
