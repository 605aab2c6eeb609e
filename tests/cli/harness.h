// SPDX-License-Identifier: Apache-2.0
// cmocka and the headers that it wants before it, in the order that it wants.
#ifndef BERTH_TESTS_CLI_HARNESS_H
#define BERTH_TESTS_CLI_HARNESS_H

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#endif
