// SPDX-License-Identifier: Apache-2.0
// Takes a range of a flat buffer to the other ranks and back: straight from the host's memory, from
// GPU to GPU, or through a copy in host memory. all_reduce.c decides which range is exchanged when;
// the messages themselves are the communicator's or the GPUs'.
#include "train/engine/range_exchange.h"

#include "core/memory.h"

#include <assert.h>
#include <stdio.h>

enum operation { REDUCE, GATHER };

struct mirrored_range {
    enum operation operation;
    struct comm_range range; // in device memory
    int64_t fetch;           // ticket of the copy to the mirror
    int64_t ticket;          // of the communicator
};

// The mirror has room for the widest type of an element.
static const size_t element_bytes = sizeof(float);

static int is_on_gpu(const struct comm *comm, const struct device *device) {
    return comm->size > 1 && !device->is_host;
}

size_t range_exchange_bytes(const struct comm *comm, const struct device *device,
                            int64_t elements) {
    return is_on_gpu(comm, device) ? (size_t)elements * element_bytes : 0;
}

// --- opening ------------------------------------------------------------------------------------

static enum berth_status open_mirror(struct range_exchange *exchange, int64_t elements,
                                     struct berth_error *error) {
    struct device *device = exchange->device;
    exchange->mirror_bytes = range_exchange_bytes(exchange->comm, device, elements);
    exchange->mirror = device->pinned_new(device, exchange->mirror_bytes);
    exchange->ranges = memory_array((size_t)exchange->capacity, sizeof *exchange->ranges);
    return exchange->mirror != NULL && exchange->ranges != NULL
               ? BERTH_OK
               : error_no_memory(error, exchange->mirror_bytes,
                                 "the copy of gradients and weights that is exchanged");
}

// Each rank passes the reason why its device cannot exchange, or NULL; all get the first reason.
static void agree_on_reason(struct range_exchange *exchange, const char *own) {
    struct comm *comm = exchange->comm;
    const size_t size = sizeof exchange->mirror_reason;
    for (int rank = 0; rank < comm->size && exchange->mirror_reason[0] == '\0'; rank++) {
        if (rank == comm->rank && own != NULL) {
            (void)snprintf(exchange->mirror_reason, size, "rank %d: %.480s", rank, own);
        }
        comm->broadcast(comm, exchange->mirror_reason, size, rank);
    }
}

// Whether the devices can exchange directly; the same on all ranks.
static int open_peers(struct range_exchange *exchange) {
    struct comm *comm = exchange->comm;
    struct device *device = exchange->device;
    char id[DEVICE_PEERS_ID] = {0};
    struct berth_error met;
    const char *own = device->peers_id == NULL ? "the device has no direct exchange"
                                               : device->peers_id(device, id);
    agree_on_reason(exchange, own);
    if (exchange->mirror_reason[0] != '\0') {
        return 0;
    }
    comm->broadcast(comm, id, sizeof id, 0);
    const enum berth_status status = device->peers_open(device, comm, id, &met);
    agree_on_reason(exchange, status == BERTH_OK ? NULL : met.message);
    if (exchange->mirror_reason[0] != '\0' && status == BERTH_OK) {
        device->peers_close(device);
    }
    return exchange->mirror_reason[0] == '\0';
}

enum berth_status range_exchange_init(struct range_exchange *exchange, struct comm *comm,
                                      struct device *device,
                                      const struct range_exchange_setup *setup,
                                      struct berth_error *error) {
    *exchange =
        (struct range_exchange){.comm = comm, .device = device, .capacity = setup->capacity};
    if (!is_on_gpu(comm, device)) {
        return BERTH_OK;
    }
    if (setup->mode == RANGE_EXCHANGE_MIRRORED) {
        (void)snprintf(exchange->mirror_reason, sizeof exchange->mirror_reason, "gpu_exchange mpi");
    } else {
        exchange->is_direct = open_peers(exchange);
    }
    if (setup->mode == RANGE_EXCHANGE_DIRECT && !exchange->is_direct) {
        return error_set(error, BERTH_UNAVAILABLE,
                         "gpu_exchange nccl: %s: install NCCL, give each rank a GPU of its own, "
                         "or use gpu_exchange auto",
                         exchange->mirror_reason);
    }
    return exchange->is_direct ? BERTH_OK : open_mirror(exchange, setup->elements, error);
}

void range_exchange_note(const struct range_exchange *exchange, const struct berth_log *log) {
    if (exchange->is_direct) {
        log_detail(log, "ranks: the GPUs exchange gradients and weights by NCCL");
    } else if (exchange->mirror != NULL) {
        log_note(log, "ranks: gradients and weights are exchanged through the hosts' memory (%s)",
                 exchange->mirror_reason);
    }
}

void range_exchange_close(struct range_exchange *exchange) {
    if (exchange->is_direct) {
        exchange->device->peers_close(exchange->device);
        exchange->is_direct = 0;
    }
}

