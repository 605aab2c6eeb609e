// SPDX-License-Identifier: Apache-2.0
// Which processes share a host. The transport may number processes in any order; ranks are numbered
// so that those of a host are consecutive. Hosts, and the processes within each, keep the
// transport's order.
//
// A host here is a set of processes that can share memory: two containers of one machine are two
// hosts.
//
// Hosts may be in racks: those of one rack are fewer switches apart than others. Ranks of a rack
// are consecutive as well, and its hosts keep the transport's order. Where no racks are known, all
// hosts are in one.
//
// The ranks of each host are divided into blocks: the largest subtrees of the reduction tree over
// all ranks (core/reduction_tree.h) that consist of ranks of one host. A host that adds its ranks'
// values sends one sum for each block, so the tree does not depend on where the ranks are. If all
// hosts have the same power of two of ranks, each is one block. Racks have blocks in the same way;
// each consists of whole blocks of hosts.
#ifndef BERTH_COMM_TOPOLOGY_H
#define BERTH_COMM_TOPOLOGY_H

#include "core/error.h"

#include <stdint.h>

enum { RACK_NAME = 64 };

// What the processes of a host have in common. There is no padding, so identities compare byte by
// byte.
struct host_identity {
    char name[72];
    char boot[40];          // the kernel's boot id
    uint64_t pid_namespace; // inode
    uint64_t isolated;      // process number + 1 where the process shares memory with no other
    char rack[RACK_NAME];   // "": none is known
};

// The identity of this process. If `name` is not NULL, it alone identifies the host.
struct host_identity host_identity_find(const char *name);

struct topology_blocks {
    int count;
    int *ranks; // [count + 1] the first rank of each block, ascending, then the number of ranks
    int *first; // [hosts or racks + 1] the first block of each, then count
};

// What an owner of this host receives in a reduce: the sum of a block of another host of its rack,
// or of a block of another rack.
struct topology_sum {
    int first, ranks; // from rank `first` on
    int host;         // -1: it is a rack's
    int rack;
};

struct topology {
    int rank, size; // this process's rank, ranks in all
    int host, host_count;
    int rack, rack_count;
    int *processes;  // [size] the process of each rank
    int *ranks;      // [size] the rank of each process
    int *hosts;      // [size] the host of each rank
    int *first;      // [host_count + 1] the first rank of each host, then size
    int *racks;      // [host_count] the rack of each host
    int *rack_first; // [rack_count + 1] the first host of each rack, then host_count
    struct topology_blocks host_blocks, rack_blocks;
    struct topology_sum *sums; // [sum_count] ascending
    int sum_count;
    const char **names;               // [size] the host's name of each rank
    struct host_identity *identities; // [size] of each process
};

// Copies the identities of all processes. topology_done frees it, also after an error.
enum berth_status topology_init(struct topology *topology, const struct host_identity *processes,
                                int process, int size, struct berth_error *error);
// Of `host_count` hosts with equal numbers of ranks, as rank 0 sees it, in racks of `rack_hosts`
// (the last one may have fewer; 0: all are in one); without processes and names.
enum berth_status topology_init_even(struct topology *topology, int host_count, int local_size,
                                     int rack_hosts, struct berth_error *error);
void topology_done(struct topology *topology);

// Splits each host that has a rank with refused[rank] = 1 into hosts of one rank each.
void topology_split(struct topology *topology, const char *refused);

static inline int topology_local_size(const struct topology *topology, int host) {
    return topology->first[host + 1] - topology->first[host];
}

static inline int topology_rack_of(const struct topology *topology, int rank) {
    return topology->racks[topology->hosts[rank]];
}

// The number of blocks of a host, or of a rack.
static inline int topology_block_count(const struct topology_blocks *blocks, int place) {
    return blocks->first[place + 1] - blocks->first[place];
}

static inline int topology_block_size(const struct topology_blocks *blocks, int block) {
    return blocks->ranks[block + 1] - blocks->ranks[block];
}

// The number of blocks of the other hosts of a host's rack.
int topology_rack_others(const struct topology *topology, int host);

// The index of a rank among those of its host.
static inline int topology_local(const struct topology *topology, int rank) {
    return rank - topology->first[topology->hosts[rank]];
}

// The rank of `host` that handles the messages to and from `owner`: on the owner's own host, the
// owner itself. Owners are distributed evenly over the ranks of a host.
int topology_handler(const struct topology *topology, int host, int owner);

// The rank of `rack` that relays between its hosts and `owner`, which is in another rack: the
// handler on one of its hosts, on which owners are distributed evenly, also those of a step
// (chunking.h).
int topology_relay(const struct topology *topology, int rack, int owner);

// The largest number of owners on other hosts that a rank of this host handles, and that it relays.
int topology_handled(const struct topology *topology);
int topology_relayed(const struct topology *topology);

#endif
