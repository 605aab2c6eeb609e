// SPDX-License-Identifier: Apache-2.0
// A line of JSON for each reply (--access_log): which request it was, how it ended and how long it
// took. routes.c puts a line when a reply was sent; sums over all requests are metrics.h's.
#ifndef BERTH_SERVE_REQUEST_LOG_H
#define BERTH_SERVE_REQUEST_LOG_H

#include "core/error.h"
#include "core/log.h"
#include "serve/http.h"

#include <stdatomic.h>

struct request_log {
    int descriptor; // -1: there is none
    const char *path;
    atomic_int has_failed;
    struct berth_log log; // for the warning that it cannot be written
};

// Appends to the file; "-" is standard error, NULL: no log. BERTH_CANT_CREATE.
enum berth_status request_log_open(struct request_log *log, const char *path,
                                   struct berth_log messages, struct berth_error *error);
// From any thread. A line that cannot be written is lost, with one warning.
void request_log_put(struct request_log *log, const struct http_request *request,
                     const struct http_reply *reply);
void request_log_close(struct request_log *log);

#endif
