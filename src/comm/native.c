// SPDX-License-Identifier: Apache-2.0
// Reduces and gathers by the library's own collectives (comm_range.native, pipeline.h). The ranks
// of each host first add their values in the window, as in reduce.c, though along no tree. Then the
// ranks with the same local number on all hosts form a group, and each group reduces, or gathers,
// the parts that its own ranks own: so every rank of a host sends, and no part passes twice.
//
//             begin                       pass                        finish
//     reduce  fill the own area of the    add the areas of the host   check the number of hosts,
//             window with the chunks      for the group's owners;     copy the own sum, or with
//             of all owners               begin the collective        to_all those of the group
//     gather  fill the own cell; begin    mark the chunks of the      copy all cells of the
//             the collective, to the      group as being in the       window to the range
//             cells of its owners         window
//
// A library may return wrong sums as right ones when a process is lost, so each part ends with
// counters of the hosts in it. What it does not do is send checksums of what it moves. Ranks that
// call different operations are found by the greetings, as elsewhere.
#include "comm/step.h"

static int counters_of(const struct topology *topology) {
    return (topology->host_count + PIPELINE_COUNTED_HOSTS - 1) / PIPELINE_COUNTED_HOSTS;
}

// The rank with this rank's local number on a host.
static int member_of(const struct pipeline *pipeline, int host) {
    return pipeline->topology->first[host] + pipeline->local;
}

static int next_member(const struct pipeline *pipeline) {
    const struct topology *topology = pipeline->topology;
    return member_of(pipeline, (topology->host + 1) % topology->host_count);
}

static enum berth_status greet(struct pipeline *pipeline, struct step *step,
                               struct berth_error *error) {
    TRY(step_receive_greeting(pipeline, step, error));
    return step_send_greeting(pipeline, step, error);
}

static int is_all_reduce(const struct pipeline *pipeline, const struct step *step) {
    return step->operation.range.to_all && pipeline->courier.transport->prefers_all_reduce;
}

// The collective of a step with counts[host] of each member, all of them after one another. *bytes
// leave the host if the library sends no more than it must.
static struct transport_collective collective_of(const struct pipeline *pipeline,
                                                 const struct step *step,
                                                 enum transport_collective_kind kind,
                                                 size_t *bytes) {
    const struct topology *topology = pipeline->topology;
    const enum dtype wire = step->operation.range.wire;
    size_t all = 0;
    for (int host = 0; host < topology->host_count; host++) {
        all += (size_t)step->counts[host] * dtype_size(wire);
    }
    const size_t other = all - (size_t)step->counts[topology->host] * dtype_size(wire);
    *bytes =
        kind == TRANSPORT_ALL_GATHER ? (all - other) * ((size_t)topology->host_count - 1) : other;
    if (kind == TRANSPORT_ALL_REDUCE) {
        *bytes += (all - other) * ((size_t)topology->host_count - 1);
    }
    return (struct transport_collective){.kind = kind,
                                         .dtype = wire,
                                         .counts = step->counts,
                                         .offsets = step->offsets,
                                         .size = topology->host_count};
}

// --- reduce -------------------------------------------------------------------------------------

static enum berth_status begin_reduce(struct pipeline *pipeline, struct step *step,
                                      struct berth_error *error) {
    TRY(greet(pipeline, step, error));
    step_fill_others(pipeline, step);
    step_mark_filled(pipeline, step);
    return BERTH_OK;
}

static int may_pass_reduce(const struct pipeline *pipeline, const struct step *step) {
    return message_list_is_done(&step->receives) && step_unfilled(pipeline, step) < 0;
}

