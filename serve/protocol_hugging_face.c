// SPDX-License-Identifier: Apache-2.0
// Hugging Face's inference API: {"inputs": one or a list, "parameters": {...}}, with the names of
// huggingface.js (topK) or of transformers' pipelines (top_k).
//
// Parameters may also be beside the inputs, where Hugging Face's client for Python has those of
// feature-extraction. A parameter that is fixed when a model is opened must have the same value
// here; another value is refused, because it would have no effect. So is a parameter of Hugging
// Face's that is not supported, because the reply would be another with it.
#include "core/options.h"
#include "serve/protocols.h"

#include <stdio.h>
#include <string.h>

#define TOP_MAX 100

// --- parameters ----------------------------------------------------------------------------------

static enum berth_status read_top(struct call *call, const char *key, const json *value,
                                  struct berth_error *error) {
    return call_read_number(key, value, TOP_MAX, &call->settings.top, error);
}

static enum berth_status read_impossible(struct call *call, const char *key, const json *value,
                                         struct berth_error *error) {
    return call_read_boolean(key, value, &call->settings.with_no_answer, error);
}

static enum berth_status read_alignment(struct call *call, const char *key, const json *value,
                                        struct berth_error *error) {
    return call_read_boolean(key, value, &call->settings.whole_words, error);
}

static enum berth_status read_unit(struct call *call, const char *key, const json *value,
                                   struct berth_error *error) {
    static const char *const names[] = {
        [OFFSET_BYTES] = "bytes", [OFFSET_CODE_POINTS] = "code_points", [OFFSET_UTF16] = "utf16"};
    for (size_t i = 0; i < sizeof names / sizeof *names && json_is_text(value); i++) {
        if (strcmp(json_text(value), names[i]) == 0) {
            call->settings.unit = (enum offset_unit)i;
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_USAGE, "%s: expected \"code_points\", \"utf16\" or \"bytes\"",
                     key);
}

static enum berth_status require_same(struct call *call, const char *key, const json *value,
                                      const char *option, struct berth_error *error) {
    const struct option_row *row = option_find(option);
    const int64_t own = *(const int64_t *)((const char *)&call->instance->config + row->offset);
    return json_is_integer_value(value) && json_as_integer(value) == own
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "%s: this server has %lld; start it with --%s for another "
                           "value",
                           key, (long long)own, option);
}

static enum berth_status read_stride(struct call *call, const char *key, const json *value,
                                     struct berth_error *error) {
    return require_same(call, key, value, "doc_stride", error);
}

static enum berth_status read_answer_length(struct call *call, const char *key, const json *value,
                                            struct berth_error *error) {
    return call_read_number(key, value, call->instance->max_tokens, &call->settings.answer_length,
                            error);
}

