// SPDX-License-Identifier: Apache-2.0
// A request to a model on its way: reads its JSON or form, finds the protocol's parts in it, makes
// an item for each input, and writes their results into the reply. A thread of the queue reads it
// and another runs it (run.c); which members there are and what they mean is left to the protocols
// and members.c.
#include "serve/call.h"

#include "core/encoding.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "core/utf8.h"

#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 32
#define QUESTION_BYTES_MAX ((size_t)64 << 10)
#define FIELDS_MAX 16 // of a form
// Values of a request, and more for each text of --max_queue. A mebibyte of "[],[]," would take 50
// MiB of memory for as long as the request waits.
#define VALUES_MAX 1000
#define VALUES_PER_TEXT_MAX 8

// --- a form --------------------------------------------------------------------------------------

// The value of a field, newly allocated: "%41+b" is "A b".
static char *decode(const char *from, size_t length) {
    char *text = memory_new(length + 1), *to = text;
    for (size_t i = 0; text != NULL && i < length; i++) {
        const int escaped = percent_byte(from + i, length - i);
        *to++ = (char)(escaped >= 0 ? escaped : from[i] == '+' ? ' ' : from[i]);
        i += escaped >= 0 ? 2 : 0;
    }
    if (text != NULL) {
        *to = '\0';
    }
    return text;
}

// "a=1&b=2" as an object of texts.
static enum berth_status read_form(struct call *call, struct berth_error *error) {
    const char *at = call->request->body;
    if (strlen(at) != call->request->body_length || strstr(at, "%00") != NULL) {
        return error_set(error, BERTH_USAGE, "the form contains a NUL character");
    }
    json *fields = json_new_object();
    int failed = 0;
    for (int i = 0; *at != '\0' && !failed; i++) {
        const size_t length = strcspn(at, "&"), name = strcspn(at, "=&");
        if (i == FIELDS_MAX) {
            json_free(fields);
            return error_set(error, BERTH_USAGE, "the form has more than %d fields", FIELDS_MAX);
        }
        char *key = decode(at, name);
        char *value = name < length ? decode(at + name + 1, length - name - 1) : NULL;
        failed |= key == NULL || (name < length && value == NULL);
        if (key != NULL && value != NULL && utf8_is_valid(key, strlen(key)) &&
            utf8_is_valid(value, strlen(value))) {
            failed |= json_set(fields, key, json_new_text(value));
        }
        memory_free(key);
        memory_free(value);
        at += length + (at[length] == '&');
    }
    call->document = json_unless_failed(fields, failed);
    return call->document != NULL ? BERTH_OK
                                  : error_no_memory(error, call->request->body_length, "a form");
}

// --- JSON ----------------------------------------------------------------------------------------

const json *call_member(const struct call *call, const char *key) {
    return json_member(call->document, key);
}

enum berth_status call_read(struct call *call, struct berth_error *error) {
    const struct http_request *request = call->request;
    size_t mark;
    if (call->protocol->is_form) {
        return read_form(call, error);
    }
    if (call->json_length > request->body_length) {
        return error_set(error, BERTH_USAGE,
                         "Inference-Header-Content-Length: expected the length of the JSON, at "
                         "most the %zu bytes of the body",
                         request->body_length);
    }
    if (encoding_of(request->body, call->json_length, &mark) != ENCODING_UTF8) {
        return error_set(error, BERTH_USAGE, "the JSON is not in UTF-8");
    }
    enum berth_status status = json_read_limited(
        "the request", request->body, call->json_length, DEPTH_MAX,
        VALUES_MAX + VALUES_PER_TEXT_MAX * call->max_items, &call->document, error);
    if (status == BERTH_NO_MEMORY) {
        return status;
    }
    if (status != BERTH_OK) {
        if (error != NULL) {
            error->status = BERTH_USAGE;
        }
        return BERTH_USAGE;
    }
    json_remove_nulls(call->document);
    const json *model = call_member(call, "model");
    return !json_is_object_value(call->document)
               ? error_set(error, BERTH_USAGE, "the request is not a JSON object")
           : model != NULL && !json_is_text(model)
               ? error_set(error, BERTH_USAGE, "model: expected a string")
               : BERTH_OK;
}

int protocol_suits(const struct protocol *protocol, const struct task_model *instance) {
    if (protocol->runs != NULL) {
        return instance->task->open == task_find(protocol->runs)->open;
    }
    return protocol->task == NULL || (strcmp(protocol->task, instance->task->about.pipeline) == 0 &&
                                      (protocol->suits == NULL || protocol->suits(instance)));
}

