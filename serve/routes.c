// SPDX-License-Identifier: Apache-2.0
// The routing table: one row for each path and method, with what it reads and the function that
// answers it. http.c brings every request here; what needs a model is read by a thread and put into
// the queue, what needs none is answered at once. The OpenAPI document is made from the same rows
// (openapi.c).
#include "core/caseless.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/text_util.h"
#include "serve/openapi.h"
#include "serve/page.h"
#include "serve/state.h"

#include <string.h>

#define NO_NAME "several models are served, but the request names none; /v1/models lists them"
#define NO_MODEL "there is no such model; /v1/models lists them"
#define NO_VERSION "no such path; each model has the single version 1"
#define NO_KSERVE_1                                                                                \
    "KServe's version 1 (:predict, :explain) is not supported; version 2 is at "                   \
    "/v2/models/NAME/infer"
#define NO_TASK "this path is for %s%s, but no model has that task; /v1/models lists them"

// --- what is known of the server -----------------------------------------------------------------

static struct http_reply get_metrics(struct server *server, const struct http_request *request,
                                     size_t model) {
    struct buffer text = {0};
    metrics_write(server->metrics, server->models, server->queue, &text);
    if (text.failed) {
        buffer_done(&text);
        return reply_error(request, 503, "out of memory");
    }
    return (struct http_reply){.status = 200,
                               .type = "text/plain; version=0.0.4; charset=utf-8",
                               .body = text.bytes,
                               .length = text.length};
}

static void put_model(struct server *server, struct json_line *line, size_t model) {
    const struct task_model *instance = models_acquire(server->models, model);
    json_line_open(line, NULL, '{');
    json_line_text(line, "id", models_name(server->models, model));
    json_line_text(line, "object", "model");
    json_line_integer(line, "created", 0);
    json_line_text(line, "owned_by", "berth");
    json_line_text(line, "task", instance != NULL ? instance->task->about.pipeline : NULL);
    json_line_close(line, '}');
    models_release(server->models, instance);
}

static struct http_reply get_models(struct server *server, const struct http_request *request,
                                    size_t model) {
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    json_line_text(&line, "object", "list");
    json_line_open(&line, "data", '[');
    for (size_t i = 0; i < models_count(server->models); i++) {
        put_model(server, &line, i);
    }
    json_line_close(&line, ']');
    json_line_close(&line, '}');
    return reply_json(&line);
}

static struct http_reply get_one_model(struct server *server, const struct http_request *request,
                                       size_t model) {
    struct json_line line = {0};
    put_model(server, &line, model);
    return reply_json(&line);
}

static struct http_reply get_page(struct server *server, const struct http_request *request,
                                  size_t model) {
    return page_make(server->models, NULL);
}

// The first model that the protocol is for.
static size_t find_model_for(struct server *server, const struct protocol *protocol) {
    const size_t count = models_count(server->models);
    for (size_t i = 0; i < count; i++) {
        const struct task_model *instance = models_acquire(server->models, i);
        const int suits = instance != NULL && protocol_suits(protocol, instance);
        models_release(server->models, instance);
        if (suits) {
            return i;
        }
    }
    return count;
}

// text-embeddings-inference's description of its model.
static struct http_reply get_info(struct server *server, const struct http_request *request,
                                  size_t model) {
    const struct server_settings *settings = server->settings;
    const size_t count = models_count(server->models);
    const int is_loaded = atomic_load(&server->is_loaded);
    const size_t embeds = find_model_for(server, &protocol_tei_embed);
    if (embeds == count && !is_loaded) { // it may be one of those that are not there yet
        return reply_error(request, 503, "the models are being loaded");
    }
    const size_t found = embeds < count ? embeds : 0;
    const struct task_model *instance = models_acquire(server->models, found);
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    json_line_text(&line, "model_id", models_name(server->models, found));
    json_line_text(&line, "model_task", instance->task->about.pipeline);
    json_line_integer(&line, "max_input_length", instance->max_tokens);
    json_line_integer(&line, "max_batch_tokens", settings->queue.batch_tokens);
    json_line_integer(&line, "max_concurrent_requests", (int64_t)settings->queue.items);
    json_line_integer(&line, "max_client_batch_size", (int64_t)settings->queue.items);
    json_line_text(&line, "version", berth_version());
    json_line_close(&line, '}');
    models_release(server->models, instance);
    return reply_json(&line);
}

