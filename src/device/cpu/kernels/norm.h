// SPDX-License-Identifier: Apache-2.0
// Layer norm of rows, fused with its neighbours: the embedding sum before it, or the residual and
// dropout, and the conversion of its output. cpu/norm.c and cpu/embedding.c divide the rows among
// threads; the gradients of gamma and beta are added there.
#ifndef BERTH_CPU_KERNELS_NORM_H
#define BERTH_CPU_KERNELS_NORM_H

#include "core/int8.h"
#include "device/cpu/kernels/dropout.h"

// Stands before a loop over a chunk's groups of vectors. With AVX-512 the chunk's mask then stays
// in registers, which makes a norm 9 to 14 % faster. Other sets gain nothing from it, and their
// code for partial vectors is long.
#if defined(__AVX512F__)
#define UNROLL_CHUNK _Pragma("GCC unroll 8")
#else
#define UNROLL_CHUNK
#endif

// Compiles `call` twice: for rows of whole chunks of KERNEL_COLUMNS columns, in which the compiler
// knows that every vector is full, and for rows of any length. The operations are the same.
#define WITH_WHOLE_CHUNKS(columns, call)                                                           \
    do {                                                                                           \
        if ((columns) % KERNEL_COLUMNS == 0) {                                                     \
            const int whole = 1;                                                                   \
            call;                                                                                  \
        } else {                                                                                   \
            const int whole = 0;                                                                   \
            call;                                                                                  \
        }                                                                                          \
    } while (0)

// The masks of a row's chunks. Slack rows belong to no sequence and have none.
struct row_dropout {
    const struct dropout *dropout; // NULL: keeps everything
    int64_t global_index;
    int32_t position;
    float scale;
};

ALWAYS_INLINE struct row_dropout row_dropout(const struct dropout *dropout,
                                             const struct batch *batch, int64_t row) {
    const int32_t sequence = batch->sequences[row];
    if (dropout == NULL || dropout->threshold == 0 || sequence < 0) {
        return (struct row_dropout){.scale = 1.0f};
    }
    return (struct row_dropout){dropout, batch->global_indices[sequence], batch->positions[row],
                                rng_dropout_scale(dropout->threshold)};
}

// Which of the columns [column, column + KERNEL_COLUMNS) are kept.
ALWAYS_INLINE void row_mask(struct dropout_mask *mask, const struct row_dropout *dropout,
                            int64_t column) {
    if (dropout->dropout == NULL) {
        memset(mask, 0xFF, sizeof *mask);
        return;
    }
    const struct dropout_columns columns =
        dropout_columns(dropout->dropout, 0, dropout->global_index, column);
    dropout_mask(mask, &columns, dropout->position);
}

// The columns of a chunk, and of its vector at v.
ALWAYS_INLINE int64_t columns_of(int64_t column, int64_t columns, int whole) {
    return whole ? KERNEL_COLUMNS : chunk_length(column, columns, KERNEL_COLUMNS);
}

ALWAYS_INLINE int64_t lanes_at(int64_t v, int64_t count, int whole) {
    return whole ? LANES : count - v;
}

ALWAYS_INLINE lanes row_lanes(struct mat m, int64_t row, int64_t column, int64_t left) {
    return lanes_from(row_at(m, row, column), m.dtype, left);
}

ALWAYS_INLINE void set_lanes(struct mat m, int64_t row, int64_t column, lanes x, int64_t left) {
    lanes_to(row_at(m, row, column), x, m.dtype, left);
}

struct norm_row {
    struct mat y, y_compute, xhat;
    float *rstd;
    const float *gamma, *beta;
    float epsilon;
    struct row_dropout dropout; // on the result
};

// The sum of the squared distances from the mean.
ALWAYS_INLINE float squares_of(const float *s, int64_t columns, float mean, int whole) {
    struct lane_sums squares = {0};
    for (int64_t c = 0; c < columns; c += KERNEL_COLUMNS) {
        const int64_t count = columns_of(c, columns, whole);
        UNROLL_CHUNK
        for (int64_t group = 0; group < count; group += SUM_LANES) {
            EACH_PART {
                const int64_t v = group + part * LANES, left = lanes_at(v, count, whole);
                const lanes x = lanes_from(s + c + v, DTYPE_F32, left);
                const lanes centred = lanes_first(x - mean, left, 0.0f);
                squares.part[part] = lanes_fused(centred, centred, squares.part[part]);
            }
        }
    }
    return lane_total(squares);
}

