// SPDX-License-Identifier: Apache-2.0
// Finds out which processes can share memory and numbers the ranks, once, when a communicator is
// opened; and which rank of a host handles the chunks of which owner elsewhere. Exchanges and
// forecasts (forecast.c) follow the numbers.
#include "comm/topology.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/reduction_tree.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void read_boot_id(char *id, size_t size) {
    char *text;
    size_t length;
    if (file_read("/proc/sys/kernel/random/boot_id", 4096, &text, &length, NULL) == BERTH_OK) {
        snprintf(id, size, "%.*s", (int)strcspn(text, "\n"), text);
        memory_free(text);
    }
}

struct host_identity host_identity_find(const char *name) {
    struct host_identity identity = {0};
    struct stat pid_namespace;
    if (name != NULL) {
        snprintf(identity.name, sizeof identity.name, "%s", name);
        return identity;
    }
    gethostname(identity.name, sizeof identity.name - 1);
    read_boot_id(identity.boot, sizeof identity.boot);
    if (stat("/proc/self/ns/pid", &pid_namespace) == 0) {
        identity.pid_namespace = (uint64_t)pid_namespace.st_ino;
    }
    return identity;
}

static int is_same_host(const struct host_identity *x, const struct host_identity *y) {
    return memcmp(x, y, sizeof *x) == 0;
}

// Gives consecutive ranks to all processes on the host of `process`; returns the next free rank.
static int number_host(struct topology *topology, int process, int rank) {
    for (int other = process; other < topology->size; other++) {
        if (is_same_host(&topology->identities[other], &topology->identities[process])) {
            topology->ranks[other] = rank;
            topology->processes[rank] = other;
            topology->names[rank] = topology->identities[other].name;
            rank++;
        }
    }
    return rank;
}

static void number_ranks(struct topology *topology) {
    int rank = 0;
    for (int process = 0; process < topology->size; process++) {
        topology->ranks[process] = -1;
    }
    for (int process = 0; process < topology->size; process++) {
        if (topology->ranks[process] < 0) {
            rank = number_host(topology, process, rank);
        }
    }
}

// Divides `count` ranks, a subtree of the reduction tree, into blocks.
static void number_blocks(struct topology *topology, int first, int count) {
    const int host = topology->hosts[first];
    if (host == topology->hosts[first + count - 1]) {
        if (first == topology->first[host]) {
            topology->host_blocks[host] = topology->block_count;
        }
        topology->blocks[topology->block_count++] = first;
        return;
    }
    const int half = reduction_tree_split(count);
    number_blocks(topology, first, half);
    number_blocks(topology, first + half, count - half);
}

static void find_blocks(struct topology *topology) {
    topology->block_count = 0;
    number_blocks(topology, 0, topology->size);
    topology->blocks[topology->block_count] = topology->size;
    topology->host_blocks[topology->host_count] = topology->block_count;
}

static void number_hosts(struct topology *topology) {
    const struct host_identity *before = NULL;
    topology->host_count = 0;
    for (int rank = 0; rank < topology->size; rank++) {
        const struct host_identity *identity = &topology->identities[topology->processes[rank]];
        if (before == NULL || !is_same_host(before, identity)) {
            topology->first[topology->host_count++] = rank;
        }
        topology->hosts[rank] = topology->host_count - 1;
        before = identity;
    }
    topology->first[topology->host_count] = topology->size;
    topology->host = topology->hosts[topology->rank];
    find_blocks(topology);
}

// Whether the lists of a topology of processes, or of hosts alone, could be allocated.
static int allocate(struct topology *topology, int size, int host_count) {
    topology->size = size;
    topology->hosts = memory_array((size_t)size, sizeof(int));
    topology->first = memory_array((size_t)host_count + 1, sizeof(int));
    topology->blocks = memory_array((size_t)size + 1, sizeof(int));
    topology->host_blocks = memory_array((size_t)host_count + 1, sizeof(int));
    return topology->hosts != NULL && topology->first != NULL && topology->blocks != NULL &&
           topology->host_blocks != NULL;
}

static enum berth_status no_memory(int size, struct berth_error *error) {
    return error_no_memory(error, (size_t)size * sizeof(struct host_identity), "the list of ranks");
}

enum berth_status topology_init(struct topology *topology, const struct host_identity *processes,
                                int process, int size, struct berth_error *error) {
    const size_t count = (size_t)size;
    *topology = (struct topology){.processes = memory_array(count, sizeof(int)),
                                  .ranks = memory_array(count, sizeof(int)),
                                  .names = memory_array(count, sizeof(char *)),
                                  .identities = memory_array(count, sizeof *processes)};
    if (!allocate(topology, size, size) || topology->processes == NULL || topology->ranks == NULL ||
        topology->names == NULL || topology->identities == NULL) {
        return no_memory(size, error);
    }
    memcpy(topology->identities, processes, count * sizeof *processes);
    number_ranks(topology);
    topology->rank = topology->ranks[process];
    number_hosts(topology);
    return BERTH_OK;
}

enum berth_status topology_init_even(struct topology *topology, int host_count, int local_size,
                                     struct berth_error *error) {
    const int size = host_count * local_size;
    *topology = (struct topology){.host_count = host_count};
    if (!allocate(topology, size, host_count)) {
        return no_memory(size, error);
    }
    for (int rank = 0; rank < size; rank++) {
        topology->hosts[rank] = rank / local_size;
    }
    for (int host = 0; host <= host_count; host++) {
        topology->first[host] = host * local_size;
    }
    find_blocks(topology);
    return BERTH_OK;
}

void topology_done(struct topology *topology) {
    memory_free(topology->processes);
    memory_free(topology->ranks);
    memory_free(topology->hosts);
    memory_free(topology->first);
    memory_free(topology->blocks);
    memory_free(topology->host_blocks);
    memory_free(topology->names);
    memory_free(topology->identities);
    *topology = (struct topology){0};
}

void topology_split(struct topology *topology, const char *refused) {
    for (int host = 0; host < topology->host_count; host++) {
        const int first = topology->first[host], count = topology_local_size(topology, host);
        const int is_whole = memchr(refused + first, 1, (size_t)count) == NULL;
        for (int rank = first; rank < first + count && !is_whole; rank++) {
            const int process = topology->processes[rank];
            topology->identities[process].isolated = (uint64_t)process + 1;
        }
    }
    number_hosts(topology);
}

int topology_handler(const struct topology *topology, int host, int owner) {
    return topology->first[host] +
           topology_local(topology, owner) % topology_local_size(topology, host);
}

int topology_handled(const struct topology *topology) {
    const int local_size = topology_local_size(topology, topology->host);
    int handled = 0;
    for (int host = 0; host < topology->host_count; host++) {
        if (host != topology->host) {
            handled += (topology_local_size(topology, host) + local_size - 1) / local_size;
        }
    }
    return handled;
}
