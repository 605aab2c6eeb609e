// SPDX-License-Identifier: Apache-2.0
// The state of the CPU device, and the operations that its files implement for the table in
// device_cpu.c. Only files of this folder include it; everybody else has device/device.h.
#ifndef BERTH_CPU_CPU_H
#define BERTH_CPU_CPU_H

#include "device/cpu/gemm.h"
#include "device/cpu/int8.h"
#include "device/cpu/kernels.h"
#include "device/device.h"

// The sizes that work is split into, whatever the number of threads.
#define CPU_ROW_BLOCK 64     // rows of a block of row kernels; its partial sums are one addend
#define CPU_TILE_UNIT 64     // the rows of a product's tile are a multiple of this,
#define CPU_TILE_ROWS 192    // at most this many rows of y,
#define CPU_TILE_OUT 128     // or of dw,
#define CPU_TILE_GROUP 4     // and the number of tiles is a multiple of this, to balance threads
#define CPU_TILE_TOKENS 2048 // bf16 tokens that one product adds to dw; half as many in f32
#define CPU_CHUNK 65536      // elements of a chunk of a flat buffer

struct cpu {
    struct device device;
    const struct kernels *kernels;
    const struct int8_kernels *int8;
    struct gemm *gemm;
    int threads, processors; // processors: those that this process may use
    char description[160];

    float *partials; // partial sums of the gradients of parameters
    size_t partial_bytes;
    char *packed; // an operand in the layout for products
    size_t packed_bytes;
    char *quantized; // rows in int8 and their results, one slice per thread
    size_t quantized_bytes;
    char *attention; // buffers of attention, one slice per thread
    size_t attention_bytes;

    enum berth_status status; // the first error since the last call of status
    struct berth_error error;

    enum device_phase phase; // current phase, since `marked` on the monotonic clock
    double marked;
    double seconds[DEVICE_PHASES];
};

static inline struct cpu *cpu_of(struct device *dev) {
    return dev->state;
}

// cpu.c
// Keeps the first error.
void cpu_fail(struct cpu *cpu, enum berth_status status, const struct berth_error *error);
// Grows *block to at least `bytes`; 0 after an error, which is kept. If the shape given to
// `reserve` was right, only `reserve` allocates.
int cpu_grow(struct cpu *cpu, void **block, size_t *have, size_t bytes);
// Sets the rows [first, m.rows) to zero; m may be empty.
void cpu_zero_rows(struct mat m, int64_t first);
// total[i] += partials[0][i] + partials[1][i] + ..., in this order; `blocks` rows of `stride`
// floats.
void cpu_add_partials(struct cpu *cpu, float *total, const float *partials, int64_t blocks,
                      int64_t stride, int64_t count);

static inline int64_t cpu_blocks(int64_t count, int64_t block) {
    return (count + block - 1) / block;
}

// The length of the chunk of [first, end) that begins at `first`.
static inline int64_t cpu_chunk_length(int64_t first, int64_t end, int64_t limit) {
    return end - first < limit ? end - first : limit;
}

// The operations (device/operations.inc), each in the source of its subject.
#define LIST(...) __VA_ARGS__
#define OPERATION(name, parameters, arguments) void cpu_##name(struct device *dev, LIST parameters);
#include "device/operations.inc"
#undef OPERATION
#undef LIST
// norm.c
size_t cpu_norm_partial_bytes(const struct device_shape *shape);
// linear.c
int cpu_packs(struct device *dev, struct mat w);
void cpu_pack(struct device *dev, struct mat w);
void cpu_linear_packed_forward(struct device *dev, struct mat y, struct mat x, struct mat w,
                               const float *bias, enum activation activation);
size_t cpu_linear_partial_bytes(const struct device_shape *shape);
size_t cpu_linear_packed_bytes(const struct device_shape *shape);
// linear_int8.c
size_t cpu_int8_bytes(struct device *dev, const struct int8_matrix *shape);
void cpu_int8_pack(struct device *dev, const struct int8_matrix *to, int64_t first, struct mat w,
                   const float *scales);
void cpu_int8_finish(struct device *dev, const struct int8_matrix *to, const int32_t *columns);
void cpu_linear_int8_forward(struct device *dev, struct mat y, struct mat x,
                             const struct int8_matrix *w, const float *bias,
                             enum activation activation);
size_t cpu_quantized_bytes(const struct cpu *cpu, const struct device_shape *shape);
// attention.c
size_t cpu_attention_bytes(const struct cpu *cpu, const struct device_shape *shape);

#endif
