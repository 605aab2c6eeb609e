// SPDX-License-Identifier: Apache-2.0
// The communicator of several ranks. To open it, the processes tell each other their hosts and are
// numbered, and the ranks of each host set up shared memory.
#include "comm/ranks.h"

#include "comm/collectives.h"
#include "comm/range_thread.h"
#include "comm/watchdog.h"
#include "core/check.h"
#include "core/memory.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_WINDOW_BYTES ((size_t)64 << 20)
// Large enough that the cost of a message is negligible.
#define DEFAULT_MESSAGE_BYTES ((size_t)64 << 10)
// How long a failed rank waits for the others to meet the same error. It is limited to half of the
// deadline, so that meanwhile none of them considers the rank late.
#define LONE_FAILURE_SECONDS 2.0

struct ranks {
    struct comm comm;
    struct transport *transport; // the watchdog's
    struct watchdog watchdog;
    struct fault fault;
    struct topology topology;
    struct collectives collectives, agreements;
    int64_t collective_count; // sums and broadcasts so far
    struct pipeline pipeline;
    struct range_thread thread;
    struct monitor monitor;
};

static struct ranks *ranks_of(struct comm *comm) {
    return comm->state;
}

// --- the communicator's functions ---------------------------------------------------------------

static enum berth_status ranks_status(struct comm *comm, struct berth_error *error) {
    return fault_status(&ranks_of(comm)->fault, error);
}

static enum berth_status ranks_find_silent(struct comm *comm, const char *what,
                                           struct berth_error *error) {
    return monitor_find_silent(&ranks_of(comm)->monitor, what, error);
}

static void ranks_enter(struct comm *comm, enum comm_phase phase, int64_t update) {
    monitor_enter(&ranks_of(comm)->monitor, phase, update);
}

static struct agreement agreement_of(struct ranks *ranks, enum berth_status own, int stop,
                                     const struct berth_error *error) {
    const struct job_position position = {.begun = ranks->collective_count +
                                                   range_thread_begun(&ranks->thread),
                                          .phase = atomic_load(&ranks->monitor.phase),
                                          .update = atomic_load(&ranks->monitor.update)};
    struct agreement agreement = {
        .rank = ranks->comm.rank, .failures = own != BERTH_OK, .stop = stop, .position = position};
    if (own != BERTH_OK && error != NULL) {
        agreement.error = *error;
    }
    agreement.error.status = own;
    return agreement;
}

// An error that is about a rank already names it.
static void name_rank(const struct ranks *ranks, int rank, struct berth_error *error) {
    if (strncmp(error->message, "rank ", strlen("rank ")) == 0) {
        return;
    }
    (void)error_prefix(error, error->status, "rank %d on host %s", rank,
                       ranks->topology.names[rank]);
}

// For a rank that failed: the others may be anywhere in the job, waiting for it.
static void agree_on_failure(struct ranks *ranks, struct agreement *agreement) {
    struct berth_error own = agreement->error;
    struct courier *courier = &ranks->agreements.courier;
    const struct courier saved = {.monitor = courier->monitor,
                                  .timeout_seconds = courier->timeout_seconds};
    courier->monitor = NULL;
    courier->timeout_seconds = saved.timeout_seconds / 2 < LONE_FAILURE_SECONDS
                                   ? saved.timeout_seconds / 2
                                   : LONE_FAILURE_SECONDS;
    if (collectives_agree(&ranks->agreements, agreement, NULL) != BERTH_OK) {
        name_rank(ranks, ranks->comm.rank, &own);
        fault_set(&ranks->fault, own.status, &own);
    }
    courier->monitor = saved.monitor;
    courier->timeout_seconds = saved.timeout_seconds;
}

// After an error at different positions, an exchange that was begun may never complete, and later
// agreements would not be about the same question.
static void fail_if_positions_differ(struct ranks *ranks, const struct agreement *agreement) {
    if (agreement->error.status == BERTH_OK || !agreement->positions_differ) {
        return;
    }
    if (agreement->rank == ranks->comm.rank) {
        fault_set(&ranks->fault, agreement->error.status, &agreement->error);
    } else {
        fault_set_remote(&ranks->fault, agreement->error.status);
    }
}

