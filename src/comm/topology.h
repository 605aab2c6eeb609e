// SPDX-License-Identifier: Apache-2.0
// Which processes share a host. The transport numbers processes in any way; ranks are numbered so
// that those of a host are consecutive. Hosts and their processes keep the transport's order.
//
// A host here is a set of processes that can share memory: another container of the same machine
// is another host.
#ifndef BERTH_COMM_TOPOLOGY_H
#define BERTH_COMM_TOPOLOGY_H

#include "core/error.h"

#include <stdint.h>

// What processes of one host have in common; compared byte by byte. 128 bytes, without padding.
struct host_identity {
    char name[72];
    char boot[40];          // the kernel's boot id
    uint64_t pid_namespace; // inode
    uint64_t alone;         // process number + 1 where the process shares memory with no other
};

// That of this process. `name` (may be NULL) replaces everything that was found out.
struct host_identity host_identity_find(const char *name);

struct topology {
    int rank, size; // this process's rank, ranks in all
    int host, host_count;
    int *processes;           // [size] the process of each rank
    int *ranks;               // [size] the rank of each process
    int *hosts;               // [size] the host of each rank
    int *first;               // [host_count + 1] the first rank of each host, then size
    const char **names;       // [size] the host's name of each rank
    struct host_identity *of; // [size] of each process
};

// From the identities of all processes, which are copied. topology_done frees, also after an error.
enum berth_status topology_init(struct topology *topology, const struct host_identity *processes,
                                int process, int size, struct berth_error *error);
void topology_done(struct topology *topology);

// Hosts with a rank for which `refused` [size] is 1, not 0, become hosts of one rank each.
void topology_split(struct topology *topology, const char *refused);

static inline int topology_local_size(const struct topology *topology, int host) {
    return topology->first[host + 1] - topology->first[host];
}

// The place of a rank among those of its host.
static inline int topology_local(const struct topology *topology, int rank) {
    return rank - topology->first[topology->hosts[rank]];
}

// The rank of `host` that handles what goes to `owner` and comes from it: the owner itself on its
// own host. Every rank of a host handles about as many owners as the others.
int topology_handler(const struct topology *topology, int host, int owner);

#endif
