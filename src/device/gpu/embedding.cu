// SPDX-License-Identifier: Apache-2.0
// Sentence embeddings: pooling the rows of a sequence to a vector, normalizing vectors, and the
// losses of examples of several texts. A block has a sequence, a vector, an example or a group of
// examples. Sums are in double.
#include "device/gpu/cost.h"
#include "device/gpu/gpu.h"
#include "device/gpu/kernel.h"

enum { EMBEDDING_THREADS = 128 };

#define FOR_COLUMNS(c, m) for (int64_t c = threadIdx.x; c < (m).cols; c += EMBEDDING_THREADS)

// --- pooling ------------------------------------------------------------------------------------

// The weight of row i of `length` in a pooling that is a weighted sum.
DEVICE double pooling_weight(enum berth_pooling pooling, int64_t i, int64_t length) {
    const double rows = (double)length;
    switch (pooling) {
    case BERTH_POOL_CLS:
        return i == 0 ? 1.0 : 0.0;
    case BERTH_POOL_LAST:
        return i == length - 1 ? 1.0 : 0.0;
    case BERTH_POOL_MEAN_SQRT_LENGTH:
        return 1.0 / sqrt(rows);
    case BERTH_POOL_WEIGHTED_MEAN:
        return (double)(i + 1) / (rows * (rows + 1.0) / 2.0);
    default:
        return 1.0 / rows;
    }
}

// The first of the rows [first, first + length) with the largest number of a column.
DEVICE int64_t find_largest(struct mat x, int64_t column, int64_t first, int64_t length) {
    int64_t found = first;
    float largest = number_at(x, first, column);
    for (int64_t row = first + 1; row < first + length; row++) {
        const float other = number_at(x, row, column);
        if (other > largest) {
            largest = other;
            found = row;
        }
    }
    return found;
}

__global__ void __launch_bounds__(EMBEDDING_THREADS)
    pool_forward_kernel(struct mat y, struct mat x, enum berth_pooling pooling,
                        struct batch batch) {
    const int64_t s = blockIdx.x, first = batch.cu_seqlens[s];
    const int64_t length = batch.cu_seqlens[s + 1] - first;
    FOR_COLUMNS(c, y) {
        if (pooling == BERTH_POOL_MAX) {
            set_number(y, s, c, number_at(x, find_largest(x, c, first, length), c));
            continue;
        }
        double sum = 0.0;
        for (int64_t i = 0; i < length; i++) {
            sum += pooling_weight(pooling, i, length) * (double)number_at(x, first + i, c);
        }
        set_number(y, s, c, (float)sum);
    }
}

// A thread has read all rows of its column before it writes one, so dx may be the memory of x.
__global__ void __launch_bounds__(EMBEDDING_THREADS)
    pool_backward_kernel(struct mat dx, struct mat dy, struct mat x, enum berth_pooling pooling,
                         struct batch batch) {
    const int64_t s = blockIdx.x, first = batch.cu_seqlens[s];
    const int64_t length = batch.cu_seqlens[s + 1] - first;
    FOR_COLUMNS(c, dx) {
        const float gradient = number_at(dy, s, c);
        const int64_t found =
            pooling == BERTH_POOL_MAX ? find_largest(x, c, first, length) - first : -1;
        for (int64_t i = 0; i < length; i++) {
            const float weight =
                found >= 0 ? (i == found ? 1.0f : 0.0f) : (float)pooling_weight(pooling, i, length);
            set_number(dx, first + i, c, weight * gradient);
        }
    }
}

static uint64_t sequences_cost(const struct batch &batch) {
    return cost_words(batch.cu_seqlens, batch.sequence_count + 1);
}

static gpu_cost pool_forward_cost(struct mat y, struct mat x, enum berth_pooling,
                                  struct batch batch) {
    return {sequences_cost(batch) + cost_rows(x, batch.token_count),
            cost_rows(y, batch.sequence_count), 0};
}

static gpu_cost pool_backward_cost(struct mat dx, struct mat dy, struct mat x,
                                   enum berth_pooling pooling, struct batch batch) {
    const uint64_t compared = pooling == BERTH_POOL_MAX ? cost_rows(x, batch.token_count) : 0;
    return {sequences_cost(batch) + cost_rows(dy, batch.sequence_count) + compared,
            cost_rows(dx, batch.token_count), 0};
}

void gpu_pool_forward(struct device *dev, struct mat y, struct mat x, enum berth_pooling pooling,
                      const struct batch *batch) {
    gpu_run(gpu_of(dev), {"pool_forward", batch->sequence_count, EMBEDDING_THREADS},
            pool_forward_kernel, pool_forward_cost, y, x, pooling, *batch);
    gpu_zero_rows(gpu_of(dev), y, batch->sequence_count);
}