// --- KServe v2 -----------------------------------------------------------------------------------

static struct http_reply get_server(struct server *server, const struct http_request *request,
                                    size_t model) {
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    json_line_text(&line, "name", "berth");
    json_line_text(&line, "version", berth_version());
    json_line_open(&line, "extensions", '[');
    json_line_text(&line, NULL, "binary_tensor_data");
    json_line_close(&line, ']');
    json_line_close(&line, '}');
    return reply_json(&line);
}

static struct http_reply get_model_ready(struct server *server, const struct http_request *request,
                                         size_t model) {
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    json_line_text(&line, "name", models_name(server->models, model));
    json_line_boolean(&line, "ready", 1);
    json_line_close(&line, '}');
    return reply_json(&line);
}

static struct http_reply get_model(struct server *server, const struct http_request *request,
                                   size_t model) {
    const struct task_model *instance = models_acquire(server->models, model);
    struct json_line line = {0};
    if (instance == NULL) {
        return reply_error(request, 503, "the model is being loaded");
    }
    kserve_put_model(&line, models_name(server->models, model), instance);
    models_release(server->models, instance);
    return reply_json(&line);
}

// --- management ----------------------------------------------------------------------------------

static struct http_reply post_reload(struct server *server, const struct http_request *request,
                                     size_t model) {
    atomic_store(&server->reload_requested, 1);
    return reply_text(202, "{\"status\":\"reloading\"}\n");
}

// --- the table -----------------------------------------------------------------------------------

#define PAGE "@text/html string"
#define TEXTS "(Text | [Text]+)"
#define CUT "truncate-: Truncate, truncation_direction-: Direction"
#define RESULTS "(Result | [Result])"
#define TENSORS                                                                                    \
    "{id-: string?, inputs: [{name: string, shape: [integer>=1]+, datatype: =BYTES, data: [(Text " \
    "| [Text]+<=1)]+}*]+, outputs-: [{name: string}*]?, model-: ModelName, model_name-: Ignored, " \
    "parameters-: Ignored}*; @application/octet-stream string%binary"
#define OUTPUTS                                                                                    \
    "{model_name: string, model_version-: string, id-: string, outputs: [{name: string, shape: "   \
    "[integer], datatype: string, data: [any]}]}; @application/octet-stream string%binary"
#define MODEL                                                                                      \
    "{name: string, versions-: [string], platform: string, inputs: [TensorType], outputs: "        \
    "[TensorType]}"
#define RANKED "The texts, the best first; of \"documents\" in Cohere's form."
#define RANKINGS "([{index: integer, text-: string, score: number}] | Ranking)"
#define VERSION "; each model has the single version 1."

static struct http_reply get_description(struct server *server, const struct http_request *request,
                                         size_t model);

