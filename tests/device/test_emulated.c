// SPDX-License-Identifier: Apache-2.0
// The GPU's kernels, run by the emulation or, with BERTH_TEST_DEVICE=cuda, by a GPU: every
// operation is compared with loops in double, its gradients with finite differences. Some tests run
// this with other orders of threads.
#include "core/harness.h"
#include "nan_hits.h"
#include "op_walk.h"
#include "test_device.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Rows of one, two, four and more chunks of a warp's columns, with and without vectors; head sizes
// up to the largest.
static const struct case_shape wide_shapes[] = {
    {"two chunks", {2, 9}, 384, 12, 72, 1032, NULL},
    {"four chunks", {5}, 768, 6, 72, 1032, NULL},
    {"a block a row", {3, 1}, 1104, 12, 72, 1032, NULL},
    {"a block a row, no vectors", {3, 1}, 301, 7, 67, 1032, NULL},
};

// Several tiles of each head size that tensor cores take.
static const struct case_shape attention_shapes[] = {
    {"heads of 32", {70, 1}, 64, 2, 64, 50, "attention"},
    {"heads of 64", {197, 64, 7}, 128, 2, 64, 50, "attention"},
    {"heads of 128", {67, 33}, 256, 2, 64, 50, "attention"},
};
// Rows that begin at vectors but do not end at one.
static const struct case_shape odd_shapes[] = {
    {"odd ends of one side", {70, 3}, 88, 1, 83, 50, "linear_"},
    {"odd ends of all sides", {70, 3}, 67, 1, 75, 50, "linear_"},
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *device_kind(void) {
    const char *kind = getenv("BERTH_TEST_DEVICE");
    return kind != NULL ? kind : "emulated";
}

static int is_emulated(void) {
    return strcmp(device_kind(), "emulated") == 0;
}

static struct device *open_with(int tf32) {
    const struct device_options options = {.threads = 2, .tf32 = tf32};
    const struct device_shape most = {
        .batch = {.tokens = 576, .sequences = 4, .masked = 128, .max_length = 260},
        .hidden = 1104,
        .intermediate = 256,
        .heads = 1,
        .vocabulary = 1035,
        .decoder_rows = 128,
        .compute = DTYPE_F32,
        .training = 1};
    struct device *dev = NULL;
    struct berth_error error;
    if (device_gpu_open(device_kind(), &options, &dev, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(dev->reserve(dev, &most, &error), BERTH_OK);
    return dev;
}

static struct device *open_emulated(void) {
    return open_with(0);
}

static void check_shapes(const struct case_shape *first, size_t count) {
    struct device *dev = open_emulated();
    int failures = 0;
    for (size_t s = 0; s < count; s++) {
        failures += op_walk_failures(dev, &first[s]);
    }
    dev->close(dev);
    assert_int_equal(failures, 0);
}

static void operations(void **state) {
    check_shapes(shapes, SHAPES);
}

static void operations_on_wide_rows(void **state) {
    check_shapes(wide_shapes, COUNT(wide_shapes));
}

static void products_with_odd_ends(void **state) {
    check_shapes(odd_shapes, COUNT(odd_shapes));
}

static void nan_is_no_hit(void **state) {
    struct device *dev = open_emulated();
    nan_hits_check(dev);
    dev->close(dev);
}

static void attention(void **state) {
    check_shapes(attention_shapes, COUNT(attention_shapes));
}

static void operations_have_their_gradients(void **state) {
    struct device *dev = open_emulated();
    assert_int_equal(op_walk_gradients(dev, 0), 0);
    dev->close(dev);
}

enum { WIDE_ROWS = 64, WIDE_HIDDEN = 8, WIDE_OUTPUTS = 200, WIDE_TYPES = 40 };

// The gradients of a table of types, or of a head that is wider than the encoder.
static void wide_gradients(struct device *dev, int of_head) {
    enum { ROWS = WIDE_ROWS, HIDDEN = WIDE_HIDDEN, OUTPUTS = WIDE_OUTPUTS, TYPES = WIDE_TYPES };
    enum { TOKENS = 4, NUMBERS = 1 << 15 };
    static const int32_t arrays[TOKENS + 2] = {0, 1, 2, 3, 0, TOKENS};
    float *numbers = dev->memory_new(dev, NUMBERS * sizeof *numbers);
    float *sums = numbers + ROWS * OUTPUTS;
    int32_t *ids = dev->memory_new(dev, sizeof arrays);
    dev->upload(dev, ids, arrays, sizeof arrays);
    const struct mat rows = mat_of(numbers, ROWS, HIDDEN, DTYPE_F32);
    const struct mat types = mat_of(sums, TYPES, HIDDEN, DTYPE_F32);
    const struct embed_grad_args args = {.dy = rows,
                                         .xhat = rows,
                                         .rstd = numbers,
                                         .gamma = numbers,
                                         .dword = types,
                                         .dposition = types,
                                         .dtype_table = types,
                                         .dgamma = sums,
                                         .dbeta = sums,
                                         .scratch = rows};
    const struct batch batch = {.token_count = TOKENS,
                                .row_count = ROWS,
                                .sequence_count = 1,
                                .max_length = TOKENS,
                                .ids = ids,
                                .type_ids = ids,
                                .positions = ids,
                                .word_rows = ids,
                                .cu_seqlens = ids + TOKENS};
    if (of_head) {
        dev->linear_backward_weight(dev, mat_of(sums, OUTPUTS, HIDDEN, DTYPE_F32), numbers,
                                    mat_of(numbers, ROWS, OUTPUTS, DTYPE_F32), rows);
    } else {
        dev->embed_backward(dev, &args, &batch);
    }
    dev->memory_free(dev, ids, sizeof arrays);
    dev->memory_free(dev, numbers, NUMBERS * sizeof *numbers);
}

// They need no more scratch memory than `reserve` has allocated.
static void scratch_is_reserved(void **state) {
    for (int of_head = 0; of_head < 2; of_head++) {
        const struct device_options options = {.threads = 1};
        const struct device_shape shape = {.batch = {.tokens = WIDE_ROWS, .sequences = 1},
                                           .hidden = WIDE_HIDDEN,
                                           .intermediate = WIDE_HIDDEN,
                                           .heads = 1,
                                           .types = of_head ? 2 : WIDE_TYPES,
                                           .outputs = of_head ? WIDE_OUTPUTS : 2,
                                           .training = 1};
        const char *limit;
        struct berth_error error;
        struct device *dev = open_emulated();
        wide_gradients(dev, of_head); // a GPU loads the kernels
        assert_int_equal(dev->status(dev, &error), BERTH_OK);
        dev->close(dev);
        assert_int_equal(device_gpu_open(device_kind(), &options, &dev, &error), BERTH_OK);
        assert_int_equal(dev->reserve(dev, &shape, &error), BERTH_OK);
        const uint64_t left = dev->memory_available(dev, &limit);
        wide_gradients(dev, of_head);
        assert_int_equal(dev->status(dev, &error), BERTH_OK);
        assert_int_equal(dev->memory_available(dev, &limit), left);
        dev->close(dev);
    }
}

// The rows of a word add up wherever its run in word_rows begins and ends: within the entries of
// one block, on both of their ends, and over several of them, as far as the last entry. Whole
// numbers are exact in any order; rows whose sum is 0 are their own gradient where xhat is 0.
static void gradients_of_words(void **state) {
    static const int runs[] = {1, 31, 32, 64, 2, 1, 100, 1, 28, 40};
    enum { TOKENS = 300, ROWS = 320, HIDDEN = 8, WORDS = COUNT(runs) };
    float rows[ROWS][HIDDEN] = {{0}}, ones[ROWS], words[WORDS][HIDDEN], found[WORDS][HIDDEN];
    int32_t ids[ROWS] = {0}, word_rows[TOKENS], zeros[ROWS] = {0}, first_rows[2] = {0, TOKENS};
    struct device *dev = open_emulated();
    struct berth_error error;
    for (int word = 0, index = 0; word < WORDS; word++) {
        for (int i = 0; i < HIDDEN; i++) {
            words[word][i] = (float)(100 * word + i);
        }
        for (int k = 0; k < runs[word]; k++, index++) {
            const int row = index * 7 % TOKENS;
            word_rows[index] = row;
            ids[row] = word;
            for (int i = 0; i < HIDDEN; i++) {
                rows[row][i] = (float)((i % 2 ? -1 : 1) * (row % 50 + 1));
                words[word][i] += rows[row][i];
            }
        }
    }
    for (int i = 0; i < ROWS; i++) {
        ones[i] = 1;
    }
    for (int word = 0; word < WORDS; word++) {
        for (int i = 0; i < HIDDEN; i++) {
            found[word][i] = (float)(100 * word + i);
        }
    }
    float *dy = dev->memory_new(dev, sizeof rows), *xhat = dev->memory_new(dev, sizeof rows);
    float *one = dev->memory_new(dev, sizeof ones), *table = dev->memory_new(dev, sizeof found);
    float *others = dev->memory_new(dev, ROWS * sizeof *rows);
    int32_t *arrays = dev->memory_new(dev, 4 * sizeof ids);
    dev->upload(dev, dy, rows, sizeof rows);
    dev->upload(dev, one, ones, sizeof ones);
    dev->upload(dev, table, found, sizeof found);
    dev->upload(dev, arrays, ids, sizeof ids);
    dev->upload(dev, arrays + ROWS, word_rows, sizeof word_rows);
    dev->upload(dev, arrays + 2 * ROWS, zeros, sizeof zeros);
    dev->upload(dev, arrays + 3 * ROWS, first_rows, sizeof first_rows);
    const struct mat gradient = mat_of(dy, ROWS, HIDDEN, DTYPE_F32);
    const struct embed_grad_args args = {.dy = gradient,
                                         .xhat = mat_of(xhat, ROWS, HIDDEN, DTYPE_F32),
                                         .rstd = one,
                                         .gamma = one,
                                         .dword = mat_of(table, WORDS, HIDDEN, DTYPE_F32),
                                         .dposition = mat_of(others, TOKENS, HIDDEN, DTYPE_F32),
                                         .dtype_table = mat_of(others, 1, HIDDEN, DTYPE_F32),
                                         .dgamma = others,
                                         .dbeta = others,
                                         .scratch = gradient};
    const struct batch batch = {.token_count = TOKENS,
                                .row_count = ROWS,
                                .sequence_count = 1,
                                .max_length = TOKENS,
                                .ids = arrays,
                                .word_rows = arrays + ROWS,
                                .type_ids = arrays + 2 * ROWS,
                                .positions = arrays + 2 * ROWS,
                                .cu_seqlens = arrays + 3 * ROWS};
    dev->embed_backward(dev, &args, &batch);
    dev->download(dev, found, table, sizeof found);
    assert_int_equal(dev->status(dev, &error), BERTH_OK);
    assert_memory_equal(found, words, sizeof found);
    dev->memory_free(dev, dy, sizeof rows);
    dev->memory_free(dev, xhat, sizeof rows);
    dev->memory_free(dev, one, sizeof ones);
    dev->memory_free(dev, table, sizeof found);
    dev->memory_free(dev, others, ROWS * sizeof *rows);
    dev->memory_free(dev, arrays, 4 * sizeof ids);
    dev->close(dev);
}

// An allocation of no bytes is a block, too.
static void memory_of_no_bytes(void **state) {
    struct device *dev = open_emulated();
    struct berth_error error;
    void *none = dev->memory_new(dev, 0);
    assert_non_null(none);
    dev->upload(dev, none, NULL, 0);
    dev->zero(dev, none, 0);
    assert_int_equal(dev->status(dev, &error), BERTH_OK);
    dev->memory_free(dev, none, 0);
    dev->close(dev);
}

// NULL: the device has added 0 and 1.
static void *add_one(void *context) {
    struct device *dev = context;
    const float one = 1;
    float found = 0, *sum = dev->memory_new(dev, sizeof one),
          *term = dev->memory_new(dev, sizeof one);
    dev->upload(dev, term, &one, sizeof one);
    dev->add(dev, sum, term, 1);
    dev->download(dev, &found, sum, sizeof found);
    dev->memory_free(dev, sum, sizeof one);
    dev->memory_free(dev, term, sizeof one);
    return found == 1 ? NULL : dev;
}

// A thread of the host that uses two GPUs, and threads that have opened none: each call finds the
// device's GPU. On a machine with one GPU, it is opened twice.
static void gpus_and_threads(void **state) {
    struct device *devices[2];
    struct berth_error error;
    int gpus;
    char text[160];
    assert_int_equal(setenv("BERTH_EMULATION_GPUS", "2", 1), 0);
    assert_int_equal(device_gpu_describe(device_kind(), 0, &gpus, text, &error), BERTH_OK);
    for (int i = 0; i < 2; i++) {
        const struct device_options options = {.threads = 1, .index = i % gpus};
        assert_int_equal(device_gpu_open(device_kind(), &options, &devices[i], &error), BERTH_OK);
    }
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        void *failed = add_one(devices[i]);
        assert_null(failed);
        assert_int_equal(devices[i]->status(devices[i], &error), BERTH_OK);
        assert_int_equal(pthread_create(&thread, NULL, add_one, devices[i]), 0);
        assert_int_equal(pthread_join(thread, &failed), 0);
        assert_null(failed);
        assert_int_equal(devices[i]->status(devices[i], &error), BERTH_OK);
    }
    devices[0]->close(devices[0]);
    devices[1]->close(devices[1]);
    assert_int_equal(unsetenv("BERTH_EMULATION_GPUS"), 0);
}

// y = x w^T + b of matrices of one number each, where tf32 rounds it: 1 + 2^-12 becomes 1, whether
// a GPU rounds or drops bits. dx = y w and dw += y^T x alike. Small matrices have no TF32 kernels.
static void products_in_tf32(void **state) {
    enum { SIDE = 128, SIZE = SIDE * SIDE };
    static const float fine = 1.0f + 0x1p-12f, kept = 1.0f + 0x1p-10f;
    for (int tf32 = 0; tf32 < 2; tf32++) {
        struct device *dev = open_with(tf32);
        float numbers[5 * SIZE + SIDE];
        const float starts[] = {fine, kept, 0.5f, 0, 0, fine}; // of x, w, dw, y, dx, b
        for (int i = 0; i < 5 * SIZE + SIDE; i++) {
            numbers[i] = starts[i / SIZE];
        }
        float *data = dev->memory_new(dev, sizeof numbers);
        const struct mat x = mat_of(data, SIDE, SIDE, DTYPE_F32);
        const struct mat w = mat_of(data + SIZE, SIDE, SIDE, DTYPE_F32);
        const struct mat dw = mat_of(data + 2 * SIZE, SIDE, SIDE, DTYPE_F32);
        const struct mat y = mat_of(data + 3 * SIZE, SIDE, SIDE, DTYPE_F32);
        const struct mat dx = mat_of(data + 4 * SIZE, SIDE, SIDE, DTYPE_F32);
        dev->upload(dev, data, numbers, sizeof numbers);
        dev->linear_forward(dev, y, x, w, data + 5 * SIZE);
        dev->linear_backward_input(dev, dx, x, w);
        dev->linear_backward_weight(dev, dw, NULL, x, w);
        dev->download(dev, numbers, data, sizeof numbers);
        // Rounding moves the sum by 0.03, the order of its terms by less than 2e-3.
        const float sum = SIDE * (tf32 ? kept : fine * kept);
        for (int i = 0; i < SIZE; i++) {
            assert_float_equal(numbers[3 * SIZE + i], sum + fine, 5e-3);
            assert_float_equal(numbers[4 * SIZE + i], sum, 5e-3);
            assert_float_equal(numbers[2 * SIZE + i], 0.5f + sum, 5e-3);
        }
        assert_int_equal(dev->tf32, tf32);
        dev->memory_free(dev, data, sizeof numbers);
        dev->close(dev);
    }
}

// y = x w^T of one shape, [2, 3] by [2, 3], where one of the three has another stride than before:
// a library's plan of the first product does not fit the others.
static void products_of_one_shape(void **state) {
    static const int64_t strides[][3] = {{2, 3, 3}, {5, 3, 3}, {2, 4, 3}, {2, 3, 5}, {2, 3, 3}};
    enum { ROOM = 16 };
    struct device *dev = open_emulated();
    float *data = dev->memory_new(dev, 3 * ROOM * sizeof *data);
    for (size_t i = 0; i < COUNT(strides); i++) {
        const int64_t *own = strides[i];
        float numbers[3 * ROOM];
        for (int k = 0; k < 3 * ROOM; k++) {
            numbers[k] = (float)(k % 7 - 3);
        }
        const struct mat y = {data, 2, 2, own[0], DTYPE_F32};
        const struct mat x = {data + ROOM, 2, 3, own[1], DTYPE_F32};
        const struct mat w = {data + (ptrdiff_t)2 * ROOM, 2, 3, own[2], DTYPE_F32};
        dev->upload(dev, data, numbers, sizeof numbers);
        dev->linear_forward(dev, y, x, w, NULL);
        float found[ROOM];
        dev->download(dev, found, data, sizeof found);
        for (int64_t row = 0; row < 2; row++) {
            for (int64_t col = 0; col < 2; col++) {
                float sum = 0;
                for (int64_t k = 0; k < 3; k++) {
                    sum += numbers[ROOM + row * own[1] + k] * numbers[2 * ROOM + col * own[2] + k];
                }
                numbers[row * own[0] + col] = sum;
            }
        }
        assert_memory_equal(found, numbers, sizeof found); // and nothing between the rows
    }
    dev->memory_free(dev, data, 3 * ROOM * sizeof *data);
    dev->close(dev);
}

struct product_shape {
    int64_t rows, cols, inner;
};

static uint16_t small_number(int64_t i) { // -4 to 4, exact in bf16
    static const uint16_t numbers[] = {0xC080, 0xC040, 0xC000, 0xBF80, 0,
                                       0x3F80, 0x4000, 0x4040, 0x4080};
    return numbers[(i * 2654435761u >> 7) % 9];
}

static double number_of_bf16(uint16_t bits) {
    const uint32_t word = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

// A product in bf16: every number of the result is written, and some, spread over all rows, are
// right. Returns the number of wrong ones.
static int wrong_numbers(struct device *dev, const struct product_shape *shape) {
    const int64_t counts[] = {shape->rows * shape->inner, shape->cols * shape->inner,
                              shape->rows * shape->cols};
    uint16_t *host[3], *own[3];
    for (int i = 0; i < 3; i++) {
        const size_t bytes = (size_t)counts[i] * sizeof(uint16_t);
        host[i] = malloc(bytes);
        own[i] = dev->memory_new(dev, bytes);
        assert_true(host[i] != NULL && own[i] != NULL);
        for (int64_t k = 0; k < counts[i]; k++) {
            host[i][k] = i < 2 ? small_number(k + i) : 0xFFFF; // not a number
        }
        dev->upload(dev, own[i], host[i], bytes);
    }
    const struct mat x = {own[0], shape->rows, shape->inner, shape->inner, DTYPE_BF16};
    const struct mat w = {own[1], shape->cols, shape->inner, shape->inner, DTYPE_BF16};
    const struct mat y = {own[2], shape->rows, shape->cols, shape->cols, DTYPE_BF16};
    dev->linear_forward(dev, y, x, w, NULL);
    dev->download(dev, host[2], own[2], (size_t)counts[2] * sizeof(uint16_t));
    int wrong = 0;
    for (int64_t k = 0; k < counts[2]; k++) {
        const double found = number_of_bf16(host[2][k]);
        double sum = found;
        if (k % 997 == 0) {
            const int64_t row = k / shape->cols, col = k % shape->cols;
            sum = 0;
            for (int64_t i = 0; i < shape->inner; i++) {
                sum += number_of_bf16(host[0][row * shape->inner + i]) *
                       number_of_bf16(host[1][col * shape->inner + i]);
            }
        }
        wrong += !(found - sum <= fabs(sum) / 128 && sum - found <= fabs(sum) / 128);
    }
    for (int i = 0; i < 3; i++) {
        dev->memory_free(dev, own[i], (size_t)counts[i] * sizeof(uint16_t));
        free(host[i]);
    }
    return wrong;
}

// A library chooses an algorithm for each number of rows: all numbers of a step of training.
static void products_of_many_rows(void **state) {
    static const int64_t widths[][2] = {{1152, 384}, {384, 384}, {1536, 384}, {384, 1536}};
    struct device *dev = open_emulated();
    const int64_t first = is_emulated() ? 40 : 3600, last = is_emulated() ? 48 : 3800;
    int failed = 0;
    for (size_t i = 0; i < COUNT(widths); i++) {
        for (int64_t rows = first; rows <= last; rows += 8) {
            const struct product_shape shape = {rows, widths[i][0], widths[i][1]};
            const int wrong = wrong_numbers(dev, &shape);
            if (wrong != 0) {
                print_message("[%d, %d] x [%d, %d]: %d wrong numbers\n", (int)rows,
                              (int)widths[i][1], (int)widths[i][0], (int)widths[i][1], wrong);
            }
            failed += wrong != 0;
        }
    }
    dev->close(dev);
    assert_int_equal(failed, 0);
}

// A bias that a library's scratch memory cannot hold is refused, not written past its end.
static void a_product_with_a_long_bias(void **state) {
    enum { COLS = (1 << 20) + 1 };
    struct device *dev = open_emulated();
    struct berth_error error = {0};
    uint16_t *halves = dev->memory_new(dev, (2 * COLS + 1) * sizeof *halves);
    float *bias = dev->memory_new(dev, COLS * sizeof *bias);
    const struct mat y = {halves, 1, COLS, COLS, DTYPE_BF16};
    const struct mat w = {halves + COLS, COLS, 1, 1, DTYPE_BF16};
    const struct mat x = {halves + (ptrdiff_t)2 * COLS, 1, 1, 1, DTYPE_BF16};
    dev->zero(dev, halves, (2 * COLS + 1) * sizeof *halves);
    dev->zero(dev, bias, COLS * sizeof *bias);
    dev->linear_forward(dev, y, x, w, bias);
    const enum berth_status status = dev->status(dev, &error);
    if (is_emulated() && getenv("BY_LIBRARY") == NULL) {
        assert_int_equal(status, BERTH_OK);
    } else {
        assert_int_equal(status, BERTH_UNAVAILABLE);
        assert_non_null(strstr(error.message, "a bias of more than"));
    }
    dev->memory_free(dev, bias, COLS * sizeof *bias);
    dev->memory_free(dev, halves, (2 * COLS + 1) * sizeof *halves);
    dev->close(dev);
}

// Sequences of one token, whose context is their value, in inference: twice the same number, then
// more, for which a library may need another plan.
static void attention_of_one_token(void **state) {
    static const int counts[] = {3, 3, 9};
    enum { MOST = 9, ROWS = 16, HIDDEN = 32 };
    struct device *dev = open_emulated();
    struct berth_error error;
    int32_t first_rows[MOST + 1];
    uint16_t numbers[ROWS * 3 * HIDDEN], found[ROWS * HIDDEN];
    for (int i = 0; i <= MOST; i++) {
        first_rows[i] = i;
    }
    for (int i = 0; i < ROWS * 3 * HIDDEN; i++) {
        numbers[i] = (uint16_t)(0x3F80 + i % 100); // bf16 from 1 on
    }
    int32_t *starts = dev->memory_new(dev, sizeof first_rows);
    void *qkv = dev->memory_new(dev, sizeof numbers), *context = dev->memory_new(dev, sizeof found);
    dev->upload(dev, starts, first_rows, sizeof first_rows);
    dev->upload(dev, qkv, numbers, sizeof numbers);
    for (size_t i = 0; i < COUNT(counts); i++) {
        const struct batch batch = {.token_count = counts[i],
                                    .row_count = ROWS,
                                    .sequence_count = counts[i],
                                    .max_length = 1,
                                    .cu_seqlens = starts};
        const struct attention_args args = {
            .context = {context, ROWS, HIDDEN, HIDDEN, DTYPE_BF16},
            .qkv = {qkv, ROWS, (int64_t)3 * HIDDEN, (int64_t)3 * HIDDEN, DTYPE_BF16},
            .heads = 1};
        dev->attention_forward(dev, &args, &batch);
        dev->download(dev, found, context, sizeof found);
        assert_int_equal(dev->status(dev, &error), BERTH_OK);
        for (int k = 0; k < counts[i] * HIDDEN; k++) {
            const int row = k / HIDDEN, column = k % HIDDEN;
            assert_int_equal(found[k], numbers[(row * 3 + 2) * HIDDEN + column]);
        }
    }
    dev->memory_free(dev, starts, sizeof first_rows);
    dev->memory_free(dev, qkv, sizeof numbers);
    dev->memory_free(dev, context, sizeof found);
    dev->close(dev);
}

static void sleep_milliseconds(int milliseconds) {
    const struct timespec moment = {0, milliseconds * 1000000L};
    nanosleep(&moment, NULL);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double total(const double seconds[DEVICE_PHASES]) {
    double sum = 0;
    for (int phase = 0; phase < DEVICE_PHASES; phase++) {
        sum += seconds[phase];
    }
    return sum;
}

// The emulated stream begins when the host waits for it, so what the host did before belongs to no
// phase.
static void the_host_rests_first(struct device *dev, float *sum, const float *term) {
    double seconds[DEVICE_PHASES];
    float number;
    dev->mark(dev, DEVICE_PHASE_FORWARD);
    dev->add(dev, sum, term, 1);
    sleep_milliseconds(100);
    dev->mark(dev, DEVICE_PHASE_OTHER);
    dev->times(dev, seconds);
    assert_float_equal(total(seconds), 0, 0); // nothing has begun
    const double began = now();
    dev->download(dev, &number, sum, sizeof number);
    const double lasted = now() - began;
    dev->times(dev, seconds);
    assert_true(seconds[DEVICE_PHASE_FORWARD] > 0 && seconds[DEVICE_PHASE_FORWARD] <= lasted);
    assert_float_equal(total(seconds), seconds[DEVICE_PHASE_FORWARD], 0);
}

// A phase lasts from when the stream comes to its mark until it comes to the next one: also while
// the stream waits for the host.
static void marks_are_in_the_stream(void **state) {
    struct device *dev = open_emulated();
    double seconds[DEVICE_PHASES];
    float number = 0, *sum = dev->memory_new(dev, sizeof number);
    float *other = dev->memory_new(dev, sizeof number);
    if (is_emulated()) { // a GPU begins at once
        the_host_rests_first(dev, sum, other);
    }
    dev->mark(dev, DEVICE_PHASE_FORWARD);
    dev->download(dev, &number, sum, sizeof number);
    sleep_milliseconds(20);
    dev->mark(dev, DEVICE_PHASE_BACKWARD);
    dev->download(dev, &number, sum, sizeof number);
    sleep_milliseconds(40);
    dev->mark(dev, DEVICE_PHASE_STEP);
    dev->download(dev, &number, sum, sizeof number);
    sleep_milliseconds(60);
    dev->mark(dev, DEVICE_PHASE_OTHER);
    dev->times(dev, seconds);
    assert_true(seconds[DEVICE_PHASE_FORWARD] >= 0.02 && seconds[DEVICE_PHASE_BACKWARD] >= 0.04);
    const double step = seconds[DEVICE_PHASE_STEP];
    assert_true(step == 0 || !is_emulated()); // it ends where nobody has waited
    dev->download(dev, &number, sum, sizeof number);
    dev->times(dev, seconds);
    assert_true(step + seconds[DEVICE_PHASE_STEP] >= 0.06);
    assert_float_equal(total(seconds), seconds[DEVICE_PHASE_STEP], 0);
    dev->memory_free(dev, other, sizeof number);
    dev->memory_free(dev, sum, sizeof number);
    dev->close(dev);
}

// No mark is lost where more are under way than the device keeps.
static void many_marks(void **state) {
    struct device *dev = open_emulated();
    struct berth_error error;
    double seconds[DEVICE_PHASES];
    dev->mark(dev, DEVICE_PHASE_FORWARD);
    assert_int_equal(dev->status(dev, &error), BERTH_OK);
    sleep_milliseconds(20);
    for (int i = 0; i < 200; i++) {
        dev->mark(dev, DEVICE_PHASE_BACKWARD);
    }
    sleep_milliseconds(40);
    dev->mark(dev, DEVICE_PHASE_OTHER);
    assert_int_equal(dev->status(dev, &error), BERTH_OK);
    dev->times(dev, seconds);
    assert_true(seconds[DEVICE_PHASE_FORWARD] >= 0.02 && seconds[DEVICE_PHASE_FORWARD] < 60);
    assert_true(seconds[DEVICE_PHASE_BACKWARD] >= 0.04 && seconds[DEVICE_PHASE_BACKWARD] < 60);
    dev->close(dev);
}

// A speed in each type, with the device's memory as before.
static void peak_of_products(void **state) {
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    struct berth_error error;
    struct device *dev = open_emulated();
    const char *limit;
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        (void)dev->measure_peak(dev, dtypes[i], 0.01); // a GPU loads the kernels
        const uint64_t left = dev->memory_available(dev, &limit);
        const double peak = dev->measure_peak(dev, dtypes[i], 0.01);
        print_message("%s: %.3f TFLOP/s\n", dtype_name(dtypes[i]), peak * 1e-12);
        assert_true(peak > 0 && peak < 1e17);
        assert_int_equal(dev->memory_available(dev, &limit), left);
    }
    assert_int_equal(dev->status(dev, &error), BERTH_OK);
    dev->close(dev);
}

static int has_test(const struct CMUnitTest *tests, size_t count, const char *name) {
    size_t i = 0;
    while (i < count && strcmp(tests[i].name, name) != 0) {
        i++;
    }
    return i < count;
}

// With an argument, only the test of that name.
int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations),
        cmocka_unit_test(operations_on_wide_rows),
        cmocka_unit_test(operations_have_their_gradients),
        cmocka_unit_test(nan_is_no_hit),
        cmocka_unit_test(attention),
        cmocka_unit_test(scratch_is_reserved),
        cmocka_unit_test(gradients_of_words),
        cmocka_unit_test(memory_of_no_bytes),
        cmocka_unit_test(gpus_and_threads),
        cmocka_unit_test(attention_of_one_token),
        cmocka_unit_test(products_in_tf32),
        cmocka_unit_test(products_with_odd_ends),
        cmocka_unit_test(products_of_one_shape),
        cmocka_unit_test(products_of_many_rows),
        cmocka_unit_test(a_product_with_a_long_bias),
        cmocka_unit_test(marks_are_in_the_stream),
        cmocka_unit_test(many_marks),
        cmocka_unit_test(peak_of_products),
    };
    (void)setenv("BERTH_EMULATION_MEMORY", "4194304", 0); // KiB; the host's free memory changes
    const char *only = count > 1 ? arguments[1] : NULL;
    if (only != NULL && !has_test(tests, COUNT(tests), only)) {
        fprintf(stderr, "test_device_emulated: no test %s\n", only);
        return 2;
    }
    if (test_lacks_device()) {
        return TEST_SKIPPED;
    }
    cmocka_set_test_filter(only);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
