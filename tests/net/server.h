// SPDX-License-Identifier: Apache-2.0
// A small HTTP server on 127.0.0.1 that can also misbehave, for tests. One thread a connection.
#ifndef BERTH_TESTS_NET_SERVER_H
#define BERTH_TESTS_NET_SERVER_H

#include <stddef.h>
#include <stdint.h>

// What the server answers to GET PATH.
struct server_route {
    const char *path; // with its query, as it comes
    const void *body;
    size_t length;
    const char *type;    // Content-Type; NULL: application/octet-stream
    const char *etag;    // with its quotes; NULL: none. If-Range and If-None-Match obey it
    const char *headers; // more of them, each with \r\n; "@PORT@" is the server's; NULL: none
    size_t padding;      // bytes of one header more
    int status;          // 0: 200, or 206, 304, 416 as the request asks
    int no_ranges;       // Range is ignored
    int chunked;         // no Content-Length
    int64_t told_length; // > 0: Content-Length in place of the true one
    int64_t range_shift; // a 206 begins so many bytes after the one asked for
    int64_t cut_after;   // > 0: the connection ends after that many bytes of the body
    int64_t hold_after;  // > 0: after that many bytes the rest waits for server_release
    int times;           // > 0: after so many requests `then` answers
    const struct server_route *then;
};

struct server;

// The routes are copied (not what they point to); paths without a route are 404.
struct server *server_start(const struct server_route *routes, size_t count);
int server_port(const struct server *server);
// "http://127.0.0.1:PORT" + path; valid until the 16th call after.
const char *server_url(const struct server *server, const char *path);
void server_release(struct server *server);
// Requests so far, those whose text (the first line and the headers) has `part` in it.
size_t server_count(struct server *server, const char *part);
// All of them, each followed by an empty line; to be freed with free().
char *server_log(struct server *server);
void server_stop(struct server *server);

#endif