void gpu_pool_backward(struct device *dev, struct mat dx, struct mat dy, struct mat x,
                       enum berth_pooling pooling, const struct batch *batch) {
    gpu_run(gpu_of(dev), {"pool_backward", batch->sequence_count, EMBEDDING_THREADS},
            pool_backward_kernel, pool_backward_cost, dx, dy, x, pooling, *batch);
    gpu_zero_rows(gpu_of(dev), dx, batch->token_count);
}

// --- lengths ------------------------------------------------------------------------------------

// All threads call this, and all get the result.
DEVICE double dot_product(struct mat a, int64_t row, struct mat b, int64_t other) {
    double sum = 0.0;
    FOR_COLUMNS(c, a) {
        sum += (double)number_at(a, row, c) * (double)number_at(b, other, c);
    }
    return block_sum<EMBEDDING_THREADS>(sum);
}

__global__ void __launch_bounds__(EMBEDDING_THREADS)
    normalize_forward_kernel(struct mat y, float *lengths, struct mat x, float radius) {
    const int64_t i = blockIdx.x;
    const double length = fmax(sqrt(dot_product(x, i, x, i)), 1e-12);
    FOR_COLUMNS(c, y) {
        set_number(y, i, c, (float)((double)radius * (double)number_at(x, i, c) / length));
    }
    if (threadIdx.x == 0) {
        lengths[i] = (float)length;
    }
}

__global__ void __launch_bounds__(EMBEDDING_THREADS)
    normalize_backward_kernel(struct mat dx, struct mat dy, struct mat y, const float *lengths,
                              float radius) {
    const int64_t i = blockIdx.x;
    const double along = dot_product(y, i, dy, i) / (double)radius, length = lengths[i];
    FOR_COLUMNS(c, dx) {
        const double across =
            (double)radius * (double)number_at(dy, i, c) - along * (double)number_at(y, i, c);
        set_number(dx, i, c, (float)((double)number_at(dx, i, c) + across / length));
    }
}

static gpu_cost normalize_forward_cost(struct mat y, float *lengths, struct mat x, float) {
    return {cost_of(x), cost_of(y) + cost_words(lengths, y.rows), 0};
}

static gpu_cost normalize_backward_cost(struct mat dx, struct mat dy, struct mat y,
                                        const float *lengths, float) {
    return {cost_of(dx) + cost_of(dy) + cost_of(y) + cost_words(lengths, y.rows), cost_of(dx), 0};
}

void gpu_normalize_forward(struct device *dev, struct mat y, float *lengths, struct mat x,
                           float radius, int64_t count) {
    gpu_run(gpu_of(dev), {"normalize_forward", count, EMBEDDING_THREADS}, normalize_forward_kernel,
            normalize_forward_cost, mat_rows(y, 0, count), lengths, mat_rows(x, 0, count), radius);
    gpu_zero_rows(gpu_of(dev), y, count);
}

void gpu_normalize_backward(struct device *dev, struct mat dx, struct mat dy, struct mat y,
                            const float *lengths, float radius, int64_t count) {
    gpu_run(gpu_of(dev), {"normalize_backward", count, EMBEDDING_THREADS},
            normalize_backward_kernel, normalize_backward_cost, mat_rows(dx, 0, count),
            mat_rows(dy, 0, count), mat_rows(y, 0, count), lengths, radius);
    gpu_zero_rows(gpu_of(dev), dx, count);
}

// --- losses -------------------------------------------------------------------------------------

#define DISTANCE_EPSILON 1e-6 // added to differences, as in PyTorch's pairwise_distance

DEVICE double difference(struct mat x, int64_t a, int64_t b, int64_t column) {
    return (double)number_at(x, a, column) - (double)number_at(x, b, column) + DISTANCE_EPSILON;
}

DEVICE double distance(struct mat x, int64_t a, int64_t b) {
    double sum = 0.0;
    FOR_COLUMNS(c, x) {
        sum += difference(x, a, b, c) * difference(x, a, b, c);
    }
    return sqrt(block_sum<EMBEDDING_THREADS>(sum));
}

__global__ void __launch_bounds__(EMBEDDING_THREADS) cosine_kernel(struct similarity_args args) {
    const int64_t a = (int64_t)blockIdx.x * 2, b = a + 1;
    const double error = dot_product(args.x, a, args.x, b) - (double)args.targets[a];
    const double factor = 2.0 * (double)args.scale * error;
    FOR_COLUMNS(c, args.x) {
        set_number(args.dx, a, c, (float)(factor * (double)number_at(args.x, b, c)));
        set_number(args.dx, b, c, (float)(factor * (double)number_at(args.x, a, c)));
    }
    if (threadIdx.x == 0) {
        args.losses[a] = (float)(error * error);
        args.losses[b] = 0.0f;
    }
}

