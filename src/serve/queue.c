// SPDX-License-Identifier: Apache-2.0
#include "serve/queue.h"

#include "core/memory.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

// The calls of a client, in their order.
struct client {
    uint64_t number;
    struct call *first, *last;
    struct client *next;
};

// The clients of a model; the first is the next one to be served.
struct line {
    struct client *first, *last;
    size_t items;
    int64_t tokens;
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct queue_limits limits;
    struct line *lines; // [models]
    size_t models, next_model, items;
    int has_ended;
};

enum berth_status queue_open(size_t models, const struct queue_limits *limits, struct queue **queue,
                             struct berth_error *error) {
    *queue = memory_array_zeroed(1, sizeof **queue);
    struct line *lines = memory_array_zeroed(models, sizeof *lines);
    if (*queue == NULL || lines == NULL) {
        memory_free(*queue);
        memory_free(lines);
        return error_no_memory(error, models * sizeof *lines, "a queue");
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&(*queue)->lock, NULL);
    pthread_cond_init(&(*queue)->filled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    (*queue)->limits = *limits;
    (*queue)->lines = lines;
    (*queue)->models = models;
    return BERTH_OK;
}

void queue_close(struct queue *queue) {
    if (queue != NULL) {
        pthread_cond_destroy(&queue->filled);
        pthread_mutex_destroy(&queue->lock);
        memory_free(queue->lines);
        memory_free(queue);
    }
}

// --- putting -------------------------------------------------------------------------------------

static void append_client(struct line *line, struct client *client) {
    client->next = NULL;
    *(line->last != NULL ? &line->last->next : &line->first) = client;
    line->last = client;
}

static struct client *find_client(struct line *line, uint64_t number) {
    struct client *client = line->first;
    while (client != NULL && client->number != number) {
        client = client->next;
    }
    if (client == NULL && (client = memory_array_zeroed(1, sizeof *client)) != NULL) {
        client->number = number;
        append_client(line, client);
    }
    return client;
}

static enum berth_status put(struct queue *queue, struct call *call, struct berth_error *error) {
    struct line *line = &queue->lines[call->model];
    if (queue->has_ended) {
        return error_set(error, BERTH_UNAVAILABLE, "the server is shutting down");
    }
    if (queue->items + call->count > queue->limits.items) {
        return error_set(error, BERTH_UNAVAILABLE,
                         "%zu texts are waiting, and --max_queue is %zu; try again later",
                         queue->items, queue->limits.items);
    }
    struct client *client = find_client(line, call->request->client);
    if (client == NULL) {
        return error_no_memory(error, sizeof *client, "a client");
    }
    call->next = NULL;
    *(client->first != NULL ? &client->last->next : &client->first) = call;
    client->last = call;
    line->items += call->count;
    line->tokens += call->tokens;
    queue->items += call->count;
    return BERTH_OK;
}

enum berth_status queue_put(struct queue *queue, struct call *call, struct berth_error *error) {
    pthread_mutex_lock(&queue->lock);
    enum berth_status status = put(queue, call, error);
    pthread_cond_signal(&queue->filled);
    pthread_mutex_unlock(&queue->lock);
    return status;
}

// --- taking --------------------------------------------------------------------------------------

// The client whose turn it is goes to the end of the line, or away with its last item.
static void next_turn(struct line *line) {
    struct client *client = line->first;
    line->first = client->next;
    line->last = line->first != NULL ? line->last : NULL;
    if (client->first != NULL) {
        append_client(line, client);
    } else {
        memory_free(client);
    }
}

static int take_item(struct queue *queue, struct line *line, struct batch *batch) {
    struct client *client = line->first;
    struct call *call = client->first;
    struct item *item = &call->items[call->taken];
    if (batch->count > 0 && (batch->tokens + item->tokens > queue->limits.batch_tokens ||
                             batch->calls[0]->instance != call->instance)) {
        return 0;
    }
    batch->items[batch->count] = item;
    batch->calls[batch->count++] = call;
    batch->tokens += item->tokens;
    line->tokens -= item->tokens;
    line->items--;
    queue->items--;
    if (++call->taken == call->count) {
        client->first = call->next;
    }
    next_turn(line);
    return 1;
}

static struct line *next_line(struct queue *queue, size_t *model) {
    size_t i = queue->next_model;
    while (queue->lines[i].first == NULL) {
        i = (i + 1) % queue->models;
    }
    *model = i;
    queue->next_model = (i + 1) % queue->models;
    return &queue->lines[i];
}

// Waits for a full batch of the line, but not longer than the delay.
static void wait_for_more(struct queue *queue, const struct line *line) {
    const double delay = queue->limits.delay_seconds;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const int64_t nanoseconds = until.tv_nsec + (int64_t)(delay * 1e9);
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    int waited = delay > 0 ? 0 : ETIMEDOUT;
    while (waited == 0 && line->tokens < queue->limits.batch_tokens && !queue->has_ended) {
        waited = pthread_cond_timedwait(&queue->filled, &queue->lock, &until);
    }
}

int queue_take(struct queue *queue, struct batch *batch) {
    batch->count = 0;
    batch->tokens = 0;
    pthread_mutex_lock(&queue->lock);
    while (queue->items == 0 && !queue->has_ended) {
        pthread_cond_wait(&queue->filled, &queue->lock);
    }
    if (queue->items > 0) {
        struct line *line = next_line(queue, &batch->model);
        wait_for_more(queue, line);
        while (line->first != NULL && take_item(queue, line, batch)) {
        }
    }
    pthread_mutex_unlock(&queue->lock);
    return batch->count > 0;
}

enum berth_status batch_open(struct batch *batch, const struct queue *queue,
                             struct berth_error *error) {
    const size_t most = queue->limits.items;
    *batch = (struct batch){.items = memory_array(most, sizeof *batch->items),
                            .calls = memory_array(most, sizeof *batch->calls)};
    return batch->items != NULL && batch->calls != NULL
               ? BERTH_OK
               : error_no_memory(error, most * sizeof *batch->items, "a batch");
}

void batch_done(struct batch *batch) {
    memory_free(batch->items);
    memory_free(batch->calls);
}

size_t queue_length(struct queue *queue, size_t model) {
    pthread_mutex_lock(&queue->lock);
    const size_t length = queue->lines[model].items;
    pthread_mutex_unlock(&queue->lock);
    return length;
}

void queue_end(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->has_ended = 1;
    pthread_cond_broadcast(&queue->filled);
    pthread_mutex_unlock(&queue->lock);
}
