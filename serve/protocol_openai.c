// SPDX-License-Identifier: Apache-2.0
// OpenAI's embeddings: {"input": one or a list, "model": NAME, "encoding_format": ...}. They have
// length 1 whatever the model says: clients compare them by their products. Called by call.c, which
// has read the JSON.
#include "core/base64.h"
#include "serve/protocols.h"

// Clients that send numbers made them with another tokenizer, OpenAI's.
static enum berth_status read_text(struct call *call, struct task_text *item, const json *value,
                                   const char *where, struct berth_error *error) {
    return !json_is_number_value(value) && !json_is_array_value(value)
               ? call_set_text(item, 0, value, where, error)
               : error_set(error, BERTH_USAGE,
                           "%s: expected a string; token ids are not supported (LangChain: "
                           "check_embedding_ctx_length=False)",
                           where);
}

static enum berth_status read(struct call *call, struct berth_error *error) {
    const json *input = call_member(call, "input");
    call->settings.normalize = 1;
    TRY(members_read(call, "", call->document, "input model", error));
    call->is_list = json_is_array_value(input);
    return json_is_text(input) || (call->is_list && json_length(input) > 0)
               ? call_read_items(call, "input", input, read_text, error)
               : error_set(error, BERTH_USAGE, "input: expected a string or a list of strings");
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
    call_write_usage(line, call);
    json_line_close(line, '}');
}

const struct protocol protocol_openai = {
    .read = read,
    .write = write,
    .members = "encoding_format dimensions user prompt_name prompt overflow",
    .task = "feature-extraction"};
