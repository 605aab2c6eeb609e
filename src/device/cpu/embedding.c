// SPDX-License-Identifier: Apache-2.0
// Sentence embeddings: pooling the rows of a sequence, normalizing vectors, and the losses of
// examples of two or three texts. Sums are in double. Token embeddings are in norm.c.
#include "core/portable_math.h"
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
            const double across = (double)radius * (double)from[c] - along * (double)own[c];
            to[c] = (float)((double)to[c] + across / length);
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

static void cosine_loss(const struct similarity_args *args, int64_t first) {
    const float *a = row_of(args->x, first), *b = row_of(args->x, first + 1);
    float *da = row_of(args->dx, first), *db = row_of(args->dx, first + 1);
    const double difference = product(a, b, args->x.cols) - (double)args->targets[first];
    const double factor = 2 * (double)args->scale * difference;
    for (int64_t c = 0; c < args->x.cols; c++) {
        da[c] = (float)(factor * (double)b[c]);
        db[c] = (float)(factor * (double)a[c]);
    }
    args->losses[first] = (float)(difference * difference);
}

// Whether a triplet has a loss, which becomes that of the example; if not, its gradients are 0.
static int has_loss(const struct similarity_args *args, int64_t first, double loss) {
    if (!(loss > 0)) {
        // The example's texts are the rows from row `first` on.
        for (int64_t i = 0; i < args->texts; i++) {
            memset(row_of(args->dx, first + i), 0, (size_t)args->dx.cols * sizeof(float));
        }
        args->losses[first] = isnan(loss) ? (float)loss : 0;
        return 0;
    }
    args->losses[first] = (float)loss;
    return 1;
}

static void euclidean_loss(const struct similarity_args *args, int64_t first) {
    const float *a = row_of(args->x, first), *b = row_of(args->x, first + 1),
                *far_one = row_of(args->x, first + 2);
    const double near = distance(a, b, args->x.cols), far = distance(a, far_one, args->x.cols);
    if (!has_loss(args, first, near - far + (double)args->margin)) {
        return;
    }
    for (int64_t c = 0; c < args->x.cols; c++) {
        const double scale = args->scale;
        const double to_near = scale * ((double)a[c] - (double)b[c] + NEAR) / near;
        const double to_far = scale * ((double)a[c] - (double)far_one[c] + NEAR) / far;
        row_of(args->dx, first)[c] = (float)(to_near - to_far);
        row_of(args->dx, first + 1)[c] = (float)-to_near;
        row_of(args->dx, first + 2)[c] = (float)to_far;
    }
}

static void angular_loss(const struct similarity_args *args, int64_t first) {
    const float *a = row_of(args->x, first), *b = row_of(args->x, first + 1),
                *far = row_of(args->x, first + 2);
    const double difference = product(a, far, args->x.cols) - product(a, b, args->x.cols);
    if (!has_loss(args, first, difference + (double)args->margin)) {
        return;
    }
    for (int64_t c = 0; c < args->x.cols; c++) {
        const double scale = args->scale;
        row_of(args->dx, first)[c] = (float)(scale * ((double)far[c] - (double)b[c]));
        row_of(args->dx, first + 1)[c] = (float)(-scale * (double)a[c]);
        row_of(args->dx, first + 2)[c] = (float)(scale * (double)a[c]);
    }
}

static void margins_loss(const struct similarity_args *args, int64_t first) {
    const int64_t others = args->texts - 2;
    const float *a = row_of(args->x, first), *b = row_of(args->x, first + 1);
    float *da = row_of(args->dx, first), *db = row_of(args->dx, first + 1);
    const double near = product(a, b, args->x.cols);
    double loss = 0;
    memset(da, 0, (size_t)args->dx.cols * sizeof *da);
    memset(db, 0, (size_t)args->dx.cols * sizeof *db);
    for (int64_t i = first + 2; i < first + args->texts; i++) {
        const float *other = row_of(args->x, i);
        float *dother = row_of(args->dx, i);
        const double error = near - product(a, other, args->x.cols) - (double)args->targets[i];
        const double factor = 2 * (double)args->scale * error / (double)others;
        for (int64_t c = 0; c < args->x.cols; c++) {
            da[c] += (float)(factor * ((double)b[c] - (double)other[c]));
            db[c] += (float)(factor * (double)a[c]);
            dother[c] = (float)(-factor * (double)a[c]);
        }
        loss += error * error / (double)others;
    }
    args->losses[first] = (float)loss;
}

