// SPDX-License-Identifier: Apache-2.0
// The exchange of an update's gradients and weights between ranks, segment by segment, from where
// the backward pass ends a segment to where the optimizer reads it. Leaves out the transfer
// (comm/comm.h).
#include "train/engine/all_reduce.h"

#include "core/memory.h"
#include "train/optimizer/optimizer.h"

#include <string.h>

// --- segments -----------------------------------------------------------------------------------

// The rank that owns the first element after the range.
static int owner_after(const struct state *state, size_t range, int64_t *starts) {
    const struct partition_rule rule = state_partition_rule(&state->sharding);
    for (size_t later = range + 1; later < param_range_count(state->table); later++) {
        partition_starts(state->table, &rule, param_range(state->table, later), starts);
        for (int rank = 0; rank < rule.size; rank++) {
            if (starts[rank + 1] > starts[rank]) {
                return rank;
            }
        }
    }
    return rule.size - 1;
}

static void list_segments(struct all_reduce *all_reduce) {
    const struct param_table *table = all_reduce->state->table;
    const size_t ranges = param_range_count(table), width = (size_t)all_reduce->comm->size + 1;
    size_t count = 0;
    for (size_t i = 0; i < ranges; i++) {
        const struct param_range range = param_range(table, i);
        struct all_reduce_segment *body = &all_reduce->segments[count], *tail;
        all_reduce->first_segment[i] = count;
        body->starts = all_reduce->starts + count * width;
        const int size = all_reduce->comm->size;
        const struct partition_rule rule = state_partition_rule(&all_reduce->state->sharding);
        partition_starts(all_reduce->state->table, &rule, range, body->starts);
        for (int rank = 0; rank <= size; rank++) {
            // A rank's part may begin before this range: the elements before range.first were
            // already sent with the previous range.
            body->starts[rank] =
                body->starts[rank] > range.first ? body->starts[rank] : range.first;
        }
        body->first = range.first;
        body->count = body->starts[size] - range.first;
        count += body->count > 0;
        const int64_t done = range.first + body->count;
        if (done < range.first + range.count) {
            tail = &all_reduce->segments[count];
            tail->starts = all_reduce->starts + count * width;
            const int owner = owner_after(all_reduce->state, i, tail->starts);
            tail->first = done;
            tail->count = range.first + range.count - done;
            for (int rank = 0; rank <= size; rank++) {
                tail->starts[rank] = rank <= owner ? done : done + tail->count;
            }
            count++;
        }
    }
    all_reduce->first_segment[ranges] = count;
}

// Stage 0 gathers sums in their wire type; the others gather heads, tables and vectors in f32.
size_t all_reduce_shared_bytes(const struct comm *comm, const struct state_sharding *sharding,
                               enum dtype wire) {
    const enum dtype gathered = sharding->stage == 0 ? wire : DTYPE_F32;
    const size_t bytes =
        (comm->reduce_bytes * dtype_size(wire) + comm->gather_bytes * dtype_size(gathered)) /
        sizeof(float);
    return bytes < comm->host_bytes ? bytes : comm->host_bytes;
}

// Exchanges of one segment that may be in progress: its gradients reduced, its weights gathered.
enum { EXCHANGES = 2 };