static enum berth_status ranks_agree(struct comm *comm, enum berth_status own, int *stop,
                                     struct berth_error *error) {
    struct ranks *ranks = ranks_of(comm);
    struct berth_error met;
    struct agreement agreement = agreement_of(ranks, own, *stop, error);
    TRY(fault_status(&ranks->fault, error));
    if (own != BERTH_OK) {
        agree_on_failure(ranks, &agreement);
    } else {
        fault_set(&ranks->fault, collectives_agree(&ranks->agreements, &agreement, &met), &met);
    }
    if (agreement.failures > 0 && (agreement.positions_differ || agreement.failures < comm->size)) {
        name_rank(ranks, agreement.rank, &agreement.error);
    }
    fail_if_positions_differ(ranks, &agreement);
    TRY(fault_status(&ranks->fault, error));
    *stop = agreement.stop;
    if (agreement.error.status != BERTH_OK && error != NULL) {
        *error = agreement.error;
    }
    return agreement.error.status;
}

static void ranks_broadcast(struct comm *comm, void *data, size_t bytes, int root) {
    struct ranks *ranks = ranks_of(comm);
    struct berth_error met;
    ranks->collective_count++;
    if (!fault_is_set(&ranks->fault)) {
        fault_set(&ranks->fault,
                  collectives_broadcast(&ranks->collectives, data, bytes, root, &met), &met);
    }
}

static void ranks_sum(struct comm *comm, double *values, size_t count) {
    struct ranks *ranks = ranks_of(comm);
    struct berth_error met;
    ranks->collective_count++;
    if (!fault_is_set(&ranks->fault)) {
        fault_set(&ranks->fault, collectives_sum(&ranks->collectives, values, count, &met), &met);
    }
}

static int is_native(const struct comm *comm, const struct comm_range *range) {
    return range->native && comm->native_missing == NULL;
}

static int64_t ranks_gather_begin(struct comm *comm, const struct comm_range *range) {
    return range_thread_begin(&ranks_of(comm)->thread,
                              is_native(comm, range) ? &pipeline_native_gather : &pipeline_gather,
                              range);
}

static int64_t ranks_reduce_begin(struct comm *comm, const struct comm_range *range) {
    struct ranks *ranks = ranks_of(comm);
    const int native = is_native(comm, range);
    const int64_t ticket = range_thread_begin(
        &ranks->thread, native ? &pipeline_native_reduce : &pipeline_reduce, range);
    const int has_all = native && ranks->transport->prefers_all_reduce && comm->local_size == 1;
    return range->to_all && !has_all ? ranks_gather_begin(comm, range) : ticket;
}

static void ranks_wait(struct comm *comm, int64_t ticket) {
    range_thread_wait(&ranks_of(comm)->thread, ticket);
}

static struct comm_stats ranks_stats(struct comm *comm) {
    struct ranks *ranks = ranks_of(comm);
    struct comm_stats stats = {.bytes = atomic_load(&ranks->collectives.courier.sent) +
                                        atomic_load(&ranks->agreements.courier.sent),
                               .call_seconds = ranks->collectives.courier.waited_seconds +
                                               ranks->agreements.courier.waited_seconds};
    range_thread_stats(&ranks->thread, &stats);
    return stats;
}

// Messages in flight need their memory until the transport is closed.
static void shut_down(struct ranks *ranks, enum transport_end end) {
    range_thread_end(&ranks->thread);
    monitor_end(&ranks->monitor);
    ranks->transport->close(ranks->transport, end);
    watchdog_end(&ranks->watchdog);
    pipeline_done(&ranks->pipeline);
    monitor_done(&ranks->monitor);
    topology_done(&ranks->topology);
    fault_done(&ranks->fault);
    memory_free(ranks);
}

static void ranks_close(struct comm *comm) {
    struct ranks *ranks = ranks_of(comm);
    shut_down(ranks, !fault_is_set(&ranks->fault) ? TRANSPORT_DONE
                     : ranks->fault.is_remote     ? TRANSPORT_FAILED_ELSEWHERE
                                                  : TRANSPORT_FAILED);
}

// --- opening: who is where ----------------------------------------------------------------------

// Until the hosts are known, each process is a host of its own, and its rank is its number.
static enum berth_status number_processes(struct ranks *ranks, struct host_identity *identities,
                                          struct berth_error *error) {
    const int process = ranks->transport->rank, size = ranks->transport->size;
    for (int i = 0; i < size; i++) {
        identities[i] = (struct host_identity){.name = "unknown", .isolated = (uint64_t)i + 1};
    }
    return topology_init(&ranks->topology, identities, process, size, error);
}

