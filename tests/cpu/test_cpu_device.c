// SPDX-License-Identifier: Apache-2.0
// The CPU device: opening, memory, dropout's rate and scale, what numbers that are not finite leave
// behind, and products: of every shape, of few rows, and with what follows them.
#include "core/harness.h"
#include "core/memory.h"
#include "device/cpu/gemm.h"
#include "device/cpu/kernels.h"
#include "device/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct device *open_auto(void) {
    const struct device_options options = {.threads = 2, .instructions = NULL};
    struct device *dev = NULL;
    assert_int_equal(device_cpu_open(&options, &dev, NULL), BERTH_OK);
    return dev;
}

static void unknown_instructions(void **state) {
    const struct device_options options = {.threads = 1, .instructions = "mmx"};
    struct device *dev = NULL;
    struct berth_error error;
    assert_int_equal(device_cpu_open(&options, &dev, &error), BERTH_USAGE);
    assert_null(dev);
    assert_non_null(strstr(error.message, "mmx"));
    assert_non_null(strstr(error.message, "avx512bf16"));
}

static void thread_count_out_of_range(void **state) {
    const struct device_options options = {.threads = -1, .instructions = NULL};
    struct device *dev = NULL;
    struct berth_error error;
    assert_int_equal(device_cpu_open(&options, &dev, &error), BERTH_USAGE);
    assert_non_null(strstr(error.message, "threads"));
}

static void describes_itself(void **state) {
    struct device *dev = open_auto();
    assert_string_equal(dev->name, "cpu");
    assert_non_null(strstr(dev->describe(dev), "2 threads"));
    dev->close(dev);
}

static void memory_is_zeroed_and_copied(void **state) {
    struct device *dev = open_auto();
    const size_t bytes = 3000000;
    unsigned char *block = dev->memory_new(dev, bytes);
    assert_non_null(block);
    for (size_t i = 0; i < bytes; i += 4093) {
        assert_int_equal(block[i], 0);
    }
    dev->upload(dev, block + 5, "berth", 5);
    char back[6] = "";
    dev->download(dev, back, block + 5, 5);
    assert_string_equal(back, "berth");
    memset(block, 1, bytes);
    dev->zero(dev, block, bytes);
    assert_int_equal(block[0] | block[bytes / 2] | block[bytes - 1], 0);
    dev->memory_free(dev, block, bytes);
    assert_null(dev->memory_new(dev, SIZE_MAX / 2));
    dev->close(dev);
}

static void impossible_reserve_is_an_error(void **state) {
    struct device *dev = open_auto();
    struct berth_error error;
    const struct device_shape huge = {
        .batch = {.tokens = (int64_t)1 << 40, .sequences = 1, .max_length = 1024},
        .hidden = 1024,
        .intermediate = 4096,
        .heads = 16,
        .vocabulary = 30522,
        .compute = DTYPE_BF16,
        .training = 1};
    assert_true(dev->workspace_bytes(dev, &huge) > (size_t)1 << 40);
    assert_int_equal(dev->reserve(dev, &huge, &error), BERTH_NO_MEMORY);
    assert_int_equal(dev->status(dev, &error), BERTH_OK);
    dev->close(dev);
}

