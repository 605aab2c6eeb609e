// SPDX-License-Identifier: Apache-2.0
// The phases of a reduce (pipeline.h). Values are sent in the wire type; an owner's own values stay
// in its memory, unrounded. All are added in f32, by handlers, relays and owners along one tree.
#include "comm/step.h"

#include <inttypes.h>

static int own_rank(const struct pipeline *pipeline) {
    return pipeline->topology->rank;
}

// --- begin --------------------------------------------------------------------------------------

// The number of the message, of those that a relay receives for an owner, with a block's sum.
static int relayed_message(const struct topology *topology, int block) {
    const struct topology_blocks *blocks = &topology->host_blocks;
    const int first = blocks->first[topology->rack_first[topology->rack]];
    const int is_after = block >= blocks->first[topology->host];
    return block - first - (is_after ? topology_block_count(blocks, topology->host) : 0);
}

// The sums that this rank, as a relay, receives from the other hosts of its rack.
static enum berth_status receive_relayed(struct pipeline *pipeline, struct step *step,
                                         const struct chunk *chunk, struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const int *blocks = topology->host_blocks.first;
    for (int i = 0; i < pipeline->rack_hosts; i++) {
        const int host = pipeline->hosts[i], rank = topology_handler(topology, host, chunk->owner);
        for (int block = blocks[host]; block < blocks[host + 1]; block++) {
            const int number = step->received_count + relayed_message(topology, block);
            TRY(step_receive(&pipeline->courier, step, rank, chunk,
                             step_received(pipeline, step, number), error));
        }
    }
    step->received_count += topology_rack_others(topology, topology->host);
    return BERTH_OK;
}

static int sender_of(const struct topology *topology, const struct topology_sum *sum) {
    return sum->host >= 0 ? topology_handler(topology, sum->host, topology->rank)
                          : topology_relay(topology, sum->rack, topology->rank);
}

