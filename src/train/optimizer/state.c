// SPDX-License-Identifier: Apache-2.0
// Allocates the flat buffers of a run and says what each takes for the plan, frees the shares that
// only other ranks need, and loads weights into them tensor by tensor, converting to the compute
// type and packing as they arrive. The engine, the optimizer and checkpoints work on these buffers.
#include "train/optimizer/state.h"

#include "core/checksum.h"
#include "core/finite.h"
#include "core/memory.h"

#include <inttypes.h>

struct state_bytes state_measure(const struct param_table *table, enum dtype compute,
                                 int training) {
    size_t all = (size_t)table->total * sizeof(float);
    return (struct state_bytes){
        .weights = all,
        .copy = compute == DTYPE_F32 ? 0 : (size_t)table->matrix_count * dtype_size(compute),
        .gradients = training ? all : 0,
        .moments = training ? 2 * all : 0,
    };
}

struct state_bytes state_measure_int8(const struct param_table *table, struct device *device) {
    return (struct state_bytes){.weights = (size_t)(table->total - int8_replaced_elements(table)) *
                                           sizeof(float),
                                .copy = int8_weights_bytes(device, table)};
}

struct partition_rule state_partition_rule(const struct state_sharding *sharding) {
    return (struct partition_rule){.size = sharding->size, .by_tensor = sharding->by_tensor};
}

// The number of elements of a range that other ranks own.
static int64_t foreign_elements(const struct param_table *table,
                                const struct state_sharding *sharding, struct param_range range) {
    const struct partition_rule rule = state_partition_rule(sharding);
    return range.count -
           (partition_elements(table, &rule, sharding->rank, range.first + range.count) -
            partition_elements(table, &rule, sharding->rank, range.first));
}

// The largest number of foreign elements in two consecutive ranges of the backward pass: head,
// layers from last to first, rest.
static int64_t max_foreign(const struct param_table *table, const struct state_sharding *sharding) {
    const size_t layers = (size_t)table->layer_count;
    int64_t before = 0, max = 0;
    for (size_t i = 0; i < layers + 2; i++) {
        const size_t range = i == 0 ? layers : i <= layers ? layers - i : layers + 1;
        const int64_t count = foreign_elements(table, sharding, param_range(table, range));
        max = before + count > max ? before + count : max;
        before = count;
    }
    return max;
}

static int shards_weights(const struct state_sharding *sharding, enum dtype compute) {
    return sharding->stage > 0 && sharding->size > 1 && compute != DTYPE_F32;
}

struct state_bytes state_measure_sharded(const struct param_table *table,
                                         const struct device *device, enum dtype compute,
                                         const struct state_sharding *sharding) {
    struct state_bytes bytes = state_measure(table, compute, 1);
    const struct partition_rule rule = state_partition_rule(sharding);
    const int64_t own = partition_elements(table, &rule, sharding->rank, table->total);
    if (sharding->stage > 0) {
        bytes.moments = 2 * (size_t)own * sizeof(float);
    }
    if (!device->is_host) { // cannot discard
        return bytes;
    }
    if (shards_weights(sharding, compute)) {
        const int64_t matrices =
            partition_elements(table, &rule, sharding->rank, table->head_first);
        bytes.weights = (size_t)(matrices + table->total - table->head_first) * sizeof(float);
    }
    if (sharding->stage == 2 && !sharding->keeps_gradients) {
        bytes.gradients = (size_t)(own + max_foreign(table, sharding)) * sizeof(float);
    }
    return bytes;
}

static enum berth_status allocate(struct state *state, void *pointer, size_t bytes,
                                  const char *purpose, struct berth_error *error) {
    void **block = pointer;
    *block = state->device->memory_new(state->device, bytes);
    return *block != NULL ? BERTH_OK : device_no_memory(state->device, bytes, purpose, error);
}

static size_t moment_bytes(const struct state *state) {
    return (size_t)state->partition.elements * sizeof(float);
}

// Allocates what training needs besides the weights.
static enum berth_status allocate_training(struct state *state, struct berth_error *error) {
    const struct state_sharding *sharding = &state->sharding;
    const struct partition_rule rule = state_partition_rule(sharding), whole = {.size = 1};
    const int divided = sharding->stage > 0;
    const size_t all = state_measure(state->table, state->compute, 1).gradients;
    TRY(allocate(state, &state->gradients, all, "the gradients", error));
    TRY(partition_init(&state->own, state->table, &rule, sharding->rank, error));
    TRY(partition_init(&state->partition, state->table, divided ? &rule : &whole,
                       divided ? sharding->rank : 0, error));
    TRY(allocate(state, &state->moment1, moment_bytes(state), "the first moment", error));
    return allocate(state, &state->moment2, moment_bytes(state), "the second moment", error);
}

static const struct state_sharding alone = {.size = 1};

