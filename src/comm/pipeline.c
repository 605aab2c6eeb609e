// SPDX-License-Identifier: Apache-2.0
// Advances the exchanges that are under way, step by step: begins the next step when the window has
// a free slot, passes sums on when messages have arrived, and finishes steps in order. One call
// does whatever is possible now and never waits. range_thread.c calls it in a loop; what the three
// phases of a step do is in reduce.c, gather.c and native.c.
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

static size_t received_slot_bytes(const struct topology *topology,
                                  const struct chunk_limits *limits) {
    return (size_t)topology_other_blocks(topology, topology->host) * received_bytes(limits);
}

static int received_slots(const struct topology *topology, const struct chunk_limits *limits) {
    const size_t local_size = (size_t)topology_local_size(topology, topology->host);
    const size_t slot = received_slot_bytes(topology, limits) + 1;
    const size_t slots = limits->received / local_size / slot;
    return slots < 1 ? 1 : slots < WINDOW_SLOTS ? (int)slots : WINDOW_SLOTS;
}

// The largest number of messages of a step in one direction: with the owners that a rank handles
// and with the other hosts, for each of the sender's blocks, and a greeting.
static size_t max_messages_of_step(const struct topology *topology,
                                   const struct chunk_limits *limits, int handled) {
    const int own = topology_host_blocks(topology, topology->host);
    const int at_once = handled < limits->cells ? handled : limits->cells;
    return (size_t)(at_once * own + topology_other_blocks(topology, topology->host) + 1);
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
    const size_t messages = max_messages_of_step(topology, limits, topology_handled(topology));
    return (size_t)received_slots(topology, limits) * received_slot_bytes(topology, limits) +
           (WINDOW_SLOTS + 1) * table_length(topology) * sizeof(int) +
           WINDOW_SLOTS *
               (2 * added_bytes(topology, limits) + 2 * (size_t)topology->host_count * sizeof(int) +
                2 * messages * sizeof(struct transport_message));
}

// --- opening ------------------------------------------------------------------------------------

