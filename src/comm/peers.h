// SPDX-License-Identifier: Apache-2.0
// The processes of this host that the same launcher started, as /proc shows them: those that its
// process has among its descendants and that have the launcher's variable with a rank. Nothing is
// left on the host for it, and it needs no help of a process that hangs.
#ifndef BERTH_COMM_PEERS_H
#define BERTH_COMM_PEERS_H

#include "core/launcher.h"

#include <stddef.h>
#include <stdint.h>

// How far a process has come. A thread of it has that name.
enum peer_place { PEER_ELSEWHERE, PEER_STARTED, PEER_CONNECTING };
extern const char *const peer_thread_names[];

struct peer {
    int64_t process;
    int64_t rank, local_rank; // of the launcher; local_rank -1: unknown
    enum peer_place place;
    int is_stopped;
    char program[32];
};

struct peers {
    struct peer *items; // [count], one for each rank
    size_t count;
};

// The place of a process; PEER_ELSEWHERE: it is not Berth, or has ended.
enum peer_place peer_place_of(int64_t process);

// None where /proc does not show the launcher, as in a container of one process. peers_done frees
// it.
void peers_find(const struct launch *launch, struct peers *peers);
void peers_done(struct peers *peers);

#endif