// sharding NULL: for inference.
static enum berth_status init(struct state *state, struct device *device,
                              const struct param_table *table, enum dtype compute,
                              const struct state_sharding *sharding, struct berth_error *error) {
    *state = (struct state){.device = device,
                            .table = table,
                            .compute = compute,
                            .sharding = sharding != NULL ? *sharding : alone,
                            .is_compared = sharding != NULL && sharding->size > 1};
    struct state_bytes bytes = state_measure(table, compute, sharding != NULL);
    enum berth_status status;
    TRY_DONE(allocate(state, &state->master, bytes.weights, "the weights", error));
    if (bytes.copy > 0) {
        TRY_DONE(allocate(state, &state->copy, bytes.copy, "the weights' compute copy", error));
    }
    if (sharding != NULL) {
        TRY_DONE(allocate_training(state, error));
    }
    return BERTH_OK;
done:
    state_done(state);
    return status;
}

enum berth_status state_init(struct state *state, struct device *device,
                             const struct param_table *table, enum dtype compute, int training,
                             struct berth_error *error) {
    return init(state, device, table, compute, training ? &alone : NULL, error);
}

enum berth_status state_init_sharded(struct state *state, struct device *device,
                                     const struct param_table *table, enum dtype compute,
                                     const struct state_sharding *sharding,
                                     struct berth_error *error) {
    return init(state, device, table, compute, sharding, error);
}

enum berth_status state_init_int8(struct state *state, struct device *device,
                                  const struct param_table *table, enum dtype compute,
                                  struct berth_error *error) {
    // DTYPE_F32, because there is no compute copy.
    TRY(init(state, device, table, DTYPE_F32, NULL, error));
    state->compute = compute;
    state->is_int8 = 1;
    return int8_weights_init(&state->int8, device, table, error);
}

static void release(struct device *device, void *block, size_t bytes) {
    if (block != NULL) {
        device->memory_free(device, block, bytes);
    }
}

void state_done(struct state *state) {
    if (state->device == NULL) {
        return;
    }
    struct state_bytes bytes = state_measure(state->table, state->compute, 1);
    release(state->device, state->master, bytes.weights);
    release(state->device, state->copy, bytes.copy);
    release(state->device, state->gradients, bytes.gradients);
    release(state->device, state->moment1, moment_bytes(state));
    release(state->device, state->moment2, moment_bytes(state));
    int8_weights_done(&state->int8);
    partition_done(&state->partition);
    partition_done(&state->own);
    *state = (struct state){0};
}

struct bert state_model(const struct state *state, const struct bert_config *config) {
    return (struct bert){
        .config = config,
        .table = state->table,
        .device = state->device,
        .compute = state->compute,
        .weights = {.master = state->master,
                    .compute = state->copy != NULL ? state->copy : state->master,
                    .gradients = state->gradients,
                    .int8 = state->is_int8 ? &state->int8 : NULL,
                    .are_packed = state->is_packed},
    };
}

struct mat state_copy(const struct state *state) {
    return state->copy != NULL ? mat_of(state->copy, 1, state->table->matrix_count, state->compute)
                               : (struct mat){0};
}

static size_t buffer_bytes(const struct state *state) {
    return (size_t)state->table->total * sizeof(float);
}

enum berth_status state_borrow(const struct state *state, const float *buffer, float **host,
                               struct berth_error *error) {
    if (state->device->is_host) {
        *host = (float *)buffer;
        return BERTH_OK;
    }
    *host = memory_pages(buffer_bytes(state));
    if (*host == NULL) {
        return error_no_memory(error, buffer_bytes(state), "a copy of the model");
    }
    state->device->download(state->device, *host, buffer, buffer_bytes(state));
    return BERTH_OK;
}

void state_release(const struct state *state, const float *buffer, float *host) {
    if (host != buffer) {
        memory_pages_free(host, buffer_bytes(state));
    }
}

// --- loading weights ----------------------------------------------------------------------------

static void discard(const struct state *state, int64_t from, int64_t to) {
    if (from < to) {
        state->device->discard(state->device, state->master + from,
                               (size_t)(to - from) * sizeof *state->master);
    }
}

// Discards those of master weights [first, first + count) that this rank does not keep.
static void discard_foreign(const struct state *state, int64_t first, int64_t count) {
    const int64_t limit = state->table->head_first - first;
    count = count < limit ? count : limit;
    if (!shards_weights(&state->sharding, state->compute) || count <= 0) {
        return;
    }
    int64_t done = first;
    for (size_t i = 0; i < state->own.count; i++) {
        const struct partition_span own = partition_intersect(&state->own, i, first, count);
        if (own.count > 0) {
            discard(state, done, own.first);
            done = own.first + own.count;
        }
    }
    discard(state, done, first + count);
}

// Updates the compute copy of master weights [first, first + count), as far as they have one.
static void convert(const struct state *state, int64_t first, int64_t count) {
    const int64_t limit = state->table->matrix_count - first;
    count = count < limit ? count : limit;
    if (state->copy != NULL && count > 0) {
        char *copy = (char *)state->copy + (size_t)first * dtype_size(state->compute);
        state->device->convert(state->device, mat_of(copy, 1, count, state->compute),
                               state->master + first);
    }
}