// The other hosts, from the next one on so that not all ranks send to the same one first, and the
// ranks there whose parts this one handles.
static void find_others(struct pipeline *pipeline) {
    const struct topology *topology = pipeline->topology;
    for (int i = 0; i + 1 < topology->host_count; i++) {
        const int host = (topology->host + 1 + i) % topology->host_count;
        pipeline->hosts[i] = host;
        for (int rank = topology->first[host]; rank < topology->first[host + 1]; rank++) {
            if (topology_handler(topology, topology->host, rank) == topology->rank) {
                pipeline->handled[pipeline->handled_count++] = rank;
            }
        }
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

static void set_sizes(struct pipeline *pipeline) {
    const struct topology *topology = pipeline->topology;
    const struct chunk_limits *limits = &pipeline->limits;
    pipeline->local = topology_local(topology, topology->rank);
    pipeline->local_size = topology_local_size(topology, topology->host);
    pipeline->received_bytes = received_bytes(limits);
    pipeline->received_slot_bytes = received_slot_bytes(topology, limits);
    pipeline->received_slots = received_slots(topology, limits);
    pipeline->added_bytes = added_bytes(topology, limits);
}

enum berth_status pipeline_init(struct pipeline *pipeline, struct berth_error *error) {
    const struct topology *topology = pipeline->topology;
    const size_t size = (size_t)topology->size, hosts = (size_t)topology->host_count;
    size_t max_messages = 0;
    set_sizes(pipeline);
    pipeline->hosts = memory_array(hosts, sizeof(int));
    pipeline->handled = memory_array(size, sizeof(int));
    pipeline->addends = memory_array(size, sizeof *pipeline->addends);
    pipeline->received =
        memory_array((size_t)pipeline->received_slots, pipeline->received_slot_bytes);
    pipeline->added = memory_array(WINDOW_SLOTS, 2 * pipeline->added_bytes);
    pipeline->counts = memory_array(WINDOW_SLOTS * 2 * hosts, sizeof(int));
    pipeline->tables = memory_array((WINDOW_SLOTS + 1) * table_length(topology), sizeof(int));
    if (pipeline->hosts != NULL && pipeline->handled != NULL) {
        find_others(pipeline);
        max_messages = max_messages_of_step(topology, &pipeline->limits, pipeline->handled_count);
        pipeline->messages =
            memory_array(2 * WINDOW_SLOTS * max_messages, sizeof *pipeline->messages);
    }
    if (pipeline->messages == NULL || pipeline->addends == NULL || pipeline->received == NULL ||
        pipeline->added == NULL || pipeline->counts == NULL || pipeline->tables == NULL) {
        return error_no_memory(error, pipeline_bytes(topology, &pipeline->limits),
                               "messages of exchanges");
    }
    assign_messages(pipeline, max_messages);
    return BERTH_OK;
}

void pipeline_done(struct pipeline *pipeline) {
    memory_free(pipeline->hosts);
    memory_free(pipeline->handled);
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
    const int64_t before = pipeline->begun - WINDOW_SLOTS;
    for (int local = 0; local < pipeline->local_size && before >= 0; local++) {
        struct window_mark *mark = host_window_mark(&pipeline->window, before, local);
        if (atomic_load_explicit(&mark->emptied, memory_order_acquire) != before + 1) {
            return local;
        }
    }
    return -1;
}

// Whether this rank, if it is an owner in the next step of a reduce, has a slot for what it
// receives. It waits for no step but earlier ones.
static int may_receive(const struct pipeline *pipeline) {
    const struct operation *operation = &pipeline->current;
    return operation->phases != &pipeline_reduce ||
           pipeline->received_begun - pipeline->received_finished < pipeline->received_slots ||
           chunking_count(&operation->chunking, &operation->range, pipeline->steps_begun,
                          pipeline->topology->rank) == 0;
}

static int may_begin(const struct pipeline *pipeline) {
    return !pipeline_needs_operation(pipeline) &&
           (!pipeline->current.phases->is_gather || pipeline->finished >= pipeline->sums_end) &&
           pipeline->begun - pipeline->finished < WINDOW_SLOTS && unemptied(pipeline) < 0 &&
           may_receive(pipeline);
}

static struct step *next_step(struct pipeline *pipeline) {
    struct step *step = step_at(pipeline, pipeline->begun);
    step->operation = pipeline->current;
    step->number = pipeline->begun;
    step->turn = pipeline->steps_begun;
    step->receives.count = step->receives.done = 0;
    step->sends.count = step->sends.done = 0;
    return step;
}

static enum berth_status try_begin(struct pipeline *pipeline, int *progressed,
                                   struct berth_error *error) {
    if (!may_begin(pipeline)) {
        return BERTH_OK;
    }
    struct step *step = next_step(pipeline);
    TRY(step->operation.phases->begin(pipeline, step, error));
    pipeline->begun++;
    pipeline->steps_begun++;
    if (!step->operation.phases->is_gather) {
        pipeline->sums_end = pipeline->begun;
    }
    *progressed = 1;
    return BERTH_OK;
}

static enum berth_status try_pass(struct pipeline *pipeline, int *progressed,
                                  struct berth_error *error) {
    struct step *step = step_at(pipeline, pipeline->passed);
    if (pipeline->passed == pipeline->begun || !step->operation.phases->may_pass(pipeline, step)) {
        return BERTH_OK;
    }
    TRY(step->operation.phases->pass(pipeline, step, error));
    pipeline->passed++;
    *progressed = 1;
    return BERTH_OK;
}

static enum berth_status try_finish(struct pipeline *pipeline, int *progressed,
                                    struct berth_error *error) {
    struct step *step = step_at(pipeline, pipeline->finished);
    if (pipeline->finished == pipeline->passed ||
        !step->operation.phases->may_finish(pipeline, step)) {
        return BERTH_OK;
    }
    TRY(step->operation.phases->finish(pipeline, step, error));
    pipeline->finished++;
    if (step->turn + 1 == step->operation.chunking.steps) {
        pipeline->completed = step->operation.label.number;
    }
    *progressed = 1;
    return BERTH_OK;
}

static enum berth_status poll_step(struct pipeline *pipeline, struct step *step, int *progressed,
                                   struct berth_error *error) {
    TRY(courier_poll(&pipeline->courier, &step->receives, progressed, error));
    return courier_poll(&pipeline->courier, &step->sends, progressed, error);
}

static enum berth_status poll_messages(struct pipeline *pipeline, int *progressed,
                                       struct berth_error *error) {
    for (int64_t number = pipeline->finished; number < pipeline->begun; number++) {
        struct step *step = step_at(pipeline, number);
        TRY(step_explain(pipeline, step, poll_step(pipeline, step, progressed, error), error));
    }
    return BERTH_OK;
}

enum berth_status pipeline_progress(struct pipeline *pipeline, int *progressed,
                                    struct berth_error *error) {
    TRY(poll_messages(pipeline, progressed, error));
    TRY(try_finish(pipeline, progressed, error));
    TRY(try_pass(pipeline, progressed, error));
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
    if (pipeline->finished == pipeline->begun) {
        const int local = unemptied(pipeline);
        range_label_format(&pipeline->current.label, what);
        return awaited_local(pipeline, local > 0 ? local : 0);
    }
    const struct step *step = &pipeline->steps[pipeline->finished % WINDOW_SLOTS];
    range_label_format(&step->operation.label, what);
    return awaited_by(pipeline, step);
}
