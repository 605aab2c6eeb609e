// SPDX-License-Identifier: Apache-2.0
// Sentence embeddings: pooling the rows of a sequence, normalizing vectors, and the losses of
// examples of two or three texts. Sums are in double. Token embeddings are in norm.c.
#include "device/cpu/cpu.h"

#include <math.h>
#include <string.h>

#define COLUMNS 64 // added at a time

static float *row_of(struct mat m, int64_t row) {
    return (float *)m.data + row * m.stride;
}

// --- pooling ------------------------------------------------------------------------------------

// The weight of row i of `length` in the weighted sum that is the pooled vector.
static double weight_of(enum berth_pooling pooling, int64_t i, int64_t length) {
    const double rows = (double)length;
    switch (pooling) {
    case BERTH_POOL_CLS:
        return i == 0;
    case BERTH_POOL_LAST:
        return i == length - 1;
    case BERTH_POOL_MEAN_SQRT_LENGTH:
        return 1 / sqrt(rows);
    case BERTH_POOL_WEIGHTED_MEAN:
        return (double)(i + 1) / (rows * (rows + 1) / 2);
    default:
        return 1 / rows;
    }
}

// Of the columns [first, end) of a sequence's rows.
static void add_rows(float *to, struct mat rows, enum berth_pooling pooling, int64_t first,
                     int64_t end) {
    double sums[COLUMNS] = {0};
    for (int64_t i = 0; i < rows.rows; i++) {
        const double weight = weight_of(pooling, i, rows.rows);
        const float *row = row_of(rows, i);
        for (int64_t c = first; c < end && weight != 0; c++) {
            sums[c - first] += weight * (double)row[c];
        }
    }
    for (int64_t c = first; c < end; c++) {
        to[c] = (float)sums[c - first];
    }
}

// The first row with the largest number of a column.
static int64_t largest(struct mat rows, int64_t column) {
    int64_t found = 0;
    for (int64_t i = 1; i < rows.rows; i++) {
        found = row_of(rows, i)[column] > row_of(rows, found)[column] ? i : found;
    }
    return found;
}

static struct mat sequence_rows(struct mat m, const struct batch *batch, int64_t s) {
    return mat_rows(m, batch->cu_seqlens[s], batch->cu_seqlens[s + 1] - batch->cu_seqlens[s]);
}

static void pool(float *to, struct mat rows, enum berth_pooling pooling) {
    for (int64_t c = 0; c < rows.cols && pooling == BERTH_POOL_MAX; c++) {
        to[c] = row_of(rows, largest(rows, c))[c];
    }
    for (int64_t c = 0; c < rows.cols && pooling != BERTH_POOL_MAX; c += COLUMNS) {
        add_rows(to, rows, pooling, c, c + COLUMNS < rows.cols ? c + COLUMNS : rows.cols);
    }
}

void cpu_pool_forward(struct device *dev, struct mat y, struct mat x, enum berth_pooling pooling,
                      const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t s = 0; s < batch->sequence_count; s++) {
        pool(row_of(y, s), sequence_rows(x, batch, s), pooling);
    }
    cpu_zero_rows(y, batch->sequence_count);
}

// `x` may be the memory of `dx`.
static void spread_to_largest(struct mat dx, const float *dy, struct mat x) {
    for (int64_t c = 0; c < dx.cols; c++) {
        const int64_t found = largest(x, c);
        for (int64_t i = 0; i < dx.rows; i++) {
            row_of(dx, i)[c] = i == found ? dy[c] : 0.0f;
        }
    }
}

static void spread(struct mat dx, const float *dy, enum berth_pooling pooling) {
    for (int64_t i = 0; i < dx.rows; i++) {
        const float weight = (float)weight_of(pooling, i, dx.rows);
        float *to = row_of(dx, i);
        for (int64_t c = 0; c < dx.cols; c++) {
            to[c] = weight * dy[c];
        }
    }
}

void cpu_pool_backward(struct device *dev, struct mat dx, struct mat dy, struct mat x,
                       enum berth_pooling pooling, const struct batch *batch) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t s = 0; s < batch->sequence_count; s++) {
        const struct mat to = sequence_rows(dx, batch, s);
        if (pooling == BERTH_POOL_MAX) {
            spread_to_largest(to, row_of(dy, s), sequence_rows(x, batch, s));
        } else {
            spread(to, row_of(dy, s), pooling);
        }
    }
    cpu_zero_rows(dx, batch->token_count);
}

// --- lengths ------------------------------------------------------------------------------------

static double product(const float *a, const float *b, int64_t count) {
    double sum = 0;
    for (int64_t c = 0; c < count; c++) {
        sum += (double)a[c] * (double)b[c];
    }
    return sum;
}