// Dropout on a constant: kept elements equal the scale, and the rate is p.
static void dropout_rate_and_scale(void **state) {
    enum { ROWS = 640, HIDDEN = 768 };
    struct device *dev = open_auto();
    const double p = 0.1;
    int32_t zeros[ROWS] = {0}, positions[ROWS], starts[2] = {0, ROWS};
    for (int i = 0; i < ROWS; i++) {
        positions[i] = i;
    }
    int64_t global_index = 3;
    const struct batch batch = {
        .token_count = ROWS,
        .row_count = ROWS,
        .sequence_count = 1,
        .max_length = ROWS,
        .ids = zeros,
        .type_ids = zeros,
        .positions = positions,
        .sequences = zeros,
        .cu_seqlens = starts,
        .global_indices = &global_index,
    };
    float *memory = calloc(ROWS * HIDDEN * 3 + 3 * HIDDEN + ROWS, sizeof *memory);
    struct mat dy = mat_of(memory, ROWS, HIDDEN, DTYPE_F32);
    struct mat dx = mat_of(memory + ROWS * HIDDEN, ROWS, HIDDEN, DTYPE_F32);
    struct mat xhat = mat_of(memory + 2 * ROWS * HIDDEN, ROWS, HIDDEN, DTYPE_F32);
    float *gamma = memory + 3 * ROWS * HIDDEN, *sums = gamma + HIDDEN, *rstd = sums + 2 * HIDDEN;
    for (int i = 0; i < ROWS * HIDDEN; i++) {
        ((float *)dy.data)[i] = i % 2 ? -1.0f : 1.0f; // mean zero: ds = dy
    }
    for (int i = 0; i < HIDDEN; i++) {
        gamma[i] = 1;
    }
    for (int i = 0; i < ROWS; i++) {
        rstd[i] = 1;
    }
    const struct norm_grad_args args = {
        .dresidual = dy,
        .dx = dx,
        .dbias = sums,
        .dy = dy,
        .xhat = xhat,
        .rstd = rstd,
        .gamma = gamma,
        .dgamma = sums + HIDDEN,
        .dbeta = sums,
        .dropout = {42, 1, 0, RNG_SITE_OUTPUT, rng_dropout_threshold(p)}};
    dev->norm_backward(dev, &args, &batch);
    int64_t dropped = 0;
    for (int i = 0; i < ROWS * HIDDEN; i++) {
        float x = fabsf(((float *)dx.data)[i]);
        dropped += x == 0;
        assert_true(x == 0 || fabs((double)x - 1 / (1 - p)) < 1e-4);
    }
    double rate = (double)dropped / (ROWS * HIDDEN);
    assert_true(fabs(rate - p) < 5 * sqrt(p * (1 - p) / (ROWS * HIDDEN)));
    free(memory);
    dev->close(dev);
}

// One head of attention over one sequence, whose matrices are filled with a number or varied.
enum { HEAD = 64, LONGEST = 64 };

struct attention_case {
    float lse[LONGEST];
    char qkv[LONGEST * 3 * HEAD * 4], context[LONGEST * HEAD * 4], dcontext[LONGEST * HEAD * 4],
        dqkv[LONGEST * 3 * HEAD * 4];
};

static void fill(void *to, enum dtype dtype, int64_t count, float constant) {
    for (int64_t i = 0; i < count; i++) {
        const float x = constant == 0 ? (float)((i * 7919) % 97) / 97.0f - 0.5f : constant;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        const uint16_t half = (uint16_t)(bits >> 16);
        memcpy((char *)to + i * (int64_t)dtype_size(dtype),
               dtype == DTYPE_F32 ? (const void *)&x : (const void *)&half, dtype_size(dtype));
    }
}

static void run_attention(struct device *dev, struct attention_case *c, enum dtype dtype,
                          int32_t length, float constant) {
    int32_t starts[2] = {0, length};
    int64_t global_index = 1;
    const struct batch batch = {.token_count = length,
                                .row_count = LONGEST,
                                .sequence_count = 1,
                                .max_length = length,
                                .cu_seqlens = starts,
                                .global_indices = &global_index};
    const struct dropout dropout = {.seed = 1, .threshold = rng_dropout_threshold(0.1)};
    const struct mat qkv = mat_of(c->qkv, LONGEST, 3 * HEAD, dtype);
    const struct mat context = mat_of(c->context, LONGEST, HEAD, dtype);
    const struct mat dcontext = mat_of(c->dcontext, LONGEST, HEAD, dtype);
    fill(c->qkv, dtype, LONGEST * 3 * HEAD, constant);
    fill(c->dcontext, dtype, LONGEST * HEAD, constant);
    const struct attention_args args = {
        .context = context, .lse = c->lse, .qkv = qkv, .heads = 1, .dropout = dropout};
    const struct attention_grad_args grads = {.dqkv = mat_of(c->dqkv, LONGEST, 3 * HEAD, dtype),
                                              .dcontext = dcontext,
                                              .context = context,
                                              .lse = c->lse,
                                              .qkv = qkv,
                                              .heads = 1,
                                              .dropout = dropout};
    dev->attention_forward(dev, &args, &batch);
    dev->attention_backward(dev, &grads, &batch);
    assert_int_equal(dev->status(dev, NULL), BERTH_OK);
}

