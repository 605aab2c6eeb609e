// SPDX-License-Identifier: Apache-2.0
// Hugging Face's inference API: {"inputs": one or a list, "parameters": {...}}, with the names of
// huggingface.js (topK) or of transformers' pipelines (top_k).
//
// Parameters may also be beside the inputs, where Hugging Face's client for Python has those of
// feature-extraction, and without "inputs" the fields of one, as transformers' pipelines take them.
// Called by call.c, which has read the JSON.
#include "serve/protocols.h"

#include <stdio.h>
#include <string.h>

// The options are about scheduling at Hugging Face.
static enum berth_status read_parameters(struct call *call, struct berth_error *error) {
    const json *parameters = call_member(call, "parameters");
    const struct task_row *task = call->instance->task;
    const int has_inputs = call_member(call, "inputs") != NULL;
    char others[128];
    snprintf(others, sizeof others, "inputs parameters options model %s %s",
             has_inputs ? "" : task->about.text,
             has_inputs || task->about.pair == NULL ? "" : task->about.pair);
    TRY(members_read(call, "", call->document, others, error));
    return parameters == NULL || json_is_object_value(parameters)
               ? members_read(call, "parameters.", parameters, NULL, error)
               : error_set(error, BERTH_USAGE, "parameters: expected an object");
}

// --- inputs --------------------------------------------------------------------------------------

static enum berth_status read_item(struct call *call, struct task_text *item, const json *value,
                                   const char *where, struct berth_error *error) {
    const struct task_row *task = call->instance->task;
    struct json_walk walk = {.object = value == call->document ? NULL : value};
    char parent[72];
    snprintf(parent, sizeof parent, "%s.", where);
    while (json_walk_next(&walk)) {
        if (!task_has_field(task, walk.key)) {
            TRY(members_ignore(call, parent, walk.key, error));
        }
    }
    if (json_is_object_value(value)) {
        char name[128];
        for (size_t i = 2; i-- > 0;) { // the second one first: the limit of the first depends on it
            const char *field = task_field(task, i);
            const json *text = field != NULL ? json_member(value, field) : NULL;
            if (text == NULL && (field == NULL || (i == 1 && !task->about.needs_pair))) {
                continue;
            }
            snprintf(name, sizeof name, "%s.%s", where, field);
            TRY(call_set_text(item, i, text, name, error));
        }
        return BERTH_OK;
    }
    return !task->about.needs_pair
               ? call_set_text(item, 0, value, where, error)
               : error_set(error, BERTH_USAGE, "%s: expected an object with %s and %s", where,
                           task->about.text, task->about.pair);
}

// The task sentence-similarity, of a model for embeddings. The first item is the source.
static enum berth_status read_similarity(struct call *call, const json *inputs,
                                         struct berth_error *error) {
    const json *source = json_member(inputs, "source_sentence");
    const json *sentences = json_member(inputs, "sentences");
    char where[64];
    if (!json_is_array_value(sentences) || json_length(sentences) == 0) {
        return error_set(error, BERTH_USAGE,
                         "inputs: expected source_sentence and sentences, a list");
    }
    // A cosine does not depend on lengths, so "normalize" is ignored, too.
    struct json_walk walk = {.object = inputs};
    while (json_walk_next(&walk)) {
        if (strcmp(walk.key, "source_sentence") != 0 && strcmp(walk.key, "sentences") != 0) {
            TRY(members_ignore(call, "inputs.", walk.key, error));
        }
    }
    if (call->settings.normalize >= 0) {
        TRY(members_ignore(call, "", "normalize", error));
    }
    call->is_similarity = 1;
    call->settings.normalize = 1; // products of such vectors are cosines
    TRY(call_make_items(call, 1 + json_length(sentences), error));
    TRY(call_set_text(&call->items[0], 0, source, "inputs.source_sentence", error));
    for (size_t i = 1; i < call->count; i++) {
        snprintf(where, sizeof where, "inputs.sentences[%zu]", i - 1);
        TRY(call_set_text(&call->items[i], 0, json_at(sentences, i - 1), where, error));
    }
    return BERTH_OK;
}

static enum berth_status read(struct call *call, struct berth_error *error) {
    const json *inputs = call_member(call, "inputs");
    const struct task_row *task = call->instance->task;
    if (inputs == NULL && call_member(call, task->about.text) != NULL) {
        inputs = call->document;
    }
    if (inputs == NULL) {
        return error_set(error, BERTH_USAGE, "the request has no \"inputs\"");
    }
    TRY(read_parameters(call, error));
    if (strcmp(task->about.name, "embed") == 0 && json_member(inputs, "source_sentence") != NULL) {
        return read_similarity(call, inputs, error);
    }
    call->is_list = json_is_array_value(inputs);
    return !call->is_list || json_length(inputs) > 0
               ? call_read_items(call, "inputs", inputs, read_item, error)
               : error_set(error, BERTH_USAGE, "inputs: the list is empty");
}

static void write(struct json_line *line, struct call *call) {
    if (call->is_similarity) {
        json_line_open(line, NULL, '[');
        for (size_t i = 1; i < call->count; i++) {
            double sum = 0;
            for (size_t k = 0; k < call->items[0].width; k++) {
                sum += (double)call->items[0].rows[k] * call->items[i].rows[k];
            }
            json_line_float(line, NULL, (float)sum);
        }
        json_line_close(line, ']');
        return;
    }
    const int is_alone = call->settings.candidate_labels != NULL; // as transformers' pipeline
    call_write_items(line, call, call->is_list || (call->instance->task->is_listed && !is_alone));
}

const struct protocol protocol_hugging_face = {.read = read, .write = write};

static enum berth_status read_similarity_alone(struct call *call, struct berth_error *error) {
    return json_member(json_member(call->document, "inputs"), "source_sentence") != NULL
               ? read(call, error)
               : error_set(error, BERTH_USAGE,
                           "inputs: expected an object with source_sentence and sentences");
}

const struct protocol protocol_tei_similarity = {
    .read = read_similarity_alone, .write = write, .task = "feature-extraction"};
