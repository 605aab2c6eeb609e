// SPDX-License-Identifier: Apache-2.0
// A request to a model, from its JSON to its reply: the items of work that it consists of.
#ifndef BERTH_SERVE_CALL_H
#define BERTH_SERVE_CALL_H

#include "core/buffer.h"
#include "serve/http.h"
#include "serve/task.h"

struct call;

// A dialect: how a request of one API is read, and how its reply is written.
struct protocol {
    // Makes the items of call->document. Texts may stay in the document.
    enum berth_status (*read)(struct call *call, struct berth_error *error);
    void (*write)(struct json_line *line, const struct call *call); // of a form: NULL
    int is_form;      // the request is the page's form, and its reply the page
    const char *task; // name of the task that the API is for; NULL: any
};

struct call {
    struct http_request *request;
    const struct protocol *protocol;
    const struct instance *instance; // the model when the request arrived
    const char *model_name;
    size_t model; // its number
    json *document;
    struct item *items;
    size_t count, max_items; // `most` of them are allowed
    struct parameters parameters;
    int is_list;   // the request has a list of inputs, so the reply is one
    int is_base64; // embeddings as base64 of their floats
    int64_t tokens;
    size_t taken, done;  // items, by the queue and by the worker
    int client_has_left; // the client has gone, so that items were not computed
    struct call *next;   // of the same client (turns.h)
};

// Reads the body as JSON, then, with a model, makes the items of it. BERTH_USAGE: the request is
// wrong.
enum berth_status call_read(struct call *call, struct berth_error *error);
enum berth_status call_make(struct call *call, struct berth_error *error);
void call_free(struct call *call);
// A member of the document; NULL: absent, or null.
const json *call_member(const struct call *call, const char *key);
// What the members of a document are for; others would have no effect.
struct call_members {
    const char *read[7];    // those that are read, and "model"
    const char *refused[3]; // those that only null is allowed for
};
// BERTH_USAGE: a member is not among them.
enum berth_status call_check_members(const struct call *call, const struct call_members *known,
                                     struct berth_error *error);
// Makes room for `count` items, all zero. BERTH_USAGE: there are more than the queue ever holds.
enum berth_status call_make_items(struct call *call, size_t count, struct berth_error *error);
// The texts of an item; `what` is where the request has it. Blank texts are refused.
enum berth_status call_set_text(struct item *item, size_t which, const json *text,
                                const char *where, struct berth_error *error);

#endif
