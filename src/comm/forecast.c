// SPDX-License-Identifier: Apache-2.0
// A communicator that predicts the time of exchanges. It simulates the exchanging thread
// (range_thread.h, pipeline.h) step by step, with the load that each phase puts on the busiest
// rank's processor and the busiest host's link. Not modelled: differences between the ranks of a
// host, congested switches, lost packets.
#include "comm/collectives.h"
#include "comm/comm_forecast.h"
#include "comm/pipeline.h"
#include "comm/ranks.h"
#include "core/memory.h"

#include <math.h>
#include <string.h>

// The load of a step.
struct step_load {
    double out, in;             // bytes on a host's link
    double message;             // bytes of the largest message
    double delays;              // of the link, until all has arrived
    double begin, pass, finish; // seconds of a rank's processor
};

struct planned_operation {
    int is_gather;
    int64_t steps;
    struct step_load *loads; // [steps]; NULL once all have begun
    double ready;            // when the last rank began it
    double end;
};

// A step in flight.
struct flight {
    struct planned_operation *operation;
    struct step_load load;
    int is_last;
    double arrival; // of its messages
};

struct forecast {
    struct comm comm;
    struct comm_cluster cluster;
    struct topology topology;
    struct chunk_limits limits;
    double *clocks; // [size]
    uint64_t *sent; // [size]
    int *table;     // [2 * size] of the operation that is planned (chunking.h)
    struct totals {
        double elements, bytes, messages;
    } * owned,      // [size] of some steps: each rank's part
        *relayed,   // [size] what each rank relays
        *of_locals; // [ranks_per_host] what the ranks with one local rank own together
    struct planned_operation **operations; // [begun_operations] ticket - 1
    size_t begun_operations, completed_operations, capacity;
    struct berth_error error;
    double uncharged_seconds; // of the exchanging thread, not yet on any rank's clock
    double busy_seconds, exposed_seconds;
    // The exchanging thread.
    double now, out_free, in_free; // its clock; when the link is free in each direction
    struct flight flights[WINDOW_SLOTS];
    int64_t begun, passed, finished, sums_end; // steps
    size_t current;                            // the operation whose steps are being begun
    int64_t steps_begun;                       // of `current`
};

static struct forecast *forecast_of(const struct comm *comm) {
    return comm->state;
}

// --- the load of a step -------------------------------------------------------------------------

static double bytes_of(int64_t count, enum dtype wire) {
    return count > 0
               ? (double)sizeof(struct range_header) + (double)count * (double)dtype_size(wire)
               : 0;
}

static void count_part(struct totals *totals, const struct comm_range *range, int64_t elements) {
    totals->elements += (double)elements;
    totals->bytes += bytes_of(elements, range->wire);
    totals->messages += elements > 0;
}

// Fills `owned`, `relayed` and `of_locals` for `count` steps; returns the elements of all parts.
static double count_steps(struct forecast *forecast, const struct comm_range *range,
                          const struct chunking *chunking, int64_t first, int64_t count) {
    const struct topology *topology = &forecast->topology;
    const int local_size = forecast->cluster.ranks_per_host;
    double total = 0;
    memset(forecast->owned, 0, (size_t)forecast->comm.size * sizeof *forecast->owned);
    memset(forecast->relayed, 0, (size_t)forecast->comm.size * sizeof *forecast->relayed);
    memset(forecast->of_locals, 0, (size_t)local_size * sizeof *forecast->of_locals);
    for (int64_t step = first; step < first + count; step++) {
        for (int64_t i = step % chunking->groups; i < chunking->owner_count;
             i += chunking->groups) {
            const int rank = chunking->owners[i];
            const int64_t elements = chunking_count(chunking, range, step, rank);
            count_part(&forecast->owned[rank], range, elements);
            count_part(&forecast->of_locals[rank % local_size], range, elements);
            for (int rack = 0; rack < topology->rack_count; rack++) {
                if (rack != topology_rack_of(topology, rank)) {
                    count_part(&forecast->relayed[topology_relay(topology, rack, rank)], range,
                               elements);
                }
            }
            total += (double)elements;
        }
    }
    return total;
}