enum berth_status all_reduce_init(struct all_reduce *all_reduce, struct comm *comm,
                                  struct state *state, const struct all_reduce_rules *rules,
                                  struct berth_error *error) {
    const size_t ranges = param_range_count(state->table), max_segments = 2 * ranges;
    const size_t width = (size_t)comm->size + 1;
    *all_reduce = (struct all_reduce){.comm = comm, .state = state, .rules = *rules};
    all_reduce->segments = memory_array_zeroed(max_segments, sizeof *all_reduce->segments);
    all_reduce->first_segment = memory_array_zeroed(ranges + 1, sizeof *all_reduce->first_segment);
    all_reduce->starts = memory_array_zeroed(max_segments * width, sizeof *all_reduce->starts);
    all_reduce->gradients = memory_array_zeroed(ranges, sizeof *all_reduce->gradients);
    all_reduce->weights = memory_array_zeroed(ranges, sizeof *all_reduce->weights);
    if (all_reduce->segments == NULL || all_reduce->first_segment == NULL ||
        all_reduce->starts == NULL || all_reduce->gradients == NULL ||
        all_reduce->weights == NULL) {
        return error_no_memory(error, max_segments * width * sizeof *all_reduce->starts,
                               "the segments of an exchange");
    }
    list_segments(all_reduce);
    const struct range_exchange_setup setup = {.elements = state->table->total,
                                               .capacity = (int64_t)(EXCHANGES * max_segments),
                                               .mode = rules->mode};
    return range_exchange_init(&all_reduce->exchange, comm, state->device, &setup, error);
}

void all_reduce_finish(struct all_reduce *all_reduce) {
    if (all_reduce->gradients != NULL && all_reduce->weights != NULL) {
        all_reduce_wait_all_gradients(all_reduce);
        all_reduce_wait_all_weights(all_reduce);
    }
    range_exchange_close(&all_reduce->exchange);
}

void all_reduce_done(struct all_reduce *all_reduce) {
    range_exchange_done(&all_reduce->exchange);
    memory_free(all_reduce->segments);
    memory_free(all_reduce->first_segment);
    memory_free(all_reduce->starts);
    memory_free(all_reduce->gradients);
    memory_free(all_reduce->weights);
    *all_reduce = (struct all_reduce){0};
}

int all_reduce_has_peers(const struct all_reduce *all_reduce) {
    return all_reduce->comm->size > 1;
}

// --- exchanging ---------------------------------------------------------------------------------

static struct comm_range gradients_of(const struct all_reduce *all_reduce,
                                      const struct all_reduce_segment *segment) {
    return (struct comm_range){.name = "gradients",
                               .data = all_reduce->state->gradients + segment->first,
                               .first = segment->first,
                               .count = segment->count,
                               .dtype = DTYPE_F32,
                               .wire = all_reduce->rules.wire,
                               .starts = segment->starts,
                               .bucket = all_reduce->rules.gradient_bucket,
                               .native = all_reduce->rules.native,
                               .to_all = all_reduce->state->sharding.stage == 0};
}

void all_reduce_begin(struct all_reduce *all_reduce, size_t range) {
    struct range_exchange *exchange = &all_reduce->exchange;
    if (!all_reduce_has_peers(all_reduce)) {
        return;
    }
    // A GPU's weights and gradients pass through the same memory of the host. Only a rank that had
    // no forward pass still waits for weights here.
    all_reduce_wait_weights(all_reduce, range);
    for (size_t i = all_reduce->first_segment[range]; i < all_reduce->first_segment[range + 1];
         i++) {
        const struct comm_range gradients = gradients_of(all_reduce, &all_reduce->segments[i]);
        all_reduce->gradients[range] = range_exchange_reduce(exchange, &gradients);
    }
    if (all_reduce->rules.blocking) {
        all_reduce_wait_gradients(all_reduce, range);
    }
}

int all_reduce_reads_copy(const struct all_reduce *all_reduce, size_t range) {
    return all_reduce->state->copy != NULL &&
           (int64_t)range < all_reduce->state->table->layer_count;
}

static struct comm_range weights_of(const struct all_reduce *all_reduce,
                                    const struct all_reduce_segment *segment, size_t range) {
    const struct state *state = all_reduce->state;
    struct comm_range weights = {.name = "weights",
                                 .data = all_reduce->state->master + segment->first,
                                 .first = segment->first,
                                 .count = segment->count,
                                 .dtype = DTYPE_F32,
                                 .wire = DTYPE_F32,
                                 .starts = segment->starts,
                                 .bucket = all_reduce->rules.weight_bucket,
                                 .native = all_reduce->rules.native};
    if (all_reduce_reads_copy(all_reduce, range)) {
        weights.data = (char *)state->copy + (size_t)segment->first * dtype_size(state->compute);
        weights.dtype = weights.wire = state->compute;
    }
    return weights;
}

