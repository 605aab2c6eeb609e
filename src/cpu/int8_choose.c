// SPDX-License-Identifier: Apache-2.0
// Chooses the int8 kernels: the fastest that the processor supports, within forced instructions.
#include "core/words.h"
#include "cpu/int8.h"
#include "cpu/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>

// CPUID leaf 7, subleaf 1, EAX, bit 4: not every compiler's __builtin_cpu_supports knows AVX-VNNI.
static int has_avxvnni(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
#endif

struct candidate {
    const struct int8_kernels *kernels;
    const char *within; // the tables of kernels.h with which it is used, separated by spaces
    int is_supported;
};

enum { CANDIDATES = 5 };

#define AVX512_BF16 "amx amx-emulated avx512bf16"

static size_t candidates(struct candidate list[CANDIDATES]) {
    size_t count = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    const int avx2 = kernels_choose("avx2", NULL) != NULL;
    const int vnni = kernels_choose("avx512", NULL) != NULL && __builtin_cpu_supports("avx512vnni");
    const int bf16 = vnni && kernels_choose("avx512bf16", NULL) != NULL;
    list[count++] = (struct candidate){&int8_avx512bf16, AVX512_BF16, bf16};
    list[count++] = (struct candidate){&int8_avx512vnni, AVX512_BF16 " avx512", vnni};
    list[count++] =
        (struct candidate){&int8_avxvnni, AVX512_BF16 " avx512 avx2", avx2 && has_avxvnni()};
    list[count++] = (struct candidate){&int8_avx2, AVX512_BF16 " avx512 avx2", avx2};
#endif
    list[count++] =
        (struct candidate){&int8_generic, AVX512_BF16 " avx512 avx2 neonbf16 generic", 1};
    return count;
}

const struct int8_kernels *int8_kernels_choose(const char *instructions) {
    struct candidate list[CANDIDATES];
    const size_t count = candidates(list);
    size_t i = 0;
    while (i + 1 < count &&
           !(list[i].is_supported && words_contain(list[i].within, ' ', instructions))) {
        i++;
    }
    return list[i].kernels;
}

size_t int8_kernels_all(const struct int8_kernels **tables, size_t limit) {
    struct candidate list[CANDIDATES];
    const size_t count = candidates(list);
    size_t found = 0;
    for (size_t i = 0; i < count && found < limit; i++) {
        if (list[i].is_supported) {
            tables[found++] = list[i].kernels;
        }
    }
    return found;
}
