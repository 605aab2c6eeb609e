// SPDX-License-Identifier: Apache-2.0
// Tests int8 on the CPU: the kernels of all instruction sets against integers computed one by one,
// the operations of device/device.h against a reference in double, whatever the number of threads.
#include "core/harness.h"
#include "core/int8.h"
#include "core/memory.h"
#include "device/cpu/int8.h"
#include "model/int8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TABLES = 8, WIDE = DEVICE_INT8_WIDE };

static uint32_t random_state = 1;

static float random_number(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(int32_t)random_state / 2147483648.0f;
}

static float *numbers(int64_t count, float size) {
    float *x = memory_array((size_t)count, sizeof *x);
    for (int64_t i = 0; i < count; i++) {
        x[i] = size * random_number();
    }
    return x;
}

// --- the kernels --------------------------------------------------------------------------------

struct kernel_case {
    int64_t rows, outputs, columns, wide;
    enum dtype dtype;
};

static const struct kernel_case kernel_cases[] = {
    {1, 1, 1, 0, DTYPE_F32},       {7, 47, 30, 0, DTYPE_F32},       {8, 48, 64, WIDE, DTYPE_F32},
    {9, 49, 129, WIDE, DTYPE_F32}, {19, 65, 96, 3, DTYPE_BF16},     {64, 112, 3072, 0, DTYPE_BF16},
    {5, 16, 70, 1, DTYPE_BF16},    {13, 33, 768, WIDE, DTYPE_BF16},
};

// The first column is one of them. In one group and in several.
static const int32_t near_columns[WIDE] = {0, 1, 7, 9, 20, 33, 62, 63};
static const int32_t far_columns[WIDE] = {0, 63, 64, 65, 66, 300, 704, 767};

static const int32_t *wide_columns(int64_t columns) {
    return columns < 768 ? near_columns : far_columns;
}

struct arrays {
    struct int8_rows rows;
    struct int8_layout layout;
    int32_t *ends, *columns; // the column at each place of the depth, -1: none
    signed char *panels;
    float *scales, *sums, *bias, *x, *c;
    uint16_t *half;
};

static int is_wide(const struct int8_layout *layout, int64_t column) {
    int found = 0;
    for (int64_t i = 0; i < layout->wide_count; i++) {
        found |= layout->wide[i] == column;
    }
    return found;
}

// Writes the columns of a group from `position` on and returns its end.
static int64_t lay_out_group(struct arrays *a, int64_t group, int64_t position) {
    const int64_t count = a->layout.columns / a->layout.groups;
    for (int64_t c = group * count; c < (group + 1) * count; c++) {
        a->columns[position++] = (int32_t)c;
    }
    for (int64_t c = group * count; c < (group + 1) * count; c++) {
        for (int copy = 1; copy < 4 && is_wide(&a->layout, c); copy++) {
            a->columns[position++] = (int32_t)c;
        }
    }
    for (; position % 4 != 0; position++) {
        a->columns[position] = -1;
    }
    return position;
}

static void lay_out(struct arrays *a, const struct kernel_case *k) {
    int64_t position = 0;
    a->layout = (struct int8_layout){.columns = k->columns,
                                     .groups = k->columns % 64 == 0 ? k->columns / 64 : 1,
                                     .wide = wide_columns(k->columns),
                                     .wide_count = k->wide};
    a->ends = memory_array((size_t)a->layout.groups, sizeof *a->ends);
    a->columns = memory_array((size_t)a->rows.depth, sizeof *a->columns);
    for (int64_t g = 0; g < a->layout.groups; g++) {
        position = lay_out_group(a, g, position);
        a->ends[g] = (int32_t)position;
    }
    assert_true(position <= a->rows.depth);
    a->layout.ends = a->ends;
}