// The row of n->y holds s on entry and dropout(gamma * xhat + beta) on return.
ALWAYS_INLINE void norm_row(const struct norm_row *n, int64_t row, float sum, int whole) {
    const int64_t columns = n->y.cols;
    const float mean = sum / (float)columns;
    const float squares = squares_of(row_at(n->y, row, 0), columns, mean, whole);
    const float rstd = 1.0f / sqrtf(squares / (float)columns + n->epsilon);
    if (n->rstd != NULL) {
        n->rstd[row] = rstd;
    }
    for (int64_t c = 0; c < columns; c += KERNEL_COLUMNS) {
        const int64_t count = columns_of(c, columns, whole);
        struct dropout_mask mask;
        row_mask(&mask, &n->dropout, c);
        UNROLL_CHUNK
        for (int64_t v = 0; v < count; v += LANES) {
            const int64_t left = lanes_at(v, count, whole), at = c + v;
            const lanes xhat = (row_lanes(n->y, row, at, left) - mean) * rstd;
            const lanes y = lanes_fused(xhat, lanes_from(n->gamma + at, DTYPE_F32, left),
                                        lanes_from(n->beta + at, DTYPE_F32, left));
            const lanes out = dropout_masked(y * n->dropout.scale, &mask, v / LANES);
            set_lanes(n->y, row, at, out, left);
            if (!mat_is_empty(n->xhat)) {
                set_lanes(n->xhat, row, at, xhat, left);
            }
            if (!mat_is_empty(n->y_compute)) {
                set_lanes(n->y_compute, row, at, out, left);
            }
        }
    }
}

// s = dropout(x) + residual in the row of y; returns its sum.
ALWAYS_INLINE float add_residual(const struct norm_args *args, const struct row_dropout *dropout,
                                 int64_t row, int whole) {
    const int64_t columns = args->y.cols;
    struct lane_sums sum = {0};
    for (int64_t c = 0; c < columns; c += KERNEL_COLUMNS) {
        const int64_t count = columns_of(c, columns, whole);
        struct dropout_mask mask;
        row_mask(&mask, dropout, c);
        UNROLL_CHUNK
        for (int64_t group = 0; group < count; group += SUM_LANES) {
            EACH_PART {
                const int64_t v = group + part * LANES, at = c + v;
                const int64_t left = lanes_at(v, count, whole);
                lanes s = row_lanes(args->residual, row, at, left);
                if (!mat_is_empty(args->x)) {
                    s += dropout_masked(row_lanes(args->x, row, at, left) * dropout->scale, &mask,
                                        v / LANES);
                }
                sum.part[part] += s;
                set_lanes(args->y, row, at, s, left);
                if (!mat_is_empty(args->sum)) {
                    set_lanes(args->sum, row, at, s, left);
                }
            }
        }
    }
    return lane_total(sum);
}

ALWAYS_INLINE void norm_rows(const struct norm_args *args, const struct batch *batch, int64_t first,
                             int64_t last, int whole) {
    const struct norm_row n = {.y = args->y,
                               .y_compute = args->y_compute,
                               .xhat = args->xhat,
                               .rstd = args->rstd,
                               .gamma = args->gamma,
                               .beta = args->beta,
                               .epsilon = args->epsilon,
                               .dropout = {.scale = 1.0f}};
    for (int64_t row = first; row < last; row++) {
        const struct row_dropout dropout = row_dropout(&args->dropout, batch, row);
        norm_row(&n, row, add_residual(args, &dropout, row, whole), whole);
    }
}

static void norm_forward(const struct norm_args *args, const struct batch *batch, int64_t first,
                         int64_t last) {
    WITH_WHOLE_CHUNKS(args->y.cols, norm_rows(args, batch, first, last, whole));
}

ALWAYS_INLINE lanes word_lanes(const struct embed_args *args, int32_t id, int64_t column,
                               int64_t left) {
    if (args->word.dtype != DTYPE_I8) {
        return row_lanes(args->word, id, column, left);
    }
    const signed char *word = row_at(args->word, id, column);
    const float *scales = args->word_scales + id * int8_groups(args->word.cols);
    if (left <= 0) {
        return (lanes){0};
    }
    const float scale = scales[column / int8_group(args->word.cols)]; // LANES divides a group
    float values[LANES] = {0};
    for (int64_t i = 0; i < left && i < LANES; i++) {
        values[i] = scale * (float)word[i];
    }
    lanes result;
    memcpy(&result, values, sizeof result);
    return result;
}

