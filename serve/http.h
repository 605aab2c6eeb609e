// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 over TCP or TLS: connections, whole requests and replies. One thread serves all
// connections of an address; a request waits without a thread until any thread replies to it.
//
// Time limits are deadlines, not timeouts of inactivity: a client that sends a byte now and then
// gains no time. Knows nothing of models. The only user of libmicrohttpd.
#ifndef BERTH_SERVE_HTTP_H
#define BERTH_SERVE_HTTP_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

struct http_limits {
    size_t body_bytes;     // of one request
    double header_seconds; // from the connection, or the request line, to the end of the headers
    double body_seconds;   // for the body, and again for sending the reply
    double idle_seconds;   // between two requests of a connection
    unsigned connections;
};

struct http_settings {
    const char *host; // address to listen on, or a name: all of its addresses, at most 8
    int port;         // 0: any free one
    int listener;     // an open socket that listens, instead of host and port; -1: none
    const char *certificate, *key; // PEM; NULL: no TLS
    struct http_limits limits;
};

struct http_request {
    const char *method, *path; // the path is decoded and has no query
    const char *body;          // NUL-terminated
    size_t body_length;
    int is_http_1_0; // of HTTP/1.0, which has no Host
    uint64_t client; // identifies the peer's address
    double arrived;  // when its headers were complete (clock_now)
};

enum { HTTP_MORE_HEADERS = 5 };

// Zero-initialise unused members.
struct http_reply {
    int status;         // 200, 404, ...
    const char *type;   // of the content; a constant
    char *body;         // memory_free; NULL: empty
    size_t length;      // of the body
    size_t json_length; // Inference-Header-Content-Length, KServe's; 0: none
    const char *allow;  // of 405: the methods; a constant
    char policy[320];   // Content-Security-Policy; empty: none
    int retry_after;    // seconds; 0: none
    int closes;         // the connection ends after this reply
    struct {
        const char *name, *value; // constants, or of the request's headers
    } more[HTTP_MORE_HEADERS];    // the name NULL: after the last
};

// What a server does with requests. The functions run in the threads of the server, possibly at the
// same time, and must not block.
struct http_application {
    // Called when the headers are complete. 0 refuses the request: *reply is sent, and the
    // connection closed.
    int (*admit)(void *context, const struct http_request *request, struct http_reply *reply);
    // Called with the whole request, which is valid until http_answer.
    void (*handle)(void *context, struct http_request *request);
    // An error of the protocol, as a reply in the application's form.
    struct http_reply (*refuse)(void *context, const struct http_request *request, int status,
                                const char *message);
    // Called before each reply is sent, to add headers that depend on those of the request.
    void (*complete)(void *context, const struct http_request *request, struct http_reply *reply);
    void *context;
};

struct http_server;

// Listens and serves in a thread of its own. BERTH_UNAVAILABLE: the address is in use or not ours,
// or libmicrohttpd has no TLS; BERTH_CONFIG: the certificate cannot be used.
enum berth_status http_start(const struct http_settings *settings,
                             const struct http_application *application,
                             struct http_server **server, struct berth_error *error);
// The addresses and the port that it listens on, "127.0.0.1:8080", "[::1]:8080"; NULL after the
// last. "" for a socket of http_settings.
const char *http_address(const struct http_server *server, size_t index);
// The number of further addresses of the host, on which it does not listen.
size_t http_left_out(const struct http_server *server);
// Closes connections that are past their deadline. Call it a few times a second.
void http_tick(struct http_server *server);
// From now on, no connection is accepted, and each reply closes its connection. A socket of
// http_settings goes on listening for whoever has it, too.
void http_stop_accepting(struct http_server *server);
// The number of requests that were not answered or whose reply was not sent yet.
size_t http_busy(const struct http_server *server);
// Every request must have been answered.
void http_stop(struct http_server *server);

// A header of the request, or NULL. Only in admit, handle and complete.
const char *http_header(const struct http_request *request, const char *name);
// The address that the request came from, "127.0.0.1" or "::1"; "" where it has none. Only in
// admit, handle and complete.
enum { HTTP_CLIENT_SIZE = 64 };
void http_client(const struct http_request *request, char address[HTTP_CLIENT_SIZE]);
// Whether the client has closed the connection, or its sending side; from any thread, before
// http_answer.
int http_client_has_left(const struct http_request *request);
// Replies, from any thread; each request once. The request is then gone.
void http_answer(struct http_request *request, struct http_reply reply);

#endif
