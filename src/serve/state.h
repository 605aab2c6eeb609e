// SPDX-License-Identifier: Apache-2.0
// The parts of a running server, for the files that it consists of.
#ifndef BERTH_SERVE_STATE_H
#define BERTH_SERVE_STATE_H

#include "serve/access.h"
#include "serve/metrics.h"
#include "serve/models.h"
#include "serve/server.h"

#include <stdatomic.h>

struct server {
    const struct server_settings *settings;
    struct http_server *http;
    struct models *models;
    struct queue *queue;
    struct metrics *metrics;
    struct access access;
    atomic_int is_loaded; // all models are
    atomic_int drains;    // after SIGTERM: not ready, but answering
    atomic_int gives_up;  // after the time of grace: what waits is refused
    atomic_int reloads;   // the models are to be loaded again
};

// What http.h calls (routes.c); the context is the server.
int routes_admit(void *context, const struct http_request *request, struct http_reply *reply);
void routes_handle(void *context, struct http_request *request);
struct http_reply routes_refuse(void *context, int status, const char *message);

// The thread that runs what waits in the queue, until its end (worker.c); the argument is the
// server.
void *worker_run(void *server);
// Answers a call with its items' results, or with an error, and frees it.
void call_answer(struct server *server, struct call *call);
void call_refuse(struct server *server, struct call *call, const struct berth_error *error);

// Replies (replies.c). An error has OpenAI's form.
struct http_reply reply_error(int status, const char *message);
// Takes the line's text.
struct http_reply reply_json(struct json_line *line);
struct http_reply reply_text(int status, const char *type, const char *text);
// The HTTP status of an error of the library.
int reply_status(enum berth_status status);

#endif