// The sum of a token's three embeddings in the row of y; returns the sum of its columns.
ALWAYS_INLINE float add_embeddings(const struct embed_args *args, const struct batch *batch,
                                   int64_t row, int whole) {
    const int64_t columns = args->y.cols;
    struct lane_sums sum = {0};
    for (int64_t group = 0; group < columns; group += SUM_LANES) {
        EACH_PART {
            const int64_t c = group + part * LANES, left = lanes_at(c, columns, whole);
            const lanes s = word_lanes(args, batch->ids[row], c, left) +
                            row_lanes(args->position, batch->positions[row], c, left) +
                            row_lanes(args->type, batch->type_ids[row], c, left);
            sum.part[part] += s;
            set_lanes(args->y, row, c, s, left);
        }
    }
    return lane_total(sum);
}

ALWAYS_INLINE void embed_rows(const struct embed_args *args, const struct batch *batch,
                              int64_t first, int64_t last, int whole) {
    struct norm_row n = {.y = args->y,
                         .y_compute = args->y_compute,
                         .xhat = args->xhat,
                         .rstd = args->rstd,
                         .gamma = args->gamma,
                         .beta = args->beta,
                         .epsilon = args->epsilon};
    for (int64_t row = first; row < last; row++) {
        n.dropout = row_dropout(&args->dropout, batch, row);
        norm_row(&n, row, add_embeddings(args, batch, row, whole), whole);
    }
}

static void embed_forward(const struct embed_args *args, const struct batch *batch, int64_t first,
                          int64_t last) {
    WITH_WHOLE_CHUNKS(args->y.cols, embed_rows(args, batch, first, last, whole));
}

// --- backward -----------------------------------------------------------------------------------

struct norm_grad_row {
    struct mat ds;      // scratch; dy and dy2 may be here
    struct mat dy, dy2; // added; dy2 may be empty
    struct mat xhat;
    const float *rstd, *gamma;
    float *dgamma, *dbeta;      // partial sums
    struct row_dropout dropout; // of the norm's result
};

// What the gradient of s = dropout(x) + residual goes to.
struct norm_grad_out {
    struct mat dresidual;
    struct mat dsum; // added; may be empty
    struct mat dx;   // may be empty
    float *dbias;    // partial sums of dx
    struct row_dropout dropout;
};

// The means that a row's gradient needs.
struct norm_means {
    float g, dot; // of g = dy * gamma, of g * xhat
};

ALWAYS_INLINE void add_to(float *total, lanes x, int64_t left) {
    lanes_to(total, lanes_from(total, DTYPE_F32, left) + x, DTYPE_F32, left);
}

ALWAYS_INLINE void add_product_to(float *total, lanes x, lanes y, int64_t left) {
    lanes_to(total, lanes_fused(x, y, lanes_from(total, DTYPE_F32, left)), DTYPE_F32, left);
}

// g in the row of ds, and the gradients of gamma and beta.
ALWAYS_INLINE struct norm_means norm_grad_means(const struct norm_grad_row *n, int64_t row,
                                                int whole) {
    const int64_t columns = n->ds.cols;
    struct lane_sums sum = {0}, dot = {0};
    for (int64_t c = 0; c < columns; c += KERNEL_COLUMNS) {
        const int64_t count = columns_of(c, columns, whole);
        struct dropout_mask mask;
        row_mask(&mask, &n->dropout, c);
        UNROLL_CHUNK
        for (int64_t group = 0; group < count; group += SUM_LANES) {
            EACH_PART {
                const int64_t v = group + part * LANES, at = c + v;
                const int64_t left = lanes_at(v, count, whole);
                lanes dy = row_lanes(n->dy, row, at, left);
                if (!mat_is_empty(n->dy2)) {
                    dy += row_lanes(n->dy2, row, at, left);
                }
                dy = dropout_masked(dy * n->dropout.scale, &mask, v / LANES);
                const lanes xhat = row_lanes(n->xhat, row, at, left);
                const lanes g = dy * lanes_from(n->gamma + at, DTYPE_F32, left);
                add_product_to(n->dgamma + at, dy, xhat, left);
                add_to(n->dbeta + at, dy, left);
                sum.part[part] += g;
                dot.part[part] = lanes_fused(g, xhat, dot.part[part]);
                set_lanes(n->ds, row, at, g, left);
            }
        }
    }
    return (struct norm_means){lane_total(sum) / (float)columns, lane_total(dot) / (float)columns};
}

