// SPDX-License-Identifier: Apache-2.0
// The server: models behind HTTP. Threads of the queue (queue.h) read requests, and run what waits,
// up to a number of tokens, together. The thread that called server_run waits for signals; another
// thread loads models. cli/serve.c fills in the settings.
#ifndef BERTH_SERVE_SERVER_H
#define BERTH_SERVE_SERVER_H

#include "serve/http.h"
#include "serve/queue.h"
#include "settings/settings.h"

struct server_settings {
    const char *const *models; // [model_count] words, as of models_open
    size_t model_count;
    const struct settings *config; // of all models
    struct http_settings http;     // without listener and TLS; the TLS files are:
    const char *certificate_file, *key_file;
    struct queue_limits queue;
    const char *api_key_file;  // NULL: no key is needed
    const char *allowed_hosts; // as in access.h
    const char *cors_origin;   // as in access.h
    const char *access_log;    // as in request_log.h
    int is_strict;             // unknown members of requests are refused
    double drain_seconds;      // after SIGTERM, in which requests are still accepted
    double grace_seconds;      // then, for the requests that are being answered
    struct berth_log log;      // called from several threads, possibly concurrently
};

// Serves until SIGTERM or SIGINT, which are handled here, as is SIGHUP (reload); a second one ends
// the process. BERTH_OK when every request was answered, else BERTH_FAILURE. Settings that cannot
// be used and models that cannot be opened are reported before the first request is answered.
enum berth_status server_run(const struct server_settings *settings, struct berth_error *error);

#endif
