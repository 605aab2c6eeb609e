// SPDX-License-Identifier: Apache-2.0
#include "serve/turns.h"

#include "core/memory.h"

static void append_client(struct turns *turns, struct client *client) {
    client->next = NULL;
    *(turns->last != NULL ? &turns->last->next : &turns->first) = client;
    turns->last = client;
}

static struct client *find_client(struct turns *turns, uint64_t number, int is_large) {
    struct client *client = turns->first;
    while (client != NULL && (client->number != number || client->is_large != is_large)) {
        client = client->next;
    }
    if (client == NULL && (client = memory_array_zeroed(1, sizeof *client)) != NULL) {
        client->number = number;
        client->is_large = is_large;
        append_client(turns, client);
    }
    return client;
}

int turns_put(struct turns *turns, struct call *call, int is_large) {
    struct client *client = find_client(turns, call->request->client, is_large);
    if (client == NULL) {
        return 0;
    }
    call->next = NULL;
    *(client->first != NULL ? &client->last->next : &client->first) = call;
    client->last = call;
    return 1;
}

struct call *turns_first(const struct turns *turns) {
    return turns->first != NULL ? turns->first->first : NULL;
}

// The client moves to the end of the list, or is removed with its last call.
void turns_next(struct turns *turns, int is_done) {
    struct client *client = turns->first;
    turns->first = client->next;
    turns->last = turns->first != NULL ? turns->last : NULL;
    if (is_done) {
        client->first = client->first->next;
    }
    if (client->first != NULL) {
        append_client(turns, client);
    } else {
        memory_free(client);
    }
}
