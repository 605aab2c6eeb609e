// SPDX-License-Identifier: Apache-2.0
// Access control: checks a request's Host, its Origin and its key, and makes the headers by which a
// browser lets pages of other sites read the reply. Encryption is http.h's, and limits of requests
// are the queue's.
#ifndef BERTH_SERVE_ACCESS_H
#define BERTH_SERVE_ACCESS_H

#include "serve/http.h"

struct access {
    char *keys; // one per line; NULL: none is needed
    // Comma-separated names that are served besides addresses and localhost; "*": any.
    const char *hosts;
    const char *origins; // comma-separated, whose pages may read replies (CORS)
};

// Reads the file of keys; NULL is no file. Hosts and origins are borrowed; NULL: none.
// BERTH_CONFIG: the file has no key; BERTH_BAD_DATA: it is not text in UTF-8 or UTF-16;
// BERTH_USAGE: an origin is none.
enum berth_status access_open(struct access *access, const char *key_file, const char *hosts,
                              const char *origins, struct berth_error *error);
void access_done(struct access *access);

// Whether a browser asks if a page of one of the origins may send a request. It sends no key.
int access_is_preflight(const struct access *access, const struct http_request *request);
// Adds the headers of CORS to a reply; none if there are no origins.
void access_put_headers(const struct access *access, const struct http_request *request,
                        struct http_reply *reply);

// The two checks return the HTTP status that a refused request gets, with a message, else 0.
//
// A web page of another site can make a browser send requests here: openly (another Origin), or by
// pointing a name of its own at this address (another Host; DNS rebinding). A Host that is an
// address cannot come from such a name.
int access_check_site(const struct access *access, const struct http_request *request,
                      const char **message);
int access_check_key(const struct access *access, const struct http_request *request,
                     const char **message);

#endif