// What one rank does in some steps.
struct rank_work {
    int host;
    struct totals own;     // its part, as sent to or received from one other
    struct totals handled; // parts on other hosts that it handles
    struct totals relayed; // of these, parts in other racks that it relays
    double all;            // elements of the steps
};

static struct rank_work rank_work_of(const struct forecast *forecast, int rank, double all) {
    const struct totals *of_locals = &forecast->of_locals[rank % forecast->cluster.ranks_per_host];
    const struct totals own = forecast->owned[rank];
    return (struct rank_work){.host = forecast->topology.hosts[rank],
                              .own = own,
                              .handled = {of_locals->elements - own.elements,
                                          of_locals->bytes - own.bytes,
                                          of_locals->messages - own.messages},
                              .relayed = forecast->relayed[rank],
                              .all = all};
}

static double conversion_seconds(const struct forecast *forecast, const struct comm_range *range,
                                 double elements) {
    return forecast->cluster.costs.memory * elements *
           (double)(dtype_size(range->dtype) + dtype_size(range->wire));
}

// To send, or to receive, the messages of some parts; `checked`: with a checksum of each.
static double message_seconds(const struct forecast *forecast, const struct totals *totals,
                              int checked) {
    const struct comm_costs *costs = &forecast->cluster.costs;
    return (costs->copy + checked * costs->checksum) * totals->bytes +
           costs->message * totals->messages;
}

// The ranks of a host whose values it adds for an owner elsewhere: those of blocks of several
// ranks.
static double added_ranks(const struct topology *topology, int host) {
    const struct topology_blocks *blocks = &topology->host_blocks;
    int added = 0;
    for (int block = blocks->first[host]; block < blocks->first[host + 1]; block++) {
        const int ranks = topology_block_size(blocks, block);
        added += ranks > 1 ? ranks : 0;
    }
    return added;
}

// The sums that an owner on a host receives: those of other hosts' blocks, and of other racks'.
static double received_sums(const struct topology *topology, int host) {
    return topology_rack_others(topology, host) + topology->rack_blocks.count -
           topology_block_count(&topology->rack_blocks, topology->racks[host]);
}

// The work of a step of reduce.c.
static struct step_load reduce_load(const struct forecast *forecast, const struct comm_range *range,
                                    const struct rank_work *rank_work) {
    const struct topology *topology = &forecast->topology;
    const double addend = forecast->cluster.costs.addend;
    const int host = rank_work->host;
    const struct totals *relayed = &rank_work->relayed;
    const struct totals sent = {.bytes = rank_work->handled.bytes - relayed->bytes,
                                .messages = rank_work->handled.messages - relayed->messages};
    const double blocks = topology_block_count(&topology->host_blocks, host);
    const double rack_blocks = topology_block_count(&topology->rack_blocks, topology->racks[host]);
    const double near = topology_rack_others(topology, host); // sums that a relay receives
    const double received = received_sums(topology, host);
    const double local = forecast->cluster.ranks_per_host;
    return (struct step_load){
        .out = blocks * sent.bytes + rack_blocks * relayed->bytes,
        .in = received * rank_work->own.bytes + near * relayed->bytes,
        .message = rank_work->own.bytes,
        .delays = topology->rack_count > 1 ? 2 : 1,
        .begin = conversion_seconds(forecast, range, rank_work->all - rank_work->own.elements),
        .pass = addend * added_ranks(topology, host) * rank_work->handled.elements +
                blocks * message_seconds(forecast, &sent, 1) +
                addend * (near > 0 ? near + blocks : 0) * relayed->elements +
                (near + rack_blocks) * message_seconds(forecast, relayed, 1),
        .finish = received * message_seconds(forecast, &rank_work->own, 1) +
                  addend * (local + received) * rank_work->own.elements};
}