// transformers' function_to_apply.
static enum berth_status read_score(struct call *call, const char *key, const json *value,
                                    struct berth_error *error) {
    static const char *const names[] = {[BERTH_SCORE_NONE] = "none",
                                        [BERTH_SCORE_SIGMOID] = "sigmoid",
                                        [BERTH_SCORE_SOFTMAX] = "softmax"};
    for (int i = BERTH_SCORE_NONE; i <= BERTH_SCORE_SOFTMAX && json_is_text(value); i++) {
        if (strcmp(json_text(value), names[i]) == 0) {
            call->settings.score = (enum berth_score)i;
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_USAGE, "%s: expected \"none\", \"sigmoid\" or \"softmax\"", key);
}

static enum berth_status read_length(struct call *call, const char *key, const json *value,
                                     struct berth_error *error) {
    return require_same(call, key, value, "max_seq_length", error);
}

static enum berth_status read_question_length(struct call *call, const char *key, const json *value,
                                              struct berth_error *error) {
    return require_same(call, key, value, "max_query_length", error);
}

// transformers' aggregation_strategy. Words have one label each, so "simple" and "first" are the
// same, and what the others compute of the labels of pieces is not known.
static enum berth_status read_strategy(struct call *call, const char *key, const json *value,
                                       struct berth_error *error) {
    static const char *const names[] = {"simple", "first", "none"};
    for (size_t i = 0; i < sizeof names / sizeof *names && json_is_text(value); i++) {
        if (strcmp(json_text(value), names[i]) == 0) {
            call->settings.aggregation =
                strcmp(names[i], "none") == 0 ? AGGREGATE_NONE : AGGREGATE_FIRST;
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_USAGE, "%s: expected \"simple\", \"first\" or \"none\"", key);
}

static const struct parameter {
    const char *names[3];
    const char *task;
    call_reader *read; // NULL: not supported
} parameter_rows[] = {
    {{"top_k", "topK", "topk"}, "question-answering", read_top},
    {{"doc_stride", "docStride"}, "question-answering", read_stride},
    {{"max_answer_len", "maxAnswerLen"}, "question-answering", read_answer_length},
    {{"max_seq_len", "maxSeqLen"}, "question-answering", read_length},
    {{"max_question_len", "maxQuestionLen"}, "question-answering", read_question_length},
    {{"handle_impossible_answer", "handleImpossibleAnswer"}, "question-answering", read_impossible},
    {{"align_to_words", "alignToWords"}, "question-answering", read_alignment},
    {{"offset_unit", "offsetUnit"}, "question-answering", read_unit},
    {{"top_k", "topK"}, "text-classification", read_top},
    {{"function_to_apply", "functionToApply"}, "text-classification", read_score},
    {{"truncate", "truncation"}, "text-classification", call_read_truncation},
    {{"candidate_labels", "candidateLabels"}, "text-classification", NULL},
    {{"aggregation_strategy", "aggregationStrategy"}, "token-classification", read_strategy},
    {{"offset_unit", "offsetUnit"}, "token-classification", read_unit},
    {{"ignore_labels", "ignoreLabels"}, "token-classification", NULL},
    {{"stride"}, "token-classification", NULL},
    {{"top_k", "topK"}, "fill-mask", read_top},
    {{"truncate", "truncation"}, "fill-mask", call_read_truncation},
    {{"targets"}, "fill-mask", NULL},
    {{"normalize"}, "feature-extraction", call_read_normalize},
    {{"dimensions"}, "feature-extraction", call_read_dimensions},
    {{"truncate", "truncation"}, "feature-extraction", call_read_truncation},
    {{"truncation_direction"}, "feature-extraction", call_read_right},
    {{"prompt_name"}, "feature-extraction", NULL},
};

static const struct parameter *find_parameter(const char *key, const struct task_row *task) {
    for (size_t i = 0; i < sizeof parameter_rows / sizeof *parameter_rows; i++) {
        const struct parameter *row = &parameter_rows[i];
        for (size_t n = 0; n < 3 && row->names[n] != NULL; n++) {
            if (strcmp(row->names[n], key) == 0 && strcmp(row->task, task->about.pipeline) == 0) {
                return row;
            }
        }
    }
    return NULL;
}

// `parent` is "parameters." or "".
static enum berth_status read_parameter(struct call *call, const char *parent, const char *key,
                                        const json *value, struct berth_error *error) {
    const struct parameter *row = find_parameter(key, call->instance->task);
    char where[64];
    if (row == NULL) {
        return call_ignore(call, parent, key, error);
    }
    snprintf(where, sizeof where, "%s%s", parent, key);
    return row->read != NULL ? row->read(call, where, value, error)
                             : call_refuse_unsupported(where, error);
}

static enum berth_status read_parameters(struct call *call, struct berth_error *error) {
    const json *parameters = call_member(call, "parameters");
    struct json_walk walk = {.object = parameters};
    if (parameters != NULL && !json_is_object_value(parameters)) {
        return error_set(error, BERTH_USAGE, "parameters: expected an object");
    }
    while (json_walk_next(&walk)) {
        TRY(read_parameter(call, "parameters.", walk.key, walk.value, error));
    }
    return BERTH_OK;
}

// Whether the request has a member of this name that is no parameter. The options are about
// scheduling at Hugging Face.
static int is_request_member(const struct call *call, const char *key) {
    static const char *const names[] = {"inputs", "parameters", "options", "model"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], key) == 0) {
            return 1;
        }
    }
    return call_member(call, "inputs") == NULL && task_has_field(call->instance->task, key);
}

static enum berth_status read_parameters_beside(struct call *call, struct berth_error *error) {
    struct json_walk walk = {.object = call->document};
    while (json_walk_next(&walk)) {
        if (!is_request_member(call, walk.key)) {
            TRY(read_parameter(call, "", walk.key, walk.value, error));
        }
    }
    return BERTH_OK;
}

