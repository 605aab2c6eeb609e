// SPDX-License-Identifier: Apache-2.0
// The phases of a sum (exchange.h). Values travel in the wire's type; each owner's own values stay
// where they are, unrounded, and all are added in f32.
#include "comm/step.h"

#include <inttypes.h>

static int own_rank(const struct exchange *exchange) {
    return exchange->topology->rank;
}

// --- begin --------------------------------------------------------------------------------------

static enum berth_status receive_sums(struct exchange *exchange, struct step *step,
                                      struct berth_error *error) {
    const struct topology *topology = exchange->topology;
    const struct piece own = step_piece(exchange, step, own_rank(exchange));
    TRY(step_receive_greeting(exchange, step, error));
    for (int i = 0; own.count > 0 && i + 1 < topology->host_count; i++) {
        const int rank = topology_handler(topology, exchange->hosts[i], own.owner);
        TRY(step_receive(exchange, step, rank, &own, step_received(exchange, step, i), error));
    }
    return BERTH_OK;
}

static enum berth_status begin(struct exchange *exchange, struct step *step,
                               struct berth_error *error) {
    const struct comm_range *range = &step->operation.range;
    TRY(receive_sums(exchange, step, error));
    for (int owner = 0; owner < exchange->topology->size; owner++) {
        const struct piece piece = step_piece(exchange, step, owner);
        if (owner != own_rank(exchange)) {
            numbers_convert(step_cell(exchange, step, exchange->local, owner) + 1, range->wire,
                            piece.data, range->dtype, piece.count);
        }
    }
    step_mark_filled(exchange, step);
    return BERTH_OK;
}

// --- pass ---------------------------------------------------------------------------------------

static int may_pass(const struct exchange *exchange, const struct step *step) {
    return step_unfilled(exchange, step) < 0;
}

// The sum of the host's ranks. One rank's own values need not be added.
static void add_host(struct exchange *exchange, const struct step *step, const struct piece *piece,
                     void *to, enum dtype dtype) {
    for (int local = 0; local < exchange->local_size; local++) {
        const struct range_header *cell = step_cell(exchange, step, local, piece->owner);
        exchange->addends[local] = (struct addend){cell + 1, step->operation.range.wire};
    }
    if (piece->owner == own_rank(exchange)) {
        exchange->addends[exchange->local] = (struct addend){piece->data, DTYPE_F32};
    }
    if (exchange->local_size > 1) {
        numbers_sum(to, dtype, exchange->addends, exchange->local_size, piece->count);
    }
}

static enum berth_status send_sum(struct exchange *exchange, struct step *step, int owner,
                                  struct berth_error *error) {
    const struct piece piece = step_piece(exchange, step, owner);
    struct range_header *cell = step_cell(exchange, step, exchange->local, owner);
    if (piece.count == 0) {
        return BERTH_OK;
    }
    add_host(exchange, step, &piece, cell + 1, step->operation.range.wire);
    step_seal(step, &piece, exchange->local_size, cell);
    return step_send(exchange, step, owner, &piece, cell, error);
}

static enum berth_status pass(struct exchange *exchange, struct step *step,
                              struct berth_error *error) {
    const struct piece own = step_piece(exchange, step, own_rank(exchange));
    TRY(step_check_filled(exchange, step, error));
    TRY(step_send_greeting(exchange, step, error));
    for (int i = 0; i < exchange->handled_count; i++) {
        TRY(send_sum(exchange, step, exchange->handled[i], error));
    }
    add_host(exchange, step, &own, own.data, DTYPE_F32);
    step_mark_emptied(exchange, step);
    return BERTH_OK;
}

// --- finish -------------------------------------------------------------------------------------

static int may_finish(const struct exchange *exchange, const struct step *step) {
    return batch_is_done(&step->receives) && batch_is_done(&step->sends);
}

static enum berth_status check_sums(const struct exchange *exchange, const struct step *step,
                                    const struct piece *own, struct berth_error *error) {
    const struct topology *topology = exchange->topology;
    int64_t ranks = exchange->local_size;
    for (int i = 0; i + 1 < topology->host_count; i++) {
        const int rank = topology_handler(topology, exchange->hosts[i], own->owner);
        const struct range_header *cell = step_received(exchange, step, i);
        TRY(step_check(exchange, step, rank, own, cell, error));
        ranks += cell->ranks;
    }
    if (ranks != topology->size) {
        return error_set(error, BERTH_INTERNAL,
                         "the sum of \"%s\" has the values of %" PRId64 " ranks, not of %d",
                         step->operation.range.name, ranks, topology->size);
    }
    return BERTH_OK;
}

static enum berth_status finish(struct exchange *exchange, struct step *step,
                                struct berth_error *error) {
    const struct topology *topology = exchange->topology;
    const struct piece own = step_piece(exchange, step, own_rank(exchange));
    TRY(step_check_greeting(exchange, step, error));
    if (own.count == 0 || topology->host_count == 1) {
        return BERTH_OK;
    }
    TRY(check_sums(exchange, step, &own, error));
    for (int i = 0; i + 1 < topology->host_count; i++) {
        const struct range_header *cell = step_received(exchange, step, i);
        exchange->addends[exchange->hosts[i]] =
            (struct addend){cell + 1, step->operation.range.wire};
    }
    exchange->addends[topology->host] = (struct addend){own.data, DTYPE_F32};
    numbers_sum(own.data, DTYPE_F32, exchange->addends, topology->host_count, own.count);
    return BERTH_OK;
}

const struct exchange_kind exchange_reduce = {.begin = begin,
                                              .may_pass = may_pass,
                                              .pass = pass,
                                              .may_finish = may_finish,
                                              .finish = finish,
                                              .sends_late = 1};
