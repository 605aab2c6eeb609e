// SPDX-License-Identifier: Apache-2.0
// Finds out which processes can share memory and numbers the ranks, once, when a communicator is
// opened; and which rank of a host handles, and which of a rack relays, the chunks of which owner
// elsewhere. Exchanges and forecasts (forecast.c) follow the numbers.
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
    const struct host_identity *identities = topology->identities;
    int rank = 0;
    for (int process = 0; process < topology->size; process++) {
        topology->ranks[process] = -1;
    }
    for (int process = 0; process < topology->size; process++) {
        const int is_first = topology->ranks[process] < 0;
        for (int other = process; is_first && other < topology->size; other++) {
            if (topology->ranks[other] < 0 &&
                strcmp(identities[process].rack, identities[other].rack) == 0) {
                rank = number_host(topology, other, rank);
            }
        }
    }
}

static int place_of(const struct topology *topology, int of_racks, int rank) {
    return of_racks ? topology_rack_of(topology, rank) : topology->hosts[rank];
}

// Divides `count` ranks, a subtree of the reduction tree, into blocks of one host, or of one rack.
static void number_blocks(const struct topology *topology, int of_racks,
                          struct topology_blocks *blocks, int first, int count) {
    const int place = place_of(topology, of_racks, first);
    if (place == place_of(topology, of_racks, first + count - 1)) {
        if (first == 0 || place != place_of(topology, of_racks, first - 1)) {
            blocks->first[place] = blocks->count;
        }
        blocks->ranks[blocks->count++] = first;
        return;
    }
    const int half = reduction_tree_split(count);
    number_blocks(topology, of_racks, blocks, first, half);
    number_blocks(topology, of_racks, blocks, first + half, count - half);
}

static void find_blocks(const struct topology *topology, int of_racks,
                        struct topology_blocks *blocks) {
    blocks->count = 0;
    number_blocks(topology, of_racks, blocks, 0, topology->size);
    blocks->ranks[blocks->count] = topology->size;
    blocks->first[of_racks ? topology->rack_count : topology->host_count] = blocks->count;
}

// `host` is -1 for the blocks of a whole rack.
static void add_sums(struct topology *topology, const struct topology_blocks *blocks, int place,
                     int host, int rack) {
    for (int block = blocks->first[place]; block < blocks->first[place + 1]; block++) {
        topology->sums[topology->sum_count++] =
            (struct topology_sum){.first = blocks->ranks[block],
                                  .ranks = topology_block_size(blocks, block),
                                  .host = host,
                                  .rack = rack};
    }
}

static void list_sums(struct topology *topology) {
    const int *first = topology->rack_first;
    topology->sum_count = 0;
    for (int rack = 0; rack < topology->rack_count; rack++) {
        if (rack != topology->rack) {
            add_sums(topology, &topology->rack_blocks, rack, -1, rack);
            continue;
        }
        for (int host = first[rack]; host < first[rack + 1]; host++) {
            if (host != topology->host) {
                add_sums(topology, &topology->host_blocks, host, host, rack);
            }
        }
    }
}

// Once it is known which host each rank is on, and which rack each host.
static void find_racks(struct topology *topology) {
    topology->rack_count = 0;
    for (int host = 0; host < topology->host_count; host++) {
        if (topology->racks[host] == topology->rack_count) {
            topology->rack_first[topology->rack_count++] = host;
        }
    }
    topology->rack_first[topology->rack_count] = topology->host_count;
    topology->rack = topology->racks[topology->host];
    find_blocks(topology, 0, &topology->host_blocks);
    find_blocks(topology, 1, &topology->rack_blocks);
    list_sums(topology);
}

static void number_hosts(struct topology *topology) {
    const struct host_identity *before = NULL;
    const char *rack = NULL; // of the host before
    int racks = 0;
    topology->host_count = 0;
    for (int rank = 0; rank < topology->size; rank++) {
        const struct host_identity *identity = &topology->identities[topology->processes[rank]];
        if (before == NULL || !is_same_host(before, identity)) {
            racks += rack == NULL || strcmp(rack, identity->rack) != 0;
            rack = identity->rack;
            topology->racks[topology->host_count] = racks - 1;
            topology->first[topology->host_count++] = rank;
        }
        topology->hosts[rank] = topology->host_count - 1;
        before = identity;
    }
    topology->first[topology->host_count] = topology->size;
    topology->host = topology->hosts[topology->rank];
    find_racks(topology);
}

// Whether the lists of a topology of processes, or of hosts alone, could be allocated.
static int allocate(struct topology *topology, int size, int host_count) {
    struct topology_blocks *const blocks[] = {&topology->host_blocks, &topology->rack_blocks};
    int has_all = 1;
    topology->size = size;
    topology->hosts = memory_array((size_t)size, sizeof(int));
    topology->first = memory_array((size_t)host_count + 1, sizeof(int));
    topology->racks = memory_array((size_t)host_count, sizeof(int));
    topology->rack_first = memory_array((size_t)host_count + 1, sizeof(int));
    topology->sums = memory_array((size_t)size, sizeof *topology->sums);
    for (int i = 0; i < 2; i++) {
        blocks[i]->ranks = memory_array((size_t)size + 1, sizeof(int));
        blocks[i]->first = memory_array((size_t)host_count + 1, sizeof(int));
        has_all = has_all && blocks[i]->ranks != NULL && blocks[i]->first != NULL;
    }
    return has_all && topology->hosts != NULL && topology->first != NULL &&
           topology->racks != NULL && topology->rack_first != NULL && topology->sums != NULL;
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
                                     int rack_hosts, struct berth_error *error) {
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
    for (int host = 0; host < host_count; host++) {
        topology->racks[host] = rack_hosts > 0 ? host / rack_hosts : 0;
    }
    find_racks(topology);
    return BERTH_OK;
}

void topology_done(struct topology *topology) {
    memory_free(topology->processes);
    memory_free(topology->ranks);
    memory_free(topology->hosts);
    memory_free(topology->first);
    memory_free(topology->racks);
    memory_free(topology->rack_first);
    memory_free(topology->host_blocks.ranks);
    memory_free(topology->host_blocks.first);
    memory_free(topology->rack_blocks.ranks);
    memory_free(topology->rack_blocks.first);
    memory_free(topology->sums);
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

int topology_relay(const struct topology *topology, int rack, int owner) {
    const int first = topology->rack_first[rack], hosts = topology->rack_first[rack + 1] - first;
    // The owners of a step may be spaced by a whole rack, so the number of theirs is added.
    const int place = topology->hosts[owner] + topology_rack_of(topology, owner);
    return topology_handler(topology, first + place % hosts, owner);
}

int topology_rack_others(const struct topology *topology, int host) {
    const int rack = topology->racks[host];
    const int *blocks = topology->host_blocks.first, *first = topology->rack_first;
    return blocks[first[rack + 1]] - blocks[first[rack]] -
           topology_block_count(&topology->host_blocks, host);
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

int topology_relayed(const struct topology *topology) {
    const int local_size = topology_local_size(topology, topology->host);
    int relayed = 0;
    for (int host = 0; host < topology->host_count; host++) {
        const int relay = topology_relay(topology, topology->rack, topology->first[host]);
        if (topology->racks[host] != topology->rack && topology->hosts[relay] == topology->host) {
            relayed += (topology_local_size(topology, host) + local_size - 1) / local_size;
        }
    }
    return relayed;
}