// An update that is skipped because its numbers are not finite leaves nothing to the next one, not
// even in the device's own memory, of which shorter sequences use a part.
static void nothing_is_left_of_numbers_that_are_not_finite(void **state) {
    static const char *const sets[] = {INSTRUCTION_SETS};
    static const int32_t lengths[] = {33, 35, 47, 48};
    static struct attention_case fresh, used;
    for (size_t i = 0; i < 2 * sizeof sets / sizeof *sets; i++) {
        const enum dtype dtype = i % 2 ? DTYPE_BF16 : DTYPE_F32;
        const struct device_options options = {.threads = 1, .instructions = sets[i / 2]};
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
            struct device *one = NULL, *other = NULL;
            const enum berth_status status = device_cpu_open(&options, &one, NULL);
            if (status == BERTH_UNAVAILABLE && i / 2 > 0) {
                break; // this processor lacks the instructions
            }
            assert_int_equal(status, BERTH_OK);
            assert_int_equal(device_cpu_open(&options, &other, NULL), BERTH_OK);
            run_attention(one, &fresh, dtype, lengths[k], 0);
            run_attention(other, &used, dtype, LONGEST, NAN);
            run_attention(other, &used, dtype, lengths[k], 0);
            assert_memory_equal(fresh.context, used.context, sizeof fresh.context);
            assert_memory_equal(fresh.dqkv, used.dqkv, sizeof fresh.dqkv);
            one->close(one);
            other->close(other);
        }
    }
}

// --- products of every shape --------------------------------------------------------------------

enum { LARGEST = 1 << 18 };

struct product_case {
    float a[LARGEST], b[LARGEST], c[LARGEST], bias[256];
    char packed[8 * LARGEST];
};

static void *element(void *from, enum dtype dtype, int64_t index) {
    return (char *)from + index * (int64_t)dtype_size(dtype);
}

static double number(const void *from, enum dtype dtype, int64_t index) {
    float x = 0;
    memcpy((char *)&x + (dtype == DTYPE_F32 ? 0 : 2),
           element((void *)(uintptr_t)from, dtype, index), dtype_size(dtype));
    return (double)x;
}

// Numbers in rows, and NaN between them.
static void fill_rows(void *to, enum dtype dtype, int64_t rows, int64_t cols, int64_t stride) {
    for (int64_t i = 0; i < rows * stride; i++) {
        const float x = (float)((i * 7919) % 97 + 1) / 97.0f - 0.4f;
        fill(element(to, dtype, i), dtype, 1, i % stride < cols ? x : NAN);
    }
}

static double expected_element(const struct gemm_shape *s, const struct product_case *p,
                               int64_t row, int64_t column, double before) {
    double sum = s->accumulate ? before : 0;
    sum += s->bias ? (double)p->bias[column] : s->row_bias ? (double)p->bias[row] : 0;
    for (int64_t i = 0; i < s->k; i++) {
        const int64_t a = s->a_transposed ? i * s->lda + row : row * s->lda + i;
        const int64_t b = s->b_transposed ? column * s->ldb + i : i * s->ldb + column;
        sum += number(p->a, s->type, a) * number(p->b, s->type, b);
    }
    return sum;
}

static void run_rows(struct gemm *gemm, const struct gemm_shape *whole, struct product_case *p,
                     int64_t first, int64_t rows) {
    struct gemm_shape s = *whole;
    const struct gemm_operands operands = {
        .a = element(p->a, s.type, s.a_transposed ? first : first * s.lda),
        .b = s.b_in_place ? (const void *)p->b : p->packed,
        .c = element(p->c, s.c_type, first * s.ldc),
        .bias = p->bias + (s.row_bias ? first : 0)};
    s.m = rows;
    gemm_run(gemm, &s, 0, &operands);
}

