// SPDX-License-Identifier: Apache-2.0
#include "grown_config_program.h"

#include "core/calls.h"

#include <string.h>

static const char pattern[64] = "the program's own bytes";

static struct {
    struct berth_config config;
    char guard[sizeof pattern];
} program;

const struct berth_config *program_config(void) {
    memcpy(program.guard, pattern, sizeof pattern);
    berth_config_init(&program.config);
    program.config.model_name_or_path = "folder";
    (void)berth_config_set(&program.config, "max_seq_length", "77", NULL);
    return &program.config;
}

int program_guard_is_intact(void) {
    return memcmp(program.guard, pattern, sizeof pattern) == 0;
}
