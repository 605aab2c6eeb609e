// SPDX-License-Identifier: Apache-2.0
#include "serve/call.h"

#include "core/memory.h"
#include "core/utf8.h"

#include <string.h>

#define DEPTH_MOST 32
#define QUESTION_MOST ((size_t)64 << 10)

// --- a form --------------------------------------------------------------------------------------

static int hexadecimal(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

// The value of a field, newly allocated: "%41+b" is "A b".
static char *decode(const char *from, size_t length) {
    char *text = memory_new(length + 1), *to = text;
    for (size_t i = 0; text != NULL && i < length; i++) {
        const int high = i + 2 < length && from[i] == '%' ? hexadecimal(from[i + 1]) : -1;
        const int low = high >= 0 ? hexadecimal(from[i + 2]) : -1;
        if (low >= 0) {
            *to++ = (char)(16 * high + low);
            i += 2;
        } else {
            *to++ = from[i] == '+' ? ' ' : from[i];
        }
    }
    if (text != NULL) {
        *to = '\0';
    }
    return text;
}

// "a=1&b=2" as an object of texts.
static enum berth_status read_form(struct call *call, struct berth_error *error) {
    const char *at = call->request->body;
    json *fields = json_new_object();
    while (*at != '\0') {
        const size_t length = strcspn(at, "&"), name = strcspn(at, "=&");
        char *key = decode(at, name);
        char *value = name < length ? decode(at + name + 1, length - name - 1) : NULL;
        if (key != NULL && value != NULL && utf8_is_valid(key, strlen(key)) &&
            utf8_is_valid(value, strlen(value))) {
            json_set(fields, key, json_new_text(value));
        }
        memory_free(key);
        memory_free(value);
        at += length + (at[length] == '&');
    }
    call->document = fields;
    return fields != NULL ? BERTH_OK : error_no_memory(error, call->request->body_length, "a form");
}

// --- JSON ----------------------------------------------------------------------------------------

// How deep brackets are nested outside strings. Only what is well-formed is read afterwards.
static int depth_of(const char *text, size_t length) {
    int depth = 0, most = 0, in_string = 0;
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
        } else {
            in_string = c == '"';
            depth += (c == '[' || c == '{') - (c == ']' || c == '}');
            most = depth > most ? depth : most;
        }
    }
    return most;
}

enum berth_status call_read(struct call *call, struct berth_error *error) {
    const struct http_request *request = call->request;
    if (call->shape->is_form) {
        return read_form(call, error);
    }
    if (depth_of(request->body, request->body_length) > DEPTH_MOST) {
        return error_set(error, BERTH_USAGE, "the JSON is nested deeper than %d", DEPTH_MOST);
    }
    enum berth_status status = json_read_memory("the request", request->body, request->body_length,
                                                &call->document, error);
    if (status == BERTH_NO_MEMORY) {
        return status;
    }
    if (status != BERTH_OK) {
        if (error != NULL) {
            error->status = BERTH_USAGE;
        }
        return BERTH_USAGE;
    }
    return json_is_object_value(call->document)
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "the request is not a JSON object");
}

enum berth_status call_make(struct call *call, struct berth_error *error) {
    const struct shape *shape = call->shape;
    const struct task *task = call->instance->task;
    call->wanted = (struct parameters){.normalize = -1, .with_no_answer = -1};
    if (shape->only != NULL && strcmp(shape->only, task->name) != 0) {
        return error_set(error, BERTH_USAGE, "the model %s is for %s; this path is for %s",
                         call->model_name, task->name, shape->only);
    }
    TRY(shape->read(call, error));
    for (size_t i = 0; i < call->count; i++) {
        struct item *item = &call->items[i];
        item->wanted = call->wanted;
    }
    if (task->check != NULL) {
        TRY(task->check(call->items, call->count, error));
    }
    for (size_t i = 0; i < call->count; i++) {
        struct item *item = &call->items[i];
        item->tokens = instance_count_tokens(call->instance, item);
        call->tokens += item->tokens;
    }
    return BERTH_OK;
}

void call_free(struct call *call) {
    if (call == NULL) {
        return;
    }
    for (size_t i = 0; i < call->count; i++) {
        item_done(&call->items[i]);
    }
    memory_free(call->items);
    json_free(call->document);
    memory_free(call);
}

enum berth_status call_make_items(struct call *call, size_t count, struct berth_error *error) {
    if (count > call->most) {
        return error_set(error, BERTH_USAGE, "%zu texts in a request, and --max_queue is %zu",
                         count, call->most);
    }
    call->items = memory_array_zeroed(count, sizeof *call->items);
    call->count = call->items != NULL ? count : 0;
    return call->items != NULL ? BERTH_OK
                               : error_no_memory(error, count * sizeof *call->items, "a request");
}

enum berth_status call_set_text(struct item *item, size_t which, const json *text, const char *what,
                                struct berth_error *error) {
    const char *bytes = json_text(text);
    if (bytes == NULL) {
        return error_set(error, BERTH_USAGE, "%s: expected a text", what);
    }
    if (strlen(bytes) != json_text_length(text)) {
        return error_set(error, BERTH_USAGE, "%s: the text contains a NUL character", what);
    }
    if (bytes[strspn(bytes, " \t\n\v\f\r")] == '\0') {
        return error_set(error, BERTH_USAGE, "%s: the text is blank", what);
    }
    if (which == 0 && json_text_length(text) > QUESTION_MOST && item->texts[1] != NULL) {
        return error_set(error, BERTH_USAGE, "%s: more than 64 KiB", what);
    }
    item->texts[which] = bytes;
    return BERTH_OK;
}
