// SPDX-License-Identifier: Apache-2.0
// HTTP requests: the door to libcurl, and the only place in Berth that opens a connection.
//
// Redirects are followed here, not by libcurl: at most ten, to http and https only, never from
// https to http, and the token goes to the scheme, host and port of the first URL alone. Proxies
// are those of the environment (https_proxy, no_proxy, ...). Nothing is retried here: see
// download.h.
#ifndef BERTH_NET_HTTP_H
#define BERTH_NET_HTTP_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

// What the last response of a request says of itself; texts are empty and numbers -1 where it does
// not. `linked_*` and `commit` may come from any response on the way.
struct http_answer {
    long status;
    int64_t length;      // of this body
    int64_t range_first; // Content-Range
    int64_t range_total;
    char etag[256];        // without quotes; empty when it is weak
    char linked_etag[256]; // X-Linked-Etag: of the content that a redirect leads to
    int64_t linked_size;   // X-Linked-Size
    char commit[64];       // X-Repo-Commit
    char type[128];        // Content-Type
    char next[2048];       // Link: <...>; rel="next"
    char location[2048];
    int encoded;       // with a Content-Encoding, which was not asked for
    const char *fault; // NULL, or the header that makes no sense, a constant
    int worth_a_retry; // a failure that may pass: no connection, cut, timeout, 408, 429, 5xx
};

// Where the body goes. `begin` is called once, when the last response's headers are there, `body`
// for each piece. What they return but BERTH_OK ends the transfer and is http_get's result.
struct http_sink {
    enum berth_status (*begin)(void *context, const struct http_answer *answer,
                               struct berth_error *error);
    enum berth_status (*body)(void *context, const void *bytes, size_t length,
                              struct berth_error *error);
    void *context;
};

struct http_request {
    const char *url;
    const char *token;         // NULL: none
    uint64_t from;             // > 0: the bytes from there on
    const char *if_range;      // etag under which `from` counts, else the whole; NULL: none
    const char *if_none_match; // etag; NULL: none
};

// One per fetch; keeps connections open. `stop` (may be NULL) ends transfers when it is not 0.
struct http;
enum berth_status http_open(struct http **http, const volatile int *stop,
                            struct berth_error *error);
void http_close(struct http *http);

// BERTH_OK for every complete response, whatever its status (see http_refusal). No connection, a
// cut one and a timeout are BERTH_UNAVAILABLE, a stop BERTH_INTERRUPTED, headers that contradict
// themselves BERTH_BAD_DATA.
enum berth_status http_get(struct http *http, const struct http_request *request,
                           const struct http_sink *sink, struct http_answer *answer,
                           struct berth_error *error);

// The error that a status other than 2xx means for `what`: 404 BERTH_NO_INPUT, others
// BERTH_UNAVAILABLE.
enum berth_status http_refusal(const struct http_answer *answer, const char *what,
                               struct berth_error *error);

// The URL that a redirect from `from` to `location` leads to, newly allocated (memory_free).
// BERTH_UNAVAILABLE: neither http nor https, or http after https.
enum berth_status http_follow(const char *from, const char *location, char **to,
                              struct berth_error *error);

// Whether both URLs have the same scheme, host and port.
int http_same_origin(const char *a, const char *b);
// Whether the URL is https, or names this machine: where a token may be sent.
int http_is_private(const char *url);
// The host of an http or https URL, newly allocated; *host is NULL when it is no such URL.
enum berth_status http_host(const char *url, char **host, struct berth_error *error);

#endif