enum berth_status call_make(struct call *call, struct berth_error *error) {
    const struct protocol *protocol = call->protocol;
    const struct task_row *own = call->instance->task;
    const struct task_row *task = protocol->runs != NULL ? task_find(protocol->runs) : own;
    call->task = task;
    call->settings = task_usual;
    call->settings.unit = OFFSET_CODE_POINTS;
    if (!protocol_suits(protocol, call->instance)) {
        return error_set(error, BERTH_NO_INPUT, "the model %s is for %s; this path is for %s%s",
                         call->model_name, own->about.pipeline, protocol->task,
                         protocol->suited != NULL ? protocol->suited : "");
    }
    TRY(protocol->read(call, error));
    for (size_t i = 0; i < call->count; i++) {
        struct task_text *item = &call->items[i];
        item->settings = call->settings;
    }
    if (task->check != NULL) {
        TRY(task->check(call->items, call->count, error));
    }
    for (size_t i = 0; i < call->count; i++) {
        // An item that is too long and must not be truncated is refused.
        struct task_text *item = &call->items[i];
        const struct task_model *instance = call->instance;
        const int64_t tokens = task_count_tokens(instance, call->task, item);
        item->tokens = task_computed_tokens(instance, item, tokens);
        call->tokens += item->tokens;
        if (call->settings.overflow == TEXT_FAILS && tokens > instance->max_tokens) {
            return error_set(
                error, BERTH_USAGE,
                "input %zu: the text has %lld tokens, more than the %lld that the model "
                "reads; without \"truncate\": false its end is left out",
                i, (long long)tokens, (long long)instance->max_tokens);
        }
    }
    return BERTH_OK;
}

void call_free(struct call *call) {
    if (call == NULL) {
        return;
    }
    for (size_t i = 0; i < call->count; i++) {
        task_text_done(&call->items[i]);
    }
    memory_free(call->items);
    for (size_t i = 0; i < call->list_count; i++) {
        memory_free(call->lists[i]);
    }
    memory_free(call->binary_texts);
    buffer_done(&call->binary);
    json_free(call->document);
    memory_free(call);
}

enum berth_status call_make_items(struct call *call, size_t count, struct berth_error *error) {
    if (count > call->max_items) {
        return error_set(error, BERTH_USAGE, "the request has %zu texts, but --max_queue is %zu",
                         count, call->max_items);
    }
    call->items = memory_array_zeroed(count, sizeof *call->items);
    call->count = call->items != NULL ? count : 0;
    return call->items != NULL ? BERTH_OK
                               : error_no_memory(error, count * sizeof *call->items, "a request");
}

enum berth_status call_read_items(struct call *call, const char *where, const json *value,
                                  item_reader *read, struct berth_error *error) {
    char element[64];
    TRY(call_make_items(call, call->is_list ? json_length(value) : 1, error));
    for (size_t i = 0; i < call->count; i++) {
        snprintf(element, sizeof element, call->is_list ? "%s[%zu]" : "%s", where, i);
        TRY(read(call, &call->items[i], call->is_list ? json_at(value, i) : value, element, error));
    }
    return BERTH_OK;
}

void call_write_items(struct json_line *line, const struct call *call, int is_list) {
    if (is_list) {
        json_line_open(line, NULL, '[');
    }
    for (size_t i = 0; i < call->count; i++) {
        call->task->write(line, call->instance, &call->items[i]);
    }
    if (is_list) {
        json_line_close(line, ']');
    }
}

int64_t call_tokens_read(const struct call *call) {
    int64_t tokens = 0;
    for (size_t i = 0; i < call->count; i++) {
        tokens += call->items[i].tokens_read;
    }
    return tokens;
}

void call_write_usage(struct json_line *line, const struct call *call) {
    json_line_open(line, "usage", '{');
    json_line_integer(line, "prompt_tokens", call_tokens_read(call));
    json_line_integer(line, "total_tokens", call_tokens_read(call));
    json_line_close(line, '}');
}

enum berth_status call_set_text(struct task_text *item, size_t which, const json *text,
                                const char *where, struct berth_error *error) {
    const char *bytes = json_text(text);
    return bytes != NULL ? call_set_bytes(item, which, bytes, json_text_length(text), where, error)
                         : error_set(error, BERTH_USAGE, "%s: expected a string", where);
}

enum berth_status call_set_bytes(struct task_text *item, size_t which, const char *bytes,
                                 size_t length, const char *where, struct berth_error *error) {
    if (strlen(bytes) != length) {
        return error_set(error, BERTH_USAGE, "%s: the text contains a NUL character", where);
    }
    if (length == 0) {
        return error_set(error, BERTH_USAGE, "%s: the text is empty", where);
    }
    if (which == 0 && length > QUESTION_BYTES_MAX && item->texts[1] != NULL) {
        return error_set(error, BERTH_USAGE, "%s: more than 64 KiB", where);
    }
    item->texts[which] = bytes;
    return BERTH_OK;
}