// Writes what the ranks of this host have for an owner, and the counters.
static void add_host(struct pipeline *pipeline, const struct step *step, const struct chunk *chunk,
                     char *sum) {
    const struct topology *topology = pipeline->topology;
    const enum dtype wire = step->operation.range.wire;
    float counters[PIPELINE_COUNTERS] = {0};
    for (int local = 0; local < pipeline->local_size && chunk->count > 0; local++) {
        const int is_own = chunk->owner == topology->rank && local == pipeline->local;
        pipeline->addends[local] =
            is_own ? (struct addend){chunk->data, DTYPE_F32, 1}
                   : (struct addend){step_cell(pipeline, step, local, chunk->owner) + 1, wire, 1};
    }
    if (chunk->count > 0) {
        numbers_sum(sum, wire, pipeline->addends, pipeline->local_size, chunk->count);
    }
    counters[topology->host / PIPELINE_COUNTED_HOSTS] = 1;
    numbers_convert(sum + chunk->bytes, wire, counters, DTYPE_F32, counters_of(topology));
}

// What the library adds, the parts of all members, and where it puts all sums: not in place, for
// which Open MPI has only a slow way.
static char *addends_of(const struct pipeline *pipeline, const struct step *step) {
    return pipeline->added + (size_t)(step->number % WINDOW_SLOTS) * 2 * pipeline->added_bytes;
}

static char *sums_of(const struct pipeline *pipeline, const struct step *step) {
    return addends_of(pipeline, step) + pipeline->added_bytes;
}

static enum berth_status pass_reduce(struct pipeline *pipeline, struct step *step,
                                     struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const size_t size = dtype_size(step->operation.range.wire);
    char *addends = addends_of(pipeline, step);
    size_t bytes, offset = 0;
    TRY(step_check_filled(pipeline, step, error));
    TRY(step_check_greeting(pipeline, step, error));
    for (int host = 0; host < topology->host_count; host++) {
        const struct chunk chunk = step_chunk(step, member_of(pipeline, host));
        add_host(pipeline, step, &chunk, addends + offset * size);
        step->counts[host] = (int)chunk.count + counters_of(topology);
        offset += (size_t)step->counts[host];
    }
    const int to_all = is_all_reduce(pipeline, step);
    struct transport_collective collective = collective_of(
        pipeline, step, to_all ? TRANSPORT_ALL_REDUCE : TRANSPORT_REDUCE_SCATTER, &bytes);
    collective.from = addends;
    return step_collect(pipeline, step, next_member(pipeline), sums_of(pipeline, step), bytes,
                        &collective, error);
}

static int may_finish(const struct pipeline *pipeline, const struct step *step) {
    return message_list_is_done(&step->receives) && message_list_is_done(&step->sends);
}

static enum berth_status check_counters(const struct pipeline *pipeline, const struct step *step,
                                        const char *from, struct berth_error *error) {
    const int hosts = pipeline->topology->host_count;
    float counters[PIPELINE_COUNTERS], counted = 0;
    numbers_convert(counters, DTYPE_F32, from, step->operation.range.wire,
                    counters_of(pipeline->topology));
    for (int i = 0; i < counters_of(pipeline->topology); i++) {
        counted += counters[i];
    }
    return counted == (float)hosts
               ? BERTH_OK
               : error_set(error, BERTH_INTERNAL,
                           "%s returned a sum of \"%s\" that has the values of %g hosts, not of %d "
                           "(reduce native): use reduce exact",
                           pipeline->courier.transport->version, step->operation.range.name,
                           (double)counted, hosts);
}

static enum berth_status take_sum(const struct pipeline *pipeline, const struct step *step,
                                  const struct chunk *chunk, const char *sum,
                                  struct berth_error *error) {
    TRY(check_counters(pipeline, step, sum + chunk->bytes, error));
    numbers_convert(chunk->data, DTYPE_F32, sum, step->operation.range.wire, chunk->count);
    return BERTH_OK;
}

static enum berth_status finish_reduce(struct pipeline *pipeline, struct step *step,
                                       struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const size_t size = dtype_size(step->operation.range.wire);
    const char *sum = sums_of(pipeline, step);
    if (!is_all_reduce(pipeline, step)) {
        const struct chunk own = step_chunk(step, topology->rank);
        TRY(take_sum(pipeline, step, &own, sum, error));
    }
    for (int host = 0; host < topology->host_count && is_all_reduce(pipeline, step); host++) {
        const struct chunk chunk = step_chunk(step, member_of(pipeline, host));
        TRY(take_sum(pipeline, step, &chunk, sum, error));
        sum += (size_t)step->counts[host] * size;
    }
    step_mark_emptied(pipeline, step);
    return BERTH_OK;
}

