// SPDX-License-Identifier: Apache-2.0
// Numbers that are not finite: infinities and NaN.
#ifndef BERTH_CORE_FINITE_H
#define BERTH_CORE_FINITE_H

#include <stdint.h>

// The place of the first of numbers[count] that is not finite; `count` if all are finite.
int64_t finite_count(const float *numbers, int64_t count);

#endif
