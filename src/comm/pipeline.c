// SPDX-License-Identifier: Apache-2.0
// Advances the exchanges that are under way, step by step: begins the next step when the window has
// a free slot, and runs the further phases of the steps in order. One call does whatever is
// possible now and never waits. range_thread.c calls it in a loop; what the phases of a step do is
// in reduce.c, gather.c and native.c.
#include "comm/pipeline.h"

#include "comm/step.h"
#include "core/memory.h"

#include <stdio.h>

// --- sizes --------------------------------------------------------------------------------------

struct window_shape pipeline_window_shape(const struct topology *topology,
                                          const struct chunk_limits *limits) {
    return (struct window_shape){.local_size = topology_local_size(topology, topology->host),
                                 .area = chunk_limits_area(limits)};
}

static size_t received_bytes(const struct chunk_limits *limits) {
    return sizeof(struct range_header) + limits->payload;
}

static int min_int(int x, int y) {
    return x < y ? x : y;
}

// The largest number of messages that a rank receives in a step of a reduce: as an owner, and for
// each owner that it relays from the other hosts of its rack.
static size_t max_received_of_step(const struct topology *topology,
                                   const struct chunk_limits *limits) {
    const int relayed = min_int(topology_relayed(topology), limits->cells);
    return (size_t)topology->sum_count +
           (size_t)relayed * (size_t)topology_rack_others(topology, topology->host);
}

static size_t received_capacity(const struct topology *topology,
                                const struct chunk_limits *limits) {
    const size_t local_size = (size_t)topology_local_size(topology, topology->host);
    const size_t step = max_received_of_step(topology, limits);
    const size_t room = limits->received / local_size / received_bytes(limits);
    return room < step ? step : room < WINDOW_SLOTS * step ? room : WINDOW_SLOTS * step;
}

// The largest number of messages of a step in one direction: with the owners that a rank handles
// for each of its host's blocks, or one from each; what it receives in a reduce, or sends in a
// gather; of relays one for each block of the rack; and a greeting.
static size_t max_messages_of_step(const struct topology *topology,
                                   const struct chunk_limits *limits) {
    const int handled = min_int(topology_handled(topology), limits->cells);
    const int relayed = min_int(topology_relayed(topology), limits->cells);
    return (size_t)handled * (size_t)topology_block_count(&topology->host_blocks, topology->host) +
           (size_t)relayed * (size_t)topology_block_count(&topology->rack_blocks, topology->rack) +
           max_received_of_step(topology, limits) + 1;
}

const char *pipeline_missing_group(const struct topology *topology) {
    for (int host = 1; host < topology->host_count; host++) {
        if (topology_local_size(topology, host) != topology_local_size(topology, 0)) {
            return "the hosts have different numbers of ranks";
        }
    }
    return topology->host_count == 1 ? "all ranks are on one host, which share memory"
           : topology->host_count > PIPELINE_COUNTED_HOSTS * PIPELINE_COUNTERS
               ? "there are too many hosts"
               : NULL;
}

// The bytes of the largest step of a library's collective, with its counters. None if there are no
// such collectives.
static size_t added_bytes(const struct topology *topology, const struct chunk_limits *limits) {
    const size_t hosts = (size_t)topology->host_count;
    const size_t limit = (size_t)chunking_native_bytes(topology->host_count);
    const size_t area = chunk_limits_area(limits), all = hosts * limits->payload;
    const size_t elements = all < area ? all : area;
    return pipeline_missing_group(topology) != NULL
               ? 0
               : hosts * sizeof(struct range_header) + (elements < limit ? elements : limit);
}

static size_t table_length(const struct topology *topology) {
    return 2 * (size_t)topology->size;
}

size_t pipeline_bytes(const struct topology *topology, const struct chunk_limits *limits) {
    return received_capacity(topology, limits) * received_bytes(limits) +
           (WINDOW_SLOTS + 1) * table_length(topology) * sizeof(int) +
           WINDOW_SLOTS *
               (2 * added_bytes(topology, limits) + 2 * (size_t)topology->host_count * sizeof(int) +
                2 * max_messages_of_step(topology, limits) * sizeof(struct transport_message));
}