// Compares a product with a loop in double, and its rows with those of products of fewer rows.
static void check_product(struct gemm *gemm, const struct gemm_shape *s, struct product_case *p) {
    static float whole[LARGEST];
    const size_t bytes = (size_t)(s->m * s->ldc) * dtype_size(s->c_type);
    const double unit = s->c_type == DTYPE_F32 ? 1e-5 : 4e-3;
    fill_rows(p->a, s->type, s->a_transposed ? s->k : s->m, s->a_transposed ? s->m : s->k, s->lda);
    fill_rows(p->b, s->type, s->b_transposed ? s->n : s->k, s->b_transposed ? s->k : s->n, s->ldb);
    fill_rows(p->c, s->c_type, s->m, s->n, s->ldc);
    fill(p->bias, DTYPE_F32, s->n > s->m ? s->n : s->m, 0);
    assert_true(gemm_pack_bytes(s) <= sizeof p->packed);
    assert_int_equal(gemm_reserve(gemm, gemm_scratch_bytes(gemm, s), NULL), BERTH_OK);
    gemm_pack(gemm, s, p->b, p->packed);
    memcpy(whole, p->c, bytes);
    run_rows(gemm, s, p, 0, s->m);
    for (int64_t i = 0; i < s->m * s->ldc; i++) {
        const double found = number(p->c, s->c_type, i), before = number(whole, s->c_type, i);
        if (i % s->ldc >= s->n) {
            assert_true(isnan(found)); // as before
            continue;
        }
        const double expected = expected_element(s, p, i / s->ldc, i % s->ldc, before);
        if (!(fabs(found - expected) <= unit * (1 + fabs(expected)))) {
            fail_msg("[%d, %d] x [%d, %d] of %s, transposed %d %d: %.9g at %d, not %.9g", (int)s->m,
                     (int)s->k, (int)s->k, (int)s->n, dtype_name(s->type), s->a_transposed,
                     s->b_transposed, found, (int)i, expected);
        }
    }
    float *const once = malloc(bytes);
    memcpy(once, p->c, bytes);
    memcpy(p->c, whole, bytes);
    for (int64_t row = 0, rows = 1; row < s->m; row += rows, rows = 3 * rows % 19) {
        run_rows(gemm, s, p, row, rows < s->m - row ? rows : s->m - row);
    }
    assert_memory_equal(once, p->c, bytes);
    free(once);
}

// Few rows and columns, odd ones and depths that end within a word of bf16 or are summed in chunks:
// in every form, all with gaps that hold NaN, with a bias of columns or of rows, b packed or in
// place.
static void every_shape_is_multiplied(void **state) {
    static const int64_t sizes[][3] = {// m, n, k
                                       {1, 1, 1},    {1, 2, 64},   {3, 2, 65},    {2, 33, 7},
                                       {7, 100, 33}, {40, 3, 31},  {15, 15, 15},  {33, 17, 130},
                                       {8, 48, 1},   {65, 65, 3},  {5, 50, 4099}, {9, 112, 40},
                                       {3, 16, 2},   {7, 80, 2300}};
    static const char *const sets[] = {INSTRUCTION_SETS};
    struct product_case *p = calloc(1, sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        const struct kernels *kernels = kernels_choose(sets[i], NULL);
        struct gemm *gemm;
        if (kernels == NULL) {
            continue;
        }
        assert_int_equal(gemm_open(1, kernels, &gemm, NULL), BERTH_OK);
        for (size_t k = 0; k < 32 * sizeof sizes / sizeof *sizes; k++) {
            const int64_t *size = sizes[k / 32];
            struct gemm_shape s = {.m = size[0], .n = size[1], .k = size[2]};
            s.type = k & 1 ? DTYPE_BF16 : DTYPE_F32;
            s.a_transposed = k >> 1 & 1;
            s.b_transposed = k >> 2 & 1;
            s.accumulate = k >> 3 & 1;
            s.b_in_place = k >> 4 & 1 && gemm_reads_in_place(&s);
            s.row_bias = !s.accumulate && k >> 4 & 1;
            s.bias = !s.accumulate && !s.row_bias;
            s.c_type = s.accumulate ? DTYPE_F32 : s.type;
            s.lda = (s.a_transposed ? s.m : s.k) + 3;
            s.ldb = (s.b_transposed ? s.k : s.n) + 5;
            s.ldc = s.n + 1;
            check_product(gemm, &s, p);
        }
        gemm_close(gemm);
    }
    free(p);
}

