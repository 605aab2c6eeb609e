// SPDX-License-Identifier: Apache-2.0
// Operands, batches and checks of one run; see op_run.h.
#include "op_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- one run ------------------------------------------------------------------------------------

static void upload_all(struct translated_device *operands) {
    for (size_t i = 0; i < operands->count; i++) {
        const struct translated_block *block = &operands->blocks[i];
        operands->inner->upload(operands->inner, block->memory, block->address, block->bytes);
    }
}

static void download_all(struct translated_device *operands) {
    for (size_t i = 0; i < operands->count; i++) {
        const struct translated_block *block = &operands->blocks[i];
        operands->inner->download(operands->inner, block->address, block->memory, block->bytes);
    }
}

void op_begin(struct op_run *run) {
    run->hash = 0xCBF29CE484222325u;
    run->failure[0] = '\0';
    run->drawn = 0;
    run->block_count = 0;
    translated_init(&run->operands, run->dev);
    run->operands.before = upload_all;
    run->operands.after = download_all;
    run->dev = &run->operands.device;
}

void op_end(struct op_run *run) {
    struct berth_error error;
    run->dev = run->operands.inner;
    if (run->dev->status(run->dev, &error) != BERTH_OK) {
        snprintf(run->failure, sizeof run->failure, "%.190s", error.message);
    }
    for (size_t i = 0; i < run->operands.count; i++) {
        const struct translated_block *block = &run->operands.blocks[i];
        run->dev->memory_free(run->dev, block->memory, block->bytes);
    }
    translated_done(&run->operands);
    for (int i = 0; i < run->block_count; i++) {
        free(run->blocks[i]);
    }
}

// --- the batch ----------------------------------------------------------------------------------

// Sorts the rows by id; rows with the same id by index.
static const int32_t *sorted_rows(struct op_run *run, const int32_t *ids, int64_t count) {
    int32_t *sorted = op_alloc(run, (size_t)count * sizeof *sorted), put = 0;
    for (int32_t id = 0; id < OP_WORDS; id++) {
        for (int64_t row = 0; row < count; row++) {
            if (ids[row] == id) {
                sorted[put++] = (int32_t)row;
            }
        }
    }
    return sorted;
}

void op_batch(struct op_run *run, const int32_t *lengths, int count) {
    struct batch *b = &run->batch;
    *b = (struct batch){0};
    int32_t *starts = op_alloc(run, ((size_t)count + 1) * sizeof *starts);
    int64_t *global_indices = op_alloc(run, (size_t)count * sizeof *global_indices);
    int32_t *labels[2] = {op_alloc(run, (size_t)count * sizeof **labels),
                          op_alloc(run, (size_t)count * sizeof **labels)};
    for (int s = 0; s < count; s++) {
        int32_t length = lengths[s];
        starts[s + 1] = starts[s] + length;
        global_indices[s] = 5 + 3 * s;
        labels[0][s] = length / 2;
        labels[1][s] = s == 1 ? length : length - 1; // one label outside
        b->max_length = length > b->max_length ? length : b->max_length;
        b->sequence_count = s + 1;
    }
    b->token_count = starts[b->sequence_count];
    b->row_count = batch_round(b->token_count);
    int32_t *rows[4];
    for (int i = 0; i < 4; i++) {
        rows[i] = op_alloc(run, (size_t)b->row_count * sizeof **rows);
    }
    for (int64_t r = 0, s = 0; r < b->row_count; r++) {
        s += s < b->sequence_count && r == starts[s + 1];
        int real = r < b->token_count;
        rows[0][r] = real ? (int32_t)(r * 7 % OP_WORDS) : 0;
        rows[1][r] = real ? (int32_t)(r % 3 == 0) : 0;
        rows[2][r] = real ? (int32_t)(r - starts[s]) : 0;
        rows[3][r] = real ? (int32_t)s : -1;
    }
    b->word_rows = sorted_rows(run, rows[0], b->token_count);
    b->ids = rows[0];
    b->type_ids = rows[1];
    b->positions = rows[2];
    b->sequences = rows[3];
    b->cu_seqlens = starts;
    b->global_indices = global_indices;
    b->start_positions = labels[0];
    b->end_positions = labels[1];
}

