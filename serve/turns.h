// SPDX-License-Identifier: Apache-2.0
// Waiting calls, taken round robin from clients, so that a client that sends many delays only
// itself. A client's small and large calls take turns like two clients: behind a proxy, what looks
// like one client is many, and a question should not wait for somebody's list of thousands. Callers
// lock.
#ifndef BERTH_SERVE_TURNS_H
#define BERTH_SERVE_TURNS_H

#include "serve/call.h"

// The small or the large calls of a client, in their order.
struct client {
    uint64_t number;
    int is_large;
    struct call *first, *last;
    struct client *next;
};

// Clients with calls; the first is the next one to be served. Zero-initialise.
struct turns {
    struct client *first, *last;
};

// Appends the call to those of its client. 0: out of memory.
int turns_put(struct turns *turns, struct call *call, int is_large);
// The call whose turn it is; NULL: none.
struct call *turns_first(const struct turns *turns);
// Ends the turn; `is_done` takes its call away.
void turns_next(struct turns *turns, int is_done);

#endif