// The work of a step of gather.c.
static struct step_load gather_load(const struct forecast *forecast, const struct comm_range *range,
                                    const struct rank_work *rank_work) {
    const struct topology *topology = &forecast->topology;
    const int rack = topology->racks[rank_work->host];
    const double near = topology->rack_first[rack + 1] - topology->rack_first[rack] - 1;
    const double others = near + topology->rack_count - 1;
    const double rounding = range->wire != range->dtype ? 2 : 1;
    return (struct step_load){
        .out = others * rank_work->own.bytes + near * rank_work->relayed.bytes,
        .in = rank_work->handled.bytes,
        .message = rank_work->own.bytes,
        .delays = topology->rack_count > 1 ? 2 : 1,
        .begin = conversion_seconds(forecast, range, rounding * rank_work->own.elements) +
                 (others > 0 ? forecast->cluster.costs.checksum * rank_work->own.bytes : 0) +
                 others * message_seconds(forecast, &rank_work->own, 0),
        .pass = message_seconds(forecast, &rank_work->handled, 1) +
                near * message_seconds(forecast, &rank_work->relayed, 0),
        .finish = conversion_seconds(forecast, range, rank_work->all - rank_work->own.elements)};
}

// As native.c does it, if the library sends no more than it must: in as many rounds as hosts, or
// with many hosts a reduce by halves and a gather by doubling, which needs a power of two
// (chunking.h).
static double rounds_of(const struct forecast *forecast, int is_gather) {
    const int hosts = forecast->cluster.hosts, is_power = (hosts & (hosts - 1)) == 0;
    const int is_linear = forecast->cluster.library_is_linear || hosts <= CHUNKING_FEW_HOSTS;
    return is_linear || (is_gather && !is_power) ? hosts - 1 : ceil(log2(hosts));
}

static int is_all_reduce(const struct forecast *forecast, const struct comm_range *range) {
    return range->native && range->to_all && forecast->cluster.library_is_linear;
}

static double library_seconds(const struct forecast *forecast, double bytes, double rounds) {
    const struct comm_costs *costs = &forecast->cluster.costs;
    return 2 * (costs->copy * bytes + costs->message * rounds);
}

static struct step_load native_reduce_load(const struct forecast *forecast,
                                           const struct comm_range *range,
                                           const struct rank_work *rank_work) {
    const struct comm_costs *costs = &forecast->cluster.costs;
    const double hosts = forecast->cluster.hosts, local = forecast->cluster.ranks_per_host;
    const double passes = is_all_reduce(forecast, range) ? 2 : 1;
    const double group = rank_work->handled.elements + rank_work->own.elements;
    const double bytes = group * (double)dtype_size(range->wire) * (hosts - 1) / hosts;
    const double rounds = passes * rounds_of(forecast, 0);
    return (struct step_load){
        .out = passes * bytes,
        .in = passes * bytes,
        .delays = rounds,
        .begin = conversion_seconds(forecast, range, rank_work->all - rank_work->own.elements),
        .pass = costs->addend * local * group + library_seconds(forecast, passes * bytes, rounds) +
                2 * costs->addend * group * (hosts - 1) / hosts,
        .finish =
            conversion_seconds(forecast, range, passes > 1 ? group : rank_work->own.elements)};
}

static struct step_load native_gather_load(const struct forecast *forecast,
                                           const struct comm_range *range,
                                           const struct rank_work *rank_work) {
    const double hosts = forecast->cluster.hosts;
    const double rounding = range->wire != range->dtype ? 2 : 1;
    const double group = rank_work->handled.elements + rank_work->own.elements;
    const double bytes = is_all_reduce(forecast, range)
                             ? 0
                             : group * (double)dtype_size(range->wire) * (hosts - 1) / hosts;
    const double rounds = is_all_reduce(forecast, range) ? 0 : rounds_of(forecast, 1);
    return (struct step_load){
        .out = bytes,
        .in = bytes,
        .delays = rounds,
        .begin = conversion_seconds(forecast, range,
                                    rounding * (rounds > 0 ? rank_work->own.elements : group)) +
                 library_seconds(forecast, bytes, rounds),
        .finish = conversion_seconds(forecast, range, rank_work->all - rank_work->own.elements)};
}

static struct step_load load_of(const struct forecast *forecast, const struct comm_range *range,
                                const struct rank_work *rank_work, int is_gather) {
    if (range->native && forecast->comm.native_missing == NULL) {
        return is_gather ? native_gather_load(forecast, range, rank_work)
                         : native_reduce_load(forecast, range, rank_work);
    }
    return is_gather ? gather_load(forecast, range, rank_work)
                     : reduce_load(forecast, range, rank_work);
}

