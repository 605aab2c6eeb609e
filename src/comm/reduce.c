// SPDX-License-Identifier: Apache-2.0
// The phases of a reduce (pipeline.h). Values are sent in the wire type; an owner's own values stay
// in its memory, unrounded. All are added in f32.
#include "comm/step.h"

#include <inttypes.h>

static int own_rank(const struct pipeline *pipeline) {
    return pipeline->topology->rank;
}

// --- begin --------------------------------------------------------------------------------------

static enum berth_status receive_sums(struct pipeline *pipeline, struct step *step,
                                      struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const struct chunk own = step_chunk(step, own_rank(pipeline));
    TRY(step_receive_greeting(pipeline, step, error));
    for (int i = 0; own.count > 0 && i + 1 < topology->host_count; i++) {
        const int rank = topology_handler(topology, pipeline->hosts[i], own.owner);
        TRY(step_receive(pipeline, step, rank, &own, step_received(pipeline, step, i), error));
    }
    return BERTH_OK;
}

static enum berth_status begin(struct pipeline *pipeline, struct step *step,
                               struct berth_error *error) {
    const struct comm_range *range = &step->operation.range;
    TRY(receive_sums(pipeline, step, error));
    for (int owner = 0; owner < pipeline->topology->size; owner++) {
        const struct chunk chunk = step_chunk(step, owner);
        if (owner != own_rank(pipeline)) {
            numbers_convert(step_cell(pipeline, step, pipeline->local, owner) + 1, range->wire,
                            chunk.data, range->dtype, chunk.count);
        }
    }
    step_mark_filled(pipeline, step);
    return BERTH_OK;
}

// --- pass ---------------------------------------------------------------------------------------

static int may_pass(const struct pipeline *pipeline, const struct step *step) {
    return step_unfilled(pipeline, step) < 0;
}

// The sum over the host's ranks; with a single rank there is nothing to add.
static void add_host(struct pipeline *pipeline, const struct step *step, const struct chunk *chunk,
                     void *to, enum dtype dtype) {
    for (int local = 0; local < pipeline->local_size; local++) {
        const struct range_header *cell = step_cell(pipeline, step, local, chunk->owner);
        pipeline->addends[local] = (struct addend){cell + 1, step->operation.range.wire};
    }
    if (chunk->owner == own_rank(pipeline)) {
        pipeline->addends[pipeline->local] = (struct addend){chunk->data, DTYPE_F32};
    }
    if (pipeline->local_size > 1) {
        numbers_sum(to, dtype, pipeline->addends, pipeline->local_size, chunk->count);
    }
}

static enum berth_status send_sum(struct pipeline *pipeline, struct step *step, int owner,
                                  struct berth_error *error) {
    const struct chunk chunk = step_chunk(step, owner);
    struct range_header *cell = step_cell(pipeline, step, pipeline->local, owner);
    if (chunk.count == 0) {
        return BERTH_OK;
    }
    add_host(pipeline, step, &chunk, cell + 1, step->operation.range.wire);
    step_seal(step, &chunk, pipeline->local_size, cell);
    return step_send(pipeline, step, owner, &chunk, cell, error);
}

static enum berth_status pass(struct pipeline *pipeline, struct step *step,
                              struct berth_error *error) {
    const struct chunk own = step_chunk(step, own_rank(pipeline));
    TRY(step_check_filled(pipeline, step, error));
    TRY(step_send_greeting(pipeline, step, error));
    for (int i = 0; i < pipeline->handled_count; i++) {
        TRY(send_sum(pipeline, step, pipeline->handled[i], error));
    }
    add_host(pipeline, step, &own, own.data, DTYPE_F32);
    step_mark_emptied(pipeline, step);
    return BERTH_OK;
}

// --- finish -------------------------------------------------------------------------------------

static int may_finish(const struct pipeline *pipeline, const struct step *step) {
    return message_list_is_done(&step->receives) && message_list_is_done(&step->sends);
}

static enum berth_status check_sums(const struct pipeline *pipeline, const struct step *step,
                                    const struct chunk *own, struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    int64_t ranks = pipeline->local_size;
    for (int i = 0; i + 1 < topology->host_count; i++) {
        const int rank = topology_handler(topology, pipeline->hosts[i], own->owner);
        const struct range_header *cell = step_received(pipeline, step, i);
        TRY(step_check(pipeline, step, rank, own, cell, error));
        ranks += cell->ranks;
    }
    if (ranks != topology->size) {
        return error_set(error, BERTH_INTERNAL,
                         "the sum of \"%s\" has the values of %" PRId64 " ranks, not of %d",
                         step->operation.range.name, ranks, topology->size);
    }
    return BERTH_OK;
}

static enum berth_status finish(struct pipeline *pipeline, struct step *step,
                                struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const struct chunk own = step_chunk(step, own_rank(pipeline));
    TRY(step_check_greeting(pipeline, step, error));
    if (own.count == 0 || topology->host_count == 1) {
        return BERTH_OK;
    }
    TRY(check_sums(pipeline, step, &own, error));
    for (int i = 0; i + 1 < topology->host_count; i++) {
        const struct range_header *cell = step_received(pipeline, step, i);
        pipeline->addends[pipeline->hosts[i]] =
            (struct addend){cell + 1, step->operation.range.wire};
    }
    pipeline->addends[topology->host] = (struct addend){own.data, DTYPE_F32};
    numbers_sum(own.data, DTYPE_F32, pipeline->addends, topology->host_count, own.count);
    return BERTH_OK;
}

const struct pipeline_phases pipeline_reduce = {
    .begin = begin, .may_pass = may_pass, .pass = pass, .may_finish = may_finish, .finish = finish};
