// SPDX-License-Identifier: Apache-2.0
// A small HTTP server on 127.0.0.1 that can also misbehave, for tests. One thread per connection.
#ifndef BERTH_TESTS_NET_SERVER_H
#define BERTH_TESTS_NET_SERVER_H

#include <stddef.h>
#include <stdint.h>

// The server's answer to GET PATH.
struct server_route {
    const char *path; // with its query
    const void *body;
    size_t length;
    const char *type; // Content-Type; NULL: application/octet-stream
    const char *etag; // with its quotes; NULL: none. If-Range and If-None-Match compare with it
    const char
        *headers;   // additional headers, each with \r\n; "@PORT@" is the server's port; NULL: none
    size_t padding; // bytes of an additional header
    int status;     // 0: 200, or 206, 304, 416 depending on the request
    int no_ranges;  // Range is ignored
    int chunked;    // no Content-Length
    int64_t told_length; // > 0: a false Content-Length
    int64_t range_shift; // a 206 begins this many bytes after the requested offset
    int64_t cut_after;   // > 0: the connection ends after this many bytes of the body
    int64_t hold_after;  // > 0: after this many bytes the rest waits for server_release
    int times;           // > 0: after this many requests `then` answers
    const struct server_route *then;
};

struct server;

// Copies the routes, but not what they point to; paths without a route are 404.
struct server *server_start(const struct server_route *routes, size_t count);
int server_port(const struct server *server);
// "http://127.0.0.1:PORT" + path; valid for the next 15 calls.
const char *server_url(const struct server *server, const char *path);
void server_release(struct server *server);
// The number of requests so far whose text (the first line and the headers) contains `part`.
size_t server_count(struct server *server, const char *part);
// The text of all requests, each followed by an empty line; free with free().
char *server_log(struct server *server);
void server_stop(struct server *server);

#endif