static const struct route routes[] = {
    {"GET", "/", .reply = get_page, .is_public = 1, .summary = "The page.",
     .result = "A page to try the models with.", .gives = PAGE},
    {"GET", "/openapi.json", .reply = get_description, .is_public = 1, .summary = "This document.",
     .result = "OpenAPI 3.1.", .gives = "object"},
    {"GET", "/health", .text = "{\"status\":\"ok\"}\n", .is_public = 1, .needs_models = 1,
     .summary = "Whether requests are answered.", .result = "They are.",
     .gives = "{status: string}"},
    {"GET", "/metrics", .reply = get_metrics, .summary = "Counters for Prometheus.",
     .result = "Text format 0.0.4.", .gives = "@text/plain string"},
    {"GET", "/v1/models", .reply = get_models, .summary = "The models (OpenAI).",
     .result = "The models.", .gives = "{object: string, data: [Model]}"},
    {"GET", "/v1/models/*", .reply = get_one_model, .summary = "A model (OpenAI).",
     .result = "The model.", .gives = "Model"},
    {"GET", "/v2", .reply = get_server, .summary = "The server (KServe).", .result = "The server.",
     .gives = "{name: string, version: string, extensions: [string]}"},
    {"GET", "/v2/health/live", .text = "{\"live\":true}\n", .is_public = 1,
     .summary = "Whether the server runs.", .result = "It runs.", .gives = "{live: boolean}"},
    {"GET", "/v2/health/ready", .text = "{\"ready\":true}\n", .is_public = 1, .needs_models = 1,
     .summary = "Whether requests are answered.", .result = "They are.",
     .gives = "{ready: boolean}"},
    {"GET", "/info", .reply = get_info, .summary = "The model (text-embeddings-inference).",
     .result = "Its limits.",
     .gives = "{model_id: string, model_task-: string, max_input_length: integer, "
              "max_batch_tokens: integer, max_concurrent_requests-: integer, "
              "max_client_batch_size-: integer, version-: string}"},
    {"GET", "/v2/models/*", .reply = get_model, .summary = "A model's tensors (KServe).",
     .result = "The tensors.", .gives = MODEL},
    {"GET", "/v2/models/*/ready", .reply = get_model_ready, .is_public = 1, .needs_models = 1,
     .summary = "Whether a model answers.", .result = "It does.",
     .gives = "{name: string, ready: boolean}"},
    {"POST", "/v2/models/*/infer", .protocol = &protocol_kserve,
     .summary = "Asks a model (KServe).", .body = TENSORS, .result = "Tensors.", .gives = OUTPUTS},
    {"GET", "/v2/models/*/versions/1", .reply = get_model,
     .summary = "A model's tensors (KServe)" VERSION, .result = "The tensors.", .gives = MODEL},
    {"GET", "/v2/models/*/versions/1/ready", .reply = get_model_ready, .is_public = 1,
     .needs_models = 1, .summary = "Whether a model answers" VERSION, .result = "It does.",
     .gives = "{name: string, ready: boolean}"},
    {"POST", "/v2/models/*/versions/1/infer", .protocol = &protocol_kserve,
     .summary = "Asks a model (KServe)" VERSION, .body = TENSORS, .result = "Tensors.",
     .gives = OUTPUTS},
    {"POST", "/embed", .protocol = &protocol_tei_embed,
     .summary = "Embeddings (text-embeddings-inference).",
     .body = "{inputs: " TEXTS ", model-: ModelName, normalize-: boolean?, " CUT
             ", dimensions-: Dimensions, prompt_name-: string?, prompt-: string?, overflow-: "
             "Overflow}*",
     .result = "Embeddings.", .gives = "[[number]]"},
    {"POST", "/embed_all", .protocol = &protocol_tei_embed_all,
     .summary = "Vectors of tokens (text-embeddings-inference).",
     .body = "{inputs: " TEXTS ", model-: ModelName, " CUT ", prompt_name-: string?, prompt-: "
             "string?}*",
     .result = "For each text a list of the vectors of its tokens.", .gives = "[[[number]]]"},
    {"POST", "/embed_sparse", .protocol = &protocol_tei_embed_sparse,
     .summary = "Weights of words (text-embeddings-inference).",
     .body = "{inputs: " TEXTS ", model-: ModelName, " CUT ", prompt_name-: string?, prompt-: "
             "string?}*",
     .result = "For each text a list of words, by their ids.",
     .gives = "[[{index: integer, value: number}]]"},
    {"POST", "/predict", .protocol = &protocol_tei_predict,
     .summary = "Classes (text-embeddings-inference).",
     .body = "{inputs: (Text | [Text]+<=2 | [[Text]+<=2]+), model-: ModelName, raw_scores-: "
             "boolean?, " CUT "}*",
     .result = "Classes.", .gives = "([Class] | [[Class]])"},
    {"POST", "/rerank", .protocol = &protocol_rerank,
     .summary = "Texts by their score for a query (text-embeddings-inference, Cohere, Jina).",
     .body = "Rerank", .result = RANKED, .gives = RANKINGS},
    {"POST", "/v1/rerank", .protocol = &protocol_rerank,
     .summary = "Texts by their score for a query (Cohere, Jina).", .body = "Rerank",
     .result = RANKED, .gives = RANKINGS},
    {"POST", "/v2/rerank", .protocol = &protocol_rerank,
     .summary = "Texts by their score for a query (Cohere, version 2).", .body = "Rerank",
     .result = RANKED, .gives = RANKINGS},
    {"POST", "/similarity", .protocol = &protocol_tei_similarity,
     .summary = "Cosines between embeddings (text-embeddings-inference).",
     .body = "{inputs: Comparison, parameters-: {" CUT ", dimensions-: Dimensions, truncation-: "
             "Truncate, normalize-: Flag, prompt_name-: string?, prompt-: string?, overflow-: "
             "Overflow}?*, model-: "
             "ModelName}*",
     .result = "For each sentence the cosine with the source.", .gives = "[number]"},
    {"POST", "/ask", .protocol = &protocol_form, .summary = "The page's form, without JavaScript.",
     .body = "@application/x-www-form-urlencoded {model-: string, question-: string, context: "
             "Text}",
     .result = "The page with the result.", .gives = PAGE},
    {"POST", "/", .protocol = &protocol_hugging_face,
     .summary = "Asks the only model; as /models/{name}.", .body = "Inference",
     .result = "One result, or a list.", .gives = RESULTS},
    {"POST", "/models/*", .protocol = &protocol_hugging_face,
     .summary = "Asks a model (Hugging Face).", .body = "Inference",
     .result = "One result, or a list.", .gives = RESULTS},
    {"POST", "/v1/embeddings", .protocol = &protocol_openai, .summary = "Embeddings (OpenAI).",
     .body =
         "{input: " TEXTS ", model-: ModelName, encoding_format-: =float/base64/null, user-: "
         "string?, dimensions-: Dimensions, prompt_name-: string?, prompt-: string?, overflow-: "
         "Overflow}*",
     .result = "Embeddings.",
     .gives = "{object: string, data: [{object: string, index: integer, embedding: ([number] | "
              "string)}], model: string, usage: Usage}"},
    {"POST", "/reload", .reply = post_reload, .is_admin = 1, .summary = "Loads the models again.",
     .result = "It has begun.", .gives = "{status: string}"},
};