static struct step_load max_load(struct step_load x, struct step_load y) {
    return (struct step_load){fmax(x.out, y.out),         fmax(x.in, y.in),
                              fmax(x.message, y.message), fmax(x.delays, y.delays),
                              fmax(x.begin, y.begin),     fmax(x.pass, y.pass),
                              fmax(x.finish, y.finish)};
}

// The greeting, which travels around the ring of ranks, leaves each host once.
static double greeting_of(const struct forecast *forecast, int64_t step) {
    return step == 0 && forecast->cluster.hosts > 1 ? (double)sizeof(struct range_header) : 0;
}

// The load of `count` steps that are under way together: the busiest rank's and the busiest host's,
// for each kind.
static struct step_load load_of_steps(struct forecast *forecast, const struct comm_range *range,
                                      const struct chunking *chunking, int is_gather, int64_t step,
                                      int64_t count) {
    const int local_size = forecast->cluster.ranks_per_host;
    const double all = count_steps(forecast, range, chunking, step, count);
    const double greeting = greeting_of(forecast, step);
    struct step_load busiest = {0};
    for (int first = 0; first < forecast->comm.size; first += local_size) {
        struct step_load host = {.out = greeting, .in = greeting};
        for (int rank = first; rank < first + local_size; rank++) {
            const struct rank_work rank_work = rank_work_of(forecast, rank, all);
            const struct step_load own = load_of(forecast, range, &rank_work, is_gather);
            forecast->sent[rank] +=
                (uint64_t)(own.out + (rank == first + local_size - 1) * greeting);
            const struct step_load before = host;
            host = max_load(host, own);
            host.out = before.out + own.out;
            host.in = before.in + own.in;
        }
        busiest = max_load(busiest, host);
    }
    return busiest;
}

// Fills loads[first, first + count) of an operation. Where owners take turns, each of the ranks
// that have the most to do in these steps does it in a step of its own, while the others are in
// theirs: so a step takes its share of what the busiest rank does in all of them.
static void plan_steps(struct forecast *forecast, const struct comm_range *range,
                       const struct chunking *chunking, struct planned_operation *operation,
                       int64_t first, int64_t count) {
    const double share = 1.0 / (double)count;
    struct step_load load =
        load_of_steps(forecast, range, chunking, operation->is_gather, first, count);
    load.out *= share;
    load.in *= share;
    load.begin *= share;
    load.pass *= share;
    load.finish *= share;
    load.message = fmin(load.message, bytes_of(chunking->elements, range->wire));
    for (int64_t step = first; step < first + count; step++) {
        operation->loads[step] = load;
    }
}

// --- the exchanging thread ----------------------------------------------------------------------

static struct flight *flight_at(struct forecast *forecast, int64_t step) {
    return &forecast->flights[step % WINDOW_SLOTS];
}

static void spend(struct forecast *forecast, double seconds) {
    forecast->now += seconds;
    forecast->busy_seconds += seconds;
}

// A host's link carries messages one after another. With three hosts or more, two may send to the
// same one at once, so the last message waits for that of another host, and of a relay once more.
static double transfer(struct forecast *forecast, const struct step_load *load) {
    const struct comm_link *link = &forecast->cluster.link;
    const double waited_for = forecast->cluster.hosts > 2 ? load->delays * load->message : 0;
    if (forecast->cluster.hosts == 1 || load->delays == 0) {
        return forecast->now;
    }
    forecast->out_free =
        fmax(forecast->out_free, forecast->now) + load->out / link->bytes_per_second;
    forecast->in_free = fmax(forecast->in_free, forecast->now) + load->in / link->bytes_per_second;
    return fmax(forecast->out_free, forecast->in_free) + load->delays * link->delay_seconds +
           waited_for / link->bytes_per_second;
}

static int try_finish(struct forecast *forecast) {
    struct flight *flight = flight_at(forecast, forecast->finished);
    if (forecast->finished == forecast->passed || flight->arrival > forecast->now) {
        return 0;
    }
    spend(forecast, flight->load.finish);
    forecast->finished++;
    if (flight->is_last) {
        flight->operation->end = forecast->now;
        forecast->completed_operations++;
    }
    return 1;
}

