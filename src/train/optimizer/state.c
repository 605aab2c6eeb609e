// SPDX-License-Identifier: Apache-2.0
#include "train/optimizer/state.h"

#include "core/memory.h"
#include "format/checksum/digest.h"

#include <string.h>

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

// Elements of the largest two ranges that follow each other in the backward pass: the head's, the
// layers' from last to first, the rest.
static int64_t largest_ranges(const struct param_table *table) {
    const size_t layers = (size_t)table->layer_count;
    int64_t before = 0, largest = 0;
    for (size_t i = 0; i < layers + 2; i++) {
        const size_t range = i == 0 ? layers : i <= layers ? layers - i : layers + 1;
        const int64_t count = param_range(table, range).count;
        largest = before + count > largest ? before + count : largest;
        before = count;
    }
    return largest;
}

struct state_bytes state_measure_share(const struct param_table *table, enum dtype compute,
                                       const struct state_share *share) {
    struct state_bytes bytes = state_measure(table, compute, 1);
    const int64_t own = partition_elements(table, share->rank, share->size);
    const int64_t held = own + largest_ranges(table);
    if (share->stage > 0) {
        bytes.moments = 2 * (size_t)own * sizeof(float);
    }
    if (share->stage == 2 && held < table->total) {
        bytes.gradients = (size_t)held * sizeof(float);
    }
    return bytes;
}

static enum berth_status take(struct state *state, void *pointer, size_t bytes, const char *purpose,
                              struct berth_error *error) {
    void **block = pointer;
    *block = state->device->memory_new(state->device, bytes);
    return *block != NULL ? BERTH_OK : error_no_memory(error, bytes, purpose);
}

static size_t moment_bytes(const struct state *state) {
    return (size_t)state->partition.elements * sizeof(float);
}

// What training needs beside the weights.
static enum berth_status take_training(struct state *state, struct berth_error *error) {
    const struct state_share *share = &state->share;
    const int divided = share->stage > 0;
    const size_t all = state_measure(state->table, state->compute, 1).gradients;
    TRY(take(state, &state->gradients, all, "the gradients", error));
    TRY(partition_init(&state->own, state->table, share->rank, share->size, error));
    TRY(partition_init(&state->partition, state->table, divided ? share->rank : 0,
                       divided ? share->size : 1, error));
    TRY(take(state, &state->moment1, moment_bytes(state), "the first moment", error));
    return take(state, &state->moment2, moment_bytes(state), "the second moment", error);
}

static const struct state_share alone = {.size = 1};

// share NULL: for inference.
static enum berth_status init(struct state *state, struct device *device,
                              const struct param_table *table, enum dtype compute,
                              const struct state_share *share, struct berth_error *error) {
    *state = (struct state){.device = device,
                            .table = table,
                            .compute = compute,
                            .share = share != NULL ? *share : alone};
    struct state_bytes bytes = state_measure(table, compute, share != NULL);
    enum berth_status status;
    TRY_DONE(take(state, &state->master, bytes.weights, "the weights", error));
    if (bytes.copy > 0) {
        TRY_DONE(take(state, &state->copy, bytes.copy, "the weights' compute copy", error));
    }
    if (share != NULL) {
        TRY_DONE(take_training(state, error));
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

enum berth_status state_init_share(struct state *state, struct device *device,
                                   const struct param_table *table, enum dtype compute,
                                   const struct state_share *share, struct berth_error *error) {
    return init(state, device, table, compute, share, error);
}

static void give(struct device *device, void *block, size_t bytes) {
    if (block != NULL) {
        device->memory_free(device, block, bytes);
    }
}

void state_done(struct state *state) {
    if (state->device == NULL) {
        return;
    }
    struct state_bytes bytes = state_measure(state->table, state->compute, 1);
    give(state->device, state->master, bytes.weights);
    give(state->device, state->copy, bytes.copy);
    give(state->device, state->gradients, bytes.gradients);
    give(state->device, state->moment1, moment_bytes(state));
    give(state->device, state->moment2, moment_bytes(state));
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
                    .gradients = state->gradients},
    };
}

struct mat state_copy(const struct state *state) {
    return state->copy != NULL ? mat_of(state->copy, 1, state->table->matrix_count, state->compute)
                               : (struct mat){0};
}

static size_t buffer_bytes(const struct state *state) {
    return (size_t)state->table->total * sizeof(float);
}

enum berth_status state_borrow(const struct state *state, const float *buffer, int filled,
                               float **host, struct berth_error *error) {
    if (state->device->is_host) {
        *host = (float *)buffer;
        return BERTH_OK;
    }
    *host = memory_pages(buffer_bytes(state));
    if (*host == NULL) {
        return error_no_memory(error, buffer_bytes(state), "a copy of the model");
    }
    if (filled) {
        state->device->download(state->device, *host, buffer, buffer_bytes(state));
    }
    return BERTH_OK;
}

void state_release(const struct state *state, const float *buffer, float *host) {
    if (host != buffer) {
        memory_pages_free(host, buffer_bytes(state));
    }
}

void state_set(struct state *state, float *buffer, const float *host) {
    if (host != buffer) {
        state->device->upload(state->device, buffer, host, buffer_bytes(state));
    }
}

void state_set_weights(struct state *state, const float *host) {
    struct device *device = state->device;
    state_set(state, state->master, host);
    if (state->copy != NULL) {
        device->convert(device, state_copy(state), state->master);
    }
}

enum berth_status state_compare_ranks(const struct state *state, struct comm *comm,
                                      const char *source, struct berth_error *error) {
    char own[DIGEST_HEX_SIZE] = "", first[DIGEST_HEX_SIZE];
    float *weights;
    enum berth_status status;
    if (comm->size == 1) {
        return BERTH_OK;
    }
    status = state_borrow(state, state->master, 1, &weights, error);
    if (status == BERTH_OK) {
        status = digest_memory(DIGEST_SHA256, weights,
                               (size_t)state->table->total * sizeof *weights, own, error);
        state_release(state, state->master, weights);
    }
    memcpy(first, own, sizeof first);
    comm->broadcast(comm, first, sizeof first, 0);
    if (status == BERTH_OK && strcmp(own, first) != 0) {
        status = error_set(
            error, BERTH_BAD_DATA,
            "the weights differ from those of rank 0: %s is not the same on all hosts", source);
    }
    return comm_settle(comm, status, error);
}
