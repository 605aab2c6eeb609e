// SPDX-License-Identifier: Apache-2.0
// The members of requests that set something, whatever the API. Leaves out inputs, which each
// protocol reads.
//
// A parameter that is fixed when a model is opened must have the same value here; another value is
// refused, because it would have no effect. So is a parameter that other servers have and this one
// does not, because the reply would be another with it. Called by the protocols for each member of
// a request that is no input.
#include "core/caseless.h"
#include "core/log.h"
#include "core/text_util.h"
#include "core/utf8.h"
#include "serve/call.h"
#include "settings/settings.h"

#include <stdio.h>
#include <string.h>

#define ANSWER "question-answering"
#define TAG "token-classification"
#define EMBED "feature-extraction"
#define TOP_MAX 100
#define FALSE_TRUE(no, yes) .words = {{"false", no}, {"true", yes}}

// --- members that set something ------------------------------------------------------------------

enum api { HUGGING_FACE, OTHERS };
enum kind { NUMBER, FLAG, WORD, CHOICE, LIST, RIGHT, TEXT, SAME, ENOUGH, REFUSED };

static const struct member {
    const char *names; // in all spellings, those of transformers and of huggingface.js
    enum api api;      // Hugging Face's, and others that name it; or only those
    enum kind kind;
    const char *setting; // of tasks (task_options) that it sets; NULL: `at`
    const char *task;    // without a setting, the one whose parameter it is at Hugging Face's
    size_t at;           // in struct call
    int64_t most;        // of a number; 0: as many as the model reads tokens
    struct {
        const char *word;
        int value;
    } words[5];         // that are expected
    const char *option; // whose value in this server is the only one
} rows[] = {
    {"top_k topK", HUGGING_FACE, NUMBER, .setting = "top", .most = TOP_MAX},
    {"top_n", OTHERS, NUMBER, .setting = "top", .most = INT64_MAX},
    {"max_answer_len maxAnswerLen", HUGGING_FACE, NUMBER, .setting = "max_answer_length"},
    {"dimensions", HUGGING_FACE, NUMBER, .setting = "dimensions", .most = INT64_MAX},
    {"handle_impossible_answer handleImpossibleAnswer", HUGGING_FACE, FLAG,
     .setting = "version_2_with_negative", FALSE_TRUE(0, 1)},
    {"align_to_words alignToWords", HUGGING_FACE, FLAG, .setting = "align_to_words",
     FALSE_TRUE(0, 1)},
    {"normalize", HUGGING_FACE, FLAG, .setting = "normalize", FALSE_TRUE(0, 1)},
    {"truncate truncation", HUGGING_FACE, FLAG, .setting = "overflow", FALSE_TRUE(1, 0)},
    {"overflow", HUGGING_FACE, CHOICE, .setting = "overflow"},
    {"raw_scores", OTHERS, FLAG, .setting = "score",
     FALSE_TRUE(BERTH_SCORE_USUAL, BERTH_SCORE_NONE)},
    {"return_text return_documents", OTHERS, FLAG, .at = offsetof(struct call, has_texts),
     FALSE_TRUE(0, 1)},
    {"offset_unit offsetUnit", HUGGING_FACE, WORD, .setting = "offsets",
     .words = {{"code_points", OFFSET_CODE_POINTS},
               {"utf16", OFFSET_UTF16},
               {"bytes", OFFSET_BYTES}}},
    {"function_to_apply functionToApply", HUGGING_FACE, WORD, .setting = "score",
     .words = {{"none", BERTH_SCORE_NONE},
               {"sigmoid", BERTH_SCORE_SIGMOID},
               {"softmax", BERTH_SCORE_SOFTMAX}}},
    // Words have one label each, so "simple" and "first" are the same.
    {"aggregation_strategy aggregationStrategy", HUGGING_FACE, WORD, .setting = "aggregation",
     .words = {{"simple", AGGREGATE_FIRST},
               {"first", AGGREGATE_FIRST},
               {"average", AGGREGATE_AVERAGE},
               {"max", AGGREGATE_MAX},
               {"none", AGGREGATE_NONE}}},
    {"ignore_labels ignoreLabels", HUGGING_FACE, LIST, .setting = "ignore_labels"},
    {"targets", HUGGING_FACE, LIST, .setting = "targets"},
    {"candidate_labels candidateLabels", HUGGING_FACE, LIST, .setting = "candidate_labels"},
    {"hypothesis_template hypothesisTemplate", HUGGING_FACE, TEXT,
     .setting = "hypothesis_template"},
    {"multi_label multiLabel", HUGGING_FACE, FLAG, .setting = "multi_label", FALSE_TRUE(0, 1)},
    {"encoding_format", OTHERS, WORD, .at = offsetof(struct call, is_base64),
     .words = {{"float", 0}, {"base64", 1}}},
    {"user id", OTHERS, .kind = TEXT},
    {"topk", HUGGING_FACE, NUMBER, .task = ANSWER, .at = offsetof(struct call, settings.top),
     .most = TOP_MAX},
    {"truncation_direction", HUGGING_FACE, RIGHT, .task = EMBED},
    {"doc_stride docStride", HUGGING_FACE, SAME, .task = ANSWER, .option = "doc_stride"},
    {"max_seq_len maxSeqLen", HUGGING_FACE, SAME, .task = ANSWER, .option = "max_seq_length"},
    {"max_question_len maxQuestionLen", HUGGING_FACE, SAME, .task = ANSWER,
     .option = "max_query_length"},
    {"max_tokens_per_doc", OTHERS, .kind = ENOUGH},
    {"max_chunks_per_doc rank_fields", OTHERS, .kind = REFUSED},
    {"stride", HUGGING_FACE, REFUSED, .task = TAG},
    {"prompt_name promptName", HUGGING_FACE, TEXT, .setting = "prompt_name"},
    {"prompt", HUGGING_FACE, TEXT, .setting = "prompt"},
};