// A reduce sends in its pass phase, a gather in its begin phase.
static int try_pass(struct forecast *forecast) {
    struct flight *flight = flight_at(forecast, forecast->passed);
    if (forecast->passed == forecast->begun || flight->arrival > forecast->now) {
        return 0;
    }
    spend(forecast, flight->load.pass);
    flight->arrival =
        flight->operation->is_gather ? forecast->now : transfer(forecast, &flight->load);
    forecast->passed++;
    return 1;
}

static int may_begin(const struct forecast *forecast) {
    if (forecast->current == forecast->begun_operations ||
        forecast->begun - forecast->finished == WINDOW_SLOTS) {
        return 0;
    }
    const struct planned_operation *operation = forecast->operations[forecast->current];
    return operation->ready <= forecast->now &&
           (!operation->is_gather || forecast->finished >= forecast->sums_end);
}

static int try_begin(struct forecast *forecast) {
    if (!may_begin(forecast)) {
        return 0;
    }
    struct planned_operation *operation = forecast->operations[forecast->current];
    struct flight *flight = flight_at(forecast, forecast->begun++);
    *flight = (struct flight){.operation = operation,
                              .load = operation->loads[forecast->steps_begun++],
                              .is_last = forecast->steps_begun == operation->steps};
    spend(forecast, flight->load.begin);
    flight->arrival = operation->is_gather ? transfer(forecast, &flight->load) : forecast->now;
    if (!operation->is_gather) {
        forecast->sums_end = forecast->begun;
    }
    if (flight->is_last) {
        memory_free(operation->loads);
        operation->loads = NULL;
        forecast->current++;
        forecast->steps_begun = 0;
    }
    return 1;
}

// Advances the clock to when the next message arrives or the next operation is ready.
static void sleep_until_next(struct forecast *forecast) {
    double next = INFINITY;
    if (forecast->finished < forecast->begun) {
        next = fmin(next, flight_at(forecast, forecast->finished)->arrival);
    }
    if (forecast->passed < forecast->begun) {
        next = fmin(next, flight_at(forecast, forecast->passed)->arrival);
    }
    if (forecast->current < forecast->begun_operations) {
        const double ready = forecast->operations[forecast->current]->ready;
        next = ready > forecast->now ? fmin(next, ready) : next;
    }
    forecast->now = fmax(forecast->now, next);
}

// --- the communicator's functions ---------------------------------------------------------------

static double latest(const struct forecast *forecast) {
    double latest = forecast->clocks[0];
    for (int rank = 1; rank < forecast->comm.size; rank++) {
        latest = fmax(latest, forecast->clocks[rank]);
    }
    return latest;
}

// Adds to the ranks' clocks the time that the exchanging thread takes from their processors.
static void charge(struct forecast *forecast) {
    for (int rank = 0; rank < forecast->comm.size; rank++) {
        forecast->clocks[rank] += forecast->uncharged_seconds * forecast->cluster.stolen;
    }
    forecast->uncharged_seconds = 0;
}

static struct planned_operation *planned_operation_new(struct forecast *forecast, int64_t steps) {
    struct planned_operation **operations =
        memory_grow(forecast->operations, &forecast->capacity, forecast->begun_operations + 1,
                    sizeof *operations);
    if (operations == NULL) {
        return NULL;
    }
    forecast->operations = operations;
    struct planned_operation *operation = memory_new(sizeof *operation);
    struct step_load *loads = memory_array((size_t)steps, sizeof *loads);
    if (operation == NULL || loads == NULL) {
        memory_free(operation);
        memory_free(loads);
        return NULL;
    }
    *operation = (struct planned_operation){.steps = steps, .loads = loads};
    forecast->operations[forecast->begun_operations++] = operation;
    return operation;
}

// How many steps from `first` on are under way at once with different owners in each.
static int64_t steps_together(const struct chunking *chunking, int64_t first) {
    const int64_t most = chunking->groups < WINDOW_SLOTS ? chunking->groups : WINDOW_SLOTS;
    return chunking->steps - first < most ? chunking->steps - first : most;
}

