// SPDX-License-Identifier: Apache-2.0
// Which processes share a host. The transport may number processes in any order; ranks are numbered
// so that those of a host are consecutive. Hosts, and the processes within each, keep the
// transport's order.
//
// A host here is a set of processes that can share memory: two containers of one machine are two
// hosts.
//
// The ranks of each host are divided into blocks: the largest subtrees of the reduction tree over
// all ranks (core/reduction_tree.h) that consist of ranks of one host. A host that adds its ranks'
// values sends one sum for each block, so the tree does not depend on where the ranks are. If all
// hosts have the same power of two of ranks, each is one block.
#ifndef BERTH_COMM_TOPOLOGY_H
#define BERTH_COMM_TOPOLOGY_H

#include "core/error.h"

#include <stdint.h>

// What the processes of a host have in common. There is no padding, so identities compare byte by
// byte.
struct host_identity {
    char name[72];
    char boot[40];          // the kernel's boot id
    uint64_t pid_namespace; // inode
    uint64_t isolated;      // process number + 1 where the process shares memory with no other
};

// The identity of this process. If `name` is not NULL, it alone identifies the host.
struct host_identity host_identity_find(const char *name);

struct topology {
    int rank, size; // this process's rank, ranks in all
    int host, host_count;
    int *processes;     // [size] the process of each rank
    int *ranks;         // [size] the rank of each process
    int *hosts;         // [size] the host of each rank
    int *first;         // [host_count + 1] the first rank of each host, then size
    int block_count;    // of all hosts
    int *blocks;        // [block_count + 1] the first rank of each block, ascending, then size
    int *host_blocks;   // [host_count + 1] the first block of each host, then block_count
    const char **names; // [size] the host's name of each rank
    struct host_identity *identities; // [size] of each process
};

// Copies the identities of all processes. topology_done frees it, also after an error.
enum berth_status topology_init(struct topology *topology, const struct host_identity *processes,
                                int process, int size, struct berth_error *error);
// Of `host_count` hosts with equal numbers of ranks, as rank 0 sees it; without processes and
// names.
enum berth_status topology_init_even(struct topology *topology, int host_count, int local_size,
                                     struct berth_error *error);
void topology_done(struct topology *topology);

// Splits each host that has a rank with refused[rank] = 1 into hosts of one rank each.
void topology_split(struct topology *topology, const char *refused);

static inline int topology_local_size(const struct topology *topology, int host) {
    return topology->first[host + 1] - topology->first[host];
}

static inline int topology_host_blocks(const struct topology *topology, int host) {
    return topology->host_blocks[host + 1] - topology->host_blocks[host];
}

static inline int topology_block_size(const struct topology *topology, int block) {
    return topology->blocks[block + 1] - topology->blocks[block];
}

// The number of blocks of all other hosts.
static inline int topology_other_blocks(const struct topology *topology, int host) {
    return topology->block_count - topology_host_blocks(topology, host);
}

// The index of a rank among those of its host.
static inline int topology_local(const struct topology *topology, int rank) {
    return rank - topology->first[topology->hosts[rank]];
}

// The rank of `host` that handles the messages to and from `owner`: on the owner's own host, the
// owner itself. Owners are distributed evenly over the ranks of a host.
int topology_handler(const struct topology *topology, int host, int owner);

// The largest number of owners on other hosts that a rank of this host handles.
int topology_handled(const struct topology *topology);

#endif