static void vectors_loss(const struct similarity_args *args, int64_t first) {
    const double share = 1 / (double)(args->texts * args->x.cols);
    for (int64_t i = first; i < first + args->texts; i++) {
        const float *x = row_of(args->x, i), *target = row_of(args->vectors, i);
        double sum = 0;
        for (int64_t c = 0; c < args->x.cols; c++) {
            const double error = (double)x[c] - (double)target[c];
            row_of(args->dx, i)[c] = (float)(2 * (double)args->scale * share * error);
            sum += error * error;
        }
        args->losses[i] = (float)(share * sum);
    }
}

// A group of `count` pairs: the products are in losses[first + i].
static double largest_exponent(const struct similarity_args *args, int64_t first, int64_t count) {
    const float *targets = args->targets + first, *products = args->losses + first;
    double largest_one = 0;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < count; j++) {
            const double x = (double)args->factor * ((double)products[j] - (double)products[i]);
            largest_one = targets[i] > targets[j] && x > largest_one ? x : largest_one;
        }
    }
    return largest_one;
}

// The part of the sum in which pair i occurs, all terms divided by e^shift: where its target is the
// larger one (above), and where it is the smaller one.
struct order_terms {
    double above, below;
};

static struct order_terms order_terms_of(const struct similarity_args *args, int64_t first,
                                         int64_t count, int64_t i, double shift) {
    const float *targets = args->targets + first, *products = args->losses + first;
    struct order_terms terms = {0};
    for (int64_t j = 0; j < count; j++) {
        const double x = (double)args->factor * ((double)products[j] - (double)products[i]);
        if (targets[i] > targets[j]) {
            terms.above += math_exp(x - shift);
        } else if (targets[i] < targets[j]) {
            terms.below += math_exp(-x - shift);
        }
    }
    return terms;
}

// The derivative by the product of pair i is put into the losses of its second text.
static double order_derivatives(const struct similarity_args *args, int64_t first, int64_t count,
                                double shift) {
    float *derivatives = args->losses + first + count;
    double sum = math_exp(-shift);
    for (int64_t i = 0; i < count; i++) {
        const struct order_terms terms = order_terms_of(args, first, count, i, shift);
        sum += terms.above;
        derivatives[i] = (float)(terms.below - terms.above);
    }
    return sum;
}

static void order_loss(const struct similarity_args *args, int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; i++) {
        args->losses[i] =
            (float)product(row_of(args->x, i), row_of(args->x, i + count), args->x.cols);
    }
    const double shift = largest_exponent(args, first, count);
    const double sum = order_derivatives(args, first, count, shift);
    const double scale = (double)args->scale * (double)args->factor * (double)count / sum;
    for (int64_t i = first; i < first + count; i++) {
        const double factor = scale * (double)args->losses[i + count];
        for (int64_t c = 0; c < args->x.cols; c++) {
            row_of(args->dx, i)[c] = (float)(factor * (double)row_of(args->x, i + count)[c]);
            row_of(args->dx, i + count)[c] = (float)(factor * (double)row_of(args->x, i)[c]);
        }
    }
    memset(args->losses + first, 0, (size_t)(2 * count) * sizeof *args->losses);
    args->losses[first] = (float)((double)count * (shift + math_log(sum)));
}

typedef void example_loss(const struct similarity_args *args, int64_t first);

static example_loss *const example_losses[SIMILARITY_COUNT] = {
    [SIMILARITY_COSINE] = cosine_loss,
    [SIMILARITY_TRIPLET_EUCLIDEAN] = euclidean_loss,
    [SIMILARITY_TRIPLET_COSINE] = angular_loss,
    [SIMILARITY_MARGINS] = margins_loss,
    [SIMILARITY_VECTORS] = vectors_loss};

void cpu_similarity_loss(struct device *dev, const struct similarity_args *args) {
    struct cpu *cpu = cpu_of(dev);
    const int64_t texts = args->texts, group = args->group, examples = args->count / texts;
    memset(args->losses, 0, (size_t)args->count * sizeof *args->losses);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < examples; i += group) {
        if (args->loss == SIMILARITY_ORDER) {
            order_loss(args, i * texts, examples - i < group ? examples - i : group);
        } else {
            example_losses[args->loss](args, i * texts);
        }
    }
    cpu_zero_rows(args->dx, examples * texts);
}
