// SPDX-License-Identifier: Apache-2.0
// Chooses the instruction set: the best that processor and system support, or a forced one.
#include "core/error.h"
#include "cpu/kernels.h"

#include <string.h>

struct candidate {
    const char *name;
    const struct kernels *kernels;
    int is_supported;
};

const struct kernels *kernels_choose(const char *instructions, struct berth_error *error) {
#if defined(__x86_64__)
    __builtin_cpu_init(); // also checks that the system saves the registers
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    int bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
    const struct candidate candidates[] = {{"avx512bf16", &kernels_avx512bf16, bf16},
                                           {"avx512", &kernels_avx512, avx512},
                                           {"avx2", &kernels_avx2, avx2},
                                           {"generic", &kernels_generic, 1}};
#else
    const struct candidate candidates[] = {{"generic", &kernels_generic, 1},
                                           {.name = "avx2"},
                                           {.name = "avx512"},
                                           {.name = "avx512bf16"}};
#endif
    int automatic = instructions == NULL || strcmp(instructions, "auto") == 0;
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        const struct candidate *c = &candidates[i];
        if (automatic ? c->is_supported : strcmp(instructions, c->name) == 0) {
            if (c->is_supported) {
                return c->kernels;
            }
            (void)error_set(error, BERTH_UNAVAILABLE,
                            "instructions: this processor cannot run \"%s\"; use \"auto\"",
                            instructions);
            return NULL;
        }
    }
    (void)error_set(
        error, BERTH_USAGE,
        "instructions: expected auto, generic, avx2, avx512 or avx512bf16, found \"%s\"",
        instructions);
    return NULL;
}