// --- opening ------------------------------------------------------------------------------------

static void find_handled(struct pipeline *pipeline, int host) {
    const struct topology *topology = pipeline->topology;
    const int is_near = topology->racks[host] == topology->rack;
    for (int rank = topology->first[host]; rank < topology->first[host + 1]; rank++) {
        if (topology_handler(topology, topology->host, rank) == topology->rank) {
            pipeline->handled[pipeline->handled_count++] = rank;
            if (!is_near && topology_relay(topology, topology->rack, rank) == topology->rank) {
                pipeline->relayed[pipeline->relayed_count++] = rank;
            }
        }
    }
}

// The other hosts and racks, from the next ones on so that not all ranks send to the same one
// first, and the ranks there whose parts this one handles. Ranks of a rack list other racks' in the
// same order, in which handlers send them to a relay, and relays send them on.
static void find_others(struct pipeline *pipeline) {
    const struct topology *topology = pipeline->topology;
    const int first = topology->rack_first[topology->rack];
    const int hosts = topology->rack_first[topology->rack + 1] - first;
    for (int i = 1; i < topology->rack_count; i++) {
        const int rack = (topology->rack + i) % topology->rack_count;
        pipeline->racks[i - 1] = rack;
        for (int host = topology->rack_first[rack]; host < topology->rack_first[rack + 1]; host++) {
            find_handled(pipeline, host);
        }
    }
    for (int i = 1; i < hosts; i++) {
        const int host = first + (topology->host - first + i) % hosts;
        pipeline->hosts[pipeline->rack_hosts++] = host;
        find_handled(pipeline, host);
    }
}

static void assign_messages(struct pipeline *pipeline, size_t max_messages) {
    struct transport_message *next = pipeline->messages;
    for (int slot = 0; slot < WINDOW_SLOTS; slot++) {
        pipeline->steps[slot].receives.messages = next;
        pipeline->steps[slot].sends.messages = next + max_messages;
        pipeline->steps[slot].counts = pipeline->counts + 2 * slot * pipeline->topology->host_count;
        pipeline->steps[slot].offsets =
            pipeline->steps[slot].counts + pipeline->topology->host_count;
        next += 2 * max_messages;
    }
}

enum berth_status pipeline_init(struct pipeline *pipeline, struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const struct chunk_limits *limits = &pipeline->limits;
    const size_t size = (size_t)topology->size, hosts = (size_t)topology->host_count;
    const size_t max_messages = max_messages_of_step(topology, limits);
    pipeline->local = topology_local(topology, topology->rank);
    pipeline->local_size = topology_local_size(topology, topology->host);
    pipeline->received_bytes = received_bytes(limits);
    pipeline->received_capacity = (int)received_capacity(topology, limits);
    pipeline->added_bytes = added_bytes(topology, limits);
    pipeline->hosts = memory_array(hosts, sizeof(int));
    pipeline->racks = memory_array((size_t)topology->rack_count, sizeof(int));
    pipeline->handled = memory_array(size, sizeof(int));
    pipeline->relayed = memory_array(size, sizeof(int));
    pipeline->addends = memory_array(size, sizeof *pipeline->addends);
    pipeline->received =
        memory_array((size_t)pipeline->received_capacity, pipeline->received_bytes);
    pipeline->added = memory_array(WINDOW_SLOTS, 2 * pipeline->added_bytes);
    pipeline->counts = memory_array(WINDOW_SLOTS * 2 * hosts, sizeof(int));
    pipeline->tables = memory_array((WINDOW_SLOTS + 1) * table_length(topology), sizeof(int));
    pipeline->messages = memory_array(2 * WINDOW_SLOTS * max_messages, sizeof *pipeline->messages);
    if (pipeline->hosts == NULL || pipeline->racks == NULL || pipeline->handled == NULL ||
        pipeline->relayed == NULL || pipeline->messages == NULL || pipeline->addends == NULL ||
        pipeline->received == NULL || pipeline->added == NULL || pipeline->counts == NULL ||
        pipeline->tables == NULL) {
        return error_no_memory(error, pipeline_bytes(topology, &pipeline->limits),
                               "messages of exchanges");
    }
    find_others(pipeline);
    assign_messages(pipeline, max_messages);
    return BERTH_OK;
}