static int64_t begin(struct comm *comm, const struct comm_range *range, int is_gather) {
    struct forecast *forecast = forecast_of(comm);
    const struct chunking chunking =
        chunking_of(range, comm->size, comm->host_count, &forecast->limits, forecast->table);
    charge(forecast);
    struct planned_operation *operation = planned_operation_new(forecast, chunking.steps);
    if (operation == NULL) {
        (void)error_no_memory(&forecast->error, (size_t)chunking.steps * sizeof(struct step_load),
                              "the forecast of an exchange");
        return 0;
    }
    operation->is_gather = is_gather;
    operation->ready = latest(forecast);
    for (int64_t step = 0, count; step < chunking.steps; step += count) {
        count = steps_together(&chunking, step);
        plan_steps(forecast, range, &chunking, operation, step, count);
        const struct step_load *load = &operation->loads[step];
        forecast->uncharged_seconds += (double)count * (load->begin + load->pass + load->finish);
    }
    return (int64_t)forecast->begun_operations;
}

static int64_t forecast_gather_begin(struct comm *comm, const struct comm_range *range) {
    return begin(comm, range, 1);
}

static int64_t forecast_reduce_begin(struct comm *comm, const struct comm_range *range) {
    const int64_t ticket = begin(comm, range, 0);
    const int has_all = is_all_reduce(forecast_of(comm), range) && comm->local_size == 1 &&
                        comm->native_missing == NULL;
    return range->to_all && !has_all ? begin(comm, range, 1) : ticket;
}

static void forecast_wait(struct comm *comm, int64_t ticket) {
    struct forecast *forecast = forecast_of(comm);
    if (ticket < 1 || (size_t)ticket > forecast->begun_operations) {
        return;
    }
    charge(forecast);
    while (forecast->completed_operations < (size_t)ticket) {
        if (!try_finish(forecast) && !try_pass(forecast) && !try_begin(forecast)) {
            sleep_until_next(forecast);
        }
    }
    const double end = forecast->operations[ticket - 1]->end;
    forecast->exposed_seconds += fmax(0, end - forecast->clocks[0]);
    for (int rank = 0; rank < comm->size; rank++) {
        forecast->clocks[rank] = fmax(forecast->clocks[rank], end);
    }
}

// All ranks synchronize, along a tree to rank 0 and back (collectives.c).
static void synchronize(struct forecast *forecast, double bytes) {
    const struct comm_cluster *cluster = &forecast->cluster;
    double hop = 2 * (cluster->costs.message + cluster->costs.copy * bytes);
    if (cluster->hosts > 1) {
        hop += cluster->link.delay_seconds + bytes / cluster->link.bytes_per_second;
    }
    const double end = latest(forecast) + 2 * ceil(log2(forecast->comm.size)) * hop;
    for (int rank = 0; rank < forecast->comm.size; rank++) {
        const int parent = rank & (rank - 1);
        forecast->clocks[rank] = end;
        if (rank > 0 && rank / cluster->ranks_per_host != parent / cluster->ranks_per_host) {
            forecast->sent[rank] += (uint64_t)bytes;
            forecast->sent[parent] += (uint64_t)bytes;
        }
    }
}

static void forecast_sum(struct comm *comm, double *values, size_t count) {
    (void)values;
    synchronize(forecast_of(comm), (double)(count * sizeof(double)));
}

static enum berth_status forecast_status(struct comm *comm, struct berth_error *error) {
    return error_copy(error, &forecast_of(comm)->error);
}

static enum berth_status forecast_agree(struct comm *comm, enum berth_status own, int *stop,
                                        struct berth_error *error) {
    (void)stop;
    synchronize(forecast_of(comm), sizeof(struct agreement));
    return own == BERTH_OK ? forecast_status(comm, error) : own;
}

static void forecast_broadcast(struct comm *comm, void *data, size_t bytes, int root) {
    (void)comm, (void)data, (void)bytes, (void)root;
}

