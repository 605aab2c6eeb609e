// SPDX-License-Identifier: Apache-2.0
// Texts by their score for a query, in two forms. text-embeddings-inference's has "texts", and its
// reply is a list; that of Cohere, Jina and vLLM has "documents", and its reply is an object.
// Called by call.c, which has read the JSON.
#include "core/memory.h"
#include "serve/protocols.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

// --- requests ------------------------------------------------------------------------------------

static enum berth_status read_text(struct call *call, struct task_text *item, const json *value,
                                   const char *where, struct berth_error *error) {
    TRY(call_set_text(item, 1, value, where, error));
    return call_set_text(item, 0, call_member(call, "query"), "query", error);
}

// A text, or an object that has it, perhaps beside fields that are not read.
static enum berth_status read_document(struct call *call, struct task_text *item, const json *value,
                                       const char *where, struct berth_error *error) {
    struct json_walk walk = {.object = value};
    char name[72];
    snprintf(name, sizeof name, "%s.", where);
    while (json_walk_next(&walk)) {
        if (strcmp(walk.key, "text") != 0) {
            TRY(members_ignore(call, name, walk.key, error));
        }
    }
    if (!json_is_object_value(value)) {
        return read_text(call, item, value, where, error);
    }
    snprintf(name, sizeof name, "%s.text", where);
    return read_text(call, item, json_member(value, "text"), name, error);
}

static enum berth_status read(struct call *call, struct berth_error *error) {
    const json *texts = call_member(call, "texts"), *documents = call_member(call, "documents");
    const json *list = documents != NULL ? documents : texts;
    const char *name = documents != NULL ? "documents" : "texts";
    if ((texts != NULL) == (documents != NULL)) {
        return error_set(error, BERTH_USAGE,
                         "the request has %s; expected \"documents\" (as for Cohere and Jina) or "
                         "\"texts\" (as for text-embeddings-inference)",
                         texts != NULL ? "both \"documents\" and \"texts\""
                                       : "neither \"documents\" nor \"texts\"");
    }
    TRY(members_read(call, "", call->document, "query texts documents model", error));
    if (call->settings.score == BERTH_SCORE_USUAL) {
        call->settings.score = BERTH_SCORE_SIGMOID;
    }
    call->has_documents = documents != NULL;
    call->is_list = 1;
    return json_is_array_value(list) && json_length(list) > 0
               ? call_read_items(call, name, list, documents != NULL ? read_document : read_text,
                                 error)
               : error_set(error, BERTH_USAGE, "%s: expected a list of strings%s", name,
                           documents != NULL ? " or of objects with \"text\"" : "");
}

// --- replies -------------------------------------------------------------------------------------

static void write_text(struct json_line *line, const struct call *call,
                       const struct task_ranked *ranked) {
    json_line_open(line, NULL, '{');
    json_line_integer(line, "index", (int64_t)ranked->index);
    if (call->has_texts) {
        json_line_text(line, "text", call->items[ranked->index].texts[1]);
    }
    json_line_float(line, "score", ranked->score);
    json_line_close(line, '}');
}

static void write_document(struct json_line *line, const struct call *call,
                           const struct task_ranked *ranked) {
    json_line_open(line, NULL, '{');
    json_line_integer(line, "index", (int64_t)ranked->index);
    json_line_float(line, "relevance_score", ranked->score);
    if (call->has_texts) {
        json_line_open(line, "document", '{');
        json_line_text(line, "text", call->items[ranked->index].texts[1]);
        json_line_close(line, '}');
    }
    json_line_close(line, '}');
}

static void write_ranking(struct json_line *line, const char *key, const struct call *call,
                          struct task_ranked *ranked) {
    const size_t top = (size_t)call->settings.top;
    for (size_t i = 0; i < call->count; i++) {
        ranked[i] = (struct task_ranked){.index = i, .score = call->items[i].rows[0]};
    }
    task_rank(ranked, call->count);
    json_line_open(line, key, '[');
    for (size_t i = 0; i < call->count && (top == 0 || i < top); i++) {
        (call->has_documents ? write_document : write_text)(line, call, &ranked[i]);
    }
    json_line_close(line, ']');
}

static void write_object(struct json_line *line, const struct call *call,
                         struct task_ranked *ranked) {
    static atomic_ullong replies; // each has an id of its own
    char id[40];
    snprintf(id, sizeof id, "rerank-%llu", atomic_fetch_add(&replies, 1) + 1);
    json_line_open(line, NULL, '{');
    json_line_text(line, "id", id);
    json_line_text(line, "model", call->model_name);
    write_ranking(line, "results", call, ranked);
    call_write_usage(line, call);
    // Cohere's reply describes the request in "meta".
    const int is_second = strncmp(call->request->path, "/v2/", strlen("/v2/")) == 0;
    json_line_open(line, "meta", '{');
    json_line_open(line, "api_version", '{');
    json_line_text(line, "version", is_second ? "2" : "1");
    json_line_close(line, '}');
    json_line_open(line, "tokens", '{');
    json_line_integer(line, "input_tokens", call_tokens_read(call));
    json_line_close(line, '}');
    json_line_close(line, '}');
    json_line_close(line, '}');
}

static void write(struct json_line *line, struct call *call) {
    struct task_ranked *ranked = memory_array(call->count, sizeof *ranked);
    if (ranked != NULL && call->has_documents) {
        write_object(line, call, ranked);
    } else if (ranked != NULL) {
        write_ranking(line, NULL, call, ranked);
    }
    line->failed |= ranked == NULL;
    memory_free(ranked);
}

const struct protocol protocol_rerank = {
    .read = read,
    .write = write,
    .members = "truncate truncation_direction raw_scores return_text return_documents top_n "
               "max_tokens_per_doc max_chunks_per_doc rank_fields",
    .task = "text-classification",
    .suits = task_has_one_score,
    .suited = " with a single label"};
