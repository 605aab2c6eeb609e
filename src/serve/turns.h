// SPDX-License-Identifier: Apache-2.0
// Waiting calls, taken round robin from clients, so that a client that sends many delays only
// itself. Callers lock.
#ifndef BERTH_SERVE_TURNS_H
#define BERTH_SERVE_TURNS_H

#include "serve/call.h"

// The calls of a client, in their order.
struct client {
    uint64_t number;
    struct call *first, *last;
    struct client *next;
};

// Clients with calls; the first is the next one to be served. Zero-initialise.
struct turns {
    struct client *first, *last;
};

// Appends the call to those of its client. 0: out of memory.
int turns_put(struct turns *turns, struct call *call);
// The call whose turn it is; NULL: none.
struct call *turns_first(const struct turns *turns);
// Ends the turn; `is_done` takes its call away.
void turns_next(struct turns *turns, int is_done);

#endif