ALWAYS_INLINE lanes norm_grad(const struct norm_grad_row *n, int64_t row, int64_t column,
                              struct norm_means mean, int64_t left) {
    const lanes g = row_lanes(n->ds, row, column, left),
                xhat = row_lanes(n->xhat, row, column, left);
    return n->rstd[row] * lanes_fused(xhat, lanes_all(-mean.dot), g - mean.g);
}

ALWAYS_INLINE void norm_grad_row(const struct norm_grad_row *n, const struct norm_grad_out *out,
                                 int64_t row, int whole) {
    const int64_t columns = n->ds.cols;
    const struct norm_means mean = norm_grad_means(n, row, whole);
    for (int64_t c = 0; c < columns; c += KERNEL_COLUMNS) {
        const int64_t count = columns_of(c, columns, whole);
        struct dropout_mask mask;
        row_mask(&mask, &out->dropout, c);
        UNROLL_CHUNK
        for (int64_t v = 0; v < count; v += LANES) {
            const int64_t left = lanes_at(v, count, whole), at = c + v;
            lanes ds = norm_grad(n, row, at, mean, left);
            if (!mat_is_empty(out->dsum)) {
                ds += row_lanes(out->dsum, row, at, left);
            }
            set_lanes(out->dresidual, row, at, ds, left);
            if (!mat_is_empty(out->dx)) {
                const lanes dx = dropout_masked(ds * out->dropout.scale, &mask, v / LANES);
                add_to(out->dbias + at, dx, left);
                set_lanes(out->dx, row, at, dx, left);
            }
        }
    }
}

ALWAYS_INLINE void norm_grad_rows(const struct norm_grad_args *args, const struct batch *batch,
                                  int64_t first, int64_t last, float *partial, int whole) {
    const int64_t columns = args->dy.cols;
    const struct norm_grad_row n = {
        .ds = mat_is_empty(args->dsum) ? args->dresidual : args->dy,
        .dy = args->dy,
        .dy2 = args->dy2,
        .xhat = args->xhat,
        .rstd = args->rstd,
        .gamma = args->gamma,
        .dgamma = partial,
        .dbeta = partial + columns,
        .dropout = {.scale = 1.0f},
    };
    struct norm_grad_out out = {.dresidual = args->dresidual,
                                .dsum = args->dsum,
                                .dx = args->dx,
                                .dbias = partial + 2 * columns};
    for (int64_t row = first; row < last; row++) {
        out.dropout = row_dropout(mat_is_empty(args->dx) ? NULL : &args->dropout, batch, row);
        norm_grad_row(&n, &out, row, whole);
    }
}

static void norm_backward(const struct norm_grad_args *args, const struct batch *batch,
                          int64_t first, int64_t last, float *partial) {
    const int has_x = !mat_is_empty(args->dx);
    memset(partial, 0, (has_x ? 3 : 2) * (size_t)args->dy.cols * sizeof *partial);
    WITH_WHOLE_CHUNKS(args->dy.cols, norm_grad_rows(args, batch, first, last, partial, whole));
}

ALWAYS_INLINE void embed_grad_rows(const struct embed_grad_args *args, const struct batch *batch,
                                   int64_t first, int64_t last, float *partial, int whole) {
    struct norm_grad_row n = {.ds = args->scratch,
                              .dy = args->dy,
                              .dy2 = args->dy2,
                              .xhat = args->xhat,
                              .rstd = args->rstd,
                              .gamma = args->gamma,
                              .dgamma = partial,
                              .dbeta = partial + args->dy.cols};
    const struct norm_grad_out out = {.dresidual = args->scratch, .dropout = {.scale = 1.0f}};
    for (int64_t row = first; row < last; row++) {
        n.dropout = row_dropout(&args->dropout, batch, row);
        norm_grad_row(&n, &out, row, whole);
    }
}

static void embed_backward(const struct embed_grad_args *args, const struct batch *batch,
                           int64_t first, int64_t last, float *partial) {
    memset(partial, 0, 2 * (size_t)args->dy.cols * sizeof *partial);
    WITH_WHOLE_CHUNKS(args->dy.cols, embed_grad_rows(args, batch, first, last, partial, whole));
}

static void scatter_add(struct mat table, struct mat x, const int32_t *index) {
    for (int64_t row = 0; row < x.rows; row++) {
        if (index[row] >= 0) {
            float *restrict to = row_at(table, index[row], 0);
            const float *restrict from = row_at(x, row, 0);
#pragma omp simd
            for (int64_t c = 0; c < x.cols; c++) {
                to[c] += from[c];
            }
        }
    }
}

#endif
