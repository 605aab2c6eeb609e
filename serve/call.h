// SPDX-License-Identifier: Apache-2.0
// A request to a model, from its JSON to its reply: the items of work that it consists of. routes.c
// makes one of a request, queue.h lets it wait, and run.c answers it.
#ifndef BERTH_SERVE_CALL_H
#define BERTH_SERVE_CALL_H

#include "core/buffer.h"
#include "format/json/json.h"
#include "serve/http.h"
#include "task/task.h"

enum {
    UNKNOWN_NAMES = 64,    // that are noted: clients choose the names
    UNKNOWN_NAME_SIZE = 61 // of a name with its NUL; the rest of a longer one is left out
};

// Members of requests that the server does not know. As the servers of these APIs do, it ignores
// them, because clients send what other servers read, and notes each name once; or it refuses them.
// For one thread. Zero-initialise all but the settings.
struct unknown_members {
    struct berth_log log;
    int are_refused;
    char names[UNKNOWN_NAMES][UNKNOWN_NAME_SIZE]; // [count] noted
    size_t count;
};

struct call;

// The protocol of one API: how its requests are read and its replies written.
struct protocol {
    // Makes the items of call->document. Texts may point into the document.
    enum berth_status (*read)(struct call *call, struct berth_error *error);
    // Writes the JSON, and appends to call->binary. NULL for a form.
    void (*write)(struct json_line *line, struct call *call);
    int is_form; // the request is the page's form, and its reply the page
    // Names of the members that set something (members.c) and it reads, separated by blanks; NULL:
    // those of the model's task.
    const char *members;
    const char *task; // name of the only task that the API is for; NULL: any
    const char *runs; // another one that a model of it also does (task_row's `open`); NULL: its own
    // Which models of that task; NULL: all. `suited` says it in messages: " with a single label".
    int (*suits)(const struct task_model *instance);
    const char *suited;
};

enum { CALL_LISTS = 16 }; // more than a task has

struct call {
    struct http_request *request;
    const struct protocol *protocol;
    const struct task_model *instance; // the model when the request arrived
    const struct task_row *task;       // that it runs: the model's own, or what the protocol runs
    const char *model_name;
    size_t model;   // its index; models_count: there is none of that name
    int is_named;   // by the path
    json *document; // without members that are null, which count as absent
    struct unknown_members *unknown;
    size_t ignored; // number of members that were ignored
    struct task_text *items;
    size_t count, max_items; // of which max_items are allowed
    struct call_settings settings;
    int is_list;             // the request has a list of inputs, so the reply is one
    int is_base64;           // embeddings as base64 of their floats
    int has_texts;           // the reply repeats the ranked texts
    int has_documents;       // they are "documents": Cohere's form of the reply
    int is_similarity;       // of embeddings: the reply is those of the first item to the others
    size_t json_length;      // of the body; the rest are binary tensors
    char *binary_texts;      // those of the binary tensors, for the items
    struct buffer binary;    // tensors of the reply, which follow its JSON
    char *lists[CALL_LISTS]; // [list_count] of the settings, as JSON
    size_t list_count;
    int64_t tokens;
    // In a queue: how many items are in a batch or were run, and how many were run.
    size_t taken, done;
    int client_has_left; // the client has closed the connection, so items were skipped
    uint64_t round;      // in which it is taken
    struct call *next;   // in its lane
    struct call *beside; // in its batch
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
// Reads the members of the document, or of another object, which `parent` names with a point at its
// end. `others` are names that are read elsewhere, separated by blanks.
enum berth_status members_read(struct call *call, const char *parent, const json *object,
                               const char *others, struct berth_error *error);
// A member that the API does not have, of `parent`. BERTH_USAGE: --strict_requests.
enum berth_status members_ignore(struct call *call, const char *parent, const char *key,
                                 struct berth_error *error);
// Reads one item; `where` names the JSON value in messages.
typedef enum berth_status item_reader(struct call *call, struct task_text *item, const json *value,
                                      const char *where, struct berth_error *error);
// Makes an item of each element of a list, if call->is_list, else one of the value.
enum berth_status call_read_items(struct call *call, const char *where, const json *value,
                                  item_reader *read, struct berth_error *error);
// Writes the results of all items, perhaps as a list.
void call_write_items(struct json_line *line, const struct call *call, int is_list);
// The tokens of all items that were read, and OpenAI's "usage", which says them.
int64_t call_tokens_read(const struct call *call);
void call_write_usage(struct json_line *line, const struct call *call);
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
