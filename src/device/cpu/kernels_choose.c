// SPDX-License-Identifier: Apache-2.0
// Chooses the instruction set when the CPU device is opened: the best that processor and system
// support, or the one that the user forces. Its table of kernels then computes every operation;
// int8 has a choice of its own (int8_choose.c).
#include "core/error.h"
#include "device/cpu/kernels.h"

#include <string.h>

// Whether processor and system support an instruction set. __builtin_cpu_supports also checks that
// the system saves the registers.
static int is_there(void) {
    return 1;
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

static int has_fma(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("fma");
}

static int has_avx2(void) {
    return has_fma() && __builtin_cpu_supports("avx2");
}

static int has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static int has_avx512bf16(void) {
    return has_avx512() && __builtin_cpu_supports("avx512bf16");
}

// Linux lets a process use tiles once it has asked for them, because they enlarge the state that is
// saved for each thread. Not every compiler's __builtin_cpu_supports knows AMX.
static int has_amx(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    const unsigned bf16 = 1u << 22, tile = 1u << 24;      // CPUID leaf 7, EDX
    unsigned a, b, c, d;
    return has_avx512bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & bf16) != 0 &&
           (d & tile) != 0 && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#define X86(name, kernels, supported)                                                              \
    { name, &(kernels), supported }
#else
#define X86(name, kernels, supported)                                                              \
    { name, NULL, NULL }
#endif

#if defined(__aarch64__)
#include <sys/auxv.h>

static int has_neonbf16(void) {
    enum { BF16 = 1 << 14 }; // HWCAP2_BF16
    return (getauxval(AT_HWCAP2) & BF16) != 0;
}
#define ARM(name, kernels, supported)                                                              \
    { name, &(kernels), supported }
#else
#define ARM(name, kernels, supported)                                                              \
    { name, NULL, NULL }
#endif

struct candidate {
    const char *name;
    const struct kernels *kernels;
    int (*is_supported)(void); // NULL: it is another architecture's
};

// From the best to the one that every processor supports; then those that are chosen by name only.
static const struct candidate candidates[] = {
    X86("amx", kernels_amx, has_amx),
    X86("avx512bf16", kernels_avx512bf16, has_avx512bf16),
    X86("avx512", kernels_avx512, has_avx512),
    X86("avx2", kernels_avx2, has_avx2),
    X86("fma", kernels_fma, has_fma),
    ARM("neonbf16", kernels_neonbf16, has_neonbf16),
    {"generic", &kernels_generic, is_there},
    X86("amx-emulated", kernels_amx_emulated, has_avx512bf16),
};

const struct kernels *kernels_choose(const char *instructions, struct berth_error *error) {
    int automatic = instructions == NULL || strcmp(instructions, "auto") == 0;
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        const struct candidate *c = &candidates[i];
        if (!automatic && strcmp(instructions, c->name) != 0) {
            continue;
        }
        if (c->is_supported != NULL && c->is_supported()) {
            return c->kernels;
        }
        if (!automatic) {
            (void)error_set(error, BERTH_UNAVAILABLE,
                            "instructions: this processor cannot run \"%s\"; use \"auto\"",
                            instructions);
            return NULL;
        }
    }
    (void)error_set(
        error, BERTH_USAGE,
        "instructions: expected auto, generic, fma, avx2, avx512, avx512bf16, amx or neonbf16, "
        "found \"%s\"",
        instructions);
    return NULL;
}
