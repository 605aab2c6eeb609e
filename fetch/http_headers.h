// SPDX-License-Identifier: Apache-2.0
// Parses the headers of a response into struct http_response. They come from the network and are
// untrusted. For http.c, line by line.
#ifndef BERTH_FETCH_HTTP_HEADERS_H
#define BERTH_FETCH_HTTP_HEADERS_H

#include "fetch/http.h"

// Takes one line, also the status line. Ignores unknown headers; an invalid or duplicate size sets
// response->invalid_header.
void http_parse_header(struct http_response *response, const char *bytes, size_t length);

// Resets all fields before the next response, except those that describe the content (linked_*,
// commit).
void http_reset_response(struct http_response *response);

#endif
