// SPDX-License-Identifier: Apache-2.0
// The part of test_grown_config.c that is compiled as a program of an earlier version.
#ifndef BERTH_TESTS_API_GROWN_CONFIG_PROGRAM_H
#define BERTH_TESTS_API_GROWN_CONFIG_PROGRAM_H

struct berth_config;

// Settings that the program has initialised and set.
const struct berth_config *program_config(void);
// Whether the bytes after the program's struct are as before.
int program_guard_is_intact(void);

#endif