void pipeline_done(struct pipeline *pipeline) {
    memory_free(pipeline->hosts);
    memory_free(pipeline->racks);
    memory_free(pipeline->handled);
    memory_free(pipeline->relayed);
    memory_free(pipeline->addends);
    memory_free(pipeline->received);
    memory_free(pipeline->added);
    memory_free(pipeline->tables);
    memory_free(pipeline->counts);
    memory_free(pipeline->messages);
    host_window_done(&pipeline->window);
}

// --- operations and their steps -----------------------------------------------------------------

void pipeline_start_operation(struct pipeline *pipeline, const struct pipeline_phases *phases,
                              const struct comm_range *range, int64_t number) {
    const struct topology *topology = pipeline->topology;
    const size_t place = (size_t)(pipeline->operations++ % (WINDOW_SLOTS + 1));
    int *table = pipeline->tables + place * table_length(topology);
    pipeline->current = (struct operation){
        .phases = phases,
        .range = *range,
        .label = range_label_of(range, phases->is_gather, number, topology->size),
        .chunking =
            chunking_of(range, topology->size, topology->host_count, &pipeline->limits, table)};
    pipeline->steps_begun = 0;
}

static struct step *step_at(struct pipeline *pipeline, int64_t number) {
    return &pipeline->steps[number % WINDOW_SLOTS];
}

// The first local rank that has not yet read the slot that the next step will use, or -1.
static int unemptied(const struct pipeline *pipeline) {
    const int64_t before = pipeline->done[PHASE_BEGIN] - WINDOW_SLOTS;
    for (int local = 0; local < pipeline->local_size && before >= 0; local++) {
        struct window_mark *mark = host_window_mark(&pipeline->window, before, local);
        if (atomic_load_explicit(&mark->emptied, memory_order_acquire) != before + 1) {
            return local;
        }
    }
    return -1;
}

// Whether there is room for what this rank receives in the next step of a reduce. It waits for no
// step but earlier ones.
static int may_receive(const struct pipeline *pipeline) {
    const struct operation *operation = &pipeline->current;
    const struct chunking *chunking = &operation->chunking;
    const struct topology *topology = pipeline->topology;
    const int64_t turn = pipeline->steps_begun;
    int64_t needed = pipeline->received_begun - pipeline->received_finished;
    if (operation->phases != &pipeline_reduce) {
        return 1;
    }
    if (chunking_count(chunking, &operation->range, turn, topology->rank) > 0) {
        needed += topology->sum_count;
    }
    for (int i = 0; i < pipeline->relayed_count; i++) {
        if (chunking_count(chunking, &operation->range, turn, pipeline->relayed[i]) > 0) {
            needed += topology_rack_others(topology, topology->host);
        }
    }
    return needed <= pipeline->received_capacity;
}

static int may_begin(const struct pipeline *pipeline) {
    const int64_t finished = pipeline->done[PHASE_FINISH];
    return !pipeline_needs_operation(pipeline) &&
           (!pipeline->current.phases->is_gather || finished >= pipeline->sums_end) &&
           pipeline->done[PHASE_BEGIN] - finished < WINDOW_SLOTS && unemptied(pipeline) < 0 &&
           may_receive(pipeline);
}

static struct step *next_step(struct pipeline *pipeline) {
    struct step *step = step_at(pipeline, pipeline->done[PHASE_BEGIN]);
    step->operation = pipeline->current;
    step->number = pipeline->done[PHASE_BEGIN];
    step->turn = pipeline->steps_begun;
    step->receives.count = step->receives.done = 0;
    step->sends.count = step->sends.done = 0;
    step->early_receives = step->received_count = 0;
    step->received = pipeline->received_begun;
    return step;
}

