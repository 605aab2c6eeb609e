// SPDX-License-Identifier: Apache-2.0
// OpenAI's embeddings: {"input": one or a list, "model": NAME, "encoding_format": ...}. They have
// length 1 whatever the model says: clients compare them by their products.
#include "core/base64.h"
#include "serve/protocols.h"

#include <stdio.h>
#include <string.h>

static enum berth_status read_format(struct call *call, struct berth_error *error) {
    const json *format = call_member(call, "encoding_format");
    const char *name = json_text(format);
    if (format == NULL || (name != NULL && strcmp(name, "float") == 0)) {
        return BERTH_OK;
    }
    call->is_base64 = name != NULL && strcmp(name, "base64") == 0;
    return call->is_base64
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "encoding_format: expected \"float\" or \"base64\"");
}

// Clients that send numbers made them with another tokenizer, OpenAI's.
static enum berth_status check_text(const json *value, const char *where,
                                    struct berth_error *error) {
    return !json_is_number_value(value) && !json_is_array_value(value)
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "%s: expected a string; token ids are not supported (LangChain: "
                           "check_embedding_ctx_length=False)",
                           where);
}

static enum berth_status read(struct call *call, struct berth_error *error) {
    static const struct call_members known = {
        .read = {"input", "encoding_format", "dimensions", "user", "model"}};
    const json *input = json_member(call->document, "input");
    const json *user = call_member(call, "user");
    char where[64] = "input";
    TRY(call_check_members(call, &known, error));
    TRY(read_format(call, error));
    call->settings.normalize = 1;
    TRY(call_read_member(call, "dimensions", call_read_dimensions, error));
    if (user != NULL && !json_is_text(user)) {
        return error_set(error, BERTH_USAGE, "user: expected a string");
    }
    call->is_list = json_is_array_value(input);
    const size_t count = call->is_list ? json_length(input) : (size_t)json_is_text(input);
    if (count == 0) {
        return error_set(error, BERTH_USAGE, "input: expected a string or a list of strings");
    }
    TRY(call_make_items(call, count, error));
    for (size_t i = 0; i < count; i++) {
        if (call->is_list) {
            snprintf(where, sizeof where, "input[%zu]", i);
        }
        const json *text = call->is_list ? json_at(input, i) : input;
        TRY(check_text(text, where, error));
        TRY(call_set_text(&call->items[i], 0, text, where, error));
    }
    return BERTH_OK;
}

// The floats in little-endian order, as base64.
static void write_base64(struct json_line *line, const struct task_text *item) {
    struct buffer text = {0};
    base64_put(&text, item->rows, item->width * sizeof *item->rows);
    buffer_put_byte(&text, '\0');
    line->failed |= text.failed;
    json_line_text(line, "embedding", text.failed ? NULL : text.bytes);
    buffer_done(&text);
}

static void write_floats(struct json_line *line, const struct task_text *item) {
    json_line_open(line, "embedding", '[');
    for (size_t i = 0; i < item->width; i++) {
        json_line_float(line, NULL, item->rows[i]);
    }
    json_line_close(line, ']');
}

static int64_t tokens_read(const struct call *call) {
    int64_t tokens = 0;
    for (size_t i = 0; i < call->count; i++) {
        tokens += call->items[i].tokens_read;
    }
    return tokens;
}

static void write(struct json_line *line, struct call *call) {
    json_line_open(line, NULL, '{');
    json_line_text(line, "object", "list");
    json_line_open(line, "data", '[');
    for (size_t i = 0; i < call->count; i++) {
        json_line_open(line, NULL, '{');
        json_line_text(line, "object", "embedding");
        json_line_integer(line, "index", (int64_t)i);
        (call->is_base64 ? write_base64 : write_floats)(line, &call->items[i]);
        json_line_close(line, '}');
    }
    json_line_close(line, ']');
    json_line_text(line, "model", call->model_name);
    json_line_open(line, "usage", '{');
    json_line_integer(line, "prompt_tokens", tokens_read(call));
    json_line_integer(line, "total_tokens", tokens_read(call));
    json_line_close(line, '}');
    json_line_close(line, '}');
}

const struct protocol protocol_openai = {
    .read = read, .write = write, .task = "feature-extraction"};
