// SPDX-License-Identifier: Apache-2.0
// A request to a model, from its JSON to its reply: the items of work that it consists of.
#ifndef BERTH_SERVE_CALL_H
#define BERTH_SERVE_CALL_H

#include "core/buffer.h"
#include "format/json/json.h"
#include "serve/http.h"
#include "serve/unknown.h"
#include "task/task.h"

struct call;

// The protocol of one API: how its requests are read and its replies written.
struct protocol {
    // Makes the items of call->document. Texts may point into the document.
    enum berth_status (*read)(struct call *call, struct berth_error *error);
    // Writes the JSON, and appends to call->binary. NULL for a form.
    void (*write)(struct json_line *line, struct call *call);
    int is_form;      // the request is the page's form, and its reply the page
    const char *task; // name of the only task that the API is for; NULL: any
    // Which models of that task; NULL: all. `suited` says it in messages: " with a single label".
    int (*suits)(const struct task_model *instance);
    const char *suited;
};

struct call {
    struct http_request *request;
    const struct protocol *protocol;
    const struct task_model *instance; // the model when the request arrived
    const char *model_name;
    size_t model;   // its index; models_count: there is none of that name
    int is_named;   // by the path
    json *document; // without members that are null, which count as absent
    struct unknown_members *unknown;
    size_t ignored; // number of members that were ignored
    struct task_text *items;
    size_t count, max_items; // of which max_items are allowed
    struct task_settings settings;
    int is_list;          // the request has a list of inputs, so the reply is one
    int is_base64;        // embeddings as base64 of their floats
    int has_texts;        // the reply repeats the ranked texts
    int is_similarity;    // of embeddings: the reply is those of the first item to the others
    size_t json_length;   // of the body; the rest are binary tensors
    char *binary_texts;   // those of the binary tensors, for the items
    struct buffer binary; // tensors of the reply, which follow its JSON
    int64_t tokens;
    size_t taken, done;  // number of items that a worker has taken and has run
    int client_has_left; // the client has closed the connection, so items were skipped
    struct call *next;   // of the same client (turns.h)
};

// call_read reads the body; call_make then makes its items, once the model is known. BERTH_USAGE:
// the request is wrong.
enum berth_status call_read(struct call *call, struct berth_error *error);
enum berth_status call_make(struct call *call, struct berth_error *error);
void call_free(struct call *call);
// A member of the document; NULL: absent.
const json *call_member(const struct call *call, const char *key);
// Whether the model is one that the protocol is for.
int protocol_suits(const struct protocol *protocol, const struct task_model *instance);
// The members of a document that an API has. Those that are not read would change the reply, so
// they are refused.
struct call_members {
    const char *read[9];    // including "model"
    const char *refused[3]; // not supported
};
// BERTH_USAGE: a member is refused.
enum berth_status call_check_members(struct call *call, const struct call_members *known,
                                     struct berth_error *error);
// A member that the API does not have, of `parent` (unknown.h). BERTH_USAGE: --strict_requests.
enum berth_status call_ignore(struct call *call, const char *parent, const char *key,
                              struct berth_error *error);
enum berth_status call_refuse_unsupported(const char *where, struct berth_error *error);
// Reads a value of a request, which `where` names in messages. BERTH_USAGE: it is not a supported
// one.
typedef enum berth_status call_reader(struct call *call, const char *where, const json *value,
                                      struct berth_error *error);
call_reader call_read_normalize;  // true or false, of embeddings
call_reader call_read_dimensions; // of embeddings, at least 1
call_reader call_read_truncation; // true, or false for texts that must fit
call_reader call_read_right;      // "right", in any letter case
// A number from 1 to `most`; INT64_MAX: any.
enum berth_status call_read_number(const char *where, const json *value, int64_t most, int64_t *to,
                                   struct berth_error *error);
enum berth_status call_read_boolean(const char *where, const json *value, int *to,
                                    struct berth_error *error);
// Reads a member of the document, unless it is absent.
enum berth_status call_read_member(struct call *call, const char *key, call_reader *read,
                                   struct berth_error *error);
// Allocates `count` items, all zero. BERTH_USAGE: there are more than max_items.
enum berth_status call_make_items(struct call *call, size_t count, struct berth_error *error);
// Sets a text of an item; `where` names the JSON value in messages. An empty text is refused, as
// OpenAI's and text-embeddings-inference do; a blank one is read, as [CLS] [SEP].
enum berth_status call_set_text(struct task_text *item, size_t which, const json *text,
                                const char *where, struct berth_error *error);
// The same of `length` bytes and a NUL.
enum berth_status call_set_bytes(struct task_text *item, size_t which, const char *bytes,
                                 size_t length, const char *where, struct berth_error *error);

#endif
