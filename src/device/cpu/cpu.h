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

// norm.c
void cpu_embed_forward(struct device *dev, const struct embed_args *args,
                       const struct batch *batch);
void cpu_embed_backward(struct device *dev, const struct embed_grad_args *args,
                        const struct batch *batch);
void cpu_norm_forward(struct device *dev, const struct norm_args *args, const struct batch *batch);
void cpu_norm_backward(struct device *dev, const struct norm_grad_args *args,
                       const struct batch *batch);
size_t cpu_norm_partial_bytes(const struct device_shape *shape);
// linear.c
void cpu_linear_forward(struct device *dev, struct mat y, struct mat x, struct mat w,
                        const float *bias);
void cpu_linear_gelu_forward(struct device *dev, struct mat y, struct mat u, struct mat x,
                             struct mat w, const float *bias, enum activation activation);
void cpu_linear_backward_input(struct device *dev, struct mat dx, struct mat dy, struct mat w);
void cpu_linear_gelu_backward(struct device *dev, struct mat du, float *dbias, struct mat dy,
                              struct mat w, struct mat u, enum activation activation);
void cpu_gelu_backward(struct device *dev, struct mat du, float *dbias, struct mat u,
                       enum activation activation);
void cpu_linear_backward_weight(struct device *dev, struct mat dw, float *dbias, struct mat dy,
                                struct mat x);
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
void cpu_attention_forward(struct device *dev, const struct attention_args *args,
                           const struct batch *batch);
void cpu_attention_backward(struct device *dev, const struct attention_grad_args *args,
                            const struct batch *batch);
size_t cpu_attention_bytes(const struct cpu *cpu, const struct device_shape *shape);
// loss.c
void cpu_span_loss(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                   float scale, const struct batch *batch);
void cpu_class_loss(struct device *dev, struct mat dlogits, float *losses, unsigned char *hits,
                    struct mat logits, float scale, const int32_t *labels, int64_t count);
void cpu_add_losses(struct device *dev, double *sum, const float *losses, int64_t count,
                    double weight);
void cpu_weighted_loss(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                       float scale, const struct class_weighting *weighting, const int32_t *labels,
                       int64_t count);
void cpu_sigmoid_loss(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                      float scale, float positive_weight, const float *targets, int64_t count);
void cpu_squared_loss(struct device *dev, struct mat dlogits, float *losses, struct mat logits,
                      float scale, const float *targets, int64_t count);
// rows.c
void cpu_gather_rows(struct device *dev, struct mat y, struct mat x, const int32_t *rows,
                     int64_t count);
void cpu_scatter_add_rows(struct device *dev, struct mat dx, struct mat dy, const int32_t *rows,
                          int64_t count);
void cpu_scatter_rows(struct device *dev, struct mat dx, struct mat dy, const int32_t *rows,
                      int64_t count);
void cpu_drop_rows(struct device *dev, struct mat y, struct mat x, struct dropout dropout,
                   const struct batch *batch);
void cpu_tanh_forward(struct device *dev, struct mat y, struct mat t, struct mat u,
                      struct dropout dropout, const struct batch *batch);
void cpu_drop_first_rows(struct device *dev, struct mat y, struct mat x, struct dropout dropout,
                         const struct batch *batch);
void cpu_tanh_backward(struct device *dev, struct mat du, struct mat dy, struct mat t,
                       struct dropout dropout, const struct batch *batch);
// embedding.c
void cpu_pool_forward(struct device *dev, struct mat y, struct mat x, enum berth_pooling pooling,
                      const struct batch *batch);
void cpu_pool_backward(struct device *dev, struct mat dx, struct mat dy, struct mat x,
                       enum berth_pooling pooling, const struct batch *batch);
void cpu_normalize_forward(struct device *dev, struct mat y, float *lengths, struct mat x,
                           float radius, int64_t count);
void cpu_normalize_backward(struct device *dev, struct mat dx, struct mat dy, struct mat y,
                            const float *lengths, float radius, int64_t count);
void cpu_similarity_loss(struct device *dev, const struct similarity_args *args);
// optimizer.c
void cpu_squares(struct device *dev, double *sums, const float *values,
                 const struct device_range *ranges, int64_t range_count);
void cpu_norms(struct device *dev, struct grad_stats *stats, const double *sums,
               const int64_t *blocks, int64_t groups, double scale);
void cpu_adamw(struct device *dev, const struct adamw_args *args);
void cpu_lamb_moments(struct device *dev, const struct adamw_args *args, double *sums);
void cpu_lamb_apply(struct device *dev, const struct lamb_args *args);
void cpu_add(struct device *dev, float *to, const float *from, int64_t count);
void cpu_convert(struct device *dev, struct mat to, const float *from);
void cpu_checksums(struct device *dev, uint64_t *sums, struct mat values,
                   const struct device_checksum_range *ranges, int64_t count);

#endif
