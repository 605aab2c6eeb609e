// SPDX-License-Identifier: Apache-2.0
// Chooses the instruction set: the best that processor and system support, or a forced one.
#include "core/error.h"
#include "cpu/kernels.h"

#include <string.h>

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>

// Linux lets a process use tiles once it has asked for them, because they enlarge the state that is
// saved for each thread.
static int has_tiles(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#endif

struct candidate {
    const char *name;
    const struct kernels *kernels;
    int is_supported;
};

// From the best to the one that every processor supports; then those that are chosen by name only.
const struct kernels *kernels_choose(const char *instructions, struct berth_error *error) {
#if defined(__x86_64__)
    __builtin_cpu_init(); // also checks that the system saves the registers
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    int bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
    const struct candidate candidates[] = {
        {"amx", &kernels_amx, bf16 && has_tiles()}, {"avx512bf16", &kernels_avx512bf16, bf16},
        {"avx512", &kernels_avx512, avx512},        {"avx2", &kernels_avx2, avx2},
        {"generic", &kernels_generic, 1},           {"amx-emulated", &kernels_amx_emulated, bf16}};
#else
    const struct candidate candidates[] = {
        {"generic", &kernels_generic, 1}, {.name = "avx2"}, {.name = "avx512"},
        {.name = "avx512bf16"},           {.name = "amx"},  {.name = "amx-emulated"}};
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
        "instructions: expected auto, generic, avx2, avx512, avx512bf16 or amx, found \"%s\"",
        instructions);
    return NULL;
}