// --- gather -------------------------------------------------------------------------------------

// Fills the own cell for a part that this rank has. The owner rounds its own values as well.
static void fill_cell(struct pipeline *pipeline, const struct step *step, int owner) {
    const struct comm_range *range = &step->operation.range;
    const struct chunk chunk = step_chunk(step, owner);
    if (chunk.count == 0) {
        return;
    }
    void *cell = step_cell(pipeline, step, pipeline->local, owner) + 1;
    numbers_convert(cell, range->wire, chunk.data, range->dtype, chunk.count);
    if (range->wire != range->dtype) {
        numbers_convert(chunk.data, range->dtype, cell, range->wire, chunk.count);
    }
}

static enum berth_status collect_parts(struct pipeline *pipeline, struct step *step,
                                       struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const size_t size = dtype_size(step->operation.range.wire);
    char *first = (char *)(host_window_cell(&pipeline->window, step->number, pipeline->local, 0,
                                            step->operation.chunking.cell_bytes) +
                           1);
    size_t bytes;
    for (int host = 0; host < topology->host_count; host++) {
        const struct chunk chunk = step_chunk(step, member_of(pipeline, host));
        const char *cell =
            chunk.count > 0 ? (char *)(step_cell(pipeline, step, pipeline->local, chunk.owner) + 1)
                            : first;
        step->counts[host] = (int)chunk.count;
        step->offsets[host] = (int)((size_t)(cell - first) / size);
    }
    const struct transport_collective collective =
        collective_of(pipeline, step, TRANSPORT_ALL_GATHER, &bytes);
    return step_collect(pipeline, step, next_member(pipeline), first, bytes, &collective, error);
}

// After a reduce to all by the library, each rank has the sums of its group, and those of other
// groups come from the ranks of its host.
static enum berth_status begin_gather(struct pipeline *pipeline, struct step *step,
                                      struct berth_error *error) {
    TRY(greet(pipeline, step, error));
    if (!is_all_reduce(pipeline, step)) {
        fill_cell(pipeline, step, pipeline->topology->rank);
        return collect_parts(pipeline, step, error);
    }
    for (int host = 0; host < pipeline->topology->host_count; host++) {
        fill_cell(pipeline, step, member_of(pipeline, host));
    }
    return BERTH_OK;
}

static int may_pass_gather(const struct pipeline *pipeline, const struct step *step) {
    return message_list_is_done(&step->receives);
}

static enum berth_status pass_gather(struct pipeline *pipeline, struct step *step,
                                     struct berth_error *error) {
    TRY(step_check_greeting(pipeline, step, error));
    step_mark_filled(pipeline, step);
    return BERTH_OK;
}

static int may_finish_gather(const struct pipeline *pipeline, const struct step *step) {
    return may_finish(pipeline, step) && step_unfilled(pipeline, step) < 0;
}

static enum berth_status finish_gather(struct pipeline *pipeline, struct step *step,
                                       struct berth_error *error) {
    return pipeline_gather.phases[PHASE_FINISH].run(pipeline, step, error);
}

const struct pipeline_phases pipeline_native_reduce = {
    .phases = {[PHASE_BEGIN] = {NULL, begin_reduce},
               [PHASE_PASS] = {may_pass_reduce, pass_reduce},
               [PHASE_FINISH] = {may_finish, finish_reduce}}};
const struct pipeline_phases pipeline_native_gather = {
    .is_gather = 1,
    .phases = {[PHASE_BEGIN] = {NULL, begin_gather},
               [PHASE_PASS] = {may_pass_gather, pass_gather},
               [PHASE_FINISH] = {may_finish_gather, finish_gather}}};
