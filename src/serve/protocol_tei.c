// SPDX-License-Identifier: Apache-2.0
// text-embeddings-inference's /embed and /predict. Replies are lists; of /embed always one of
// embeddings, of /predict one of classes for a single input.
#include "serve/protocols.h"

#include <stdio.h>

// Texts are always truncated to the model's length, at their end.
static enum berth_status check_truncation(struct call *call, struct berth_error *error) {
    TRY(call_read_member(call, "truncation_direction", call_read_right, error));
    return call_read_member(call, "truncate", call_read_true, error);
}

static enum berth_status count_inputs(struct call *call, const json *inputs,
                                      struct berth_error *error) {
    const int is_given = json_is_text(inputs) || json_length(inputs) > 0;
    return is_given && !json_is_object_value(inputs)
               ? call_make_items(call, call->is_list ? json_length(inputs) : 1, error)
               : error_set(error, BERTH_USAGE, "inputs: expected a string or a list of strings");
}

// --- /embed --------------------------------------------------------------------------------------

static enum berth_status read_embed(struct call *call, struct berth_error *error) {
    static const struct call_members known = {
        .read = {"inputs", "truncate", "truncation_direction", "normalize", "model"},
        .refused = {"dimensions", "prompt_name"}};
    const json *inputs = json_member(call->document, "inputs");
    char where[64] = "inputs";
    TRY(call_check_members(call, &known, error));
    TRY(check_truncation(call, error));
    call->parameters.normalize = 1;
    TRY(call_read_member(call, "normalize", call_read_normalize, error));
    call->is_list = json_is_array_value(inputs);
    TRY(count_inputs(call, inputs, error));
    for (size_t i = 0; i < call->count; i++) {
        if (call->is_list) {
            snprintf(where, sizeof where, "inputs[%zu]", i);
        }
        TRY(call_set_text(&call->items[i], 0, call->is_list ? json_at(inputs, i) : inputs, where,
                          error));
    }
    return BERTH_OK;
}

static void write_list(struct json_line *line, struct call *call) {
    json_line_open(line, NULL, '[');
    for (size_t i = 0; i < call->count; i++) {
        call->instance->task->write(line, call->instance, &call->items[i]);
    }
    json_line_close(line, ']');
}

const struct protocol protocol_tei_embed = {
    .read = read_embed, .write = write_list, .task = "feature-extraction"};

// --- /predict ------------------------------------------------------------------------------------

// A text, or a list of a text and its pair.
static enum berth_status read_texts(struct item *item, const json *value, const char *where,
                                    struct berth_error *error) {
    char element[96];
    if (!json_is_array_value(value)) {
        return call_set_text(item, 0, value, where, error);
    }
    if (json_length(value) < 1 || json_length(value) > 2) {
        return error_set(error, BERTH_USAGE, "%s: expected one text or two", where);
    }
    // The second one first, as in protocol_hugging_face.c.
    for (size_t i = json_length(value); i-- > 0;) {
        snprintf(element, sizeof element, "%s[%zu]", where, i);
        TRY(call_set_text(item, i, json_at(value, i), element, error));
    }
    return BERTH_OK;
}

static enum berth_status read_raw_scores(struct call *call, const char *where, const json *value,
                                         struct berth_error *error) {
    int is_raw = 0;
    TRY(call_read_boolean(where, value, &is_raw, error));
    call->parameters.score = is_raw ? BERTH_SCORE_NONE : BERTH_SCORE_USUAL;
    return BERTH_OK;
}

static enum berth_status read_predict(struct call *call, struct berth_error *error) {
    static const struct call_members known = {
        .read = {"inputs", "truncate", "truncation_direction", "raw_scores", "model"}};
    const json *inputs = json_member(call->document, "inputs");
    char where[64] = "inputs";
    TRY(call_check_members(call, &known, error));
    TRY(check_truncation(call, error));
    TRY(call_read_member(call, "raw_scores", read_raw_scores, error));
    // A list of texts is one text with its pair; only a list of lists is several.
    call->is_list = json_is_array_value(json_at(inputs, 0));
    TRY(count_inputs(call, inputs, error));
    for (size_t i = 0; i < call->count; i++) {
        if (call->is_list) {
            snprintf(where, sizeof where, "inputs[%zu]", i);
        }
        const json *input = call->is_list ? json_at(inputs, i) : inputs;
        if (call->is_list && !json_is_array_value(input)) {
            return error_set(error, BERTH_USAGE, "%s: expected a list of one text or two", where);
        }
        TRY(read_texts(&call->items[i], input, where, error));
    }
    return BERTH_OK;
}

static void write_predict(struct json_line *line, struct call *call) {
    if (call->is_list) {
        write_list(line, call);
    } else {
        call->instance->task->write(line, call->instance, &call->items[0]);
    }
}

const struct protocol protocol_tei_predict = {
    .read = read_predict, .write = write_predict, .task = "text-classification"};