static struct arrays arrays_of(const struct kernel_case *k) {
    const int64_t depth = int8_depth(k->columns, k->wide), outputs = cpu_round_up(k->outputs, 16);
    struct arrays a = {.rows = {.count = k->rows, .depth = depth}};
    lay_out(&a, k);
    a.rows.values = memory_array((size_t)(cpu_round_up(k->rows, INT8_ROWS_UNIT) * depth), 1);
    a.rows.scales = memory_array((size_t)k->rows, sizeof(float));
    a.rows.zeros = memory_array((size_t)k->rows, sizeof(int32_t));
    a.rows.buffer = memory_array((size_t)k->columns, sizeof(float));
    a.panels = memory_array((size_t)(outputs * depth), 1);
    a.sums = numbers(outputs, 1);
    a.scales = numbers(outputs * a.layout.groups, 0.01f);
    a.bias = numbers(outputs, 1);
    a.x = numbers(k->rows * k->columns, 3);
    a.half = memory_array((size_t)(k->rows * k->columns), sizeof *a.half);
    a.c = memory_array_zeroed((size_t)(k->rows * k->outputs), sizeof *a.c);
    for (int64_t i = 0; i < outputs * depth; i++) {
        a.panels[i] = (signed char)(127 * random_number());
    }
    for (int64_t i = 0; i < k->rows * k->columns; i++) {
        uint32_t bits;
        a.x[i] *= k->wide > 0 && i % k->columns == 0 ? 5.0f : 1.0f;
        memcpy(&bits, &a.x[i], sizeof bits);
        a.half[i] = (uint16_t)(bits >> 16);
        bits &= k->dtype == DTYPE_BF16 ? 0xFFFF0000u : ~0u;
        memcpy(&a.x[i], &bits, sizeof bits);
    }
    return a;
}

static void arrays_done(struct arrays *a) {
    void *blocks[] = {a->rows.values, a->rows.scales, a->rows.zeros, a->rows.buffer, a->ends,
                      a->columns,     a->panels,      a->sums,       a->scales,      a->bias,
                      a->x,           a->half,        a->c};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        memory_free(blocks[i]);
    }
}

static void run_kernels(const struct int8_kernels *table, const struct kernel_case *k,
                        struct arrays *a) {
    void *data = k->dtype == DTYPE_F32 ? (void *)a->x : (void *)a->half;
    const struct int8_product product = {.c = mat_of(a->c, k->rows, k->outputs, DTYPE_F32),
                                         .a = &a->rows,
                                         .layout = &a->layout,
                                         .panels = a->panels,
                                         .scales = a->scales,
                                         .sums = a->sums,
                                         .bias = a->bias};
    memset(a->rows.values, 0xEE, (size_t)(k->rows * a->rows.depth));
    table->quantize(&a->rows, mat_of(data, k->rows, k->columns, k->dtype), &a->layout);
    table->product(&product);
}

// The weight of an output at a place of the depth.
static int weight_of(const struct kernel_case *k, const struct arrays *a, int64_t output,
                     int64_t position) {
    const int64_t panel = output / INT8_PANEL * INT8_PANEL, left = k->outputs - panel;
    const int64_t width = left < INT8_PANEL ? cpu_round_up(left, 16) : INT8_PANEL;
    return a->panels[panel * a->rows.depth + (position / 4 * width + output - panel) * 4 +
                     position % 4];
}

// What a quantized row says its columns are.
static double value_of(const struct arrays *a, int64_t row, int64_t column) {
    const unsigned char *u = a->rows.values + row * a->rows.depth;
    int64_t value = 0;
    for (int64_t p = 0; p < a->ends[a->layout.groups - 1]; p++) {
        value += a->columns[p] == column ? u[p] - a->rows.zeros[row] : 0;
    }
    return (double)value * a->rows.scales[row];
}

// Whether a byte of the column is the least or the largest.
static int is_at_an_end(const struct arrays *a, int64_t row, int64_t column) {
    const unsigned char *u = a->rows.values + row * a->rows.depth;
    int found = 0;
    for (int64_t p = 0; p < a->ends[a->layout.groups - 1]; p++) {
        found |= a->columns[p] == column && (u[p] == 0 || u[p] == 255);
    }
    return found;
}

static void check_rows(const struct kernel_case *k, const struct arrays *a) {
    for (int64_t r = 0; r < k->rows; r++) {
        const double half = 0.5 * a->rows.scales[r];
        for (int64_t c = 0; c < k->columns; c++) {
            const double off = value_of(a, r, c) - a->x[r * k->columns + c];
            // The zero point is rounded, too, which may cut half a step off each byte at an end.
            const double most = is_wide(&a->layout, c) ? 4 * 2.01 : 2.01;
            assert_true(fabs(off) <= half * (is_at_an_end(a, r, c) ? most : 1.01));
        }
    }
}

