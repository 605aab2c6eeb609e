// SPDX-License-Identifier: Apache-2.0
// Who may ask: the Host and Origin of a request, and its key.
#ifndef BERTH_SERVE_ACCESS_H
#define BERTH_SERVE_ACCESS_H

#include "serve/http.h"

struct access {
    char *keys;        // one per line; NULL: none is needed
    const char *hosts; // names besides addresses and localhost, separated by commas; "*": any
};

// Reads the file of keys; NULL is no file. BERTH_CONFIG: it has no key.
enum berth_status access_open(struct access *access, const char *key_file, const char *hosts,
                              struct berth_error *error);
void access_done(struct access *access);

// The two checks return the HTTP status that a refused request gets, with a message, else 0.
//
// A page of another site that a browser shows can send requests here, by a name that it points at
// this address (another Host) or openly (another Origin). An address as Host shows that no name was
// looked up.
int access_check_site(const struct access *access, const struct http_request *request,
                      const char **message);
int access_check_key(const struct access *access, const struct http_request *request,
                     const char **message);

#endif