static struct http_reply get_description(struct server *server, const struct http_request *request,
                                         size_t model) {
    struct json_line line = {0};
    openapi_put(&line, routes, sizeof routes / sizeof *routes);
    return reply_json(&line);
}

// Whether the path matches the pattern; the component at "*" is copied to `name`.
static int matches(const char *pattern, const char *path, char name[MODEL_NAME_SIZE]) {
    while (*pattern != '\0' && *pattern != '*' && *pattern == *path) {
        pattern++;
        path++;
    }
    if (*pattern != '*') {
        return *pattern == *path;
    }
    const size_t length = strcspn(path, "/:"); // ":predict" is no part of a name
    if (length == 0 || length >= MODEL_NAME_SIZE || strcmp(pattern + 1, path + length) != 0) {
        return 0;
    }
    memcpy(name, path, length);
    name[length] = '\0';
    return 1;
}

// The row of the request. NULL: none; *allow then lists the methods of the path, or is NULL if
// there is no such path.
static const struct route *find_route(const struct http_request *request,
                                      char name[MODEL_NAME_SIZE], const char **allow) {
    int gets = 0, posts = 0;
    name[0] = '\0';
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const struct route *route = &routes[i];
        if (!matches(route->path, request->path, name)) {
            continue;
        }
        if (strcmp(route->method, request->method) == 0 ||
            (strcmp(route->method, "GET") == 0 && strcmp(request->method, "HEAD") == 0)) {
            return route;
        }
        gets |= *route->method == 'G';
        posts |= *route->method == 'P';
    }
    *allow = gets && posts ? "GET, HEAD, POST" : gets ? "GET, HEAD" : posts ? "POST" : NULL;
    return NULL;
}

