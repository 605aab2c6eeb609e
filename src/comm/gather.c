// SPDX-License-Identifier: Apache-2.0
// The phases of a gathering (exchange.h). A part leaves its host once for each other one, where one
// rank receives it into the window for all.
#include "comm/step.h"

// --- begin --------------------------------------------------------------------------------------

static enum berth_status receive_parts(struct exchange *exchange, struct step *step,
                                       struct berth_error *error) {
    TRY(step_receive_greeting(exchange, step, error));
    for (int i = 0; i < exchange->handled_count; i++) {
        const struct piece piece = step_piece(exchange, step, exchange->handled[i]);
        if (piece.count > 0) {
            TRY(step_receive(exchange, step, piece.owner, &piece,
                             step_cell(exchange, step, exchange->local, piece.owner), error));
        }
    }
    return BERTH_OK;
}

// The owner rounds its own values as well, so that all ranks have the same.
static struct range_header *fill_own(struct exchange *exchange, const struct step *step,
                                     const struct piece *own) {
    const struct comm_range *range = &step->operation.range;
    struct range_header *cell = step_cell(exchange, step, exchange->local, own->owner);
    numbers_convert(cell + 1, range->wire, own->data, range->dtype, own->count);
    if (range->wire != range->dtype) {
        numbers_convert(own->data, range->dtype, cell + 1, range->wire, own->count);
    }
    return cell;
}

static enum berth_status begin(struct exchange *exchange, struct step *step,
                               struct berth_error *error) {
    const struct topology *topology = exchange->topology;
    const struct piece own = step_piece(exchange, step, topology->rank);
    struct range_header *cell = fill_own(exchange, step, &own);
    TRY(receive_parts(exchange, step, error));
    TRY(step_send_greeting(exchange, step, error));
    if (own.count == 0 || topology->host_count == 1) {
        return BERTH_OK;
    }
    step_seal(step, &own, 1, cell);
    for (int i = 0; i + 1 < topology->host_count; i++) {
        const int rank = topology_handler(topology, exchange->hosts[i], own.owner);
        TRY(step_send(exchange, step, rank, &own, cell, error));
    }
    return BERTH_OK;
}

// --- pass ---------------------------------------------------------------------------------------

static int may_pass(const struct exchange *exchange, const struct step *step) {
    return batch_is_done(&step->receives);
}

static enum berth_status pass(struct exchange *exchange, struct step *step,
                              struct berth_error *error) {
    TRY(step_check_greeting(exchange, step, error));
    for (int i = 0; i < exchange->handled_count; i++) {
        const struct piece piece = step_piece(exchange, step, exchange->handled[i]);
        const struct range_header *cell = step_cell(exchange, step, exchange->local, piece.owner);
        if (piece.count > 0) {
            TRY(step_check(exchange, step, piece.owner, &piece, cell, error));
        }
    }
    step_mark_filled(exchange, step);
    return BERTH_OK;
}

// --- finish -------------------------------------------------------------------------------------

static int may_finish(const struct exchange *exchange, const struct step *step) {
    return batch_is_done(&step->sends) && step_unfilled(exchange, step) < 0;
}

static enum berth_status finish(struct exchange *exchange, struct step *step,
                                struct berth_error *error) {
    const struct comm_range *range = &step->operation.range;
    const struct topology *topology = exchange->topology;
    TRY(step_check_filled(exchange, step, error));
    for (int owner = 0; owner < topology->size; owner++) {
        const struct piece piece = step_piece(exchange, step, owner);
        const int handler = topology_handler(topology, topology->host, owner);
        if (owner != topology->rank) {
            numbers_convert(piece.data, range->dtype,
                            step_cell(exchange, step, topology_local(topology, handler), owner) + 1,
                            range->wire, piece.count);
        }
    }
    step_mark_emptied(exchange, step);
    return BERTH_OK;
}

const struct exchange_kind exchange_gather = {
    .begin = begin, .may_pass = may_pass, .pass = pass, .may_finish = may_finish, .finish = finish};
