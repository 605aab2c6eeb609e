// SPDX-License-Identifier: Apache-2.0
#include "train/engine/exchange.h"

#include "core/memory.h"

// --- pieces -------------------------------------------------------------------------------------

// The owner of what follows a range: the rank whose part of a later range is the first.
static int owner_after(const struct param_table *table, size_t range, int size, int64_t *starts) {
    for (size_t later = range + 1; later < param_range_count(table); later++) {
        partition_starts(table, param_range(table, later), size, starts);
        for (int rank = 0; rank < size; rank++) {
            if (starts[rank + 1] > starts[rank]) {
                return rank;
            }
        }
    }
    return size - 1;
}

static void add_body(struct exchange *exchange, struct exchange_piece *piece,
                     struct param_range range) {
    const int size = exchange->comm->size;
    partition_starts(exchange->state->table, range, size, piece->starts);
    for (int rank = 0; rank <= size; rank++) {
        // What lies before the range was exchanged with the range before.
        piece->starts[rank] = piece->starts[rank] > range.first ? piece->starts[rank] : range.first;
    }
    piece->first = range.first;
    piece->count = piece->starts[size] - range.first;
}

static void add_end(struct exchange *exchange, struct exchange_piece *piece, size_t index,
                    int64_t first) {
    const struct param_table *table = exchange->state->table;
    const struct param_range range = param_range(table, index);
    const int size = exchange->comm->size;
    const int owner = owner_after(table, index, size, piece->starts);
    piece->first = first;
    piece->count = range.first + range.count - first;
    for (int rank = 0; rank <= size; rank++) {
        piece->starts[rank] = rank <= owner ? first : first + piece->count;
    }
}

static void list_pieces(struct exchange *exchange) {
    const struct param_table *table = exchange->state->table;
    const size_t ranges = param_range_count(table), width = (size_t)exchange->comm->size + 1;
    size_t count = 0;
    for (size_t i = 0; i < ranges; i++) {
        const struct param_range range = param_range(table, i);
        struct exchange_piece *body = &exchange->pieces[count], *end;
        exchange->first_piece[i] = count;
        body->starts = exchange->starts + count * width;
        add_body(exchange, body, range);
        count += body->count > 0;
        const int64_t done = range.first + body->count;
        if (done < range.first + range.count) {
            end = &exchange->pieces[count];
            end->starts = exchange->starts + count * width;
            add_end(exchange, end, i, done);
            count++;
        }
    }
    exchange->first_piece[ranges] = count;
}

enum berth_status exchange_init(struct exchange *exchange, struct comm *comm, struct state *state,
                                enum dtype wire, struct berth_error *error) {
    const size_t ranges = param_range_count(state->table), most = 2 * ranges;
    const size_t width = (size_t)comm->size + 1;
    *exchange = (struct exchange){.comm = comm, .state = state, .wire = wire};
    exchange->pieces = memory_array_zeroed(most, sizeof *exchange->pieces);
    exchange->first_piece = memory_array_zeroed(ranges + 1, sizeof *exchange->first_piece);
    exchange->starts = memory_array_zeroed(most * width, sizeof *exchange->starts);
    exchange->gradients = memory_array_zeroed(ranges, sizeof *exchange->gradients);
    exchange->weights = memory_array_zeroed(ranges, sizeof *exchange->weights);
    if (exchange->pieces == NULL || exchange->first_piece == NULL || exchange->starts == NULL ||
        exchange->gradients == NULL || exchange->weights == NULL) {
        return error_no_memory(error, most * width * sizeof *exchange->starts,
                               "the pieces of an exchange");
    }
    list_pieces(exchange);
    return BERTH_OK;
}

void exchange_done(struct exchange *exchange) {
    if (exchange->gradients != NULL && exchange->weights != NULL) {
        exchange_wait_all_gradients(exchange);
        exchange_wait_all_weights(exchange);
    }
    memory_free(exchange->pieces);
    memory_free(exchange->first_piece);
    memory_free(exchange->starts);
    memory_free(exchange->gradients);
    memory_free(exchange->weights);
    *exchange = (struct exchange){0};
}

int exchange_is_shared(const struct exchange *exchange) {
    return exchange->comm->size > 1;
}

// --- exchanging ---------------------------------------------------------------------------------

static struct comm_range piece_range(const struct exchange_piece *piece, const char *name,
                                     void *data, enum dtype dtype, enum dtype wire) {
    return (struct comm_range){.name = name,
                               .data = data,
                               .first = piece->first,
                               .count = piece->count,
                               .dtype = dtype,
                               .wire = wire,
                               .starts = piece->starts};
}

