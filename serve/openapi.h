// SPDX-License-Identifier: Apache-2.0
// The rows of the server's paths, and the OpenAPI document that follows from them.
//
// Schemas are texts. A word is a type ("string", "any") or, with a capital, a named schema; "[S]"
// is an array, "{name: S, other-: S}" an object ("-" may be absent, "&" also in camelCase), "(S |
// S)" any of these, "=a/b/null" one of these words, "!S" anything else. `Text` before it describes
// it. After it: "?" null, too; "+" at least one element; "<=N", ">=N"; "/PATTERN/"; "%FORMAT"; "*"
// other members are ignored; "& (S | S)" and one of these. "@MEDIA S; @MEDIA S" are bodies of other
// types than JSON. routes.c has the rows.
#ifndef BERTH_SERVE_OPENAPI_H
#define BERTH_SERVE_OPENAPI_H

#include "serve/protocols.h"

struct server;

struct route {
    const char *method, *path;       // one component of the path may be "*", a model's name
    const struct protocol *protocol; // a request to a model; or NULL:
    const char *text;                // the reply, always the same JSON; or NULL:
    struct http_reply (*reply)(struct server *server, const struct http_request *request,
                               size_t model);
    int needs_models; // 503 while the models are loaded, and after SIGTERM
    int is_public;    // needs no key
    int is_admin;     // needs a key, even if others do not
    // For the document: what the path does; the schema of the request (NULL: no body); what the
    // reply is, and its schema.
    const char *summary, *body, *result, *gives;
};

void openapi_put(struct json_line *line, const struct route *routes, size_t count);

#endif