// --- few rows -----------------------------------------------------------------------------------

enum { TOKENS = 40, OUTPUTS = 96, INPUTS = 64 };

struct linear_case {
    float x[TOKENS * INPUTS], w[OUTPUTS * INPUTS], bias[OUTPUTS];
    float y[TOKENS * OUTPUTS], dx[TOKENS * INPUTS], dw[OUTPUTS * INPUTS];
};

// A layer of which each call computes `group` tokens of y and dx, and `group` outputs of dw.
static void run_linear(struct device *dev, struct linear_case *c, int64_t group) {
    const struct mat x = mat_of(c->x, TOKENS, INPUTS, DTYPE_F32);
    const struct mat w = mat_of(c->w, OUTPUTS, INPUTS, DTYPE_F32);
    const struct mat y = mat_of(c->y, TOKENS, OUTPUTS, DTYPE_F32);
    const struct mat dx = mat_of(c->dx, TOKENS, INPUTS, DTYPE_F32);
    const struct mat dw = mat_of(c->dw, OUTPUTS, INPUTS, DTYPE_F32);
    memset(c->dw, 0, sizeof c->dw);
    for (int64_t row = 0; row < TOKENS; row += group) {
        const int64_t rows = group < TOKENS - row ? group : TOKENS - row;
        dev->linear_forward(dev, mat_rows(y, row, rows), mat_rows(x, row, rows), w, c->bias);
        dev->linear_backward_input(dev, mat_rows(dx, row, rows), mat_rows(y, row, rows), w);
    }
    for (int64_t row = 0; row < OUTPUTS; row += group) {
        const int64_t rows = group < OUTPUTS - row ? group : OUTPUTS - row;
        dev->linear_backward_weight(dev, mat_rows(dw, row, rows), NULL, mat_columns(y, row, rows),
                                    x);
    }
    assert_int_equal(dev->status(dev, NULL), BERTH_OK);
}

// Products of few rows read the weights where they are, and give the bytes of those of many rows.
static void few_rows_have_the_bytes_of_many(void **state) {
    static const char *const sets[] = {INSTRUCTION_SETS};
    static struct linear_case many, few;
    fill(many.x, DTYPE_F32, TOKENS * INPUTS, 0);
    fill(many.w, DTYPE_F32, OUTPUTS * INPUTS, 0);
    fill(many.bias, DTYPE_F32, OUTPUTS, 0);
    few = many;
    for (size_t i = 0; i < 2 * sizeof sets / sizeof *sets; i++) {
        const struct device_options options = {.threads = 1 + (int)(i % 2),
                                               .instructions = sets[i / 2]};
        struct device *dev = NULL;
        const enum berth_status status = device_cpu_open(&options, &dev, NULL);
        if (status == BERTH_UNAVAILABLE && i / 2 > 0) {
            continue; // this processor lacks the instructions
        }
        assert_int_equal(status, BERTH_OK);
        run_linear(dev, &many, OUTPUTS);
        for (int64_t group = 1; group <= 17; group += 4) {
            run_linear(dev, &few, group);
            assert_memory_equal(&many, &few, sizeof many);
        }
        dev->close(dev);
    }
}

// --- what follows a product ---------------------------------------------------------------------

enum { MOST_M = 32, MOST_N = 112, MOST_K = 2200 };

