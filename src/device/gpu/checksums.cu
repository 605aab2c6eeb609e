// SPDX-License-Identifier: Apache-2.0
// The operation `checksums` on a GPU: checksums of ranges (core/checksum.h), by which ranks compare
// their replicas. A block of threads computes that of a range at a time.
#include "core/checksum.h"
#include "device/gpu/cost.h"
#include "device/gpu/gpu.h"
#include "device/gpu/kernel.h"

enum { CHECKSUM_THREADS = 256, CHECKSUM_BLOCKS = 1024 };

// A thread reads VECTOR_WORDS words at once, which always belong to the same lanes of
// core/checksum.h.
enum { VECTOR_WORDS = 4, BLOCK_VECTORS = CHECKSUM_LANES / VECTOR_WORDS };
static_assert(CHECKSUM_THREADS % BLOCK_VECTORS == 0, "a thread keeps its lanes");

// For each of a thread's lanes: the sum of its words times n - block, and the sum of its words. The
// latter is multiplied by 2^33, so 31 of its bits suffice.
struct lane_sums {
    uint64_t weighted[VECTOR_WORDS];
    uint32_t plain[VECTOR_WORDS];
};

DEVICE void add_words(struct lane_sums &sums, const uint4 &words, uint32_t weight) {
    const uint32_t word[VECTOR_WORDS] = {words.x, words.y, words.z, words.w};
    GPU_UNROLL
    for (int i = 0; i < VECTOR_WORDS; i++) {
        sums.weighted[i] += (uint64_t)word[i] * weight;
        sums.plain[i] += word[i];
    }
}

DEVICE int64_t number_bytes(const struct mat &values) {
    return values.dtype == DTYPE_F32 ? 4 : 2;
}

// Word i of a range, 0 after its end.
DEVICE uint32_t word_of(const struct mat &values, const struct device_checksum_range &range,
                        int64_t i) {
    if (values.dtype == DTYPE_F32) {
        return i < range.count ? gpu_bits(((const float *)values.data)[range.first + i]) : 0;
    }
    const uint16_t *halves = (const uint16_t *)values.data + range.first;
    const uint32_t low = 2 * i < range.count ? halves[2 * i] : 0;
    const uint32_t high = 2 * i + 1 < range.count ? halves[2 * i + 1] : 0;
    return low | high << 16;
}

DEVICE uint4 words_of(const struct mat &values, const struct device_checksum_range &range,
                      int64_t vector) {
    const int64_t i = vector * VECTOR_WORDS;
    return uint4{word_of(values, range, i), word_of(values, range, i + 1),
                 word_of(values, range, i + 2), word_of(values, range, i + 3)};
}

// The sums of the thread's words of a range.
DEVICE struct lane_sums sums_of(const struct mat &values,
                                const struct device_checksum_range &range) {
    const int64_t bytes = range.count * number_bytes(values);
    const unsigned char *data =
        (const unsigned char *)values.data + range.first * number_bytes(values);
    const int64_t blocks = bytes / (CHECKSUM_LANES * 4) + 1;
    const int64_t wide = (uintptr_t)data % 16 == 0 ? bytes / 16 : 0; // whole aligned vectors
    struct lane_sums sums = {};
    int64_t i = threadIdx.x;
    for (; i < wide; i += CHECKSUM_THREADS) {
        add_words(sums, gpu_read16(data + 16 * i), (uint32_t)(blocks - i / BLOCK_VECTORS));
    }
    for (; i < blocks * BLOCK_VECTORS; i += CHECKSUM_THREADS) {
        add_words(sums, words_of(values, range, i), (uint32_t)(blocks - i / BLOCK_VECTORS));
    }
    return sums;
}

// Adds over the threads of a warp with the same lanes: every BLOCK_VECTORS-th thread.
DEVICE uint64_t lane_sum(uint64_t x) {
    for (int lanes = GPU_WARP / 2; lanes >= BLOCK_VECTORS; lanes /= 2) {
        x += __shfl_xor_sync(GPU_ALL_LANES, x, lanes);
    }
    return x;
}

// `lanes` holds the lanes of each warp, one warp after another.
DEVICE uint64_t checksum_of(const uint64_t *lanes, uint64_t bytes) {
    uint64_t sum = bytes;
    for (int lane = 0; lane < CHECKSUM_LANES; lane++) {
        uint64_t total = 0;
        GPU_UNROLL
        for (int warp = 0; warp < CHECKSUM_THREADS / GPU_WARP; warp++) {
            total += lanes[warp * CHECKSUM_LANES + lane];
        }
        sum = checksum_add(sum, total);
    }
    return sum;
}

// A block handles a range at a time.
__global__ void __launch_bounds__(CHECKSUM_THREADS)
    checksums_kernel(uint64_t *sums, struct mat values, const struct device_checksum_range *ranges,
                     int64_t count) {
    GPU_SHARED(uint64_t, lanes, CHECKSUM_THREADS / GPU_WARP * CHECKSUM_LANES);
    const int warp = (int)threadIdx.x / GPU_WARP, lane = (int)threadIdx.x % GPU_WARP;
    for (int64_t r = blockIdx.x; r < count; r += gridDim.x) {
        const struct device_checksum_range range = ranges[r];
        const struct lane_sums own = sums_of(values, range);
        __syncthreads();
        GPU_UNROLL
        for (int i = 0; i < VECTOR_WORDS; i++) {
            const uint64_t sum = lane_sum(own.weighted[i] + ((uint64_t)own.plain[i] << 33));
            if (lane < BLOCK_VECTORS) {
                lanes[warp * CHECKSUM_LANES + lane * VECTOR_WORDS + i] = sum;
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            sums[range.sum] = checksum_of(lanes, (uint64_t)(range.count * number_bytes(values)));
        }
    }
}

static gpu_cost checksums_cost(uint64_t *, struct mat values,
                               const struct device_checksum_range *ranges, int64_t count) {
    uint64_t elements = 0;
    for (int64_t i = 0; i < count; i++) {
        elements += (uint64_t)ranges[i].count;
    }
    return {(uint64_t)count * sizeof *ranges + elements * dtype_size(values.dtype),
            (uint64_t)count * sizeof(uint64_t), 0};
}

void gpu_checksums(struct device *dev, uint64_t *sums, struct mat values,
                   const struct device_checksum_range *ranges, int64_t count) {
    gpu_run(gpu_of(dev), {"checksums", std::min<int64_t>(count, CHECKSUM_BLOCKS), CHECKSUM_THREADS},
            checksums_kernel, checksums_cost, sums, values, ranges, count);
}
