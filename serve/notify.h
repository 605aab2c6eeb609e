// SPDX-License-Identifier: Apache-2.0
// The service manager's protocol (systemd): notification of readiness, and socket activation.
#ifndef BERTH_SERVE_NOTIFY_H
#define BERTH_SERVE_NOTIFY_H

#include "core/error.h"

// Sends "READY=1" or the like to the socket NOTIFY_SOCKET, if there is one.
void notify_manager(const char *state);
// Sets *listener to the listening socket that was passed to this process (LISTEN_FDS); -1: none.
// BERTH_CONFIG: several were.
enum berth_status notify_listener(int *listener, struct berth_error *error);

#endif
