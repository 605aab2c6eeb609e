// SPDX-License-Identifier: Apache-2.0
// Opens a listening socket for each address that a host name has, all with the same port, so that
// "localhost" is reached by IPv4 and IPv6. http.c calls it when the server starts; a socket that
// the service manager passed is used in its place.
#include "serve/listeners.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// Returns the socket; -1: errno says why not. "::" also accepts IPv4, unless other addresses are
// listened on as well.
static int listen_on(const struct addrinfo *address, int is_only) {
    const int on = 1, v6_only = !is_only;
    const int listener = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0) {
        return -1;
    }
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->ai_family == AF_INET6) {
        setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
    }
    if (bind(listener, address->ai_addr, address->ai_addrlen) == 0 &&
        listen(listener, SOMAXCONN) == 0) {
        return listener;
    }
    const int cause = errno;
    close(listener);
    errno = cause;
    return -1;
}

static in_port_t *port_of(struct sockaddr *address) {
    return address->sa_family == AF_INET6 ? &((struct sockaddr_in6 *)address)->sin6_port
                                          : &((struct sockaddr_in *)address)->sin_port;
}

// A hosts file may list an address twice.
static int is_repeated(const struct addrinfo *found, const struct addrinfo *address) {
    while (found != address && (found->ai_addrlen != address->ai_addrlen ||
                                memcmp(found->ai_addr, address->ai_addr, found->ai_addrlen) != 0)) {
        found = found->ai_next;
    }
    return found != address;
}

static enum berth_status refuse_address(const char *name, const struct addrinfo *address, int cause,
                                        struct berth_error *error) {
    char host[64] = "", port[8] = "";
    (void)getnameinfo(address->ai_addr, address->ai_addrlen, host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV);
    return error_set_errno(error, BERTH_UNAVAILABLE, cause,
                           "--host %s: cannot listen on %s port %s", name, host, port);
}

static void format_address(struct listener *listener) {
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char host[64], port[8];
    if (getsockname(listener->socket, (struct sockaddr *)&address, &size) == 0 &&
        getnameinfo((struct sockaddr *)&address, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
        const int is_v6 = address.ss_family == AF_INET6;
        snprintf(listener->address, sizeof listener->address, is_v6 ? "[%s]:%s" : "%s:%s", host,
                 port);
    }
}

// Skips addresses that this machine does not have, such as ::1 without IPv6, if it has another one.
static enum berth_status listen_on_all(struct listeners *listeners, const char *name,
                                       const struct addrinfo *found, struct berth_error *error) {
    const struct addrinfo *missing = found;
    int cause = 0;
    for (const struct addrinfo *address = found; address != NULL; address = address->ai_next) {
        if (is_repeated(found, address)) {
            continue;
        }
        if (listeners->count == LISTENERS_MAX) {
            listeners->left_out++;
            continue;
        }
        const int listener = listen_on(address, found->ai_next == NULL);
        if (listener >= 0) {
            listeners->all[listeners->count].socket = listener;
            format_address(&listeners->all[listeners->count++]);
            // Gives all addresses the port of the first listener, which the system chose for port
            // 0.
            struct sockaddr_storage bound;
            socklen_t size = sizeof bound;
            if (getsockname(listeners->all[0].socket, (struct sockaddr *)&bound, &size) == 0) {
                for (const struct addrinfo *other = found; other != NULL; other = other->ai_next) {
                    *port_of(other->ai_addr) = *port_of((struct sockaddr *)&bound);
                }
            }
        } else if (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT) {
            missing = address;
            cause = errno;
        } else {
            return refuse_address(name, address, errno, error);
        }
    }
    return listeners->count > 0 ? BERTH_OK : refuse_address(name, missing, cause, error);
}

enum berth_status listeners_open(struct listeners *listeners, const char *host, int port,
                                 struct berth_error *error) {
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
    char service[16];
    *listeners = (struct listeners){.count = 0};
    snprintf(service, sizeof service, "%d", port);
    int code = getaddrinfo(host, service, &wanted, &found);
    if (code != 0) {
        return error_set(error, BERTH_UNAVAILABLE, "--host %s: %s", host, gai_strerror(code));
    }
    const enum berth_status status = listen_on_all(listeners, host, found, error);
    freeaddrinfo(found);
    return status;
}
