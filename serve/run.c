// SPDX-License-Identifier: Apache-2.0
// Runs the items of a batch that the queue has chosen, by their task's row, and answers the calls
// that are complete with it. A text that fails fails its own call only. What is in a reply is left
// to the call's protocol (call.c), its form to replies.c.
#include "core/clock.h"
#include "core/log.h"
#include "core/number.h"
#include "serve/page.h"
#include "serve/state.h"

#include <inttypes.h>
#include <stddef.h>

void call_finish(struct server *server, struct call *call, struct http_reply reply) {
    if (call->model < models_count(server->models)) {
        metrics_request(server->metrics, call->model, reply.status,
                        clock_now() - call->request->arrived);
    }
    http_answer(call->request, reply);
    models_release(server->models, call->instance);
    call_free(call);
}

void call_refuse(struct server *server, struct call *call, const struct berth_error *error) {
    call_finish(server, call,
                reply_error(call->request, reply_status(error->status), error->message));
}

// The first item that failed; NULL: none.
static const struct task_text *find_failure(const struct call *call, size_t *index) {
    for (size_t i = 0; i < call->count; i++) {
        if (call->items[i].status != BERTH_OK) {
            *index = i;
            return &call->items[i];
        }
    }
    return NULL;
}

static struct http_reply make_reply(struct server *server, struct call *call) {
    struct json_line line = {0};
    if (call->protocol->is_form) {
        return page_make(server->models, call);
    }
    call->protocol->write(&line, call);
    return reply_tensors(&line, &call->binary);
}

// Answers a call with its items' results, or with an error of one of them, and frees it.
static void call_answer(struct server *server, struct call *call) {
    struct berth_error error;
    size_t index = 0;
    const struct task_text *failure = find_failure(call, &index);
    if (call->client_has_left) {
        call_finish(server, call, reply_client_left(call->request));
        return;
    }
    if (failure == NULL) {
        call_finish(server, call, make_reply(server, call));
        return;
    }
    (void)error_set(&error, failure->status, "%s",
                    failure->message != NULL ? failure->message : "");
    if (call->is_list) {
        (void)error_prefix(&error, failure->status, "input %zu", index);
    }
    call_refuse(server, call, &error);
}

static int digits(uint64_t number) {
    int count = 1;
    for (; number >= 10; number /= 10) {
        count++;
    }
    return count;
}

// Counts the tokens, and the texts that were truncated. The first of a model is noted, and then the
// 10th, 100th, ...: a note for each would be as many lines as requests.
static void count_read(struct server *server, const struct work_batch *batch) {
    const struct call *truncated = NULL;
    int64_t tokens = 0;
    size_t count = 0, index = 0;
    for (const struct call *call = batch->calls; call != NULL; call = call->beside) {
        for (size_t i = call->done; i < call->taken && !call->client_has_left; i++) {
            tokens += call->items[i].tokens_read;
            if (call->items[i].truncated && count++ == 0) {
                truncated = call;
                index = i;
            }
        }
    }
    const size_t model = batch->calls->model;
    const uint64_t all = metrics_batch(server->metrics, model, tokens, count);
    const uint64_t before = all - count;
    if (truncated != NULL && (before == 0 || digits(all) > digits(before))) {
        log_note(&server->settings->log,
                 "model %s: %" PRIu64 " text%s had more tokens than the %" PRId64
                 " that it reads and were truncated; the latest is input %zu of a request to %s; "
                 "\"truncate\": false refuses such texts",
                 truncated->model_name, all, number_plural((int64_t)all),
                 truncated->instance->max_tokens, index, truncated->request->path);
    }
}

void run_batch(void *context, struct work_batch *batch) {
    struct server *server = context;
    struct berth_error error = {.status = BERTH_OK};
    const struct task_model *instance = batch->calls->instance;
    // The items whose clients are still connected.
    size_t wanted = 0;
    for (struct call *call = batch->calls; call != NULL; call = call->beside) {
        call->client_has_left |= http_client_has_left(call->request);
        for (size_t i = call->done; i < call->taken && !call->client_has_left; i++) {
            batch->items[wanted++] = &call->items[i];
        }
    }
    enum berth_status status = BERTH_OK;
    if (atomic_load(&server->is_aborting)) {
        status = error_set(&error, BERTH_UNAVAILABLE, "the server is shutting down");
    } else if (wanted > 0) {
        status = batch->calls->task->run(instance, batch->items, wanted, &error);
    }
    for (size_t i = 0; status != BERTH_OK && i < wanted; i++) {
        task_text_fail(batch->items[i], status, error.message);
    }
    if (wanted > 0) {
        count_read(server, batch);
    }
    for (struct call *call = batch->calls, *next; call != NULL; call = next) {
        next = call->beside;
        call->done = call->taken;
        if (call->done == call->count) {
            call_answer(server, call);
        }
    }
}
