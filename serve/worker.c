// SPDX-License-Identifier: Apache-2.0
// A worker: takes a batch, runs it, answers the calls that are complete with it.
#include "core/clock.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/thread.h"
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

static int64_t tokens_read(const struct work_batch *batch) {
    int64_t tokens = 0;
    for (size_t i = 0; i < batch->count; i++) {
        tokens += batch->items[i]->tokens_read;
    }
    return tokens;
}

// Moves the items whose clients are still connected to the front, and counts them.
static size_t count_wanted(struct work_batch *batch) {
    size_t wanted = 0;
    for (size_t i = 0; i < batch->count; i++) {
        struct task_text *item = batch->items[i];
        struct call *call = batch->calls[i];
        if (http_client_has_left(call->request)) {
            call->client_has_left = 1;
            continue;
        }
        batch->items[i] = batch->items[wanted];
        batch->calls[i] = batch->calls[wanted];
        batch->items[wanted] = item;
        batch->calls[wanted++] = call;
    }
    return wanted;
}

static int digits(uint64_t number) {
    int count = 1;
    for (; number >= 10; number /= 10) {
        count++;
    }
    return count;
}

// Counts the texts that were truncated. The first of a model is noted, and then the 10th, 100th,
// ...: a note for each would be as many lines as requests.
static void count_truncated(struct server *server, const struct work_batch *batch, size_t wanted) {
    size_t count = 0, first = 0;
    for (size_t i = wanted; i-- > 0;) {
        if (batch->items[i]->truncated) {
            first = i;
            count++;
        }
    }
    if (count == 0) {
        return;
    }
    const struct call *call = batch->calls[first];
    const uint64_t all = metrics_truncated(server->metrics, batch->model, count);
    const uint64_t before = all - count;
    if (before == 0 || digits(all) > digits(before)) {
        log_note(&server->settings->log,
                 "model %s: %" PRIu64 " text%s had more tokens than the %" PRId64
                 " that it reads, and what is beyond was left out; the latest is input %td of a "
                 "request to %s; \"truncate\": false refuses such texts",
                 call->model_name, all, number_plural((int64_t)all), call->instance->max_tokens,
                 batch->items[first] - call->items, call->request->path);
    }
}

static void run_batch(struct server *server, struct work_batch *batch) {
    struct berth_error error = {.status = BERTH_OK};
    const struct task_model *instance = batch->calls[0]->instance;
    const size_t wanted = count_wanted(batch);
    enum berth_status status = BERTH_OK;
    if (atomic_load(&server->is_aborting)) {
        status = error_set(&error, BERTH_UNAVAILABLE, "the server is shutting down");
    } else if (wanted > 0) {
        status = instance->task->run(instance, batch->items, wanted, &error);
    }
    for (size_t i = 0; status != BERTH_OK && i < wanted; i++) {
        task_text_fail(batch->items[i], status, error.message);
    }
    if (wanted > 0) {
        metrics_batch(server->metrics, batch->model, tokens_read(batch));
        count_truncated(server, batch, wanted);
    }
    for (size_t i = 0; i < batch->count; i++) {
        struct call *call = batch->calls[i];
        if (++call->done == call->count) {
            call_answer(server, call);
        }
    }
}

static void *run(void *context) {
    struct worker *worker = context;
    struct server *server = worker->server;
    while (queue_take(server->queue, worker->lane, &worker->batch)) {
        run_batch(server, &worker->batch);
    }
    return NULL;
}

enum berth_status worker_start(struct worker *worker, struct berth_error *error) {
    TRY(batch_open(&worker->batch, worker->server->queue, error));
    TRY(thread_open(&worker->thread, run, worker, error));
    worker->is_running = 1;
    return BERTH_OK;
}

void worker_join(struct worker *worker) {
    if (worker->is_running) {
        pthread_join(worker->thread, NULL);
    }
    batch_done(&worker->batch);
}