static enum berth_status receive_sums(struct pipeline *pipeline, struct step *step,
                                      struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const struct chunk own = step_chunk(step, own_rank(pipeline));
    TRY(step_receive_greeting(pipeline, step, error));
    for (int i = 0; i < pipeline->relayed_count; i++) {
        const struct chunk chunk = step_chunk(step, pipeline->relayed[i]);
        if (chunk.count > 0) {
            TRY(receive_relayed(pipeline, step, &chunk, error));
        }
    }
    step->early_receives = step->receives.count;
    for (int i = 0; i < topology->sum_count && own.count > 0; i++) {
        const struct topology_sum *sum = &topology->sums[i];
        TRY(step_receive(sum->host >= 0 ? &pipeline->courier : &pipeline->relays, step,
                         sender_of(topology, sum), &own,
                         step_received(pipeline, step, step->received_count++), error));
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

// The cell for the sum of a block of this host, that of the block's first rank: nobody else reads
// what ranks of this host have for the chunk's owner.
static struct range_header *block_cell(const struct pipeline *pipeline, const struct step *step,
                                       int owner, int block) {
    const struct topology *topology = pipeline->topology;
    const int first = topology_local(topology, topology->host_blocks.ranks[block]);
    return step_cell(pipeline, step, first, owner);
}

static struct range_header *add_block(struct pipeline *pipeline, const struct step *step,
                                      const struct chunk *chunk, int block) {
    const struct topology *topology = pipeline->topology;
    const enum dtype wire = step->operation.range.wire;
    const int first = topology_local(topology, topology->host_blocks.ranks[block]);
    const int ranks = topology_block_size(&topology->host_blocks, block);
    for (int i = 0; i < ranks; i++) {
        pipeline->addends[i] =
            (struct addend){step_cell(pipeline, step, first + i, chunk->owner) + 1, wire, 1};
    }
    struct range_header *cell = block_cell(pipeline, step, chunk->owner, block);
    if (ranks > 1) {
        numbers_sum(cell + 1, wire, pipeline->addends, ranks, chunk->count);
    }
    return cell;
}

// Sends the sums of this host's blocks to the owner, or to the relay of this rack for it; a relay
// leaves its own in their cells.
static enum berth_status send_sums(struct pipeline *pipeline, struct step *step, int owner,
                                   struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const int *blocks = &topology->host_blocks.first[topology->host];
    const struct chunk chunk = step_chunk(step, owner);
    const int is_near = topology_rack_of(topology, owner) == topology->rack;
    const int to = is_near ? owner : topology_relay(topology, topology->rack, owner);
    for (int block = blocks[0]; block < blocks[1] && chunk.count > 0; block++) {
        struct range_header *cell = add_block(pipeline, step, &chunk, block);
        if (to != topology->rank) {
            step_seal(step, &chunk, topology_block_size(&topology->host_blocks, block), cell);
            TRY(step_send(&pipeline->courier, step, to, &chunk, cell, error));
        }
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

// --- deliver ------------------------------------------------------------------------------------

static enum berth_status check_sum(const struct pipeline *pipeline, const struct step *step,
                                   const struct chunk *chunk, int rank,
                                   const struct range_header *cell, int ranks,
                                   struct berth_error *error) {
    TRY(step_check(pipeline, step, rank, chunk, cell, error));
    if (cell->ranks != ranks) {
        return error_set(error, BERTH_INTERNAL,
                         "the sum of \"%s\" from rank %d (host %s) has the values of %" PRId64
                         " ranks, not of %d",
                         step->operation.range.name, rank, pipeline->topology->names[rank],
                         cell->ranks, ranks);
    }
    return BERTH_OK;
}

// Finds the sum of a block of a host of this rack, which has been received, or added here.
// `first_message` is the first one for the chunk.
static enum berth_status find_sum(const struct pipeline *pipeline, const struct step *step,
                                  const struct chunk *chunk, int block, int first_message,
                                  struct range_header **cell, struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const int host = topology->hosts[topology->host_blocks.ranks[block]];
    if (host == topology->host) {
        *cell = block_cell(pipeline, step, chunk->owner, block);
        return BERTH_OK;
    }
    *cell = step_received(pipeline, step, first_message + relayed_message(topology, block));
    return check_sum(pipeline, step, chunk, topology_handler(topology, host, chunk->owner), *cell,
                     topology_block_size(&topology->host_blocks, block), error);
}

// Adds the sums of the hosts' blocks that are in a block of this rack, in the memory of the first
// one, and sends the sum to the owner. Returns through *block the host's block after these.
static enum berth_status relay_sum(struct pipeline *pipeline, struct step *step,
                                   const struct chunk *chunk, int rack_block, int first_message,
                                   int *block, struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const struct topology_blocks *blocks = &topology->host_blocks;
    const enum dtype wire = step->operation.range.wire;
    const int ranks = topology_block_size(&topology->rack_blocks, rack_block);
    const int end = topology->rack_blocks.ranks[rack_block + 1];
    struct range_header *sum = NULL, *cell;
    int count = 0;
    for (; blocks->ranks[*block] < end; ++*block) {
        TRY(find_sum(pipeline, step, chunk, *block, first_message, &cell, error));
        pipeline->addends[count++] =
            (struct addend){cell + 1, wire, topology_block_size(blocks, *block)};
        sum = sum == NULL ? cell : sum;
    }
    if (count > 1) {
        numbers_sum(sum + 1, wire, pipeline->addends, ranks, chunk->count);
    }
    step_seal(step, chunk, ranks, sum);
    return step_send(&pipeline->relays, step, chunk->owner, chunk, sum, error);
}

static int may_deliver(const struct pipeline *pipeline, const struct step *step) {
    return step->receives.done >= step->early_receives;
}

static enum berth_status deliver(struct pipeline *pipeline, struct step *step,
                                 struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const int *blocks = &topology->rack_blocks.first[topology->rack];
    int first_message = 0;
    TRY(step_check_greeting(pipeline, step, error));
    for (int i = 0; i < pipeline->relayed_count; i++) {
        const struct chunk chunk = step_chunk(step, pipeline->relayed[i]);
        int block = topology->host_blocks.first[topology->rack_first[topology->rack]];
        for (int own = blocks[0]; own < blocks[1] && chunk.count > 0; own++) {
            TRY(relay_sum(pipeline, step, &chunk, own, first_message, &block, error));
        }
        first_message += chunk.count > 0 ? topology_rack_others(topology, topology->host) : 0;
    }
    return BERTH_OK;
}

// --- finish -------------------------------------------------------------------------------------

static int may_finish(const struct pipeline *pipeline, const struct step *step) {
    return message_list_is_done(&step->receives) && message_list_is_done(&step->sends);
}

// Lists the values of this host's ranks and the sums of others, in the order of ranks. The sums are
// the last messages of the step.
static enum berth_status list_addends(struct pipeline *pipeline, const struct step *step,
                                      const struct chunk *own, struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const enum dtype wire = step->operation.range.wire;
    const int first_message = step->received_count - topology->sum_count;
    struct addend *next = pipeline->addends;
    for (int rank = 0, i = 0; rank < topology->size; next++) {
        const struct topology_sum *sum = &topology->sums[i];
        if (i < topology->sum_count && sum->first == rank) {
            const struct range_header *cell = step_received(pipeline, step, first_message + i++);
            TRY(check_sum(pipeline, step, own, sender_of(topology, sum), cell, sum->ranks, error));
            *next = (struct addend){cell + 1, wire, sum->ranks};
            rank += sum->ranks;
            continue;
        }
        const int local = topology_local(topology, rank);
        *next = rank == own->owner
                    ? (struct addend){own->data, DTYPE_F32, 1}
                    : (struct addend){step_cell(pipeline, step, local, own->owner) + 1, wire, 1};
        rank++;
    }
    return BERTH_OK;
}

static enum berth_status finish(struct pipeline *pipeline, struct step *step,
                                struct berth_error *error) {
    const struct chunk own = step_chunk(step, own_rank(pipeline));
    if (own.count > 0) {
        TRY(list_addends(pipeline, step, &own, error));
        numbers_sum(own.data, DTYPE_F32, pipeline->addends, pipeline->topology->size, own.count);
    }
    step_mark_emptied(pipeline, step);
    return BERTH_OK;
}

const struct pipeline_phases pipeline_reduce = {.phases = {[PHASE_BEGIN] = {NULL, begin},
                                                           [PHASE_PASS] = {may_pass, pass},
                                                           [PHASE_DELIVER] = {may_deliver, deliver},
                                                           [PHASE_FINISH] = {may_finish, finish}}};