// A product c = a b, and what follows it.
struct epilogue_case {
    float a[MOST_M * MOST_K], b[MOST_K * MOST_N], packed[MOST_K * MOST_N];
    float c[MOST_M * MOST_N], y[MOST_M * MOST_N], u[MOST_M * MOST_N], sums[MOST_N];
};

static void fill_epilogue_case(struct epilogue_case *e) {
    fill(e->a, DTYPE_F32, MOST_M * MOST_K, 0);
    fill(e->b, DTYPE_F32, MOST_K * MOST_N, 0);
    fill(e->u, DTYPE_F32, MOST_M * MOST_N, 0);
    memset(e->sums, 0, sizeof e->sums);
}

static struct mat as_c(const struct gemm_shape *s, float *data) {
    return mat_of(data, s->m, s->n, DTYPE_F32);
}

static float largest(const float *x, int64_t count) {
    float most = x[0];
    for (int64_t i = 1; i < count; i++) {
        most = fmaxf(most, x[i]);
    }
    return most;
}

// The epilogue within the product, or as separate operations after it.
static void run_epilogue_case(struct gemm *gemm, const struct kernels *kernels,
                              const struct gemm_shape *s, struct epilogue_case *e, int backward,
                              int is_one) {
    const enum activation f = ACTIVATION_GELU_ERF;
    struct gemm_operands operands = {.a = e->a, .b = e->packed, .c = e->c};
    assert_int_equal(gemm_reserve(gemm, gemm_scratch_bytes(gemm, s), NULL), BERTH_OK);
    assert_true(gemm_pack_bytes(s) <= sizeof e->packed);
    gemm_pack(gemm, s, e->b, e->packed);
    if (is_one) {
        operands.epilogue = (struct product_epilogue){.activation = f};
        operands.epilogue.y = backward ? (struct mat){0} : as_c(s, e->y);
        operands.epilogue.u = backward ? as_c(s, e->u) : (struct mat){0};
        operands.epilogue.sums = e->sums;
    }
    gemm_run(gemm, s, 0, &operands);
    if (!is_one && backward) {
        kernels->activation_backward(as_c(s, e->c), as_c(s, e->u), f, e->sums);
    } else if (!is_one) {
        kernels->activation_forward(as_c(s, e->y), as_c(s, e->c), f);
    }
}

// Shapes with whole blocks and others, whose depth is summed in pieces, and of few rows.
static void an_activation_follows_every_product(void **state) {
    static const struct gemm_shape shapes[] = {
        {.m = 32, .n = 96, .k = 40, .lda = 40, .ldb = 96, .ldc = 96},
        {.m = 21, .n = 75, .k = 33, .lda = 33, .ldb = 75, .ldc = 75},
        {.m = 17, .n = 50, .k = 2200, .lda = 2200, .ldb = 50, .ldc = 50},
        {.m = 3, .n = 70, .k = 24, .lda = 24, .ldb = 70, .ldc = 70},
        {.m = 9, .n = 34, .k = 24, .lda = 24, .ldb = 34, .ldc = 34}};
    static const char *const sets[] = {INSTRUCTION_SETS};
    struct epilogue_case *one = calloc(1, sizeof *one), *two = calloc(1, sizeof *two);
    assert_non_null(one);
    assert_non_null(two);
    enum { CASES = 2 * sizeof sets / sizeof *sets };
    for (size_t i = 0; i < CASES * sizeof shapes / sizeof *shapes; i++) {
        const struct gemm_shape *s = &shapes[i / CASES];
        const struct kernels *kernels = kernels_choose(sets[i % CASES / 2], NULL);
        struct gemm *gemm;
        if (kernels == NULL) {
            continue;
        }
        assert_int_equal(gemm_open(1, kernels, &gemm, NULL), BERTH_OK);
        fill_epilogue_case(one);
        fill_epilogue_case(two);
        run_epilogue_case(gemm, kernels, s, one, (int)(i % 2), 1);
        run_epilogue_case(gemm, kernels, s, two, (int)(i % 2), 0);
        assert_memory_equal(one, two, sizeof *one);
        assert_true(largest(i % 2 ? one->sums : one->y, s->n) > 0);
        gemm_close(gemm);
    }
    free(one);
    free(two);
}

