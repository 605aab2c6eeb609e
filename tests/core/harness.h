// SPDX-License-Identifier: Apache-2.0
// cmocka with the headers that it needs, in the required order.
#ifndef BERTH_TESTS_CORE_HARNESS_H
#define BERTH_TESTS_CORE_HARNESS_H

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#endif
