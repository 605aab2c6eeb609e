// SPDX-License-Identifier: Apache-2.0
// Preloaded into the server: resolves two.example to two addresses of this machine, one of them
// twice, and to one of another machine. Other hosts are resolved as usual.
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>

typedef int resolver(const char *host, const char *port, const struct addrinfo *hints,
                     struct addrinfo **found);

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **found) {
    static const char *const addresses[] = {"127.0.0.1", "192.0.2.1", "127.0.0.2", "127.0.0.1"};
    resolver *resolve = (resolver *)dlsym(RTLD_NEXT, "getaddrinfo");
    if (host == NULL || strcmp(host, "two.example") != 0) {
        return resolve(host, port, hints, found);
    }
    int code = 0;
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses && code == 0; i++) {
        code = resolve(addresses[i], port, hints, found);
        found = code == 0 ? &(*found)->ai_next : found;
    }
    return code;
}