static struct comm_stats forecast_stats(struct comm *comm) {
    const struct forecast *forecast = forecast_of(comm);
    return (struct comm_stats){.bytes = forecast->sent[0],
                               .busy_seconds = forecast->busy_seconds,
                               .exposed_seconds = forecast->exposed_seconds};
}

static void forecast_close(struct comm *comm) {
    struct forecast *forecast = forecast_of(comm);
    for (size_t i = 0; i < forecast->begun_operations; i++) {
        memory_free(forecast->operations[i]->loads);
        memory_free(forecast->operations[i]);
    }
    memory_free(forecast->operations);
    memory_free(forecast->clocks);
    memory_free(forecast->sent);
    memory_free(forecast->table);
    memory_free(forecast->owned);
    memory_free(forecast->relayed);
    memory_free(forecast->of_locals);
    topology_done(&forecast->topology);
    memory_free(forecast);
}

double *comm_forecast_clocks(struct comm *comm) {
    return forecast_of(comm)->clocks;
}

uint64_t comm_forecast_sent(const struct comm *comm, int rank) {
    return forecast_of(comm)->sent[rank];
}

// --- opening ------------------------------------------------------------------------------------

static void fill_comm(struct forecast *forecast) {
    const struct comm_settings settings = {.window_bytes = forecast->cluster.window_bytes,
                                           .message_bytes = forecast->cluster.message_bytes};
    const int hosts = forecast->cluster.hosts, local_size = forecast->cluster.ranks_per_host;
    const int size = hosts * local_size;
    const struct comm_ranks_memory memory = comm_ranks_memory(&settings, &forecast->topology);
    forecast->limits = comm_ranks_limits(&settings, &forecast->topology);
    forecast->comm = (struct comm){.name = "forecast",
                                   .state = forecast,
                                   .size = size,
                                   .local_size = local_size,
                                   .host_count = hosts,
                                   .rack_count = forecast->topology.rack_count,
                                   .bytes = memory.own,
                                   .host_bytes = memory.host,
                                   .reduce_bytes = memory.reduce,
                                   .gather_bytes = memory.gather,
                                   .native_missing = pipeline_missing_group(&forecast->topology),
                                   .library_is_linear = forecast->cluster.library_is_linear,
                                   .close = forecast_close,
                                   .status = forecast_status,
                                   .agree = forecast_agree,
                                   .broadcast = forecast_broadcast,
                                   .sum = forecast_sum,
                                   .reduce_begin = forecast_reduce_begin,
                                   .gather_begin = forecast_gather_begin,
                                   .wait = forecast_wait,
                                   .stats = forecast_stats};
}

enum berth_status comm_forecast_open(const struct comm_cluster *cluster, struct comm **comm,
                                     struct berth_error *error) {
    struct forecast *forecast = memory_array_zeroed(1, sizeof *forecast);
    const size_t size = (size_t)cluster->hosts * (size_t)cluster->ranks_per_host;
    if (forecast == NULL) {
        return error_no_memory(error, sizeof *forecast, "a forecast");
    }
    forecast->cluster = *cluster;
    forecast->clocks = memory_array_zeroed(size, sizeof *forecast->clocks);
    forecast->sent = memory_array_zeroed(size, sizeof *forecast->sent);
    forecast->table = memory_array(2 * size, sizeof *forecast->table);
    forecast->owned = memory_array(size, sizeof *forecast->owned);
    forecast->relayed = memory_array(size, sizeof *forecast->relayed);
    forecast->of_locals =
        memory_array((size_t)cluster->ranks_per_host, sizeof *forecast->of_locals);
    forecast->comm.state = forecast;
    enum berth_status status = topology_init_even(
        &forecast->topology, cluster->hosts, cluster->ranks_per_host, cluster->rack_hosts, error);
    if (forecast->clocks == NULL || forecast->sent == NULL || forecast->table == NULL ||
        forecast->owned == NULL || forecast->relayed == NULL || forecast->of_locals == NULL) {
        status = error_no_memory(error, size * sizeof *forecast->owned, "a forecast");
    }
    if (status != BERTH_OK) {
        forecast_close(&forecast->comm);
        return status;
    }
    fill_comm(forecast);
    *comm = &forecast->comm;
    return BERTH_OK;
}