void cpu_normalize_forward(struct device *dev, struct mat y, float *lengths, struct mat x,
                           float radius, int64_t count) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < count; i++) {
        const float *from = row_of(x, i);
        const double length = fmax(sqrt(product(from, from, x.cols)), 1e-12);
        float *to = row_of(y, i);
        lengths[i] = (float)length;
        for (int64_t c = 0; c < y.cols; c++) {
            to[c] = (float)((double)radius * (double)from[c] / length);
        }
    }
    cpu_zero_rows(y, count);
}

void cpu_normalize_backward(struct device *dev, struct mat dx, struct mat dy, struct mat y,
                            const float *lengths, float radius, int64_t count) {
    struct cpu *cpu = cpu_of(dev);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < count; i++) {
        const float *from = row_of(dy, i), *own = row_of(y, i);
        const double along = product(own, from, y.cols) / (double)radius;
        const double length = lengths[i];
        float *to = row_of(dx, i);
        for (int64_t c = 0; c < dx.cols; c++) {
            to[c] = (float)(((double)radius * (double)from[c] - along * (double)own[c]) / length);
        }
    }
    cpu_zero_rows(dx, count);
}

// --- losses -------------------------------------------------------------------------------------

// Added to differences, as in PyTorch's pairwise_distance.
#define NEAR 1e-6

static double distance(const float *a, const float *b, int64_t count) {
    double sum = 0;
    for (int64_t c = 0; c < count; c++) {
        const double difference = (double)a[c] - (double)b[c] + NEAR;
        sum += difference * difference;
    }
    return sqrt(sum);
}

// One example: its texts' rows, and those of their gradients.
struct example {
    const float *x[3];
    float *dx[3];
    int64_t columns;
    double scale;
};

static void zero_gradients(const struct example *e, int texts) {
    for (int i = 0; i < texts; i++) {
        memset(e->dx[i], 0, (size_t)e->columns * sizeof(float));
    }
}

static double cosine_loss(const struct example *e, double target) {
    const double difference = product(e->x[0], e->x[1], e->columns) - target;
    const double factor = 2 * e->scale * difference;
    for (int64_t c = 0; c < e->columns; c++) {
        e->dx[0][c] = (float)(factor * (double)e->x[1][c]);
        e->dx[1][c] = (float)(factor * (double)e->x[0][c]);
    }
    return difference * difference;
}

static double euclidean_loss(const struct example *e, double margin) {
    const double near = distance(e->x[0], e->x[1], e->columns);
    const double far = distance(e->x[0], e->x[2], e->columns);
    const double loss = near - far + margin;
    if (!(loss > 0)) {
        zero_gradients(e, 3);
        return isnan(loss) ? loss : 0;
    }
    for (int64_t c = 0; c < e->columns; c++) {
        const double a = e->x[0][c];
        const double to_near = e->scale * (a - (double)e->x[1][c] + NEAR) / near;
        const double to_far = e->scale * (a - (double)e->x[2][c] + NEAR) / far;
        e->dx[0][c] = (float)(to_near - to_far);
        e->dx[1][c] = (float)-to_near;
        e->dx[2][c] = (float)to_far;
    }
    return loss;
}

static double angular_loss(const struct example *e, double margin) {
    const double loss =
        product(e->x[0], e->x[2], e->columns) - product(e->x[0], e->x[1], e->columns) + margin;
    if (!(loss > 0)) {
        zero_gradients(e, 3);
        return isnan(loss) ? loss : 0;
    }
    for (int64_t c = 0; c < e->columns; c++) {
        e->dx[0][c] = (float)(e->scale * ((double)e->x[2][c] - (double)e->x[1][c]));
        e->dx[1][c] = (float)(-e->scale * (double)e->x[0][c]);
        e->dx[2][c] = (float)(e->scale * (double)e->x[0][c]);
    }
    return loss;
}

static double loss_of(const struct similarity_args *args, int64_t first) {
    struct example e = {.columns = args->x.cols, .scale = (double)args->scale};
    for (int64_t i = 0; i < similarity_texts(args->loss); i++) {
        e.x[i] = row_of(args->x, first + i);
        e.dx[i] = row_of(args->dx, first + i);
    }
    const double margin = (double)args->margin;
    return args->loss == SIMILARITY_COSINE ? cosine_loss(&e, (double)args->targets[first])
           : args->loss == SIMILARITY_TRIPLET_EUCLIDEAN ? euclidean_loss(&e, margin)
                                                        : angular_loss(&e, margin);
}

void cpu_similarity_loss(struct device *dev, const struct similarity_args *args) {
    struct cpu *cpu = cpu_of(dev);
    const int64_t texts = similarity_texts(args->loss), examples = args->count / texts;
    memset(args->losses, 0, (size_t)args->count * sizeof *args->losses);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < examples; i++) {
        args->losses[i * texts] = (float)loss_of(args, i * texts);
    }
    cpu_zero_rows(args->dx, examples * texts);
}