// A product without the row's scale and the bias.
static float sum_of(const struct kernel_case *k, const struct arrays *a, int64_t row,
                    int64_t output) {
    const unsigned char *u = a->rows.values + row * a->rows.depth;
    const int64_t panel = output / INT8_PANEL * INT8_PANEL, left = k->outputs - panel;
    const int64_t width = left < INT8_PANEL ? cpu_round_up(left, 16) : INT8_PANEL;
    float all = -((float)a->rows.zeros[row] * a->sums[output]);
    for (int64_t g = 0, p = 0; g < a->layout.groups; g++) {
        const float scale = a->scales[panel * a->layout.groups + g * width + output - panel];
        int64_t sum = 0;
        for (; p < a->ends[g]; p++) {
            sum += u[p] * weight_of(k, a, output, p);
        }
        all += (float)sum * scale;
    }
    return all;
}

static void check_products(const struct kernel_case *k, const struct arrays *a) {
    for (int64_t r = 0; r < k->rows; r++) {
        for (int64_t n = 0; n < k->outputs; n++) {
            const float product = sum_of(k, a, r, n) * a->rows.scales[r];
            assert_true(a->c[r * k->outputs + n] == product + a->bias[n]);
        }
    }
}

// Every instruction set gives the same bytes.
static void same_integers(void **state) {
    const struct int8_kernels *tables[TABLES];
    const size_t count = int8_kernels_all(tables, TABLES);
    assert_true(count >= 1);
    for (size_t i = 0; i < sizeof kernel_cases / sizeof *kernel_cases; i++) {
        const struct kernel_case *k = &kernel_cases[i];
        struct arrays first = arrays_of(k);
        const uint32_t before = random_state;
        run_kernels(tables[count - 1], k, &first);
        check_rows(k, &first);
        check_products(k, &first);
        for (size_t t = 0; t + 1 < count; t++) {
            const size_t results = (size_t)(k->rows * k->outputs) * sizeof(float);
            float *c = memcpy(memory_new(results), first.c, results);
            memset(first.c, 0, results);
            run_kernels(tables[t], k, &first);
            if (memcmp(c, first.c, results) != 0) {
                fail_msg("%s differs from %s in case %zu", tables[t]->name, tables[count - 1]->name,
                         i);
            }
            check_rows(k, &first);
            memory_free(c);
        }
        assert_int_equal(random_state, before);
        arrays_done(&first);
    }
}

// A sum of the largest products, which would saturate in 16 bits.
static void no_saturation(void **state) {
    const struct kernel_case k = {8, 48, 256, 0, DTYPE_F32};
    const struct int8_kernels *tables[TABLES];
    const size_t count = int8_kernels_all(tables, TABLES);
    struct arrays a = arrays_of(&k);
    for (int64_t i = 0; i < k.rows * k.columns; i++) {
        a.x[i] = 1;
    }
    memset(a.panels, 127, 48 * 256);
    for (size_t t = 0; t < count; t++) {
        run_kernels(tables[t], &k, &a);
        assert_int_equal(a.rows.values[0], 255);
        check_products(&k, &a);
    }
    arrays_done(&a);
}

static void special_rows(void **state) {
    const struct kernel_case k = {4, 16, 64, 0, DTYPE_F32};
    const struct int8_kernels *tables[TABLES];
    const size_t count = int8_kernels_all(tables, TABLES);
    struct arrays a = arrays_of(&k);
    for (int64_t i = 0; i < 64; i++) {
        a.x[i] = 0;
        a.x[64 + i] = 1e-38f;
    }
    a.x[128 + 63] = NAN;
    a.x[192 + 1] = -INFINITY;
    for (size_t t = 0; t < count; t++) {
        run_kernels(tables[t], &k, &a);
        for (int64_t n = 0; n < 16; n++) {
            assert_true(a.c[n] == a.bias[n] && fabsf(a.c[16 + n] - a.bias[n]) < 1e-30f);
            assert_true(isnan(a.c[32 + n]) && isnan(a.c[48 + n]));
        }
    }
    arrays_done(&a);
}

