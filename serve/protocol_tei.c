// SPDX-License-Identifier: Apache-2.0
// text-embeddings-inference's /embed, /predict and /rerank. Replies are lists; of /embed always one
// of embeddings, of /predict one of classes for a single input, of /rerank one of texts by score.
#include "core/memory.h"
#include "serve/protocols.h"

#include <stdio.h>
#include <stdlib.h>

// Texts are truncated at their end, or not at all.
static enum berth_status check_truncation(struct call *call, struct berth_error *error) {
    TRY(call_read_member(call, "truncation_direction", call_read_right, error));
    return call_read_member(call, "truncate", call_read_truncation, error);
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
        .read = {"inputs", "truncate", "truncation_direction", "normalize", "dimensions", "model"},
        .refused = {"prompt_name"}};
    const json *inputs = json_member(call->document, "inputs");
    char where[64] = "inputs";
    TRY(call_check_members(call, &known, error));
    TRY(check_truncation(call, error));
    call->settings.normalize = 1;
    TRY(call_read_member(call, "normalize", call_read_normalize, error));
    TRY(call_read_member(call, "dimensions", call_read_dimensions, error));
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
static enum berth_status read_texts(struct task_text *item, const json *value, const char *where,
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
    call->settings.score = is_raw ? BERTH_SCORE_NONE : BERTH_SCORE_USUAL;
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

// --- /rerank -------------------------------------------------------------------------------------

static enum berth_status read_top(struct call *call, const char *where, const json *value,
                                  struct berth_error *error) {
    return call_read_number(where, value, INT64_MAX, &call->settings.top, error);
}

static enum berth_status read_return_text(struct call *call, const char *where, const json *value,
                                          struct berth_error *error) {
    return call_read_boolean(where, value, &call->has_texts, error);
}

// top_n is not in text-embeddings-inference, but LiteLLM sends it.
static enum berth_status read_ranking(struct call *call, struct berth_error *error) {
    static const struct call_members known = {.read = {"query", "texts", "truncate",
                                                       "truncation_direction", "raw_scores",
                                                       "return_text", "top_n", "model"}};
    TRY(call_check_members(call, &known, error));
    TRY(check_truncation(call, error));
    TRY(call_read_member(call, "raw_scores", read_raw_scores, error));
    TRY(call_read_member(call, "return_text", read_return_text, error));
    TRY(call_read_member(call, "top_n", read_top, error));
    if (call->settings.score == BERTH_SCORE_USUAL) {
        call->settings.score = BERTH_SCORE_SIGMOID;
    }
    return BERTH_OK;
}

static enum berth_status read_rerank(struct call *call, struct berth_error *error) {
    const json *query = json_member(call->document, "query");
    const json *texts = json_member(call->document, "texts");
    char where[64];
    TRY(read_ranking(call, error));
    call->is_list = 1;
    if (!json_is_array_value(texts) || json_length(texts) == 0) {
        return error_set(error, BERTH_USAGE, "texts: expected a list of strings");
    }
    TRY(call_make_items(call, json_length(texts), error));
    for (size_t i = 0; i < call->count; i++) {
        snprintf(where, sizeof where, "texts[%zu]", i);
        TRY(call_set_text(&call->items[i], 1, json_at(texts, i), where, error));
        TRY(call_set_text(&call->items[i], 0, query, "query", error));
    }
    return BERTH_OK;
}

struct ranked {
    const struct task_text *item;
    size_t index;
};

// In descending order of scores; equal scores in the order of the request.
static int compare_ranked(const void *left, const void *right) {
    const struct ranked *a = left, *b = right;
    const float one = a->item->rows[0], other = b->item->rows[0];
    return one != other ? (one < other ? 1 : -1) : (a->index > b->index) - (a->index < b->index);
}

static void write_ranked(struct json_line *line, const struct call *call,
                         const struct ranked *ranked) {
    json_line_open(line, NULL, '{');
    json_line_integer(line, "index", (int64_t)ranked->index);
    if (call->has_texts) {
        json_line_text(line, "text", ranked->item->texts[1]);
    }
    json_line_float(line, "score", ranked->item->rows[0]);
    json_line_close(line, '}');
}

static void write_ranking(struct json_line *line, const struct call *call, struct ranked *ranked) {
    const size_t top = (size_t)call->settings.top;
    for (size_t i = 0; i < call->count; i++) {
        ranked[i] = (struct ranked){.item = &call->items[i], .index = i};
    }
    qsort(ranked, call->count, sizeof *ranked, compare_ranked);
    json_line_open(line, NULL, '[');
    for (size_t i = 0; i < call->count && (top == 0 || i < top); i++) {
        write_ranked(line, call, &ranked[i]);
    }
    json_line_close(line, ']');
}

static void write_rerank(struct json_line *line, struct call *call) {
    struct ranked *ranked = memory_array(call->count, sizeof *ranked);
    if (ranked != NULL) {
        write_ranking(line, call, ranked);
    }
    line->failed |= ranked == NULL;
    memory_free(ranked);
}

const struct protocol protocol_tei_rerank = {.read = read_rerank,
                                             .write = write_rerank,
                                             .task = "text-classification",
                                             .suits = task_has_one_score,
                                             .suited = " with a single label"};
