// SPDX-License-Identifier: Apache-2.0
// Converts and adds elements on the host while ranges are exchanged, block by block in the
// first-level cache. The order of a sum is that of the fixed tree, so all ranks get the same bits.
// reduce.c and gather.c say what is added.
#include "comm/numbers.h"

#include "comm/loops.h"
#include "core/reduction_tree.h"

#include <assert.h>
#include <string.h>

// Elements added at a time, so that intermediate sums stay in the first-level cache.
enum { BLOCK = 1024 };

// --- conversions --------------------------------------------------------------------------------

void numbers_convert(void *to, enum dtype to_dtype, const void *from, enum dtype from_dtype,
                     int64_t count) {
    const struct loops *loops = loops_best();
    if (to_dtype == from_dtype) {
        memcpy(to, from, (size_t)count * dtype_size(to_dtype));
    } else if (to_dtype == DTYPE_F32) {
        assert(from_dtype == DTYPE_BF16 || from_dtype == DTYPE_F16);
        (from_dtype == DTYPE_BF16 ? loops->widen_bf16 : loops->widen_f16)(to, from, count);
    } else {
        assert((to_dtype == DTYPE_BF16 || to_dtype == DTYPE_F16) && from_dtype == DTYPE_F32);
        (to_dtype == DTYPE_BF16 ? loops->narrow_bf16 : loops->narrow_f16)(to, from, count);
    }
}

// --- sums ---------------------------------------------------------------------------------------

static const void *element(const struct addend *addend, int64_t first) {
    return (const char *)addend->data + (size_t)first * dtype_size(addend->dtype);
}

static void add_addend(float *to, const struct addend *addend, int64_t first, int64_t count) {
    const struct loops *loops = loops_best();
    if (addend->dtype == DTYPE_F32) {
        loops->add(to, element(addend, first), count);
    } else {
        assert(addend->dtype == DTYPE_BF16 || addend->dtype == DTYPE_F16);
        (addend->dtype == DTYPE_BF16 ? loops->add_bf16 : loops->add_f16)(to, element(addend, first),
                                                                         count);
    }
}

// Elements [first, first + count) of the sum, at most BLOCK. Returns the addend after the last one.
static const struct addend *sum_block(float *to, const struct addend *addends, int leaves,
                                      int64_t first, int64_t count) {
    if (addends->leaves == leaves) {
        numbers_convert(to, DTYPE_F32, element(addends, first), addends->dtype, count);
        return addends + 1;
    }
    const int half = reduction_tree_split(leaves);
    addends = sum_block(to, addends, half, first, count);
    if (addends->leaves == leaves - half) {
        add_addend(to, addends, first, count);
        return addends + 1;
    }
    float rest[BLOCK];
    addends = sum_block(rest, addends, leaves - half, first, count);
    loops_best()->add(to, rest, count);
    return addends;
}

void numbers_add(enum dtype dtype, void *to, const void *from, int64_t count) {
    const struct addend addends[] = {{to, dtype, 1}, {from, dtype, 1}};
    numbers_sum(to, dtype, addends, 2, count);
}

void numbers_sum(void *to, enum dtype dtype, const struct addend *addends, int leaves,
                 int64_t count) {
    float sum[BLOCK];
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int64_t length = count - first < BLOCK ? count - first : BLOCK;
        (void)sum_block(sum, addends, leaves, first, length);
        numbers_convert((char *)to + (size_t)first * dtype_size(dtype), dtype, sum, DTYPE_F32,
                        length);
    }
}