// --- weights ------------------------------------------------------------------------------------

enum { LONGEST_ROW = 320, MOST_GROUPS = 5 };

static void check_weights(const float *row, int64_t columns, int64_t groups) {
    signed char q[LONGEST_ROW], again[LONGEST_ROW];
    float values[LONGEST_ROW], scales[MOST_GROUPS], scales_again[MOST_GROUPS];
    int8_quantize(row, columns, q, scales);
    for (int64_t i = 0; i < columns; i++) {
        const float scale = scales[i * groups / columns];
        values[i] = scale * (float)q[i];
        assert_true(fabs((double)values[i] - row[i]) <= 0.501 * scale);
    }
    int8_quantize(values, columns, again, scales_again);
    assert_memory_equal(q, again, columns);
    assert_memory_equal(scales, scales_again, (size_t)groups * sizeof *scales);
}

static void weights_keep_their_numbers(void **state) {
    for (int n = 0; n < 2000; n++) {
        float *row = numbers(LONGEST_ROW, expf(40 * random_number()));
        for (int i = 0; i < LONGEST_ROW; i++) {
            row[i] *= 1 << i / 64; // the scales of 64 columns differ
        }
        check_weights(row, LONGEST_ROW, 5);
        check_weights(row, 301, 1);
        memory_free(row);
    }
    float numbers_of_two[128] = {0}, scales[2];
    signed char q[128] = {1};
    numbers_of_two[70] = NAN;
    int8_quantize(numbers_of_two, 128, q, scales);
    assert_true(scales[0] == 0 && q[0] == 0 && isnan(scales[1]));
    int8_quantize(numbers_of_two, 71, q, scales);
    assert_true(isnan(scales[0]));
}

// --- the operation ------------------------------------------------------------------------------

struct linear_case {
    int64_t rows, outputs, columns, wide;
    enum dtype x, y;
    enum activation activation;
    int has_bias;
};

static const struct linear_case linear_cases[] = {
    {64, 96, 64, 0, DTYPE_F32, DTYPE_F32, ACTIVATION_LINEAR, 1},
    {64, 100, 50, 0, DTYPE_F32, DTYPE_F32, ACTIVATION_LINEAR, 0},
    {448, 250, 130, WIDE, DTYPE_BF16, DTYPE_F32, ACTIVATION_LINEAR, 1},
    {448, 300, 130, WIDE, DTYPE_BF16, DTYPE_BF16, ACTIVATION_GELU_ERF, 1},
    {1024, 60, 300, 0, DTYPE_F32, DTYPE_F32, ACTIVATION_RELU, 1},
    {70, 100, 768, WIDE, DTYPE_F32, DTYPE_F32, ACTIVATION_LINEAR, 1},
    {64, 49, 128, 3, DTYPE_F32, DTYPE_F32, ACTIVATION_LINEAR, 0},
};

static double activated(double x, enum activation activation) {
    return activation == ACTIVATION_GELU_ERF ? x * 0.5 * erfc(-x / sqrt(2))
           : activation == ACTIVATION_RELU   ? fmax(x, 0)
                                             : x;
}

static float number_at(const void *data, enum dtype dtype, int64_t i) {
    float x;
    const uint32_t bits = dtype == DTYPE_F32 ? 0 : (uint32_t)((const uint16_t *)data)[i] << 16;
    memcpy(&x, dtype == DTYPE_F32 ? (const char *)data + 4 * i : (const char *)&bits, sizeof x);
    return x;
}

struct linear_run {
    const struct linear_case *c;
    struct arrays a; // x, half, bias, and weights in c
    float *w;
    void *y;
};

// Packs rows that are quantized already, as those of a file in int8.
static void pack_integers(struct device *dev, const struct int8_matrix *m, int64_t first,
                          struct mat w) {
    const int64_t groups = int8_groups(w.cols);
    signed char *q = memory_new((size_t)(w.rows * w.cols));
    float *scales = memory_array((size_t)(w.rows * groups), sizeof *scales);
    for (int64_t row = 0; row < w.rows; row++) {
        int8_quantize((const float *)w.data + row * w.stride, w.cols, q + row * w.cols,
                      scales + row * groups);
    }
    dev->int8_pack(dev, m, first, mat_of(q, w.rows, w.cols, DTYPE_I8), scales);
    memory_free(q);
    memory_free(scales);
}

