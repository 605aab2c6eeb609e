// SPDX-License-Identifier: Apache-2.0
// Writes replies: a status, JSON, tensors, text, or an error in the form that the path's API has
// for it. routes.c and run.c end every request here, and http.c sends the bytes.
#include "core/memory.h"
#include "serve/state.h"

#include <string.h>

static const struct {
    int status;
    const char *type, *code;
} kinds[] = {{400, "invalid_request_error", "bad_request"},
             {401, "authentication_error", "invalid_api_key"},
             {403, "permission_error", "forbidden"},
             {404, "invalid_request_error", "not_found"},
             {405, "invalid_request_error", "method_not_allowed"},
             {413, "invalid_request_error", "too_large"},
             {415, "invalid_request_error", "unsupported_media_type"},
             {499, "invalid_request_error", "client_closed_request"},
             {503, "service_unavailable_error", "unavailable"},
             {500, "server_error", "internal"}};

int reply_status(enum berth_status status) {
    switch (status) {
    case BERTH_OK:
        return 200;
    case BERTH_USAGE:
    case BERTH_BAD_DATA:
        return 400;
    case BERTH_NO_INPUT:
        return 404;
    case BERTH_UNAVAILABLE:
    case BERTH_NO_MEMORY:
        return 503;
    default:
        return 500;
    }
}

struct http_reply reply_tensors(struct json_line *line, const struct buffer *tensors) {
    json_line_end(line);
    const size_t json_bytes = line->length;
    struct buffer body = {.bytes = line->text,
                          .length = line->length,
                          .capacity = line->capacity,
                          .failed = line->failed};
    buffer_put(&body, tensors->bytes, tensors->length);
    if (body.failed) {
        buffer_done(&body);
        return (struct http_reply){.status = 503, .retry_after = 1};
    }
    const int is_binary = tensors->length > 0;
    return (struct http_reply){.status = 200,
                               .type = is_binary ? "application/octet-stream" : "application/json",
                               .body = body.bytes,
                               .length = body.length,
                               .json_length = is_binary ? json_bytes : 0};
}

struct http_reply reply_json(struct json_line *line) {
    return reply_tensors(line, &(const struct buffer){.bytes = NULL});
}

struct http_reply reply_error(const struct http_request *request, int status, const char *message) {
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    if (request->path != NULL && strncmp(request->path, "/v2", 3) == 0) {
        json_line_text(&line, "error", message);
    } else {
        size_t kind = 0;
        while (kinds[kind].status != status && kinds[kind].status != 500) {
            kind++;
        }
        const int is_other = kinds[kind].status != status && status < 500;
        json_line_open(&line, "error", '{');
        json_line_text(&line, "message", message);
        json_line_text(&line, "type", kinds[is_other ? 0 : kind].type);
        json_line_text(&line, "code", kinds[is_other ? 0 : kind].code);
        json_line_close(&line, '}');
    }
    json_line_close(&line, '}');
    struct http_reply reply = reply_json(&line);
    reply.status = status;
    reply.retry_after = status == 503 ? 1 : 0;
    return reply;
}

struct http_reply reply_client_left(const struct http_request *request) {
    struct http_reply reply = reply_error(request, 499, "the client has closed the connection");
    reply.closes = 1;
    return reply;
}

struct http_reply reply_text(int status, const char *text) {
    char *body = memory_string(text);
    return (struct http_reply){.status = body != NULL ? status : 503,
                               .type = "application/json",
                               .body = body,
                               .length = body != NULL ? strlen(body) : 0};
}