void all_reduce_gather(struct all_reduce *all_reduce, size_t range) {
    if (!all_reduce_has_peers(all_reduce) || all_reduce->state->sharding.stage == 0) {
        return;
    }
    for (size_t i = all_reduce->first_segment[range]; i < all_reduce->first_segment[range + 1];
         i++) {
        const struct comm_range weights = weights_of(all_reduce, &all_reduce->segments[i], range);
        all_reduce->weights[range] = range_exchange_gather(&all_reduce->exchange, &weights);
    }
    if (all_reduce->rules.blocking) {
        all_reduce_wait_weights(all_reduce, range);
    }
}

// Updates the compute copy of a range whose master weights were gathered.
static void copy_range(const struct all_reduce *all_reduce, size_t index) {
    const struct state *state = all_reduce->state;
    const struct param_range range = param_range(state->table, index);
    const int64_t left = state->table->matrix_count - range.first;
    const int64_t count = left < range.count ? left : range.count;
    if (state->copy != NULL && !all_reduce_reads_copy(all_reduce, index) && count > 0) {
        char *copy = (char *)state->copy + (size_t)range.first * dtype_size(state->compute);
        state->device->convert(state->device, mat_of(copy, 1, count, state->compute),
                               state->master + range.first);
    }
}

// Waits for an exchange; returns 0 if there was none.
static int wait(struct all_reduce *all_reduce, int64_t *ticket) {
    const int is_begun = *ticket > 0;
    if (is_begun) {
        range_exchange_wait(&all_reduce->exchange, *ticket);
        *ticket = 0;
    }
    return is_begun;
}

void all_reduce_wait_gradients(struct all_reduce *all_reduce, size_t range) {
    (void)wait(all_reduce, &all_reduce->gradients[range]);
}

void all_reduce_wait_weights(struct all_reduce *all_reduce, size_t range) {
    if (wait(all_reduce, &all_reduce->weights[range])) {
        copy_range(all_reduce, range);
    }
}

void all_reduce_wait_all_gradients(struct all_reduce *all_reduce) {
    range_exchange_submit_all(&all_reduce->exchange);
    for (size_t i = 0; i < param_range_count(all_reduce->state->table); i++) {
        all_reduce_wait_gradients(all_reduce, i);
    }
}

void all_reduce_wait_all_weights(struct all_reduce *all_reduce) {
    range_exchange_submit_all(&all_reduce->exchange);
    for (size_t i = 0; i < param_range_count(all_reduce->state->table); i++) {
        all_reduce_wait_weights(all_reduce, i);
    }
}

// Stage 2 also returns their memory to the system.
static void clear(const struct state *state, int64_t from, int64_t to) {
    struct device *device = state->device;
    void (*const remove)(struct device *, void *, size_t) =
        state->sharding.stage == 2 ? device->discard : device->zero;
    remove(device, state->gradients + from, (size_t)(to - from) * sizeof *state->gradients);
}

void all_reduce_clear(struct all_reduce *all_reduce, size_t range) {
    const int rank = all_reduce->comm->rank;
    if (!all_reduce_has_peers(all_reduce) || all_reduce->state->sharding.stage == 0) {
        return;
    }
    for (size_t i = all_reduce->first_segment[range]; i < all_reduce->first_segment[range + 1];
         i++) {
        const struct all_reduce_segment *segment = &all_reduce->segments[i];
        clear(all_reduce->state, segment->first, segment->starts[rank]);
        clear(all_reduce->state, segment->starts[rank + 1], segment->first + segment->count);
    }
}