// 0: this processor lacks the instructions.
static int run_linear(struct linear_run *run, const char *instructions, int threads) {
    const struct device_options options = {.threads = threads, .instructions = instructions};
    const struct linear_case *c = run->c;
    struct device *dev = NULL;
    const enum berth_status status = device_cpu_open(&options, &dev, NULL);
    if (status == BERTH_UNAVAILABLE) {
        print_message("not tested: this processor does not run %s\n", instructions);
        return 0;
    }
    assert_int_equal(status, BERTH_OK);
    struct int8_matrix m = {NULL, c->outputs, c->columns, c->wide};
    const size_t bytes = dev->int8_bytes(dev, &m);
    m.data = dev->memory_new(dev, bytes);
    const int64_t half = c->outputs / 3; // as query, key and value of a layer are written
    dev->int8_pack(dev, &m, 0, mat_of(run->w, half, c->columns, DTYPE_F32), NULL);
    pack_integers(dev, &m, half,
                  mat_of(run->w + half * c->columns, c->outputs - half, c->columns, DTYPE_F32));
    dev->int8_finish(dev, &m, c->wide > 0 ? wide_columns(c->columns) : NULL);
    const struct mat x = mat_of(c->x == DTYPE_F32 ? (void *)run->a.x : (void *)run->a.half, c->rows,
                                c->columns, c->x);
    dev->linear_int8_forward(dev, mat_of(run->y, c->rows, c->outputs, c->y), x, &m,
                             c->has_bias ? run->a.bias : NULL, c->activation);
    assert_int_equal(dev->status(dev, NULL), BERTH_OK);
    dev->memory_free(dev, m.data, bytes);
    dev->close(dev);
    return 1;
}

// The root of the mean square of the difference from the product in double, of the root of its mean
// square.
static double error_of(const struct linear_run *run) {
    const struct linear_case *c = run->c;
    double difference = 0, size = 0;
    for (int64_t r = 0; r < c->rows; r++) {
        for (int64_t n = 0; n < c->outputs; n++) {
            double sum = c->has_bias ? run->a.bias[n] : 0;
            for (int64_t k = 0; k < c->columns; k++) {
                sum += (double)run->a.x[r * c->columns + k] * run->w[n * c->columns + k];
            }
            sum = activated(sum, c->activation);
            const double off = number_at(run->y, c->y, r * c->outputs + n) - sum;
            difference += off * off;
            size += sum * sum;
        }
    }
    return sqrt(difference / size);
}

// All threads and instruction sets: the same bytes, close to the product in double. The activation
// is that of the kernels in f32, which the generic ones compute without fused multiply-adds.
static void linear_forward(void **state) {
    static const char *const sets[] = {"auto", "avx512", "avx2", "fma", "generic"};
    for (size_t i = 0; i < sizeof linear_cases / sizeof *linear_cases; i++) {
        const struct linear_case *c = &linear_cases[i];
        const struct kernel_case k = {c->rows, c->outputs, c->columns, c->wide, c->x};
        struct linear_run run = {.c = c, .a = arrays_of(&k)};
        const size_t bytes = (size_t)(c->rows * c->outputs) * dtype_size(c->y);
        run.w = numbers(c->outputs * c->columns, 0.5f);
        run.y = memory_new(bytes);
        void *first = memory_new(bytes);
        for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
            for (int threads = 1; threads <= 4; threads += threads) {
                const int is_unfused =
                    c->activation != ACTIVATION_LINEAR && strcmp(sets[s], "generic") == 0;
                const int is_first = threads == 1 && (s == 0 || is_unfused);
                memset(run.y, 0xEE, bytes);
                if (!run_linear(&run, sets[s], threads)) {
                    break;
                }
                if (is_first) {
                    memcpy(first, run.y, bytes);
                    const double error = error_of(&run);
                    if (!(error < 0.011)) {
                        fail_msg("case %zu with %s: error %g", i, sets[s], error);
                    }
                } else if (memcmp(first, run.y, bytes) != 0) {
                    fail_msg("case %zu with %s, %d threads: other bytes", i, sets[s], threads);
                }
            }
        }
        memory_free(first);
        memory_free(run.y);
        memory_free(run.w);
        arrays_done(&run.a);
    }
}

