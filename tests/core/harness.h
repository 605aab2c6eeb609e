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

// The state of a test of one instruction set of the CPU, as device_options name it.
#define INSTRUCTION_SET(test, name)                                                                \
    { #test ": " name, test, NULL, NULL, name }
#define INSTRUCTION_SETS                                                                           \
    "generic", "fma", "avx2", "avx512", "avx512bf16", "amx", "amx-emulated", "neonbf16"
#define EACH_INSTRUCTION_SET(test)                                                                 \
    INSTRUCTION_SET(test, "generic"), INSTRUCTION_SET(test, "fma"), INSTRUCTION_SET(test, "avx2"), \
        INSTRUCTION_SET(test, "avx512"), INSTRUCTION_SET(test, "avx512bf16"),                      \
        INSTRUCTION_SET(test, "amx"), INSTRUCTION_SET(test, "amx-emulated"),                       \
        INSTRUCTION_SET(test, "neonbf16")

#endif