static enum berth_status find_hosts(struct ranks *ranks, const struct comm_settings *settings,
                                    struct host_identity *identities, struct berth_error *error) {
    const int process = ranks->transport->rank, size = ranks->transport->size;
    TRY(number_processes(ranks, identities, error));
    identities[process] = host_identity_find(settings->host);
    identities[process].isolated = settings->flat ? (uint64_t)process + 1 : 0;
    if (settings->rack != NULL) {
        snprintf(identities[process].rack, sizeof identities[process].rack, "%s", settings->rack);
    }
    TRY(collectives_all_gather(&ranks->collectives, identities, sizeof *identities, error));
    topology_done(&ranks->topology);
    return topology_init(&ranks->topology, identities, process, size, error);
}

static enum berth_status find_topology(struct ranks *ranks, const struct comm_settings *settings,
                                       struct berth_error *error) {
    const size_t size = (size_t)ranks->transport->size;
    struct host_identity *identities = memory_array_zeroed(size, sizeof *identities);
    if (identities == NULL) {
        return error_no_memory(error, size * sizeof *identities, "the list of ranks");
    }
    const enum berth_status status = find_hosts(ranks, settings, identities, error);
    memory_free(identities);
    return status;
}

// --- opening: memory that a host's ranks share --------------------------------------------------

// Where other processes find the window that a rank has created. Descriptor -1: it has none.
struct window_location {
    int64_t process, descriptor;
};

static int shares_memory(const struct ranks *ranks) {
    return topology_local_size(&ranks->topology, ranks->topology.host) > 1;
}

static struct window_location make_window(struct ranks *ranks, const struct window_shape *shape) {
    const int is_first = topology_local(&ranks->topology, ranks->topology.rank) == 0;
    if (!shares_memory(ranks) || !is_first ||
        host_window_create(&ranks->pipeline.window, shape, NULL) != BERTH_OK) {
        return (struct window_location){.descriptor = -1};
    }
    return (struct window_location){getpid(), ranks->pipeline.window.descriptor};
}

// Whether this rank has the window that its host's first rank has created.
static int open_window(struct ranks *ranks, const struct window_location *locations,
                       const struct window_shape *shape) {
    const struct topology *topology = &ranks->topology;
    const int first = topology->first[topology->host];
    const struct window_location *location = &locations[first];
    if (!shares_memory(ranks) || first == topology->rank) {
        return !shares_memory(ranks) || location->descriptor >= 0;
    }
    return location->descriptor >= 0 &&
           host_window_open(&ranks->pipeline.window, shape, location->process,
                            (int)location->descriptor, NULL) == BERTH_OK;
}

// If a rank has no window, each rank of its host becomes a host of its own.
static enum berth_status share_memory(struct ranks *ranks, struct window_location *locations,
                                      char *refused, struct berth_error *error) {
    struct topology *topology = &ranks->topology;
    struct pipeline *pipeline = &ranks->pipeline;
    struct window_shape shape = pipeline_window_shape(topology, &pipeline->limits);
    locations[topology->rank] = make_window(ranks, &shape);
    TRY(collectives_all_gather(&ranks->collectives, locations, sizeof *locations, error));
    refused[topology->rank] = !open_window(ranks, locations, &shape);
    TRY(collectives_all_gather(&ranks->collectives, refused, sizeof *refused, error));
    host_window_close_file(&pipeline->window);
    topology_split(topology, refused);
    if (shares_memory(ranks)) {
        return BERTH_OK;
    }
    host_window_done(&pipeline->window);
    shape = pipeline_window_shape(topology, &pipeline->limits);
    return host_window_private(&pipeline->window, &shape, error);
}

static enum berth_status find_window(struct ranks *ranks, struct berth_error *error) {
    const size_t size = (size_t)ranks->topology.size;
    struct window_location *locations = memory_array_zeroed(size, sizeof *locations);
    char *refused = memory_array_zeroed(size, 1);
    enum berth_status status =
        locations != NULL && refused != NULL
            ? share_memory(ranks, locations, refused, error)
            : error_no_memory(error, size * sizeof *locations, "the list of ranks");
    memory_free(locations);
    memory_free(refused);
    return status;
}