void exchange_reduce(struct exchange *exchange, size_t range) {
    struct comm *comm = exchange->comm;
    if (!exchange_is_shared(exchange)) {
        return;
    }
    for (size_t i = exchange->first_piece[range]; i < exchange->first_piece[range + 1]; i++) {
        const struct exchange_piece *piece = &exchange->pieces[i];
        const struct comm_range gradients =
            piece_range(piece, "gradients", exchange->state->gradients + piece->first, DTYPE_F32,
                        exchange->wire);
        exchange->gradients[range] = comm->reduce_begin(comm, &gradients);
        if (exchange->state->share.stage == 0) {
            exchange->gradients[range] = comm->gather_begin(comm, &gradients);
        }
    }
}

static int is_last(const struct exchange *exchange, size_t range) {
    return range + 1 == param_range_count(exchange->state->table);
}

// The copy of a range that has one as a whole, else the master weights.
static struct comm_range weights_of(const struct exchange *exchange,
                                    const struct exchange_piece *piece, size_t range) {
    const struct state *state = exchange->state;
    if (state->copy != NULL && !is_last(exchange, range)) {
        char *copy = (char *)state->copy + (size_t)piece->first * dtype_size(state->compute);
        return piece_range(piece, "weights", copy, state->compute, state->compute);
    }
    return piece_range(piece, "weights", state->master + piece->first, DTYPE_F32, DTYPE_F32);
}

void exchange_gather(struct exchange *exchange, size_t range) {
    struct comm *comm = exchange->comm;
    if (!exchange_is_shared(exchange) || exchange->state->share.stage == 0) {
        return;
    }
    for (size_t i = exchange->first_piece[range]; i < exchange->first_piece[range + 1]; i++) {
        const struct comm_range weights = weights_of(exchange, &exchange->pieces[i], range);
        exchange->weights[range] = comm->gather_begin(comm, &weights);
    }
}

// Of the last range the master weights were gathered. Where it has matrices, as the word table is
// one that is a decoder, their copy follows from them.
static void copy_last(const struct exchange *exchange) {
    const struct state *state = exchange->state;
    const struct param_table *table = state->table;
    const struct param_range last = param_range(table, param_range_count(table) - 1);
    const int64_t count = table->matrix_count - last.first;
    if (state->copy != NULL && count > 0) {
        char *copy = (char *)state->copy + (size_t)last.first * dtype_size(state->compute);
        state->device->convert(state->device, mat_of(copy, 1, count, state->compute),
                               state->master + last.first);
    }
}

// Waits for the exchange whose ticket this is; 0: there was none.
static int wait(const struct exchange *exchange, int64_t *ticket) {
    const int is_begun = *ticket > 0;
    if (is_begun) {
        exchange->comm->wait(exchange->comm, *ticket);
        *ticket = 0;
    }
    return is_begun;
}

void exchange_wait_gradients(struct exchange *exchange, size_t range) {
    (void)wait(exchange, &exchange->gradients[range]);
}

void exchange_wait_weights(struct exchange *exchange, size_t range) {
    if (wait(exchange, &exchange->weights[range]) && is_last(exchange, range)) {
        copy_last(exchange);
    }
}

void exchange_wait_all_gradients(struct exchange *exchange) {
    for (size_t i = 0; i < param_range_count(exchange->state->table); i++) {
        exchange_wait_gradients(exchange, i);
    }
}

void exchange_wait_all_weights(struct exchange *exchange) {
    for (size_t i = 0; i < param_range_count(exchange->state->table); i++) {
        exchange_wait_weights(exchange, i);
    }
}

// Stage 2 gives their memory back as well.
static void clear(const struct state *state, int64_t from, int64_t to) {
    struct device *device = state->device;
    void (*const remove)(struct device *, void *, size_t) =
        state->share.stage == 2 ? device->discard : device->zero;
    remove(device, state->gradients + from, (size_t)(to - from) * sizeof *state->gradients);
}

void exchange_clear(struct exchange *exchange, size_t range) {
    const int rank = exchange->comm->rank;
    if (!exchange_is_shared(exchange) || exchange->state->share.stage == 0) {
        return;
    }
    for (size_t i = exchange->first_piece[range]; i < exchange->first_piece[range + 1]; i++) {
        const struct exchange_piece *piece = &exchange->pieces[i];
        clear(exchange->state, piece->first, piece->starts[rank]);
        clear(exchange->state, piece->starts[rank + 1], piece->first + piece->count);
    }
}