static void *target_of(struct call *call, const struct member *row) {
    return row->setting != NULL ? (char *)&call->settings + task_option_find(row->setting)->offset
                                : (char *)call + row->at;
}

static enum berth_status read_number(struct call *call, const struct member *row, const char *where,
                                     const json *value, struct berth_error *error) {
    const int64_t number = json_as_integer(value);
    const int64_t most = row->most > 0 ? row->most : call->instance->max_tokens;
    if (json_is_integer_value(value) && number >= 1 && number <= most) {
        *(int64_t *)target_of(call, row) = number;
        return BERTH_OK;
    }
    return most == INT64_MAX
               ? error_set(error, BERTH_USAGE, "%s: expected a number, at least 1", where)
               : error_set(error, BERTH_USAGE, "%s: expected a number from 1 to %lld", where,
                           (long long)most);
}

static enum berth_status read_word(struct call *call, const struct member *row, const char *where,
                                   const json *value, struct berth_error *error) {
    const int is_flag = row->kind == FLAG, most = sizeof row->words / sizeof *row->words;
    int count = 2;
    while (count < most && row->words[count].word != NULL) {
        count++;
    }
    const char *word = !is_flag                  ? json_text(value)
                       : !json_is_boolean(value) ? NULL
                       : json_truth(value)       ? "true"
                                                 : "false";
    for (int i = 0; word != NULL && i < count; i++) {
        if (strcmp(word, row->words[i].word) == 0) {
            *(int *)target_of(call, row) = row->words[i].value;
            return BERTH_OK;
        }
    }
    if (is_flag) {
        return error_set(error, BERTH_USAGE, "%s: expected true or false", where);
    }
    char words[128] = "";
    for (int i = 0; i < count; i++) {
        const size_t used = strlen(words);
        snprintf(words + used, sizeof words - used, "%s\"%s\"",
                 i == 0           ? ""
                 : i + 1 == count ? " or "
                                  : ", ",
                 row->words[i].word);
    }
    return error_set(error, BERTH_USAGE, "%s: expected %s", where, words);
}

// One of the words that the setting has for the task.
static enum berth_status read_choice(struct call *call, const struct member *row, const char *where,
                                     const json *value, struct berth_error *error) {
    const struct option_row own = task_option_of(call->task, row->setting);
    const char *word = json_text(value);
    const enum berth_status status = word != NULL
                                         ? task_set(&call->settings, &own, word, error)
                                         : error_set(error, BERTH_USAGE, "expected a string");
    return status == BERTH_OK ? BERTH_OK : error_prefix(error, status, "%s", where);
}

// A text, or a list of texts as JSON, as task_list_read takes both.
static enum berth_status read_list(struct call *call, const struct member *row, const char *where,
                                   const json *value, struct berth_error *error) {
    const char *text = json_text(value);
    if (text == NULL && !json_is_array_value(value)) {
        return error_set(error, BERTH_USAGE, "%s: expected a string or a list of strings", where);
    }
    if (text == NULL) {
        char *list = json_write(value, JSON_COMPACT);
        if (list == NULL || call->list_count == CALL_LISTS) {
            memory_free(list);
            return error_no_memory(error, 0, "a list");
        }
        text = call->lists[call->list_count++] = list;
    }
    *(const char **)target_of(call, row) = text;
    return BERTH_OK;
}

static enum berth_status require_same(const struct call *call, const struct member *row,
                                      const char *where, const json *value,
                                      struct berth_error *error) {
    const size_t offset = option_find(row->option)->offset;
    const int64_t own = *(const int64_t *)((const char *)&call->instance->config + offset);
    return json_is_integer_value(value) && json_as_integer(value) == own
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "%s: this server has %lld; start it with --%s for another value", where,
                           (long long)own, row->option);
}