// --- opening ------------------------------------------------------------------------------------

static int largest_local_size(const struct topology *topology) {
    int largest = 1;
    for (int host = 0; host < topology->host_count; host++) {
        const int size = topology_local_size(topology, host);
        largest = size > largest ? size : largest;
    }
    return largest;
}

static size_t window_bytes(const struct comm_settings *settings) {
    return settings->window_bytes > 0 ? settings->window_bytes : DEFAULT_WINDOW_BYTES;
}

static size_t message_bytes(const struct comm_settings *settings) {
    return settings->message_bytes > 0 ? settings->message_bytes : DEFAULT_MESSAGE_BYTES;
}

struct chunk_limits comm_ranks_limits(const struct comm_settings *settings,
                                      const struct topology *topology) {
    return chunk_limits_of(topology->size, largest_local_size(topology), window_bytes(settings),
                           message_bytes(settings));
}

static struct courier courier_of(struct ranks *ranks, const struct comm_settings *settings,
                                 enum transport_channel channel) {
    return (struct courier){.transport = ranks->transport,
                            .topology = &ranks->topology,
                            .fault = &ranks->fault,
                            .channel = channel,
                            .timeout_seconds = settings->timeout_seconds};
}

static enum berth_status open_pipeline(struct ranks *ranks, const struct comm_settings *settings,
                                       struct berth_error *error) {
    struct pipeline *pipeline = &ranks->pipeline;
    pipeline->courier = courier_of(ranks, settings, TRANSPORT_RANGES);
    pipeline->courier.monitor = &ranks->monitor;
    pipeline->relays = pipeline->courier;
    pipeline->relays.channel = TRANSPORT_RELAYS;
    pipeline->topology = &ranks->topology;
    pipeline->limits = comm_ranks_limits(settings, &ranks->topology);
    TRY(find_window(ranks, error));
    TRY(pipeline_init(pipeline, error));
    return range_thread_start(&ranks->thread, pipeline, error);
}

static enum berth_status open_monitor(struct ranks *ranks, const struct comm_settings *settings,
                                      struct berth_error *error) {
    ranks->monitor = (struct monitor){.transport = ranks->transport,
                                      .topology = &ranks->topology,
                                      .fault = &ranks->fault,
                                      .timeout_seconds = settings->timeout_seconds};
    pthread_getcpuclockid(ranks->thread.thread, &ranks->monitor.range_clock);
    TRY(watchdog_start(&ranks->watchdog, &ranks->topology, &ranks->pipeline.window,
                       settings->timeout_seconds, error));
    TRY(monitor_start(&ranks->monitor, error));
    ranks->collectives.courier.monitor = ranks->agreements.courier.monitor = &ranks->monitor;
    return BERTH_OK;
}

static void fill_comm(struct ranks *ranks) {
    const struct topology *topology = &ranks->topology;
    ranks->comm = (struct comm){.name = ranks->transport->name,
                                .state = ranks,
                                .rank = topology->rank,
                                .size = topology->size,
                                .local_rank = topology_local(topology, topology->rank),
                                .local_size = topology_local_size(topology, topology->host),
                                .host = topology->host,
                                .host_count = topology->host_count,
                                .rack_count = topology->rack_count,
                                .host_names = topology->names,
                                .library = ranks->transport->version,
                                .library_is_linear = ranks->transport->prefers_all_reduce,
                                .close = ranks_close,
                                .status = ranks_status,
                                .find_silent = ranks_find_silent,
                                .enter = ranks_enter,
                                .agree = ranks_agree,
                                .broadcast = ranks_broadcast,
                                .sum = ranks_sum,
                                .reduce_begin = ranks_reduce_begin,
                                .gather_begin = ranks_gather_begin,
                                .wait = ranks_wait,
                                .stats = ranks_stats};
}