// --- inputs --------------------------------------------------------------------------------------

static enum berth_status read_fields(const struct task_row *task, struct task_text *item,
                                     const json *value, const char *where,
                                     struct berth_error *error) {
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

static enum berth_status check_fields(struct call *call, const json *value, const char *where,
                                      struct berth_error *error) {
    struct json_walk walk = {.object = value};
    char parent[72];
    snprintf(parent, sizeof parent, "%s.", where);
    while (json_walk_next(&walk)) {
        if (!task_has_field(call->instance->task, walk.key)) {
            TRY(call_ignore(call, parent, walk.key, error));
        }
    }
    return BERTH_OK;
}

static enum berth_status read_item(const struct task_row *task, struct task_text *item,
                                   const json *value, const char *where,
                                   struct berth_error *error) {
    if (json_is_object_value(value)) {
        return read_fields(task, item, value, where, error);
    }
    return !task->about.needs_pair
               ? call_set_text(item, 0, value, where, error)
               : error_set(error, BERTH_USAGE, "%s: expected an object with %s and %s", where,
                           task->about.text, task->about.pair);
}

// A cosine does not depend on lengths, so "normalize" is ignored, too.
static enum berth_status check_similarity(struct call *call, const json *inputs,
                                          struct berth_error *error) {
    struct json_walk walk = {.object = inputs};
    while (json_walk_next(&walk)) {
        if (strcmp(walk.key, "source_sentence") != 0 && strcmp(walk.key, "sentences") != 0) {
            TRY(call_ignore(call, "inputs.", walk.key, error));
        }
    }
    return call->settings.normalize >= 0 ? call_ignore(call, "", "normalize", error) : BERTH_OK;
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
    TRY(check_similarity(call, inputs, error));
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
    const json *inputs = json_member(call->document, "inputs");
    const struct task_row *task = call->instance->task;
    char where[64] = "inputs";
    const int is_unwrapped = inputs == NULL; // as transformers' pipelines take them
    if (is_unwrapped) {
        inputs = json_member(call->document, task->about.text) != NULL ? call->document : NULL;
    }
    if (inputs == NULL) {
        return error_set(error, BERTH_USAGE, "the request has no \"inputs\"");
    }
    TRY(read_parameters_beside(call, error));
    TRY(read_parameters(call, error));
    if (strcmp(task->about.name, "embed") == 0 && json_member(inputs, "source_sentence") != NULL) {
        return read_similarity(call, inputs, error);
    }
    call->is_list = json_is_array_value(inputs);
    const size_t count = call->is_list ? json_length(inputs) : 1;
    if (count == 0) {
        return error_set(error, BERTH_USAGE, "inputs: the list is empty");
    }
    TRY(call_make_items(call, count, error));
    for (size_t i = 0; i < count; i++) {
        if (call->is_list) {
            snprintf(where, sizeof where, "inputs[%zu]", i);
        }
        const json *input = call->is_list ? json_at(inputs, i) : inputs;
        if (!is_unwrapped) {
            TRY(check_fields(call, input, where, error));
        }
        TRY(read_item(task, &call->items[i], input, where, error));
    }
    return BERTH_OK;
}

static float product(const struct task_text *one, const struct task_text *other) {
    double sum = 0;
    for (size_t i = 0; i < one->width; i++) {
        sum += (double)one->rows[i] * other->rows[i];
    }
    return (float)sum;
}

static void write_similarities(struct json_line *line, const struct call *call) {
    json_line_open(line, NULL, '[');
    for (size_t i = 1; i < call->count; i++) {
        json_line_float(line, NULL, product(&call->items[0], &call->items[i]));
    }
    json_line_close(line, ']');
}

static void write(struct json_line *line, struct call *call) {
    if (call->is_similarity) {
        write_similarities(line, call);
        return;
    }
    const int is_list = call->is_list || call->instance->task->is_listed;
    if (is_list) {
        json_line_open(line, NULL, '[');
    }
    for (size_t i = 0; i < call->count; i++) {
        call->instance->task->write(line, call->instance, &call->items[i]);
    }
    if (is_list) {
        json_line_close(line, ']');
    }
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
