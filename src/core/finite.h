// SPDX-License-Identifier: Apache-2.0
// Finds numbers that are not finite: infinities and NaN. Whoever reads weights or writes results
// checks them so, before they spread.
#ifndef BERTH_CORE_FINITE_H
#define BERTH_CORE_FINITE_H

#include <stdint.h>

// The length of the longest prefix of numbers[count] that is all finite: the index of the first
// number that is not, or `count`.
int64_t finite_count(const float *numbers, int64_t count);

#endif
