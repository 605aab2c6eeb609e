// SPDX-License-Identifier: Apache-2.0
// The OpenAPI document of GET /openapi.json, made from the table of routes that routes.c gives it.
// Leaves out nothing that a path reads; which parameters a model reads depends on its task
// (doc/serve.md).
#include "serve/openapi.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- schemas ------------------------------------------------------------------------------------

#define WORD_MAX 64

static void put_schema(struct json_line *line, const char *key, const char **at);

static void skip(const char **at, const char *characters) {
    *at += strspn(*at, characters);
}

// Copies what comes before one of the characters `ends`, and skips this one.
static void take(const char **at, const char *ends, char *word, size_t size) {
    size_t length = strcspn(*at, ends);
    const size_t kept = length < size ? length : size - 1;
    memcpy(word, *at, kept);
    word[kept] = '\0';
    *at += length;
}

static void take_word(const char **at, char word[WORD_MAX]) {
    take(at, " ,;:|)]}?+*<>/%&-", word, WORD_MAX);
}

static void put_quoted(struct json_line *line, const char *key, char quote, const char **at) {
    char text[256];
    const char ends[] = {quote, '\0'};
    *at += 1;
    take(at, ends, text, sizeof text);
    *at += 1;
    json_line_text(line, key, text);
}

// "max_seq_len" to "maxSeqLen"
static void to_camel_case(const char *name, char camel[WORD_MAX]) {
    size_t used = 0;
    for (; *name != '\0'; name++) {
        const int begins = *name == '_';
        name += begins;
        camel[used++] = begins ? (char)toupper((unsigned char)*name) : *name;
    }
    camel[used] = '\0';
}

static void put_members(struct json_line *line, const char **at) {
    struct json_line required = {0};
    json_line_open(line, "properties", '{');
    for (*at += 1, skip(at, " "); **at != '}'; skip(at, " ,")) {
        char name[WORD_MAX], camel[WORD_MAX];
        take_word(at, name);
        const int has_camel = **at == '&';
        *at += has_camel;
        const int is_required = **at != '-';
        *at += is_required ? 1 : 2;
        if (is_required && required.length == 0) {
            json_line_open(&required, NULL, '[');
        }
        if (is_required) {
            json_line_text(&required, NULL, name);
        }
        if (has_camel) {
            const char *again = *at;
            to_camel_case(name, camel);
            put_schema(line, camel, &again);
        }
        put_schema(line, name, at);
    }
    *at += 1;
    json_line_close(line, '}');
    if (required.length > 0) {
        json_line_close(&required, ']');
        json_line_raw(line, "required", required.failed ? "" : required.text);
    }
    line->failed |= required.failed;
    json_line_done(&required);
}

static void put_any_of(struct json_line *line, const char **at) {
    json_line_open(line, "anyOf", '[');
    for (*at += 1; **at != ')'; skip(at, " |")) {
        put_schema(line, NULL, at);
    }
    *at += 1;
    json_line_close(line, ']');
}

static void put_words(struct json_line *line, const char **at) {
    json_line_open(line, "enum", '[');
    do {
        char word[WORD_MAX];
        *at += 1;
        take_word(at, word);
        json_line_text(line, NULL, strcmp(word, "null") == 0 ? NULL : word);
    } while (**at == '/');
    json_line_close(line, ']');
}

// Puts what begins the schema; `type` is then its type, or empty.
static void put_core(struct json_line *line, const char **at, char type[WORD_MAX]) {
    type[0] = '\0';
    switch (**at) {
    case '[':
        *at += 1;
        put_schema(line, "items", at);
        *at += 1;
        strcpy(type, "array");
        break;
    case '{':
        put_members(line, at);
        strcpy(type, "object");
        break;
    case '(':
        put_any_of(line, at);
        break;
    case '=':
        put_words(line, at);
        break;
    case '!':
        *at += 1;
        put_schema(line, "not", at);
        break;
    default:
        take_word(at, type);
    }
}

static void put_limit(struct json_line *line, const char **at, int is_array) {
    static const char *const names[2][2] = {{"minimum", "maximum"}, {"minItems", "maxItems"}};
    const int is_most = **at == '<';
    char *end;
    json_line_integer(line, names[is_array][is_most], strtoll(*at + 2, &end, 10));
    *at = end;
}

