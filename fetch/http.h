// SPDX-License-Identifier: Apache-2.0
// HTTP requests through libcurl. No other code in Berth opens a connection to a URL.
//
// Follows redirects itself, not through libcurl: at most ten, to http and https only, never from
// https to http; the token is sent only to the scheme, host and port of the first URL. Proxies come
// from the environment (https_proxy, no_proxy, ...). Leaves out retries: see download.h.
#ifndef BERTH_FETCH_HTTP_H
#define BERTH_FETCH_HTTP_H

#include "core/error.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// Maximum length of a header. Stores sign the URLs that they redirect to: thousands of characters.
#define HTTP_HEADER_SIZE 16384

// The headers of the last response of a request; missing texts are empty, missing numbers -1.
// `linked_*` and `commit` may come from any of the redirects.
struct http_response {
    long status;
    int64_t length;      // of the body
    int64_t range_first; // Content-Range
    int64_t range_total;
    char etag[256];              // without quotes; empty when weak
    char linked_etag[256];       // X-Linked-Etag: of the content that a redirect points to
    int64_t linked_size;         // X-Linked-Size
    char commit[64];             // X-Repo-Commit
    char type[128];              // Content-Type
    char next[HTTP_HEADER_SIZE]; // Link: <...>; rel="next"
    char location[HTTP_HEADER_SIZE];
    int encoded;                // has a Content-Encoding, which was not requested
    const char *invalid_header; // the name of an invalid header, a constant; NULL: none
    int is_retryable; // a temporary failure: no connection, connection lost, timeout, 408, 429,
                      // 5xx
};

// Receives the body. `begin` is called once, after the headers of the last response, `body` for
// each chunk. A status other than BERTH_OK ends the transfer and is http_get's result.
struct http_sink {
    enum berth_status (*begin)(void *context, const struct http_response *response,
                               struct berth_error *error);
    enum berth_status (*body)(void *context, const void *bytes, size_t length,
                              struct berth_error *error);
    void *context;
};

struct http_request {
    const char *url;
    const char *token; // NULL: none
    uint64_t from;     // > 0: request the bytes from this offset
    const char
        *if_range; // `from` applies only under this etag, else the whole content comes; NULL: none
    const char *if_none_match; // etag; NULL: none
};

// One per fetch; keeps connections open. `stop` (may be NULL) ends transfers when nonzero.
struct http;
enum berth_status http_open(struct http **http, const atomic_int *stop, struct berth_error *error);
void http_close(struct http *http);

// BERTH_OK for every complete response, whatever its status (see http_refusal). BERTH_UNAVAILABLE:
// no connection, connection lost, timeout. BERTH_INTERRUPTED: stopped. BERTH_BAD_DATA: invalid or
// duplicate headers, or a URL in one that is too long.
enum berth_status http_get(struct http *http, const struct http_request *request,
                           const struct http_sink *sink, struct http_response *response,
                           struct berth_error *error);

// The error for `name` when the status is not 2xx: 404 is BERTH_NO_INPUT, others BERTH_UNAVAILABLE.
enum berth_status http_refusal(const struct http_response *response, const char *name,
                               struct berth_error *error);

// The target URL of a redirect from `from` to `location`, newly allocated (memory_free).
// BERTH_UNAVAILABLE: neither http nor https, or http after https.
enum berth_status http_follow(const char *from, const char *location, char **to,
                              struct berth_error *error);

// Whether both URLs have the same scheme, host and port.
int http_same_origin(const char *a, const char *b);
// Whether the URL is https or names this machine: a token may be sent there.
int http_is_secure(const char *url);
// The host of an http or https URL, newly allocated; *host is NULL for any other URL.
enum berth_status http_host(const char *url, char **host, struct berth_error *error);

#endif