// Wide columns keep the precision of the others.
static void wide_columns_help(void **state) {
    double errors[2];
    for (int64_t wide = 0; wide <= WIDE; wide += WIDE) {
        const struct linear_case c = {64, 96, 128, wide, DTYPE_F32, DTYPE_F32, ACTIVATION_LINEAR,
                                      0};
        const struct kernel_case k = {c.rows, c.outputs, c.columns, 1, c.x};
        random_state = 7;
        struct linear_run run = {.c = &c, .a = arrays_of(&k)};
        run.w = numbers(c.outputs * c.columns, 0.5f);
        for (int64_t n = 0; n < c.outputs; n++) { // so that the other columns count
            run.w[n * c.columns] = 0;
        }
        for (int64_t r = 0; r < c.rows; r++) {
            run.a.x[r * c.columns] *= 4;
        }
        run.y = memory_new((size_t)(c.rows * c.outputs) * sizeof(float));
        assert_true(run_linear(&run, "auto", 1));
        errors[wide > 0] = error_of(&run);
        memory_free(run.y);
        memory_free(run.w);
        arrays_done(&run.a);
    }
    assert_true(errors[1] < 0.6 * errors[0]);
}

// --- which columns are wide ---------------------------------------------------------------------

enum { WIDENED = 4 };
static int32_t widened[WIDENED][WIDE];
static int widened_count;

static void record_columns(struct device *dev, const struct int8_matrix *to,
                           const int32_t *columns) {
    assert_int_equal(to->wide, columns == NULL ? 0 : WIDE);
    if (columns == NULL) {
        return;
    }
    assert_true(widened_count < WIDENED);
    memcpy(widened[widened_count++], columns, sizeof widened[0]);
}

static void fill(float *gamma, int64_t count, int first, float size) {
    for (int64_t c = 0; c < count; c++) {
        gamma[c] = c >= first && c < first + WIDE ? size : 1;
    }
}

// Of each layer first query, key and value, then the intermediate layer.
static void wide_columns_follow_the_norms(void **state) {
    static const int firsts[WIDENED] = {10, 20, 20, 41};
    const struct bert_config shape = {.vocab_size = 50,
                                      .hidden_size = 64,
                                      .num_hidden_layers = 2,
                                      .num_attention_heads = 2,
                                      .intermediate_size = 128,
                                      .max_position_embeddings = 16,
                                      .type_vocab_size = 2};
    const struct device_options options = {.threads = 1};
    struct device *dev;
    struct param_table table;
    struct int8_weights weights;
    assert_int_equal(device_cpu_open(&options, &dev, NULL), BERTH_OK);
    assert_int_equal(param_table_init(&table, &shape, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    assert_int_equal(int8_weights_init(&weights, dev, &table, NULL), BERTH_OK);
    memset(weights.block, 0, weights.bytes);
    float *master = numbers(table.total, 1);
    fill(master + table.embedding_norm_weight, 64, firsts[0], 50);
    fill(master + table.layers[0].attention_norm_weight, 64, firsts[1], -5);
    fill(master + table.layers[1].attention_norm_weight, 64, firsts[3], 5);
    dev->int8_finish = record_columns;
    assert_int_equal(int8_weights_finish(&weights, master, NULL), BERTH_OK);
    assert_int_equal(widened_count, WIDENED);
    for (int i = 0; i < WIDENED; i++) {
        for (int c = 0; c < WIDE; c++) {
            assert_int_equal(widened[i][c], firsts[i] + c);
        }
    }
    memory_free(master);
    int8_weights_done(&weights);
    param_table_done(&table);
    dev->close(dev);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_integers),
        cmocka_unit_test(no_saturation),
        cmocka_unit_test(special_rows),
        cmocka_unit_test(weights_keep_their_numbers),
        cmocka_unit_test(linear_forward),
        cmocka_unit_test(wide_columns_help),
        cmocka_unit_test(wide_columns_follow_the_norms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
