// SPDX-License-Identifier: Apache-2.0
// text-embeddings-inference's /embed, /embed_all, /embed_sparse and /predict. Replies are lists; of
// /embed always one of embeddings, of /embed_all one of lists of the tokens' vectors, of
// /embed_sparse one of lists of words, of /predict one of classes for a single input. Called by
// call.c, which has read the JSON.
#include "core/memory.h"
#include "serve/protocols.h"

#include <stdio.h>
#include <stdlib.h>

static enum berth_status read_inputs(struct call *call, item_reader *read,
                                     struct berth_error *error) {
    const json *inputs = call_member(call, "inputs");
    return json_is_text(inputs) || (json_is_array_value(inputs) && json_length(inputs) > 0)
               ? call_read_items(call, "inputs", inputs, read, error)
               : error_set(error, BERTH_USAGE, "inputs: expected a string or a list of strings");
}

// --- /embed --------------------------------------------------------------------------------------

static enum berth_status read_text(struct call *call, struct task_text *item, const json *value,
                                   const char *where, struct berth_error *error) {
    return call_set_text(item, 0, value, where, error);
}

static enum berth_status read_embed(struct call *call, struct berth_error *error) {
    call->settings.normalize = 1;
    call->is_list = json_is_array_value(call_member(call, "inputs"));
    TRY(members_read(call, "", call->document, "inputs model", error));
    return read_inputs(call, read_text, error);
}

static void write_list(struct json_line *line, struct call *call) {
    call_write_items(line, call, 1);
}

const struct protocol protocol_tei_embed = {
    .read = read_embed,
    .write = write_list,
    .members = "truncate truncation_direction normalize dimensions prompt_name prompt overflow",
    .task = "feature-extraction"};

// --- /embed_all and /embed_sparse ----------------------------------------------------------------

static enum berth_status read_lists(struct call *call, struct berth_error *error) {
    call->is_list = json_is_array_value(call_member(call, "inputs"));
    TRY(members_read(call, "", call->document, "inputs model", error));
    return read_inputs(call, read_text, error);
}

const struct protocol protocol_tei_embed_all = {
    .read = read_lists,
    .write = write_list,
    .members = "truncate truncation_direction prompt_name prompt",
    .task = "feature-extraction",
    .runs = "embed_tokens"};

static int compare_words(const void *left, const void *right) {
    const struct berth_item *a = left, *b = right;
    return (a->id > b->id) - (a->id < b->id);
}

// The words are ordered by their ids, as in text-embeddings-inference.
static void write_sparse(struct json_line *line, struct call *call) {
    json_line_open(line, NULL, '[');
    for (size_t i = 0; i < call->count; i++) {
        struct task_text *item = &call->items[i];
        json_line_open(line, NULL, '[');
        if (item->item_count > 0) {
            qsort(item->items, item->item_count, sizeof *item->items, compare_words);
        }
        for (size_t k = 0; k < item->item_count; k++) {
            json_line_open(line, NULL, '{');
            json_line_integer(line, "index", item->items[k].id);
            json_line_float(line, "value", (float)item->items[k].score);
            json_line_close(line, '}');
        }
        json_line_close(line, ']');
    }
    json_line_close(line, ']');
}

const struct protocol protocol_tei_embed_sparse = {
    .read = read_lists,
    .write = write_sparse,
    .members = "truncate truncation_direction prompt_name prompt",
    .task = "fill-mask and sparse-embedding",
    .runs = "embed_sparse"};

// --- /predict ------------------------------------------------------------------------------------

// A text, or a list of a text and its pair.
static enum berth_status read_texts(struct call *call, struct task_text *item, const json *value,
                                    const char *where, struct berth_error *error) {
    char element[96];
    if (!json_is_array_value(value)) {
        return !call->is_list ? call_set_text(item, 0, value, where, error)
                              : error_set(error, BERTH_USAGE,
                                          "%s: expected one text, or a pair of texts", where);
    }
    if (json_length(value) < 1 || json_length(value) > 2) {
        return error_set(error, BERTH_USAGE, "%s: expected one text, or a pair of texts", where);
    }
    // The second one first, as in protocol_hugging_face.c.
    for (size_t i = json_length(value); i-- > 0;) {
        snprintf(element, sizeof element, "%s[%zu]", where, i);
        TRY(call_set_text(item, i, json_at(value, i), element, error));
    }
    return BERTH_OK;
}

static enum berth_status read_predict(struct call *call, struct berth_error *error) {
    TRY(members_read(call, "", call->document, "inputs model", error));
    // A list of texts is one text with its pair; only a list of lists is several.
    call->is_list = json_is_array_value(json_at(call_member(call, "inputs"), 0));
    return read_inputs(call, read_texts, error);
}

static void write_predict(struct json_line *line, struct call *call) {
    call_write_items(line, call, call->is_list);
}

const struct protocol protocol_tei_predict = {.read = read_predict,
                                              .write = write_predict,
                                              .members = "truncate truncation_direction raw_scores",
                                              .task = "text-classification"};