// Tokens of a text, to which this server truncates none: as many as the model reads, or more.
static enum berth_status require_enough(const struct call *call, const char *where,
                                        const json *value, struct berth_error *error) {
    const int64_t least = call->instance->max_tokens;
    return json_is_integer_value(value) && json_as_integer(value) >= least
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "%s: expected a number of at least %lld, because the model reads that "
                           "many tokens of a query with a text",
                           where, (long long)least);
}

static enum berth_status read_member(struct call *call, const struct member *row, const char *where,
                                     const json *value, struct berth_error *error) {
    const char *text = json_text(value);
    switch (row->kind) {
    case NUMBER:
        return read_number(call, row, where, value, error);
    case FLAG:
    case WORD:
        return read_word(call, row, where, value, error);
    case CHOICE:
        return read_choice(call, row, where, value, error);
    case LIST:
        return read_list(call, row, where, value, error);
    case RIGHT: // texts are truncated at their end, or not at all
        return text != NULL && caseless_equal(text, "right")
                   ? BERTH_OK
                   : error_set(error, BERTH_USAGE, "%s: only \"right\" is supported", where);
    case TEXT:
        if (text == NULL) {
            return error_set(error, BERTH_USAGE, "%s: expected a string", where);
        }
        if (row->setting != NULL) {
            *(const char **)target_of(call, row) = text;
        }
        return BERTH_OK;
    case SAME:
        return require_same(call, row, where, value, error);
    case ENOUGH:
        return require_enough(call, where, value, error);
    case REFUSED:
        break;
    }
    return error_set(error, BERTH_USAGE, "%s: not supported; leave it out", where);
}

// --- members that are unknown --------------------------------------------------------------------

static int is_noted(const struct unknown_members *unknown, const char *name) {
    size_t i = 0;
    while (i < unknown->count && strcmp(unknown->names[i], name) != 0) {
        i++;
    }
    return i < unknown->count;
}

static enum berth_status note_unknown(struct unknown_members *unknown, const char *path,
                                      const char *parent, const char *key,
                                      struct berth_error *error) {
    char name[UNKNOWN_NAME_SIZE];
    snprintf(name, sizeof name, "%.*s", UTF8_SHOWN(key, sizeof name - 1));
    if (unknown->are_refused) {
        return error_set(
            error, BERTH_USAGE,
            "%s%s: unknown key at this path; leave it out (the server was started with "
            "--strict_requests)",
            parent, name);
    }
    if (unknown->count == UNKNOWN_NAMES || is_noted(unknown, name)) {
        return BERTH_OK;
    }
    strcpy(unknown->names[unknown->count++], name);
    log_note(&unknown->log,
             "ignored the unknown member \"%s%s\" of a request to %s; each name is noted once "
             "(--strict_requests refuses such requests)",
             parent, name, path);
    if (unknown->count == UNKNOWN_NAMES) {
        log_note(&unknown->log,
                 "no further unknown members are noted after these %d names; /metrics counts them",
                 UNKNOWN_NAMES);
    }
    return BERTH_OK;
}

enum berth_status members_ignore(struct call *call, const char *parent, const char *key,
                                 struct berth_error *error) {
    TRY(note_unknown(call->unknown, call->request->path, parent, key, error));
    call->ignored++;
    return BERTH_OK;
}

// --- all members of an object --------------------------------------------------------------------

// Whether a member of Hugging Face's API is a parameter of the task.
static int is_parameter(const struct member *row, const struct task_row *task) {
    return row->api == HUGGING_FACE &&
           (row->setting != NULL ? task_follows(task, row->setting)
                                 : strcmp(row->task, task->about.pipeline) == 0);
}

static const struct member *find_row(const struct call *call, const char *key) {
    const char *own = call->protocol->members;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (words_contain(rows[i].names, ' ', key) &&
            (own != NULL ? words_contain(own, ' ', key)
                         : is_parameter(&rows[i], call->instance->task))) {
            return &rows[i];
        }
    }
    return NULL;
}

enum berth_status members_read(struct call *call, const char *parent, const json *object,
                               const char *others, struct berth_error *error) {
    struct json_walk walk = {.object = object};
    char where[64];
    while (json_walk_next(&walk)) {
        const struct member *row = find_row(call, walk.key);
        snprintf(where, sizeof where, "%s%s", parent, walk.key);
        if (words_contain(others, ' ', walk.key)) {
            continue;
        }
        TRY(row != NULL ? read_member(call, row, where, walk.value, error)
                        : members_ignore(call, parent, walk.key, error));
    }
    return BERTH_OK;
}
