// SPDX-License-Identifier: Apache-2.0
#include "serve/notify.h"

#include "core/number.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_PASSED_DESCRIPTOR 3

void notify_manager(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t length = path != NULL ? strlen(path) : 0;
    if (length == 0 || length >= sizeof address.sun_path) {
        return;
    }
    memcpy(address.sun_path, path, length);
    if (*path == '@') { // an abstract name
        address.sun_path[0] = '\0';
    }
    const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor >= 0) {
        (void)sendto(descriptor, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
        close(descriptor);
    }
}

enum berth_status notify_listener(int *listener, struct berth_error *error) {
    const char *process = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    int64_t pid = 0, sockets = 0;
    *listener = -1;
    if (process == NULL || count == NULL || !number_parse_integer(process, &pid) ||
        !number_parse_integer(count, &sockets) || pid != getpid() || sockets < 1) {
        return BERTH_OK;
    }
    if (sockets > 1) {
        return error_set(error, BERTH_CONFIG,
                         "LISTEN_FDS: the service manager passed %s sockets; expected one", count);
    }
    fcntl(FIRST_PASSED_DESCRIPTOR, F_SETFD, FD_CLOEXEC);
    fcntl(FIRST_PASSED_DESCRIPTOR, F_SETFL, fcntl(FIRST_PASSED_DESCRIPTOR, F_GETFL) | O_NONBLOCK);
    *listener = FIRST_PASSED_DESCRIPTOR;
    return BERTH_OK;
}