// Why there is no such path.
static const char *missing_path(const char *path) {
    const int is_of_model = strncmp(path, "/v1/models/", strlen("/v1/models/")) == 0;
    if (is_of_model && (text_ends_with(path, ":predict") || text_ends_with(path, ":explain"))) {
        return NO_KSERVE_1;
    }
    return strncmp(path, "/v2/models/", strlen("/v2/models/")) == 0 &&
                   strstr(path, "/versions/") != NULL
               ? NO_VERSION
               : "no such path";
}

// --- requests ------------------------------------------------------------------------------------

struct http_reply routes_refuse(void *context, const struct http_request *request, int status,
                                const char *message) {
    return reply_error(request, status, message);
}

void routes_complete(void *context, const struct http_request *request, struct http_reply *reply) {
    struct server *server = context;
    access_put_headers(&server->access, request, reply);
    request_log_put(&server->requests, request, reply);
}

// Ignores parameters of the media type.
static int is_type(const char *type, const char *wanted) {
    const size_t length = strlen(wanted);
    return caseless_equal_bytes(type, wanted, length) && strchr("; \t", type[length]) != NULL;
}

static int has_type(const struct http_request *request, const struct protocol *protocol) {
    const char *type = http_header(request, "Content-Type");
    return type == NULL ||
           // curl's default with --data.
           is_type(type, "application/x-www-form-urlencoded") ||
           (!protocol->is_form && (is_type(type, "application/json") ||
                                   // KServe's clients and aiohttp for a body of bytes.
                                   is_type(type, "application/octet-stream")));
}

static int is_encoded(const struct http_request *request) {
    const char *encoding = http_header(request, "Content-Encoding");
    return encoding != NULL && *encoding != '\0' && !caseless_equal(encoding, "identity");
}

// How much of the body is JSON. In KServe's extension a header says it, and binary tensors follow;
// SIZE_MAX: the header is not a number.
static size_t length_of_json(const struct http_request *request, const struct protocol *protocol) {
    const char *header = http_header(request, "Inference-Header-Content-Length");
    int64_t length;
    if (header == NULL || protocol != &protocol_kserve) {
        return request->body_length;
    }
    return number_parse_digits(header, strlen(header), &length) ? (size_t)length : SIZE_MAX;
}

static int refuse(const struct http_request *request, struct http_reply *reply, int status,
                  const char *message) {
    *reply = reply_error(request, status, message);
    return 0;
}

int routes_admit(void *context, const struct http_request *request, struct http_reply *reply) {
    struct server *server = context;
    char name[MODEL_NAME_SIZE];
    const char *message, *allow = NULL;
    int status = access_check_site(&server->access, request, &message);
    if (status != 0) {
        return refuse(request, reply, status, message);
    }
    const struct route *route = find_route(request, name, &allow);
    if (route == NULL && allow != NULL && access_is_preflight(&server->access, request)) {
        return 1;
    }
    if (route == NULL) {
        refuse(request, reply, allow != NULL ? 405 : 404,
               allow != NULL ? "this path does not support the method"
                             : missing_path(request->path));
        reply->allow = allow;
        return 0;
    }
    if (route->is_admin && server->access.keys == NULL) {
        return refuse(request, reply, 403, "this path requires a server with --api_key_file");
    }
    status = route->is_public ? 0 : access_check_key(&server->access, request, &message);
    if (status != 0) {
        return refuse(request, reply, status, message);
    }
    if (route->protocol != NULL && is_encoded(request)) {
        return refuse(request, reply, 415,
                      "Content-Encoding is not supported; send the body without one");
    }
    return route->protocol == NULL || has_type(request, route->protocol)
               ? 1
               : refuse(request, reply, 415,
                        route->protocol->is_form
                            ? "the Content-Type is not application/x-www-form-urlencoded"
                            : "the Content-Type is not application/json");
}

// The model of a request whose path names none: that of "model" in the body, else the first with
// the task that the path is for, else the only one.
static size_t find_model(struct server *server, const struct call *call) {
    const char *name = json_text(json_member(call->document, "model"));
    const size_t count = models_count(server->models);
    if (name != NULL) {
        return models_find(server->models, name);
    }
    return call->protocol->task != NULL ? find_model_for(server, call->protocol)
           : count == 1                 ? 0
                                        : count;
}