static void put_rest(struct json_line *line, const char **at, const char *type) {
    const int is_array = strcmp(type, "array") == 0;
    for (;;) {
        if (**at == '+') {
            *at += 1;
            json_line_integer(line, "minItems", 1);
        } else if (**at == '<' || **at == '>') {
            put_limit(line, at, is_array);
        } else if (**at == '/') {
            put_quoted(line, "pattern", '/', at);
        } else if (**at == '%') {
            char format[WORD_MAX];
            *at += 1;
            take_word(at, format);
            json_line_text(line, "format", format);
        } else if (**at == '*') {
            *at += 1;
            json_line_raw(line, "propertyNames", "{\"pattern\":\"^[^\\\\u0000]*$\"}");
            json_line_raw(line, "additionalProperties",
                          "{\"$ref\":\"#/components/schemas/Ignored\"}");
        } else if (strncmp(*at, " & ", 3) == 0) {
            *at += 3;
            put_any_of(line, at);
        } else {
            return;
        }
    }
}

static void put_schema(struct json_line *line, const char *key, const char **at) {
    char type[WORD_MAX];
    json_line_open(line, key, '{');
    skip(at, " ");
    if (**at == '`') {
        put_quoted(line, "description", '`', at);
        skip(at, " ");
    }
    put_core(line, at, type);
    const int has_null = **at == '?';
    *at += has_null;
    if (isupper((unsigned char)*type)) {
        char reference[WORD_MAX + 32] = "#/components/schemas/";
        strcat(reference, type);
        json_line_text(line, "$ref", reference);
    } else if (has_null) {
        json_line_open(line, "type", '[');
        json_line_text(line, NULL, type);
        json_line_text(line, NULL, "null");
        json_line_close(line, ']');
    } else if (*type != '\0' && strcmp(type, "any") != 0) {
        json_line_text(line, "type", type);
    }
    put_rest(line, at, type);
    json_line_close(line, '}');
}

static void put_content(struct json_line *line, const char *schemas) {
    json_line_open(line, "content", '{');
    for (const char *at = schemas; *at != '\0'; skip(&at, "; ")) {
        char media[WORD_MAX] = "application/json";
        if (*at == '@') {
            at++;
            take(&at, " ", media, sizeof media);
        }
        json_line_open(line, media, '{');
        put_schema(line, "schema", &at);
        json_line_close(line, '}');
    }
    json_line_close(line, '}');
}

// --- named schemas ------------------------------------------------------------------------------

#define PARAMETERS                                                                                 \
    "aggregation_strategy&-: AggregationStrategy, align_to_words&-: Flag, "                        \
    "candidate_labels&-: List, dimensions-: Dimensions, doc_stride&-: DocStride, "                 \
    "function_to_apply&-: FunctionToApply, handle_impossible_answer&-: Flag, "                     \
    "hypothesis_template&-: OptionalText, ignore_labels&-: List, "                                 \
    "max_answer_len&-: MaxAnswerLen, max_question_len&-: MaxQuestionLen, "                         \
    "max_seq_len&-: MaxSeqLen, multi_label&-: Flag, normalize-: Flag, "                            \
    "offset_unit&-: OffsetUnit, overflow-: Overflow, prompt_name&-: string?, prompt-: string?, "   \
    "stride-: Unsupported, targets-: List, topk-: TopK, top_k&-: TopK, truncate-: Truncate, "      \
    "truncation-: Truncate, truncation_direction-: Direction"
#define INPUT                                                                                      \
    "({question: Text, context: Text}* | (Text | {text: Text, text_pair-: OptionalText}*))"

