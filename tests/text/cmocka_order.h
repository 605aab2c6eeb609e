// SPDX-License-Identifier: Apache-2.0
// cmocka with the headers that it wants before it, in that order.
#ifndef BERTH_TESTS_TEXT_CMOCKA_ORDER_H
#define BERTH_TESTS_TEXT_CMOCKA_ORDER_H

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#endif