// --- half precision -----------------------------------------------------------------------------

enum { F16_INFINITE = 0x7C00, F16_LEAST = -14, F16_FRACTION = 10 }; // least exponent, fraction bits

double op_from_f16(uint16_t bits) {
    const int exponent = bits >> F16_FRACTION & 31, fraction = bits & 1023;
    const uint64_t wide = (uint64_t)(exponent + 1023 - 15) << 52 | (uint64_t)fraction << 42;
    double x;
    memcpy(&x, &wide, sizeof x);
    x = exponent == 31  ? (fraction != 0 ? (double)NAN : (double)INFINITY)
        : exponent == 0 ? fraction * 0x1p-24
                        : x;
    return bits & 0x8000 ? -x : x;
}

uint16_t op_to_f16(double x) {
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    int exponent;
    if (isnan(x)) {
        return 0x7E00;
    }
    (void)frexp(x, &exponent);
    exponent = x != 0 && exponent - 1 > F16_LEAST ? exponent - 1 : F16_LEAST;
    const double units = nearbyint(ldexp(fabs(x), F16_FRACTION - exponent));
    const double bits = units + ldexp(exponent - F16_LEAST, F16_FRACTION);
    return sign | (bits < F16_INFINITE ? (uint16_t)bits : F16_INFINITE);
}

// --- inputs and outputs -------------------------------------------------------------------------

enum { SENTINEL = 0x5A }; // the bytes between the rows of every matrix

// Columns between the rows: a whole vector if the rows are whole vectors.
static int64_t gap_of(int64_t cols) {
    return cols % 8 == 0 ? 8 : 5;
}

static void *host_block(struct op_run *run, size_t bytes) {
    void *block = calloc(1, bytes);
    if (block == NULL || run->block_count == 128) {
        abort();
    }
    run->blocks[run->block_count++] = block;
    return block;
}

void *op_alloc(struct op_run *run, size_t bytes) {
    struct device *dev = run->operands.inner;
    const struct translated_block block = {host_block(run, bytes + 64),
                                           dev->memory_new(dev, bytes + 64), bytes + 64};
    if (block.memory == NULL) {
        abort();
    }
    translated_add(&run->operands, block);
    return block.address;
}

// SplitMix64, in [-1, 1); fast, because the tests draw many more numbers than the operations.
double op_random(struct op_run *run) {
    uint64_t z = ++run->drawn * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (double)(int64_t)(z ^ z >> 31) * 0x1p-63;
}

struct mat op_matrix(struct op_run *run, int64_t rows, int64_t cols, enum dtype dtype) {
    size_t bytes = (size_t)(rows * (cols + gap_of(cols))) * dtype_size(dtype);
    struct mat m = {op_alloc(run, bytes), rows, cols, cols + gap_of(cols), dtype};
    memset(m.data, SENTINEL, bytes);
    return m;
}

struct mat op_output(struct op_run *run, int64_t rows, int64_t cols, enum dtype dtype) {
    struct mat m = op_matrix(run, rows, cols, dtype);
    for (int64_t i = 0; i < rows * cols; i++) {
        memset((char *)m.data + (size_t)(i / cols * m.stride + i % cols) * dtype_size(dtype), 0xFF,
               dtype_size(dtype));
    }
    return m;
}

struct mat op_input(struct op_run *run, int64_t rows, int64_t cols, enum dtype dtype, double size) {
    struct mat m = op_matrix(run, rows, cols, dtype);
    for (int64_t i = 0; i < rows * cols; i++) {
        op_set_number(m, i / cols, i % cols, size * op_random(run));
    }
    return m;
}