void range_exchange_done(struct range_exchange *exchange) {
    range_exchange_close(exchange);
    if (exchange->mirror != NULL) {
        exchange->device->pinned_free(exchange->device, exchange->mirror, exchange->mirror_bytes);
    }
    memory_free(exchange->ranges);
    *exchange = (struct range_exchange){0};
}

// --- exchanges in progress ----------------------------------------------------------------------

static struct mirrored_range *slot_of(const struct range_exchange *exchange, int64_t ticket) {
    return &exchange->ranges[ticket % exchange->capacity];
}

static void *mirror_of(const struct range_exchange *exchange, int64_t element) {
    return (char *)exchange->mirror + (size_t)element * element_bytes;
}

// Starts copying elements [from, to) of a range to the mirror, even if there are none: waiting for
// the copy ensures that earlier uploads have read the mirror before it is written.
static int64_t fetch(const struct range_exchange *exchange, const struct comm_range *range,
                     int64_t from, int64_t to) {
    struct device *device = exchange->device;
    const int64_t before = from < to ? from - range->first : 0;
    const size_t size = dtype_size(range->dtype), skipped = (size_t)before * size;
    return device->fetch_begin(device, (char *)mirror_of(exchange, range->first) + skipped,
                               (const char *)range->data + skipped, (size_t)(to - from) * size);
}

static int64_t begin(struct range_exchange *exchange, enum operation operation,
                     const struct comm_range *range) {
    const int rank = exchange->comm->rank;
    struct mirrored_range own = {.operation = operation, .range = *range};
    own.fetch = operation == REDUCE
                    ? fetch(exchange, range, range->first, range->first + range->count)
                    : fetch(exchange, range, range->starts[rank], range->starts[rank + 1]);
    assert(exchange->begun - exchange->finished < exchange->capacity);
    exchange->begun++;
    *slot_of(exchange, exchange->begun) = own;
    return exchange->begun;
}

static void submit(struct range_exchange *exchange, int64_t last) {
    struct device *device = exchange->device;
    struct comm *comm = exchange->comm;
    while (exchange->submitted < last) {
        struct mirrored_range *own = slot_of(exchange, ++exchange->submitted);
        struct comm_range mirrored = own->range;
        mirrored.data = mirror_of(exchange, own->range.first);
        device->fetch_wait(device, own->fetch);
        own->ticket = own->operation == REDUCE ? comm->reduce_begin(comm, &mirrored)
                                               : comm->gather_begin(comm, &mirrored);
    }
}

static void copy_back(const struct range_exchange *exchange, const struct comm_range *range,
                      int64_t from, int64_t to) {
    struct device *device = exchange->device;
    const size_t size = dtype_size(range->dtype), skipped = (size_t)(from - range->first) * size;
    device->upload(device, (char *)range->data + skipped,
                   (const char *)mirror_of(exchange, range->first) + skipped,
                   (size_t)(to - from) * size);
}

// --- the interface ------------------------------------------------------------------------------

int64_t range_exchange_reduce(struct range_exchange *exchange, const struct comm_range *range) {
    if (exchange->is_silent) {
        return 0; // the ticket of no exchange
    }
    if (exchange->is_direct) {
        return exchange->device->peers_reduce(exchange->device, range);
    }
    return exchange->mirror == NULL ? exchange->comm->reduce_begin(exchange->comm, range)
                                    : begin(exchange, REDUCE, range);
}

int64_t range_exchange_gather(struct range_exchange *exchange, const struct comm_range *range) {
    if (exchange->is_silent) {
        return 0;
    }
    if (exchange->is_direct) {
        return exchange->device->peers_gather(exchange->device, range);
    }
    return exchange->mirror == NULL ? exchange->comm->gather_begin(exchange->comm, range)
                                    : begin(exchange, GATHER, range);
}

void range_exchange_wait(struct range_exchange *exchange, int64_t ticket) {
    if (exchange->is_direct) {
        exchange->device->peers_wait(exchange->device, ticket);
        return;
    }
    if (exchange->mirror == NULL) {
        exchange->comm->wait(exchange->comm, ticket);
        return;
    }
    submit(exchange, ticket);
    while (exchange->finished < ticket) {
        const struct mirrored_range *own = slot_of(exchange, exchange->finished + 1);
        const struct comm_range *range = &own->range;
        const int64_t *part = &range->starts[exchange->comm->rank];
        exchange->comm->wait(exchange->comm, own->ticket);
        if (own->operation == GATHER || range->to_all) {
            copy_back(exchange, range, range->first, range->first + range->count);
        } else if (part[0] < part[1]) {
            copy_back(exchange, range, part[0], part[1]);
        }
        exchange->finished++;
    }
}

void range_exchange_submit_all(struct range_exchange *exchange) {
    if (exchange->mirror != NULL) {
        submit(exchange, exchange->begun);
    }
}