// Writes the loss of the triplet that begins at row a and returns the factor of its gradient.
DEVICE double triplet_factor(const struct similarity_args &args, int64_t a, double loss) {
    if (threadIdx.x == 0) {
        args.losses[a] = loss > 0 || isnan(loss) ? (float)loss : 0.0f;
        args.losses[a + 1] = args.losses[a + 2] = 0.0f;
    }
    return loss > 0 ? (double)args.scale : 0.0;
}

__global__ void __launch_bounds__(EMBEDDING_THREADS) euclidean_kernel(struct similarity_args args) {
    const int64_t a = (int64_t)blockIdx.x * 3;
    const double positive = distance(args.x, a, a + 1), negative = distance(args.x, a, a + 2);
    const double factor = triplet_factor(args, a, positive - negative + (double)args.margin);
    FOR_COLUMNS(c, args.x) {
        const double to_positive = factor * difference(args.x, a, a + 1, c) / positive;
        const double to_negative = factor * difference(args.x, a, a + 2, c) / negative;
        set_number(args.dx, a, c, (float)(to_positive - to_negative));
        set_number(args.dx, a + 1, c, (float)-to_positive);
        set_number(args.dx, a + 2, c, (float)to_negative);
    }
}

__global__ void __launch_bounds__(EMBEDDING_THREADS) angular_kernel(struct similarity_args args) {
    const int64_t a = (int64_t)blockIdx.x * 3;
    const double positive = dot_product(args.x, a, args.x, a + 1),
                 negative = dot_product(args.x, a, args.x, a + 2);
    const double factor = triplet_factor(args, a, negative - positive + (double)args.margin);
    FOR_COLUMNS(c, args.x) {
        const double x = number_at(args.x, a, c);
        const double to = (double)number_at(args.x, a + 2, c) - number_at(args.x, a + 1, c);
        set_number(args.dx, a, c, (float)(factor * to));
        set_number(args.dx, a + 1, c, (float)(-factor * x));
        set_number(args.dx, a + 2, c, (float)(factor * x));
    }
}

// The errors are kept in the losses of the texts that they belong to, until all columns have read
// them.
__global__ void __launch_bounds__(EMBEDDING_THREADS) margins_kernel(struct similarity_args args) {
    const int64_t a = (int64_t)blockIdx.x * args.texts, end = a + args.texts;
    const double near = dot_product(args.x, a, args.x, a + 1);
    const double others = (double)(args.texts - 2);
    double loss = 0.0;
    for (int64_t i = a + 2; i < end; i++) {
        const double error = near - dot_product(args.x, a, args.x, i) - (double)args.targets[i];
        loss += error * error / others;
        if (threadIdx.x == 0) {
            args.losses[i] = (float)error;
        }
    }
    __syncthreads();
    FOR_COLUMNS(c, args.x) {
        const double x = number_at(args.x, a, c), y = number_at(args.x, a + 1, c);
        double dx = 0.0, dy = 0.0;
        for (int64_t i = a + 2; i < end; i++) {
            const double factor = 2.0 * (double)args.scale * (double)args.losses[i] / others;
            dx += factor * (y - (double)number_at(args.x, i, c));
            dy += factor * x;
            set_number(args.dx, i, c, (float)(-factor * x));
        }
        set_number(args.dx, a, c, (float)dx);
        set_number(args.dx, a + 1, c, (float)dy);
    }
    __syncthreads();
    for (int64_t i = a + threadIdx.x; i < end; i += EMBEDDING_THREADS) {
        args.losses[i] = i == a ? (float)loss : 0.0f;
    }
}

// A block has a text.
__global__ void __launch_bounds__(EMBEDDING_THREADS) vectors_kernel(struct similarity_args args) {
    const int64_t i = blockIdx.x;
    const double share = 1.0 / (double)(args.texts * args.x.cols);
    double sum = 0.0;
    FOR_COLUMNS(c, args.x) {
        const double error =
            (double)number_at(args.x, i, c) - (double)number_at(args.vectors, i, c);
        set_number(args.dx, i, c, (float)(2.0 * (double)args.scale * share * error));
        sum += error * error;
    }
    sum = block_sum<EMBEDDING_THREADS>(sum);
    if (threadIdx.x == 0) {
        args.losses[i] = (float)(share * sum);
    }
}

// --- the loss of an order: products, then for each group their loss and derivatives, then the
// gradient --------------------------------------------------------------------------------------

// The rows of pair `pair`: its first text's, and how far the second one's is from it.
struct pair_rows {
    int64_t first, distance;
};

DEVICE pair_rows rows_of_pair(const struct similarity_args &args, int64_t pair) {
    const int64_t examples = args.count / 2, group = pair / args.group * args.group;
    const int64_t left = examples - group;
    return {group + pair, left < args.group ? left : args.group};
}

