// SPDX-License-Identifier: Apache-2.0
// The headers of a response into struct http_answer; they come from the network and may hold
// anything.
#ifndef BERTH_NET_HTTP_HEADERS_H
#define BERTH_NET_HTTP_HEADERS_H

#include "net/http.h"

// Takes one line, the status line included. Unknown ones are passed over; a size that makes no
// sense or comes a second time is answer->fault.
void http_take_header(struct http_answer *answer, const char *bytes, size_t length);

// What one response says of itself goes with the next; what it says of the content (linked_*,
// commit) stays.
void http_forget_response(struct http_answer *answer);

#endif
