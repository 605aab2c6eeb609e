// SPDX-License-Identifier: Apache-2.0
// The parts of a running server, and the functions with which its files hand a request to each
// other: admitted and read by routes.c, run by run.c, written by replies.c. server.c opens the
// parts in turn and closes them in the other direction; nothing outside serve/ sees them.
#ifndef BERTH_SERVE_STATE_H
#define BERTH_SERVE_STATE_H

#include "serve/access.h"
#include "serve/metrics.h"
#include "serve/models.h"
#include "serve/queue.h"
#include "serve/request_log.h"
#include "serve/server.h"

#include <pthread.h>
#include <stdatomic.h>

struct server {
    const struct server_settings *settings;
    struct http_server *http;
    struct models *models;
    struct queue *queue;
    struct metrics *metrics;
    struct access access;
    struct request_log requests;
    struct unknown_members unknown; // of the thread that reads
    atomic_int is_loaded;           // all models are
    atomic_int is_draining;         // after SIGTERM: not ready, but answering
    atomic_int is_aborting;         // after the time of grace: what waits is refused
    atomic_int reload_requested;    // the models are to be loaded again
    double last_trim; // when freed memory was last given back to the system (clock_now)
};

// What http.h calls (routes.c); the context is the server.
int routes_admit(void *context, const struct http_request *request, struct http_reply *reply);
void routes_handle(void *context, struct http_request *request);
struct http_reply routes_refuse(void *context, const struct http_request *request, int status,
                                const char *message);
void routes_complete(void *context, const struct http_request *request, struct http_reply *reply);

// What the queue's lanes do: reads a request, and puts it back or answers it (routes.c); runs a
// batch (run.c).
void routes_read(void *context, struct work_batch *batch);
void run_batch(void *context, struct work_batch *batch);

// Answer a call with an error, or with another reply, and free it. The request counts in its
// model's metrics, if the model is known.
void call_refuse(struct server *server, struct call *call, const struct berth_error *error);
void call_finish(struct server *server, struct call *call, struct http_reply reply);

// Replies (replies.c). An error has KServe's form below /v2, else OpenAI's.
struct http_reply reply_error(const struct http_request *request, int status, const char *message);
// For the metrics: the client has closed the connection and will not read it.
struct http_reply reply_client_left(const struct http_request *request);
// Takes ownership of the line's text.
struct http_reply reply_json(struct json_line *line);
// The same, with KServe's binary tensors after the JSON, if there are any.
struct http_reply reply_tensors(struct json_line *line, const struct buffer *tensors);
struct http_reply reply_text(int status, const char *text); // JSON
// The HTTP status of an error of the library.
int reply_status(enum berth_status status);

#endif