// Of 200 rows, the last tile has few. With more threads than half the tiles, each is divided among
// several threads.
static void divided_tiles_give_the_same_bits(void **state) {
    enum { M = 200, N = 300, K = 24 };
    static float x[M * K], w[N * K], alone[M * N], shared[M * N];
    const struct mat operands[] = {mat_of(x, M, K, DTYPE_F32), mat_of(w, N, K, DTYPE_F32)};
    fill(x, DTYPE_F32, M * K, 0);
    fill(w, DTYPE_F32, N * K, 0);
    for (int threads = 1; threads <= 4; threads += 3) {
        const struct device_options options = {.threads = threads};
        struct device *dev = NULL;
        assert_int_equal(device_cpu_open(&options, &dev, NULL), BERTH_OK);
        dev->linear_forward(dev, mat_of(threads == 1 ? alone : shared, M, N, DTYPE_F32),
                            operands[0], operands[1], NULL);
        assert_int_equal(dev->status(dev, NULL), BERTH_OK);
        dev->close(dev);
    }
    assert_memory_equal(alone, shared, sizeof alone);
    assert_true(largest(shared + (M - 1) * N, N) > 0);
}

enum { FEW = 64, COLUMNS = 4096, WIDTH = 192 };

// After `reserve` for the shape, a product of few rows and many columns in f32 allocates nothing.
static void check_reserved(const struct device_shape *shape) {
    static float x[FEW * WIDTH], w[COLUMNS * WIDTH], y[FEW * COLUMNS];
    struct device *dev = open_auto();
    struct berth_error error;
    assert_int_equal(dev->reserve(dev, shape, &error), BERTH_OK);
    memory_fail_at(1, 0);
    dev->linear_forward(dev, mat_of(y, FEW, COLUMNS, DTYPE_F32), mat_of(x, FEW, WIDTH, DTYPE_F32),
                        mat_of(w, COLUMNS, WIDTH, DTYPE_F32), NULL);
    memory_fail_at(0, 0);
    assert_int_equal(dev->status(dev, &error), BERTH_OK);
    dev->close(dev);
}

// The plan of memory counts one packed matrix, not one for each thread.
static void a_product_of_few_rows_takes_the_memory_of_the_plan(void **state) {
    const struct device_shape shape = {
        .batch = {.tokens = FEW, .sequences = 1, .masked = FEW, .max_length = FEW},
        .hidden = WIDTH,
        .intermediate = WIDTH,
        .heads = 3,
        .compute = DTYPE_F32};
    struct device_shape decoder = shape, head = shape, vectors = shape;
    decoder.vocabulary = COLUMNS;
    decoder.decoder_rows = FEW;
    check_reserved(&decoder);
    head.outputs = COLUMNS;
    check_reserved(&head);
    head.compute = DTYPE_BF16;
    check_reserved(&head);
    head.int8 = 1;
    check_reserved(&head);
    vectors.training = 1; // embeddings are compared with each other
    vectors.batch.tokens = vectors.batch.sequences = COLUMNS;
    vectors.compute = DTYPE_BF16;
    check_reserved(&vectors);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_instructions),
        cmocka_unit_test(thread_count_out_of_range),
        cmocka_unit_test(describes_itself),
        cmocka_unit_test(memory_is_zeroed_and_copied),
        cmocka_unit_test(impossible_reserve_is_an_error),
        cmocka_unit_test(dropout_rate_and_scale),
        cmocka_unit_test(nothing_is_left_of_numbers_that_are_not_finite),
        cmocka_unit_test(every_shape_is_multiplied),
        cmocka_unit_test(few_rows_have_the_bytes_of_many),
        cmocka_unit_test(an_activation_follows_every_product),
        cmocka_unit_test(a_product_of_few_rows_takes_the_memory_of_the_plan),
        cmocka_unit_test(divided_tiles_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