__global__ void __launch_bounds__(EMBEDDING_THREADS) products_kernel(struct similarity_args args) {
    const pair_rows rows = rows_of_pair(args, blockIdx.x);
    const double product = dot_product(args.x, rows.first, args.x, rows.first + rows.distance);
    if (threadIdx.x == 0) {
        args.losses[rows.first] = (float)product;
    }
}

__global__ void __launch_bounds__(EMBEDDING_THREADS) order_kernel(struct similarity_args args) {
    const pair_rows rows = rows_of_pair(args, (int64_t)blockIdx.x * args.group);
    const int64_t count = rows.distance;
    const float *targets = args.targets + rows.first;
    float *products = args.losses + rows.first, *derivatives = products + count;
    float largest = 0.0f;
    for (int64_t i = threadIdx.x; i < count; i += EMBEDDING_THREADS) {
        for (int64_t j = 0; j < count; j++) {
            const float x = args.factor * (products[j] - products[i]);
            largest = targets[i] > targets[j] && x > largest ? x : largest;
        }
    }
    const double shift = block_max<EMBEDDING_THREADS>(largest);
    double sum = 0.0;
    for (int64_t i = threadIdx.x; i < count; i += EMBEDDING_THREADS) {
        double above = 0.0, below = 0.0;
        for (int64_t j = 0; j < count; j++) {
            const double x = (double)args.factor * ((double)products[j] - (double)products[i]);
            if (targets[i] > targets[j]) {
                above += exp(x - shift);
            } else if (targets[i] < targets[j]) {
                below += exp(-x - shift);
            }
        }
        derivatives[i] = (float)(below - above);
        sum += above;
    }
    sum = block_sum<EMBEDDING_THREADS>(sum) + exp(-shift);
    const double scale = (double)args.scale * (double)args.factor * (double)count / sum;
    for (int64_t i = threadIdx.x; i < count; i += EMBEDDING_THREADS) {
        derivatives[i] = (float)(scale * (double)derivatives[i]);
        products[i] = i == 0 ? (float)((double)count * (shift + log(sum))) : 0.0f;
    }
}

__global__ void __launch_bounds__(EMBEDDING_THREADS)
    order_backward_kernel(struct similarity_args args) {
    const pair_rows rows = rows_of_pair(args, blockIdx.x);
    const int64_t a = rows.first, b = a + rows.distance;
    const double factor = args.losses[b];
    FOR_COLUMNS(c, args.x) {
        set_number(args.dx, a, c, (float)(factor * (double)number_at(args.x, b, c)));
        set_number(args.dx, b, c, (float)(factor * (double)number_at(args.x, a, c)));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        args.losses[b] = 0.0f;
    }
}

static gpu_cost similarity_cost(struct similarity_args args) {
    const int64_t rows = args.count / args.texts * args.texts;
    return {cost_rows(args.x, rows) + (args.loss == SIMILARITY_VECTORS
                                           ? cost_rows(args.vectors, rows)
                                           : cost_words(args.targets, rows)),
            cost_rows(args.dx, rows) + cost_words(args.losses, rows), 0};
}

void gpu_similarity_loss(struct device *dev, const struct similarity_args *args) {
    struct gpu *gpu = gpu_of(dev);
    const int64_t examples = args->count / args->texts, rest = examples * args->texts;
    const int64_t groups = (examples + args->group - 1) / args->group;
    const struct gpu_shape shape = {"similarity_loss", examples, EMBEDDING_THREADS};
    switch (args->loss) {
    case SIMILARITY_COSINE:
        gpu_run(gpu, shape, cosine_kernel, similarity_cost, *args);
        break;
    case SIMILARITY_TRIPLET_EUCLIDEAN:
        gpu_run(gpu, shape, euclidean_kernel, similarity_cost, *args);
        break;
    case SIMILARITY_TRIPLET_COSINE:
        gpu_run(gpu, shape, angular_kernel, similarity_cost, *args);
        break;
    case SIMILARITY_MARGINS:
        gpu_run(gpu, shape, margins_kernel, similarity_cost, *args);
        break;
    case SIMILARITY_VECTORS:
        gpu_run(gpu, {"similarity_loss", rest, EMBEDDING_THREADS}, vectors_kernel, similarity_cost,
                *args);
        break;
    case SIMILARITY_ORDER:
        gpu_run(gpu, shape, products_kernel, similarity_cost, *args);
        gpu_run(gpu, {"similarity_loss", groups, EMBEDDING_THREADS}, order_kernel, similarity_cost,
                *args);
        gpu_run(gpu, shape, order_backward_kernel, similarity_cost, *args);
        break;
    case SIMILARITY_COUNT: // no loss; without a default the compiler names one that has no case
        break;
    }
    dev->zero(dev, args->losses + rest, (size_t)(args->count - rest) * sizeof *args->losses);
    gpu_zero_rows(gpu, args->dx, rest);
}