static const struct {
    const char *name, *schema;
} schemas[] = {
    {"Error", "{error: {message: string, type: string, code: string}}"},
    {"KServeError", "{error: string}"},
    {"Inference",
     "`The parameters may also be beside the inputs, and without \"inputs\" the fields of one.` "
     "{inputs-: (" INPUT " | [" INPUT "]+ | Comparison | null), question-: OptionalText, "
     "context-: OptionalText, text-: OptionalText, text_pair-: OptionalText, model-: ModelName, "
     "parameters-: Parameters, options-: Ignored, " PARAMETERS "}* & ({inputs: !null} | {question: "
     "Text, context: Text} | {text: Text})"},
    {"Parameters",
     "`Which of them a model reads depends on its task (doc/serve.md).` {" PARAMETERS "}?*"},
    {"Comparison", "{source_sentence: Text, sentences: [Text]+}*"},
    {"Rerank",
     "`\"texts\" as for text-embeddings-inference, or \"documents\" as for Cohere and Jina.` "
     "{query: "
     "Text, texts-: ([Text]+ | null), documents-: ([(Text | {text: Text}*)]+ | null), model-: "
     "ModelName, top_n-: integer?>=1, raw_scores-: Flag, return_text-: Flag, return_documents-: "
     "Flag, truncate-: Truncate, truncation_direction-: Direction, max_tokens_per_doc-: Enough, "
     "max_chunks_per_doc-: Unsupported, rank_fields-: Unsupported}* & ({texts: !null, documents-: "
     "null} | {documents: !null, texts-: null})"},
    {"Ranking",
     "{id: string, model: string, results: [{index: integer, relevance_score: number, document-: "
     "{text: string}}], usage: Usage, meta: {api_version: {version: string}, tokens: "
     "{input_tokens: integer}}}"},
    {"Usage", "{prompt_tokens: integer, total_tokens: integer}"},
    {"Answer", "{score: number, start: integer, end: integer, answer: string}"},
    {"Class", "{label: string, score: number}"},
    {"TensorType", "{name: string, datatype: string, shape: [integer]}"},
    {"Entity", "{entity_group-: string, entity-: string, score: number, word: string, "
               "start: integer, end: integer}"},
    {"Word", "{score: number, token: integer, token_str: string, sequence: string}"},
    {"Chosen", "`Candidate labels, the likeliest first.` {sequence: string, labels: [string], "
               "scores: [number]}"},
    {"Weight", "{token: integer, token_str: string, weight: number}"},
    {"Result", "(Answer | [Answer] | [Class] | Chosen | [Entity] | [Word] | [[Word]] | [Weight] | "
               "[number])"},
    {"Text", "`Not empty, without NUL.` string/^[^\\u0000]+$/"},
    {"OptionalText", "`A Text; null counts as absent.` string?/^[^\\u0000]+$/"},
    {"Model", "{id: string, object: string, created: integer, owned_by: string, task-: string?}"},
    {"Ignored", "`Any value; it is not read.` any"},
    {"List", "`Texts, or one with commas between them.` (string | [string] | null)"},
    {"Unsupported", "`Refused: the server does not support it.` null"},
    {"ModelName", "`The model's name; null counts as absent.` string?"},
    {"Direction", "`\"right\", in letters of either case.` string?/^[Rr][Ii][Gg][Hh][Tt]$/"},
    {"Dimensions", "`The first numbers of an embedding, at most as many as it has.` integer?>=1"},
    {"Overflow", "`windows is for embeddings only.` =cut/error/windows/null"},
    {"Enough", "`At least the tokens that the model reads.` integer?>=1"},
    {"Truncate", "`false: a text longer than the model reads is refused.` boolean?"},
    {"AggregationStrategy", "=simple/first/average/max/none/null"},
    {"DocStride", "`Only the server's own --doc_stride.` integer?"},
    {"FunctionToApply", "=softmax/sigmoid/none/null"},
    {"Flag", "boolean?"},
    {"MaxAnswerLen", "integer?>=1"},
    {"MaxQuestionLen", "`Only the server's own --max_query_length.` integer?"},
    {"MaxSeqLen", "`Only the server's own --max_seq_length.` integer?"},
    {"OffsetUnit", "=code_points/utf16/bytes/null"},
    {"TopK", "integer?>=1<=100"},
};

// --- refusals -----------------------------------------------------------------------------------

enum { ALWAYS, WITH_KEY, OF_MODEL, OF_PROTOCOL };

static const struct refusal {
    const char *status, *name, *description;
    int when;
} refusals[] = {
    {"400", "Wrong", "The request is wrong.", ALWAYS},
    {"401", "NoKey", "No valid key.", WITH_KEY},
    {"403", "OtherSite",
     "The Host or the Origin is another site's, or the path is /reload and the server has no keys.",
     ALWAYS},
    {"404", "NoModel", "There is no such model, or no model for this path's task.", OF_MODEL},
    {"413", "TooLarge", "The body is too large.", ALWAYS},
    {"414", "TargetTooLong", "The path with its query is longer than 8 KiB.", ALWAYS},
    {"415", "OtherType",
     "The path does not read this Content-Type, or the body has a Content-Encoding.", OF_PROTOCOL},
    {"431", "HeadersTooLarge", "More than 100 headers, or more than 32 KiB of them.", ALWAYS},
    {"501", "OtherEncoding", "The Transfer-Encoding is not chunked.", ALWAYS},
    {"503", "Unavailable",
     "Loading, shutting down, too many texts waiting, or no memory; Retry-After says when to try "
     "again.",
     ALWAYS},
};
enum { REFUSALS = sizeof refusals / sizeof *refusals };

static int is_refused(const struct route *route, int when) {
    const int names_model = strchr(route->path, '*') != NULL;
    return when == WITH_KEY      ? !route->is_public
           : when == OF_MODEL    ? names_model || route->protocol != NULL
           : when == OF_PROTOCOL ? route->protocol != NULL
                                 : 1;
}

