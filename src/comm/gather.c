// SPDX-License-Identifier: Apache-2.0
// The phases of a gather (pipeline.h). A part is sent once to each other host, where one rank
// receives it into the window for all; to hosts of other racks, through a relay there.
#include "comm/step.h"

// The rank of this rank's rack that has an owner's chunk first.
static int source_of(const struct topology *topology, int owner) {
    return topology_rack_of(topology, owner) == topology->rack
               ? owner
               : topology_relay(topology, topology->rack, owner);
}

static struct range_header *own_cell(const struct pipeline *pipeline, const struct step *step,
                                     const struct chunk *chunk) {
    return step_cell(pipeline, step, pipeline->local, chunk->owner);
}

// --- begin --------------------------------------------------------------------------------------

static enum berth_status receive_parts(struct pipeline *pipeline, struct step *step,
                                       struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    TRY(step_receive_greeting(pipeline, step, error));
    for (int i = 0; i < pipeline->relayed_count; i++) {
        const struct chunk chunk = step_chunk(step, pipeline->relayed[i]);
        if (chunk.count > 0) {
            TRY(step_receive(&pipeline->courier, step, chunk.owner, &chunk,
                             own_cell(pipeline, step, &chunk), error));
        }
    }
    step->early_receives = step->receives.count;
    for (int i = 0; i < pipeline->handled_count; i++) {
        const struct chunk chunk = step_chunk(step, pipeline->handled[i]);
        const int from = source_of(topology, chunk.owner);
        if (chunk.count > 0 && from != topology->rank) {
            TRY(step_receive(from == chunk.owner ? &pipeline->courier : &pipeline->relays, step,
                             from, &chunk, own_cell(pipeline, step, &chunk), error));
        }
    }
    return BERTH_OK;
}

// The owner rounds its own values as well, so that all ranks have the same ones.
static struct range_header *fill_own(struct pipeline *pipeline, const struct step *step,
                                     const struct chunk *own) {
    const struct comm_range *range = &step->operation.range;
    struct range_header *cell = step_cell(pipeline, step, pipeline->local, own->owner);
    numbers_convert(cell + 1, range->wire, own->data, range->dtype, own->count);
    if (range->wire != range->dtype) {
        numbers_convert(own->data, range->dtype, cell + 1, range->wire, own->count);
    }
    return cell;
}

static enum berth_status begin(struct pipeline *pipeline, struct step *step,
                               struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const struct chunk own = step_chunk(step, topology->rank);
    struct range_header *cell = own.count > 0 ? fill_own(pipeline, step, &own) : NULL;
    TRY(receive_parts(pipeline, step, error));
    TRY(step_send_greeting(pipeline, step, error));
    if (cell == NULL || topology->host_count == 1) {
        return BERTH_OK;
    }
    step_seal(step, &own, 1, cell);
    for (int i = 0; i < pipeline->rack_hosts; i++) {
        const int rank = topology_handler(topology, pipeline->hosts[i], own.owner);
        TRY(step_send(&pipeline->courier, step, rank, &own, cell, error));
    }
    for (int i = 0; i + 1 < topology->rack_count; i++) {
        const int rank = topology_relay(topology, pipeline->racks[i], own.owner);
        TRY(step_send(&pipeline->courier, step, rank, &own, cell, error));
    }
    return BERTH_OK;
}

// --- pass ---------------------------------------------------------------------------------------

static int may_pass(const struct pipeline *pipeline, const struct step *step) {
    return step->receives.done >= step->early_receives;
}

static enum berth_status pass(struct pipeline *pipeline, struct step *step,
                              struct berth_error *error) {
    for (int i = 0; i < pipeline->relayed_count; i++) {
        const struct chunk chunk = step_chunk(step, pipeline->relayed[i]);
        const struct range_header *cell = own_cell(pipeline, step, &chunk);
        if (chunk.count == 0) {
            continue;
        }
        TRY(step_check(pipeline, step, chunk.owner, &chunk, cell, error));
        for (int k = 0; k < pipeline->rack_hosts; k++) {
            const int rank = topology_handler(pipeline->topology, pipeline->hosts[k], chunk.owner);
            TRY(step_send(&pipeline->relays, step, rank, &chunk, cell, error));
        }
    }
    return BERTH_OK;
}

// --- deliver ------------------------------------------------------------------------------------

static int may_deliver(const struct pipeline *pipeline, const struct step *step) {
    return message_list_is_done(&step->receives);
}

static enum berth_status deliver(struct pipeline *pipeline, struct step *step,
                                 struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    TRY(step_check_greeting(pipeline, step, error));
    for (int i = 0; i < pipeline->handled_count; i++) {
        const struct chunk chunk = step_chunk(step, pipeline->handled[i]);
        const int from = source_of(topology, chunk.owner);
        if (chunk.count > 0 && from != topology->rank) {
            TRY(step_check(pipeline, step, from, &chunk, own_cell(pipeline, step, &chunk), error));
        }
    }
    step_mark_filled(pipeline, step);
    return BERTH_OK;
}

// --- finish -------------------------------------------------------------------------------------

static int may_finish(const struct pipeline *pipeline, const struct step *step) {
    return message_list_is_done(&step->sends) && step_unfilled(pipeline, step) < 0;
}

static enum berth_status finish(struct pipeline *pipeline, struct step *step,
                                struct berth_error *error) {
    const struct comm_range *range = &step->operation.range;
    const struct topology *topology = pipeline->topology;
    const struct chunking *chunking = &step->operation.chunking;
    TRY(step_check_filled(pipeline, step, error));
    for (int i = step_first(step); i < chunking->owner_count; i += chunking->groups) {
        const int owner = chunking->owners[i];
        const struct chunk chunk = step_chunk(step, owner);
        const int handler = topology_handler(topology, topology->host, owner);
        if (owner != topology->rank) {
            numbers_convert(chunk.data, range->dtype,
                            step_cell(pipeline, step, topology_local(topology, handler), owner) + 1,
                            range->wire, chunk.count);
        }
    }
    step_mark_emptied(pipeline, step);
    return BERTH_OK;
}

const struct pipeline_phases pipeline_gather = {.is_gather = 1,
                                                .phases = {[PHASE_BEGIN] = {NULL, begin},
                                                           [PHASE_PASS] = {may_pass, pass},
                                                           [PHASE_DELIVER] = {may_deliver, deliver},
                                                           [PHASE_FINISH] = {may_finish, finish}}};