// Rows of the batch; the columns of the slack alternate between slack[0] and slack[1].
static struct mat rows_input(struct op_run *run, int64_t cols, enum dtype dtype, double size,
                             const double slack[2]) {
    struct mat m = op_input(run, run->batch.row_count, cols, dtype, size);
    for (int64_t r = run->batch.token_count; r < m.rows; r++) {
        for (int64_t c = 0; c < cols; c++) {
            op_set_number(m, r, c, slack[c % 2]);
        }
    }
    return m;
}

struct mat op_activation(struct op_run *run, int64_t cols, enum dtype dtype, double size) {
    return rows_input(run, cols, dtype, size, (const double[2]){-20, 3000});
}

struct mat op_gradient(struct op_run *run, int64_t cols, enum dtype dtype, double size) {
    return rows_input(run, cols, dtype, size, (const double[2]){0, 0});
}

float *op_vector(struct op_run *run, int64_t count, double size, double shift) {
    float *x = op_alloc(run, (size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++) {
        x[i] = (float)(shift + size * op_random(run));
    }
    return x;
}

double *op_doubles(struct op_run *run, int64_t count) {
    return host_block(run, (size_t)count * sizeof(double));
}

double *op_dense(struct op_run *run, struct mat m) {
    double *x = op_doubles(run, m.rows * m.cols);
    for (int64_t i = 0; i < m.rows * m.cols; i++) {
        x[i] = op_number_at(m, i / m.cols, i % m.cols);
    }
    return x;
}

// --- checks -------------------------------------------------------------------------------------

void op_fail(struct op_run *run, const char *what, const char *why, double found) {
    if (run->failure[0] == '\0') {
        snprintf(run->failure, sizeof run->failure, "%s: %s %.4g", what, why, found);
    }
}

static void hash_numbers(struct op_run *run, const double *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        run->hash = (run->hash ^ bits ^ bits >> 32) * 0x100000001B3u;
    }
}

void op_check_gaps(struct op_run *run, const char *what, struct mat m) {
    for (int64_t r = 0; r + 1 < m.rows; r++) {
        const unsigned char *gap =
            (const unsigned char *)m.data + (size_t)(r * m.stride + m.cols) * dtype_size(m.dtype);
        for (size_t i = 0; i < (size_t)(m.stride - m.cols) * dtype_size(m.dtype); i++) {
            if (gap[i] != SENTINEL) {
                op_fail(run, what, "wrote past the end of row", (double)r);
                return;
            }
        }
    }
}

void op_compare(struct op_run *run, const char *what, const double *found, const double *expected,
                int64_t count, double tolerance) {
    double distance = 0, norm = 1e-30, worst = 0, most = 1e-30;
    for (int64_t i = 0; i < count; i++) {
        const double e = expected[i], d = found[i] == e ? 0 : found[i] - e;
        if (isfinite(e)) {
            norm += e * e;
            most = fabs(e) > most ? fabs(e) : most;
        }
        distance += d * d;
        worst = fabs(d) > worst ? fabs(d) : worst;
    }
    if (!(sqrt(distance / norm) <= tolerance)) {
        op_fail(run, what, "relative L2 error", sqrt(distance / norm));
    }
    if (!(worst <= 8 * tolerance * most)) {
        op_fail(run, what, "largest error over largest number", worst / most);
    }
    hash_numbers(run, found, count);
}

void op_check(struct op_run *run, const char *what, struct mat m, const double *expected,
              int64_t rows, double tolerance) {
    op_compare(run, what, op_dense(run, m), expected, rows * m.cols, tolerance);
    op_check_gaps(run, what, m);
}

void op_check_vector(struct op_run *run, const char *what, const float *x, const double *expected,
                     int64_t count, double tolerance) {
    op_check(run, what, mat_of((void *)(uintptr_t)x, 1, count, DTYPE_F32), expected, 1, tolerance);
}

void op_check_zeros(struct op_run *run, const char *what, struct mat m, int64_t first) {
    for (int64_t r = first; r < m.rows; r++) {
        for (int64_t c = 0; c < m.cols; c++) {
            double x = op_number_at(m, r, c);
            if (x != 0) {
                op_fail(run, what, "slack row holds", x);
                return;
            }
        }
    }
}
