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
    if (own.count > 0) {
        const int64_t slot = pipeline->received_begun++ % pipeline->received_slots;
        step->received = pipeline->received + (size_t)slot * pipeline->received_slot_bytes;
    }
    for (int i = 0; own.count > 0 && i + 1 < topology->host_count; i++) {
        const int host = pipeline->hosts[i], rank = topology_handler(topology, host, own.owner);
        for (int block = topology->host_blocks[host]; block < topology->host_blocks[host + 1];
             block++) {
            TRY(step_receive(pipeline, step, rank, &own, step_received(pipeline, step, block),
                             error));
        }
    }
    return BERTH_OK;
}

static enum berth_status begin(struct pipeline *pipeline, struct step *step,
                               struct berth_error *error) {
    TRY(receive_sums(pipeline, step, error));
    step_fill_others(pipeline, step);
    step_mark_filled(pipeline, step);
    return BERTH_OK;
}

// --- pass ---------------------------------------------------------------------------------------

static int may_pass(const struct pipeline *pipeline, const struct step *step) {
    return step_unfilled(pipeline, step) < 0;
}

// Adds the values of a block of this host. Returns the cell with the sum, that of the block's first
// rank: nobody else reads what ranks of this host have for the chunk's owner.
static struct range_header *add_block(struct pipeline *pipeline, const struct step *step,
                                      const struct chunk *chunk, int block) {
    const struct topology *topology = pipeline->topology;
    const enum dtype wire = step->operation.range.wire;
    const int first = topology_local(topology, topology->blocks[block]);
    const int ranks = topology_block_size(topology, block);
    for (int i = 0; i < ranks; i++) {
        pipeline->addends[i] =
            (struct addend){step_cell(pipeline, step, first + i, chunk->owner) + 1, wire, 1};
    }
    struct range_header *cell = step_cell(pipeline, step, first, chunk->owner);
    if (ranks > 1) {
        numbers_sum(cell + 1, wire, pipeline->addends, ranks, chunk->count);
    }
    return cell;
}

static enum berth_status send_sums(struct pipeline *pipeline, struct step *step, int owner,
                                   struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const int *blocks = &topology->host_blocks[topology->host];
    const struct chunk chunk = step_chunk(step, owner);
    for (int block = blocks[0]; block < blocks[1] && chunk.count > 0; block++) {
        struct range_header *cell = add_block(pipeline, step, &chunk, block);
        step_seal(step, &chunk, topology_block_size(topology, block), cell);
        TRY(step_send(pipeline, step, owner, &chunk, cell, error));
    }
    return BERTH_OK;
}

static enum berth_status pass(struct pipeline *pipeline, struct step *step,
                              struct berth_error *error) {
    TRY(step_check_filled(pipeline, step, error));
    TRY(step_send_greeting(pipeline, step, error));
    for (int i = 0; i < pipeline->handled_count; i++) {
        TRY(send_sums(pipeline, step, pipeline->handled[i], error));
    }
    return BERTH_OK;
}

// --- finish -------------------------------------------------------------------------------------

static int may_finish(const struct pipeline *pipeline, const struct step *step) {
    return message_list_is_done(&step->receives) && message_list_is_done(&step->sends);
}

static int is_on_this_host(const struct topology *topology, int block) {
    return topology->hosts[topology->blocks[block]] == topology->host;
}

static enum berth_status check_sum(const struct pipeline *pipeline, const struct step *step,
                                   const struct chunk *own, int block, struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const int host = topology->hosts[topology->blocks[block]];
    const int rank = topology_handler(topology, host, own->owner);
    const struct range_header *cell = step_received(pipeline, step, block);
    TRY(step_check(pipeline, step, rank, own, cell, error));
    if (cell->ranks != topology_block_size(topology, block)) {
        return error_set(error, BERTH_INTERNAL,
                         "the sum of \"%s\" from rank %d (host %s) has the values of %" PRId64
                         " ranks, not of %d",
                         step->operation.range.name, rank, topology->names[rank], cell->ranks,
                         topology_block_size(topology, block));
    }
    return BERTH_OK;
}

// Lists the values of this host's ranks and the sums of other hosts' blocks, in the order of ranks.
static void list_addends(struct pipeline *pipeline, const struct step *step,
                         const struct chunk *own) {
    const struct topology *topology = pipeline->topology;
    const enum dtype wire = step->operation.range.wire;
    struct addend *next = pipeline->addends;
    for (int block = 0; block < topology->block_count; block++) {
        if (!is_on_this_host(topology, block)) {
            *next++ = (struct addend){step_received(pipeline, step, block) + 1, wire,
                                      topology_block_size(topology, block)};
            continue;
        }
        for (int rank = topology->blocks[block]; rank < topology->blocks[block + 1]; rank++) {
            const int local = topology_local(topology, rank);
            *next++ =
                rank == own->owner
                    ? (struct addend){own->data, DTYPE_F32, 1}
                    : (struct addend){step_cell(pipeline, step, local, own->owner) + 1, wire, 1};
        }
    }
}

static enum berth_status finish(struct pipeline *pipeline, struct step *step,
                                struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const struct chunk own = step_chunk(step, own_rank(pipeline));
    TRY(step_check_greeting(pipeline, step, error));
    for (int block = 0; block < topology->block_count && own.count > 0; block++) {
        if (!is_on_this_host(topology, block)) {
            TRY(check_sum(pipeline, step, &own, block, error));
        }
    }
    if (own.count > 0) {
        list_addends(pipeline, step, &own);
        numbers_sum(own.data, DTYPE_F32, pipeline->addends, topology->size, own.count);
        pipeline->received_finished++;
    }
    step_mark_emptied(pipeline, step);
    return BERTH_OK;
}

const struct pipeline_phases pipeline_reduce = {
    .begin = begin, .may_pass = may_pass, .pass = pass, .may_finish = may_finish, .finish = finish};