// Once the hosts are known, all ranks fail together.
static enum berth_status open_ranks(struct ranks *ranks, const struct comm_settings *settings,
                                    struct berth_error *error) {
    struct berth_error own;
    ranks->collectives.courier = courier_of(ranks, settings, TRANSPORT_COLLECTIVES);
    ranks->agreements.courier = courier_of(ranks, settings, TRANSPORT_AGREEMENTS);
    TRY(find_topology(ranks, settings, error));
    enum berth_status status = open_pipeline(ranks, settings, &own);
    status = status == BERTH_OK ? open_monitor(ranks, settings, &own) : status;
    fill_comm(ranks);
    const struct comm_ranks_memory memory = comm_ranks_memory(settings, &ranks->topology);
    assert(comm_ranks_memory_check(settings, &ranks->topology) == NULL);
    ranks->comm.native_missing = ranks->transport->join_group != NULL
                                     ? pipeline_missing_group(&ranks->topology)
                                     : "the transport has no collectives";
    ranks->comm.timeout_seconds = settings->timeout_seconds;
    ranks->comm.bytes = memory.own;
    ranks->comm.host_bytes = memory.host;
    ranks->comm.reduce_bytes = memory.reduce;
    ranks->comm.gather_bytes = memory.gather;
    if (comm_settle(&ranks->comm, status, &own) != BERTH_OK) {
        return error_copy(error, &own);
    }
    if (ranks->comm.native_missing == NULL) {
        TRY(ranks->transport->join_group(ranks->transport, ranks->pipeline.local,
                                         ranks->topology.host, error));
    }
    atomic_store(&ranks->collectives.courier.sent, 0);
    atomic_store(&ranks->agreements.courier.sent, 0);
    return BERTH_OK;
}

enum berth_status comm_ranks_open(struct transport *transport, const struct comm_settings *settings,
                                  struct comm **comm, struct berth_error *error) {
    struct ranks *ranks = memory_array_zeroed(1, sizeof *ranks);
    if (ranks == NULL) {
        transport->close(transport, TRANSPORT_FAILED);
        return error_no_memory(error, sizeof *ranks, "the communicator");
    }
    transport->timeout_seconds = settings->timeout_seconds;
    transport->add = numbers_add;
    watchdog_init(&ranks->watchdog, transport);
    ranks->transport = &ranks->watchdog.transport;
    fault_init(&ranks->fault);
    const enum berth_status status = open_ranks(ranks, settings, error);
    if (status != BERTH_OK) {
        shut_down(ranks, TRANSPORT_FAILED);
        return status;
    }
    *comm = &ranks->comm;
    return BERTH_OK;
}

struct comm_ranks_memory comm_ranks_memory(const struct comm_settings *settings,
                                           const struct topology *topology) {
    const struct chunk_limits limits = comm_ranks_limits(settings, topology);
    const struct window_shape shape = pipeline_window_shape(topology, &limits);
    const size_t size = (size_t)topology->size, sharing = (size_t)shape.local_size;
    const size_t host = host_window_bytes(&shape), own = pipeline_bytes(topology, &limits);
    // Where owners take turns, an owner's cell is another one in each operation, so in time a rank
    // touches all.
    if (topology->size > limits.cells) {
        return (struct comm_ranks_memory){.own = own, .host = host, .reduce = host, .gather = host};
    }
    // In a reduce, a rank reads from the other areas the cells of its own part and of the parts
    // that it handles for owners elsewhere; in a gather, one cell for each owner.
    const size_t handled = (size_t)topology_handled(topology);
    const size_t reduced = size - 1 + (sharing - 1) * (handled + 1);
    const size_t cell = host / sharing / size;
    return (struct comm_ranks_memory){
        .own = own, .host = host, .reduce = reduced * cell, .gather = size * cell};
}

const char *comm_ranks_memory_check(const struct comm_settings *settings,
                                    const struct topology *topology) {
    const struct chunk_limits limits = comm_ranks_limits(settings, topology);
    const size_t areas = WINDOW_SLOTS * (size_t)largest_local_size(topology);
    const size_t cells = areas * (size_t)limits.cells;
    const size_t least = areas * CHUNK_CELLS * message_bytes(settings);
    const size_t most = window_bytes(settings) > least ? window_bytes(settings) : least;
    // A mark has a label, which is a part of a header.
    const size_t headers = (cells + 2 * areas) * host_window_cell_bytes(0) + 4096;
    CLAUSE(limits.cells == topology->size || limits.payload >= message_bytes(settings),
           "owners take turns only in chunks of whole messages");
    CLAUSE(cells * limits.payload <= most,
           "a host's window has the bytes of its target, or of four messages in each area");
    CLAUSE(comm_ranks_memory(settings, topology).host <= most + headers,
           "a host's window has elements, headers and marks");
    return NULL;
}