// `is_loaded`: whether all models were there for the search.
static void refuse_unknown(struct server *server, struct call *call, int is_named, int is_loaded) {
    struct berth_error error;
    const char *task = call->protocol->task, *suited = call->protocol->suited;
    if (is_named || task == NULL) {
        (void)error_set(&error, BERTH_NO_INPUT, "%s", is_named ? NO_MODEL : NO_NAME);
    } else if (!is_loaded) {
        (void)error_set(&error, BERTH_UNAVAILABLE, "the models are being loaded");
    } else {
        (void)error_set(&error, BERTH_NO_INPUT, NO_TASK, task, suited != NULL ? suited : "");
    }
    call_refuse(server, call, &error);
}

// Makes the items of a call and puts it into the queue. From here on, errors count in the model's
// metrics.
static void enqueue_call(struct server *server, struct call *call) {
    struct berth_error error = {.status = BERTH_OK};
    call->instance = models_acquire(server->models, call->model);
    call->model_name = models_name(server->models, call->model);
    enum berth_status status =
        call->instance != NULL ? call_make(call, &error)
                               : error_set(&error, BERTH_UNAVAILABLE, "the model is being loaded");
    metrics_ignored(server->metrics, call->model, call->ignored);
    if (status == BERTH_OK) {
        status = queue_put(server->queue, call, &error);
    }
    if (status != BERTH_OK) {
        call_refuse(server, call, &error);
    }
}

void routes_read(void *context, struct work_batch *batch) {
    struct server *server = context;
    struct call *call = batch->calls;
    struct berth_error error = {.status = BERTH_OK};
    if (http_client_has_left(call->request)) {
        call_finish(server, call, reply_client_left(call->request));
        return;
    }
    if (call_read(call, &error) != BERTH_OK) {
        call_refuse(server, call, &error);
        return;
    }
    const int is_loaded = atomic_load(&server->is_loaded);
    if (!call->is_named) {
        call->model = find_model(server, call);
    }
    if (call->model == models_count(server->models)) {
        refuse_unknown(server, call, call->is_named || call_member(call, "model") != NULL,
                       is_loaded);
    } else {
        enqueue_call(server, call);
    }
}

// `name` is that of the model in the path; "": none.
static void submit(struct server *server, const struct route *route, const char *name,
                   struct http_request *request) {
    struct berth_error error = {.status = BERTH_OK};
    struct call *call = memory_array_zeroed(1, sizeof *call);
    if (call == NULL) {
        http_answer(request, reply_error(request, 503, "out of memory"));
        return;
    }
    call->request = request;
    call->protocol = route->protocol;
    call->unknown = &server->unknown;
    call->json_length = length_of_json(request, route->protocol);
    call->max_items = server->settings->queue.items;
    call->is_named = *name != '\0';
    call->model = call->is_named ? models_find(server->models, name) : find_model(server, call);
    enum berth_status status = queue_put(server->queue, call, &error);
    if (status != BERTH_OK) {
        memory_free(call);
        http_answer(request, reply_error(request, reply_status(status), error.message));
    }
}

void routes_handle(void *context, struct http_request *request) {
    struct server *server = context;
    char name[MODEL_NAME_SIZE];
    const char *allow;
    const struct route *route = find_route(request, name, &allow);
    const size_t model = *name != '\0' ? models_find(server->models, name) : 0;
    if (route == NULL) {
        http_answer(request, (struct http_reply){.status = 204}); // a preflight
    } else if (route->protocol != NULL) {
        submit(server, route, name, request);
    } else if (model == models_count(server->models)) {
        http_answer(request, reply_error(request, 404, NO_MODEL));
    } else if (route->needs_models &&
               !(atomic_load(&server->is_loaded) && !atomic_load(&server->is_draining))) {
        http_answer(request, reply_error(request, 503,
                                         atomic_load(&server->is_loaded) ? "shutting down"
                                                                         : "loading the models"));
    } else {
        http_answer(request, route->text != NULL ? reply_text(200, route->text)
                                                 : route->reply(server, request, model));
    }
}
