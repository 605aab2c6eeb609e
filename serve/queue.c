// SPDX-License-Identifier: Apache-2.0
#include "serve/queue.h"

#include "core/clock.h"
#include "core/memory.h"
#include "core/thread.h"
#include "serve/turns.h"

#include <errno.h>
#include <pthread.h>

#define LONG_BATCHES 4

// The calls of a model.
struct model_queue {
    struct turns turns;
    size_t items;
    int64_t tokens;
};

// The calls that one worker takes.
struct lane {
    pthread_cond_t not_empty;
    struct model_queue *model_queues; // [models]
    size_t next_model, items;
};

struct queue {
    pthread_mutex_t lock;
    struct queue_limits limits;
    struct lane lanes[QUEUE_LANES];
    size_t models, items;
    int has_ended;
};

static enum berth_status open_lane(struct lane *lane, size_t models, struct berth_error *error) {
    lane->model_queues = memory_array_zeroed(models, sizeof *lane->model_queues);
    if (lane->model_queues == NULL) {
        return error_no_memory(error, models * sizeof *lane->model_queues, "a queue");
    }
    thread_condition_init(&lane->not_empty);
    return BERTH_OK;
}

enum berth_status queue_open(size_t models, const struct queue_limits *limits, struct queue **queue,
                             struct berth_error *error) {
    struct queue *opened = memory_array_zeroed(1, sizeof *opened);
    if (opened == NULL) {
        return error_no_memory(error, sizeof *opened, "a queue");
    }
    pthread_mutex_init(&opened->lock, NULL);
    opened->limits = *limits;
    opened->models = models;
    *queue = opened;
    for (size_t i = 0; i < QUEUE_LANES; i++) {
        TRY(open_lane(&opened->lanes[i], models, error));
    }
    return BERTH_OK;
}

void queue_close(struct queue *queue) {
    for (size_t i = 0; queue != NULL && i < QUEUE_LANES; i++) {
        if (queue->lanes[i].model_queues != NULL) {
            pthread_cond_destroy(&queue->lanes[i].not_empty);
            memory_free(queue->lanes[i].model_queues);
        }
    }
    if (queue != NULL) {
        pthread_mutex_destroy(&queue->lock);
        memory_free(queue);
    }
}

// --- putting -------------------------------------------------------------------------------------

// Calls with a text of more than LONG_BATCHES batches have a lane of their own.
static enum queue_lane lane_of(const struct queue *queue, const struct call *call) {
    size_t i = 0;
    while (i < call->count && call->items[i].tokens <= LONG_BATCHES * queue->limits.batch_tokens) {
        i++;
    }
    return i < call->count ? QUEUE_LONG : QUEUE_NORMAL;
}

static enum berth_status put(struct queue *queue, struct call *call, struct berth_error *error) {
    struct lane *lane = &queue->lanes[lane_of(queue, call)];
    struct model_queue *model_queue = &lane->model_queues[call->model];
    if (queue->has_ended) {
        return error_set(error, BERTH_UNAVAILABLE, "the server is shutting down");
    }
    if (queue->items + call->count > queue->limits.items) {
        return error_set(error, BERTH_UNAVAILABLE,
                         "%zu texts are waiting and this request has %zu, but --max_queue is %zu; "
                         "try again later",
                         queue->items, call->count, queue->limits.items);
    }
    if (!turns_put(&model_queue->turns, call, call->tokens > queue->limits.batch_tokens)) {
        return error_no_memory(error, sizeof(struct client), "a client");
    }
    model_queue->items += call->count;
    model_queue->tokens += call->tokens;
    lane->items += call->count;
    queue->items += call->count;
    pthread_cond_signal(&lane->not_empty);
    return BERTH_OK;
}

enum berth_status queue_put(struct queue *queue, struct call *call, struct berth_error *error) {
    pthread_mutex_lock(&queue->lock);
    enum berth_status status = put(queue, call, error);
    pthread_mutex_unlock(&queue->lock);
    return status;
}

// --- taking --------------------------------------------------------------------------------------

static int move_item(struct queue *queue, struct lane *lane, struct model_queue *model_queue,
                     struct work_batch *batch) {
    struct call *call = turns_first(&model_queue->turns);
    struct task_text *item = &call->items[call->taken];
    if (batch->count > 0 && (batch->tokens + item->tokens > queue->limits.batch_tokens ||
                             batch->calls[0]->instance != call->instance)) {
        return 0;
    }
    batch->items[batch->count] = item;
    batch->calls[batch->count++] = call;
    batch->tokens += item->tokens;
    model_queue->tokens -= item->tokens;
    model_queue->items--;
    lane->items--;
    queue->items--;
    turns_next(&model_queue->turns, ++call->taken == call->count);
    return 1;
}

static struct model_queue *next_model_queue(const struct queue *queue, struct lane *lane,
                                            size_t *model) {
    size_t i = lane->next_model;
    while (lane->model_queues[i].items == 0) {
        i = (i + 1) % queue->models;
    }
    *model = i;
    lane->next_model = (i + 1) % queue->models;
    return &lane->model_queues[i];
}

// Waits for a full batch of the model, but not longer than the delay.
static void wait_for_more(struct queue *queue, struct lane *lane,
                          const struct model_queue *model_queue) {
    const double delay = queue->limits.delay_seconds;
    const double until = clock_now() + delay;
    int waited = delay > 0 ? 0 : ETIMEDOUT;
    while (waited == 0 && model_queue->tokens < queue->limits.batch_tokens && !queue->has_ended) {
        waited = thread_wait(&lane->not_empty, &queue->lock, until);
    }
}

int queue_take(struct queue *queue, enum queue_lane which, struct work_batch *batch) {
    struct lane *lane = &queue->lanes[which];
    batch->count = 0;
    batch->tokens = 0;
    pthread_mutex_lock(&queue->lock);
    while (lane->items == 0 && !queue->has_ended) {
        pthread_cond_wait(&lane->not_empty, &queue->lock);
    }
    if (lane->items > 0) {
        struct model_queue *model_queue = next_model_queue(queue, lane, &batch->model);
        wait_for_more(queue, lane, model_queue);
        while (model_queue->items > 0 && move_item(queue, lane, model_queue, batch)) {
        }
    }
    pthread_mutex_unlock(&queue->lock);
    return batch->count > 0;
}

enum berth_status batch_open(struct work_batch *batch, const struct queue *queue,
                             struct berth_error *error) {
    const size_t capacity = queue->limits.items;
    *batch = (struct work_batch){.items = memory_array(capacity, sizeof *batch->items),
                                 .calls = memory_array(capacity, sizeof *batch->calls)};
    return batch->items != NULL && batch->calls != NULL
               ? BERTH_OK
               : error_no_memory(error, capacity * sizeof *batch->items, "a batch");
}

void batch_done(struct work_batch *batch) {
    memory_free(batch->items);
    memory_free(batch->calls);
}

size_t queue_length(struct queue *queue, size_t model) {
    size_t length = 0;
    pthread_mutex_lock(&queue->lock);
    for (size_t i = 0; i < QUEUE_LANES; i++) {
        length += queue->lanes[i].model_queues[model].items;
    }
    pthread_mutex_unlock(&queue->lock);
    return length;
}

void queue_end(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->has_ended = 1;
    for (size_t i = 0; i < QUEUE_LANES; i++) {
        pthread_cond_broadcast(&queue->lanes[i].not_empty);
    }
    pthread_mutex_unlock(&queue->lock);
}