static enum berth_status try_begin(struct pipeline *pipeline, int *progressed,
                                   struct berth_error *error) {
    if (!may_begin(pipeline)) {
        return BERTH_OK;
    }
    struct step *step = next_step(pipeline);
    const struct pipeline_phases *phases = step->operation.phases;
    TRY(phases->phases[PHASE_BEGIN].run(pipeline, step, error));
    pipeline->received_begun += step->received_count;
    pipeline->done[PHASE_BEGIN]++;
    pipeline->steps_begun++;
    if (!phases->is_gather) {
        pipeline->sums_end = pipeline->done[PHASE_BEGIN];
    }
    *progressed = 1;
    return BERTH_OK;
}

// A phase after the first one, of the next step that has had the phase before it.
static enum berth_status try_phase(struct pipeline *pipeline, enum pipeline_phase phase,
                                   int *progressed, struct berth_error *error) {
    const int64_t number = pipeline->done[phase];
    struct step *step = step_at(pipeline, number);
    if (number == pipeline->done[phase - 1]) {
        return BERTH_OK;
    }
    const struct pipeline_phases *phases = step->operation.phases;
    if (phases->phases[phase].may_run != NULL && !phases->phases[phase].may_run(pipeline, step)) {
        return BERTH_OK;
    }
    if (phases->phases[phase].run != NULL) {
        TRY(phases->phases[phase].run(pipeline, step, error));
    }
    pipeline->done[phase]++;
    *progressed = 1;
    if (phase == PHASE_FINISH) {
        pipeline->received_finished += step->received_count;
        if (step->turn + 1 == step->operation.chunking.steps) {
            pipeline->completed = step->operation.label.number;
        }
    }
    return BERTH_OK;
}

static enum berth_status poll_step(struct pipeline *pipeline, struct step *step, int *progressed,
                                   struct berth_error *error) {
    TRY(courier_poll(&pipeline->courier, &step->receives, progressed, error));
    return courier_poll(&pipeline->courier, &step->sends, progressed, error);
}

static enum berth_status poll_messages(struct pipeline *pipeline, int *progressed,
                                       struct berth_error *error) {
    for (int64_t number = pipeline->done[PHASE_FINISH]; number < pipeline->done[PHASE_BEGIN];
         number++) {
        struct step *step = step_at(pipeline, number);
        TRY(step_explain(pipeline, step, poll_step(pipeline, step, progressed, error), error));
    }
    return BERTH_OK;
}

enum berth_status pipeline_progress(struct pipeline *pipeline, int *progressed,
                                    struct berth_error *error) {
    TRY(poll_messages(pipeline, progressed, error));
    for (enum pipeline_phase phase = PHASE_FINISH; phase > PHASE_BEGIN; phase--) {
        TRY(try_phase(pipeline, phase, progressed, error));
    }
    return try_begin(pipeline, progressed, error);
}

// --- what is waited for -------------------------------------------------------------------------

static int awaited_local(const struct pipeline *pipeline, int local) {
    return pipeline->topology->first[pipeline->topology->host] + local;
}

// The rank that the oldest step in flight waits for.
static int awaited_by(const struct pipeline *pipeline, const struct step *step) {
    if (!message_list_is_done(&step->receives)) {
        return courier_awaited_rank(&pipeline->courier, &step->receives);
    }
    if (!message_list_is_done(&step->sends)) {
        return courier_awaited_rank(&pipeline->courier, &step->sends);
    }
    const int local = step_unfilled(pipeline, step);
    return local >= 0 ? awaited_local(pipeline, local) : pipeline->topology->rank;
}

int pipeline_awaited_rank(const struct pipeline *pipeline, char what[RANGE_TEXT]) {
    const int64_t finished = pipeline->done[PHASE_FINISH];
    if (finished == pipeline->done[PHASE_BEGIN]) {
        const int local = unemptied(pipeline);
        range_label_format(&pipeline->current.label, what);
        return awaited_local(pipeline, local > 0 ? local : 0);
    }
    const struct step *step = &pipeline->steps[finished % WINDOW_SLOTS];
    range_label_format(&step->operation.label, what);
    return awaited_by(pipeline, step);
}