void state_set_weights(struct state *state, const float *host) {
    if (host != state->master) {
        state->device->upload(state->device, state->master, host, buffer_bytes(state));
    }
    convert(state, 0, state->table->total);
    discard_foreign(state, 0, state->table->total);
}

static size_t bytes_of(const struct param *param) {
    return (size_t)(param->rows * param->cols) * sizeof(float);
}

size_t state_loader_bytes(const struct state *state) {
    size_t largest = 0;
    const int is_temporary = state->is_int8 || !state->device->is_host;
    for (size_t i = 0; i < state->table->count && is_temporary; i++) {
        const size_t own = bytes_of(&state->table->params[i]);
        largest = own > largest ? own : largest;
    }
    return largest;
}

enum berth_status state_loader_init(struct state_loader *loader, struct state *state,
                                    const char *source, struct berth_error *error) {
    *loader = (struct state_loader){.state = state, .source = source};
    loader->bytes = state->device->is_host ? 0 : state_loader_bytes(state);
    state->checksum = 0;
    if (loader->bytes > 0) {
        loader->staging = memory_pages(loader->bytes);
    }
    return loader->bytes == 0 || loader->staging != NULL
               ? BERTH_OK
               : error_no_memory(error, loader->bytes, "the largest parameter");
}

void state_loader_done(struct state_loader *loader) {
    memory_pages_free(loader->staging, loader->bytes);
    *loader = (struct state_loader){0};
}

static float *begin_param(void *context, const struct param *param) {
    const struct state_loader *loader = context;
    return loader->staging != NULL ? loader->staging : loader->state->master + param->offset;
}

// Elements that are looked at twice while they are in the second-level cache.
#define PIECE ((int64_t)1 << 15)

// Adds a parameter to the checksum of all, piece by piece in any order. Returns how many elements
// are before the first one that is not finite, which only training asks.
static int64_t inspect(struct state *state, const struct param *param, const float *values) {
    const int64_t count = param->rows * param->cols;
    const int trains = state->gradients != NULL, is_compared = state->is_compared;
    uint64_t checksum = 0;
    int64_t finite = count;
    if (!trains && !is_compared) {
        return count;
    }
#pragma omp parallel for num_threads(state->device->threads) schedule(static)                      \
    reduction(+ : checksum) reduction(min : finite)
    for (int64_t first = 0; first < count; first += PIECE) {
        const int64_t length = count - first < PIECE ? count - first : PIECE;
        const int64_t found = trains ? finite_count(values + first, length) : length;
        finite = found < length && first + found < finite ? first + found : finite;
        if (is_compared) {
            checksum +=
                checksum_add(checksum_bytes(values + first, (size_t)length * sizeof *values),
                             (uint64_t)(param->offset + first));
        }
    }
    state->checksum += checksum;
    return finite;
}

static enum berth_status end_param(void *context, const struct param *param, float *values,
                                   struct berth_error *error) {
    const struct state_loader *loader = context;
    struct state *state = loader->state;
    const int64_t count = param->rows * param->cols;
    const int64_t finite = inspect(state, param, values);

    if (!(finite == param->rows * param->cols)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: element %" PRId64 " of the weight %s is not finite (%g): the file "
                         "is damaged, or the training that wrote it diverged; use another model "
                         "or an earlier checkpoint",
                         loader->source, finite + 1, param->name, (double)values[finite]);
    }
    if (state->is_int8) {
        TRY(int8_weights_round(&state->int8, param, values, error));
    }
    if (loader->staging != NULL) {
        state->device->upload(state->device, state->master + param->offset, values,
                              bytes_of(param));
    }
    if (state->is_int8) {
        if (int8_weights_set(&state->int8, param, values)) {
            discard(state, param->offset, param->offset + count);
        }
        return state->device->status(state->device, error);
    }
    convert(state, param->offset, count);
    discard_foreign(state, param->offset, count);
    return BERTH_OK;
}

enum berth_status state_loader_finish(struct state_loader *loader, const struct bert_config *config,
                                      struct berth_error *error) {
    struct state *state = loader->state;
    if (state->is_int8) {
        return int8_weights_finish(&state->int8, state->master, error);
    }
    if (state->gradients == NULL) {
        const struct bert model = state_model(state, config);
        bert_pack(&model);
        state->is_packed = 1;
    }
    return state->device->status(state->device, error);
}

static int take_param(void *context, const struct param *param, const struct weights *weights,
                      const struct weight *weight) {
    const struct state_loader *loader = context;
    return int8_weights_take(&loader->state->int8, param, weights, weight);
}

struct param_sink state_loader_sink(struct state_loader *loader) {
    const struct state *state = loader->state;
    const int may_take = state->is_int8 && !state->is_compared; // which needs all values
    return (struct param_sink){begin_param, end_param, may_take ? take_param : NULL, loader,
                               state->device->threads};
}
