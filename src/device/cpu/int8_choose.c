// SPDX-License-Identifier: Apache-2.0
// Chooses the int8 kernels when the CPU device is opened: the fastest that the processor supports,
// within the instructions that the user forces. The operations on them are in linear_int8.c.
#include "core/text_util.h"
#include "device/cpu/int8.h"
#include "device/cpu/kernels.h"

#include <stddef.h>

static int is_there(void) {
    return 1;
}

#if defined(__x86_64__)
#include <cpuid.h>

static int supports(const char *instructions) {
    return kernels_choose(instructions, NULL) != NULL;
}

static int has_avx2(void) {
    return supports("avx2");
}

// CPUID leaf 7, subleaf 1, EAX, bit 4: not every compiler's __builtin_cpu_supports knows AVX-VNNI.
static int has_avxvnni(void) {
    unsigned a, b, c, d;
    return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

static int has_avx512vnni(void) {
    return supports("avx512") && __builtin_cpu_supports("avx512vnni");
}

static int has_avx512bf16(void) {
    return has_avx512vnni() && supports("avx512bf16");
}

// CPUID leaf 7, EDX, bit 25
static int has_amx(void) {
    unsigned a, b, c, d;
    return has_avx512bf16() && supports("amx") && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (d >> 25 & 1);
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

static int has_dotprod(void) {
    enum { DOT_PRODUCTS = 1 << 20 }; // HWCAP_ASIMDDP
    return (getauxval(AT_HWCAP) & DOT_PRODUCTS) != 0;
}
#endif

struct candidate {
    const struct int8_kernels *kernels;
    const char *within; // the tables of kernels.h with which it is used, separated by spaces
    int (*is_supported)(void);
};

#define AVX512_BF16 "amx amx-emulated avx512bf16"

static const struct candidate candidates[] = {
#if defined(__x86_64__)
    {&int8_amx, "amx", has_amx},
    {&int8_amx_emulated, "amx-emulated", has_avx512bf16},
    {&int8_avx512bf16, AVX512_BF16, has_avx512bf16},
    {&int8_avx512vnni, AVX512_BF16 " avx512", has_avx512vnni},
    {&int8_avxvnni, AVX512_BF16 " avx512 avx2", has_avxvnni},
    {&int8_avx2, AVX512_BF16 " avx512 avx2", has_avx2},
#elif defined(__aarch64__)
    {&int8_dotprod, "neonbf16 generic", has_dotprod},
#endif
    {&int8_generic, AVX512_BF16 " avx512 avx2 fma neonbf16 generic", is_there},
};

enum { CANDIDATES = sizeof candidates / sizeof *candidates };

const struct int8_kernels *int8_kernels_choose(const char *instructions) {
    size_t i = 0;
    while (i + 1 < CANDIDATES && !(words_contain(candidates[i].within, ' ', instructions) &&
                                   candidates[i].is_supported())) {
        i++;
    }
    return candidates[i].kernels;
}

size_t int8_kernels_all(const struct int8_kernels **tables, size_t limit) {
    size_t found = 0;
    for (size_t i = 0; i < CANDIDATES && found < limit; i++) {
        if (candidates[i].is_supported()) {
            tables[found++] = candidates[i].kernels;
        }
    }
    return found;
}