static void put_refusals(struct json_line *line, const struct route *route) {
    for (size_t i = 0; i < REFUSALS; i++) {
        char reference[96] = "#/components/responses/";
        if (is_refused(route, refusals[i].when)) {
            strcat(reference, strncmp(route->path, "/v2", 3) == 0 ? "KServe" : "");
            strcat(reference, refusals[i].name);
            json_line_open(line, refusals[i].status, '{');
            json_line_text(line, "$ref", reference);
            json_line_close(line, '}');
        }
    }
}

static void put_components(struct json_line *line) {
    json_line_open(line, "components", '{');
    json_line_raw(line, "securitySchemes", "{\"key\":{\"type\":\"http\",\"scheme\":\"bearer\"}}");
    json_line_open(line, "schemas", '{');
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        const char *at = schemas[i].schema;
        put_schema(line, schemas[i].name, &at);
    }
    json_line_close(line, '}');
    json_line_open(line, "responses", '{');
    for (size_t i = 0; i < 2 * REFUSALS; i++) {
        char name[WORD_MAX];
        const struct refusal *refusal = &refusals[i % REFUSALS];
        strcpy(name, i < REFUSALS ? "" : "KServe");
        strcat(name, refusal->name);
        json_line_open(line, name, '{');
        json_line_text(line, "description", refusal->description);
        put_content(line, i < REFUSALS ? "Error" : "KServeError");
        json_line_close(line, '}');
    }
    json_line_close(line, '}');
    json_line_close(line, '}');
}

// --- paths --------------------------------------------------------------------------------------

static void put_operation(struct json_line *line, const struct route *route) {
    json_line_open(line, route->method[0] == 'G' ? "get" : "post", '{');
    json_line_text(line, "summary", route->summary);
    if (strchr(route->path, '*') != NULL) {
        json_line_open(line, "parameters", '[');
        json_line_raw(line, NULL,
                      "{\"name\":\"name\",\"in\":\"path\",\"required\":true,"
                      "\"schema\":{\"type\":\"string\"}}");
        if (route->protocol == &protocol_kserve) {
            json_line_raw(line, NULL,
                          "{\"name\":\"Inference-Header-Content-Length\",\"in\":\"header\","
                          "\"description\":\"Length of the JSON, which binary tensors follow.\","
                          "\"schema\":{\"type\":\"integer\",\"minimum\":1}}");
        }
        json_line_close(line, ']');
    }
    if (route->is_public) {
        json_line_raw(line, "security", "[{}]");
    }
    if (route->body != NULL) {
        json_line_open(line, "requestBody", '{');
        json_line_boolean(line, "required", 1);
        put_content(line, route->body);
        json_line_close(line, '}');
    }
    json_line_open(line, "responses", '{');
    json_line_open(line, route->is_admin ? "202" : "200", '{'); // what an admin asks for has begun
    json_line_text(line, "description", route->result);
    put_content(line, route->gives);
    json_line_close(line, '}');
    put_refusals(line, route);
    json_line_close(line, '}');
    json_line_close(line, '}');
}

// All methods of a path, at its first row.
static void put_paths(struct json_line *line, const struct route *routes, size_t count) {
    json_line_open(line, "paths", '{');
    for (size_t i = 0; i < count; i++) {
        size_t first = 0;
        while (strcmp(routes[first].path, routes[i].path) != 0) {
            first++;
        }
        if (first < i) {
            continue;
        }
        // "/models/*" as "/models/{name}"
        const char *path = routes[i].path;
        char name[WORD_MAX];
        const int length = (int)strcspn(path, "*"), has_name = path[length] == '*';
        snprintf(name, sizeof name, "%.*s%s%s", length, path, has_name ? "{name}" : "",
                 path + length + has_name);
        json_line_open(line, name, '{');
        for (size_t k = i; k < count; k++) {
            if (strcmp(routes[k].path, routes[i].path) == 0) {
                put_operation(line, &routes[k]);
            }
        }
        json_line_close(line, '}');
    }
    json_line_close(line, '}');
}

void openapi_put(struct json_line *line, const struct route *routes, size_t count) {
    json_line_open(line, NULL, '{');
    json_line_text(line, "openapi", "3.1.0");
    json_line_open(line, "info", '{');
    json_line_text(line, "title", "Berth");
    json_line_text(line, "version", berth_version());
    json_line_text(line, "description",
                   "Models over HTTP; doc/serve.md describes the paths. A member that is null "
                   "counts as absent, and one that is not listed is ignored, unless the server was "
                   "started with --strict_requests.");
    json_line_close(line, '}');
    json_line_raw(line, "security", "[{},{\"key\":[]}]");
    put_paths(line, routes, count);
    put_components(line);
    json_line_close(line, '}');
}
