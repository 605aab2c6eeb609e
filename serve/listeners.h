// SPDX-License-Identifier: Apache-2.0
// Sockets that listen: one for each address of a host, all with the same port. For http.c when a
// server starts; what arrives on them is http.c's.
#ifndef BERTH_SERVE_LISTENERS_H
#define BERTH_SERVE_LISTENERS_H

#include "core/error.h"

#include <stddef.h>

#define LISTENERS_MAX 8

struct listener {
    int socket;
    char address[80]; // and port, as text: "127.0.0.1:8080", "[::1]:8080"
};

struct listeners {
    struct listener all[LISTENERS_MAX]; // [count]
    size_t count;
    size_t left_out; // addresses of the host beyond LISTENERS_MAX
};

// Listens on all addresses of `host`, an address or a name. With port 0 the system chooses one.
// BERTH_UNAVAILABLE: the name is unknown, an address is in use, or none is this machine's; the
// caller closes the sockets that are open in any case.
enum berth_status listeners_open(struct listeners *listeners, const char *host, int port,
                                 struct berth_error *error);

#endif
