// SPDX-License-Identifier: Apache-2.0
// Lanes with a thread each, for calls that are to be read, usual calls and those with long texts.
// Calls wait in them, in turns between clients and between models, until a batch is full or nothing
// else waits. routes.c puts calls in; run.c gets the items of a batch. Why turns are as they are is
// said in queue.h.
#include "serve/queue.h"

#include "core/clock.h"
#include "core/memory.h"
#include "core/thread.h"

#include <errno.h>

#define LONG_BATCHES 4

struct lane {
    struct queue *queue;
    queue_work *work;
    pthread_t thread;
    pthread_cond_t not_empty;
    int is_running, has_ended;
    struct call *first; // by their rounds, of which a client's calls have one each
    uint64_t round;     // that is being taken
    size_t model;       // of the last batch
    int64_t tokens;     // that wait
    struct work_batch batch;
};

struct queue {
    pthread_mutex_t lock;
    struct queue_limits limits;
    void *context;
    struct lane lanes[QUEUE_LANES];
    size_t models, items, *waiting; // [models]
};

// --- putting -------------------------------------------------------------------------------------

// Its turn is in the round after its client's last one. A call that goes on comes before the others
// of its client, each of which gets the turn of the next.
static void insert(struct lane *lane, struct call *call) {
    const int goes_on = call->taken > 0;
    uint64_t round = lane->round;
    struct call **at = &lane->first;
    for (; *at != NULL; at = &(*at)->next) {
        struct call *other = *at;
        const int64_t most = lane->queue->limits.batch_tokens;
        if (other->request->client != call->request->client ||
            (other->tokens > most) != (call->tokens > most)) {
            continue;
        }
        round = other->round + 1;
        if (goes_on) {
            *at = call;
            call->next = other->next;
            call->round = other->round;
            call = other;
        }
    }
    for (at = &lane->first; *at != NULL && (*at)->round <= round;) {
        at = &(*at)->next;
    }
    call->round = round;
    call->next = *at;
    *at = call;
}

static enum berth_status put(struct queue *queue, struct call *call, struct berth_error *error) {
    size_t i = 0;
    while (i < call->count && call->items[i].tokens <= LONG_BATCHES * queue->limits.batch_tokens) {
        i++;
    }
    struct lane *lane = &queue->lanes[call->count == 0  ? QUEUE_READ
                                      : i < call->count ? QUEUE_LONG
                                                        : QUEUE_RUN];
    if (lane->has_ended) {
        return error_set(error, BERTH_UNAVAILABLE, "the server is shutting down");
    }
    if (queue->items + call->count > queue->limits.items) {
        return error_set(error, BERTH_UNAVAILABLE,
                         "%zu texts are waiting and this request has %zu, but --max_queue is %zu; "
                         "try again later",
                         queue->items, call->count, queue->limits.items);
    }
    insert(lane, call);
    lane->tokens += call->tokens;
    if (call->count > 0) {
        queue->waiting[call->model] += call->count;
        queue->items += call->count;
    }
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

// Takes items of the call while they fit, and returns their number.
static size_t take_items(struct lane *lane, struct call *call) {
    struct queue *queue = lane->queue;
    const size_t before = call->taken;
    int64_t *all = &lane->batch.tokens;
    for (; call->taken < call->count; call->taken++) {
        const int64_t tokens = call->items[call->taken].tokens;
        if (*all > 0 && *all + tokens > queue->limits.batch_tokens) {
            break;
        }
        *all += tokens;
        lane->tokens -= tokens;
        queue->waiting[call->model]--;
        queue->items--;
    }
    return call->taken - before;
}

// The first one of the model whose turn it is. Unread calls that name none have a number, too.
static const struct call *find_next(const struct lane *lane) {
    const size_t numbers = lane->queue->models + 1;
    const struct call *next = NULL;
    size_t least = numbers;
    for (const struct call *call = lane->first; call != NULL; call = call->next) {
        const size_t distance = (call->model + numbers - lane->model - 1) % numbers;
        next = distance < least ? call : next;
        least = distance < least ? distance : least;
    }
    return next;
}

// Takes an unread call, or items of one instance until the batch is full.
static void fill(struct lane *lane) {
    struct call **at = &lane->first, **last = &lane->batch.calls, *call;
    const struct call *first = find_next(lane);
    const struct task_model *instance = first->instance;
    const struct task_row *task = first->task;
    lane->round = lane->first->round;
    lane->model = first->model;
    while ((call = *at) != NULL) {
        if (call->instance != instance || call->task != task || call->model != lane->model) {
            at = &call->next;
            continue;
        }
        if (call->count > 0 && take_items(lane, call) == 0) {
            return;
        }
        *at = call->next;
        *last = call;
        last = &call->beside;
        call->beside = NULL;
        if (call->count == 0) {
            return;
        }
        if (call->taken < call->count) {
            insert(lane, call);
            return;
        }
    }
}

// Returns 0 if the lane has ended and is empty.
static int take(struct lane *lane) {
    lane->batch.calls = NULL;
    lane->batch.tokens = 0;
    pthread_mutex_lock(&lane->queue->lock);
    while (lane->first == NULL && !lane->has_ended) {
        pthread_cond_wait(&lane->not_empty, &lane->queue->lock);
    }
    if (lane->first != NULL) {
        // Waits for a full batch, but not longer than the delay.
        const struct queue_limits *limits = &lane->queue->limits;
        const double until = clock_now() + limits->delay_seconds;
        int waited = limits->delay_seconds > 0 && lane->first->count > 0 ? 0 : ETIMEDOUT;
        while (waited == 0 && lane->tokens < limits->batch_tokens && !lane->has_ended) {
            waited = thread_wait(&lane->not_empty, &lane->queue->lock, until);
        }
        fill(lane);
    }
    pthread_mutex_unlock(&lane->queue->lock);
    return lane->batch.calls != NULL;
}

static void *run_lane(void *context) {
    struct lane *lane = context;
    while (take(lane)) {
        lane->work(lane->queue->context, &lane->batch);
    }
    return NULL;
}

// --- the queue -----------------------------------------------------------------------------------

enum berth_status queue_open(size_t models, const struct queue_limits *limits,
                             queue_work *const work[QUEUE_LANES], void *context,
                             struct queue **queue, struct berth_error *error) {
    struct queue *opened = *queue = memory_array_zeroed(1, sizeof *opened);
    if (opened == NULL) {
        return error_no_memory(error, sizeof *opened, "a queue");
    }
    pthread_mutex_init(&opened->lock, NULL);
    opened->limits = *limits;
    opened->models = models;
    opened->context = context;
    for (size_t i = 0; i < QUEUE_LANES; i++) {
        opened->lanes[i] = (struct lane){.queue = opened, .work = work[i], .model = models};
        thread_condition_init(&opened->lanes[i].not_empty);
    }
    opened->waiting = memory_array_zeroed(models, sizeof *opened->waiting);
    if (opened->waiting == NULL) {
        return error_no_memory(error, models * sizeof *opened->waiting, "a queue");
    }
    for (size_t i = 0; i < QUEUE_LANES; i++) {
        struct lane *lane = &opened->lanes[i];
        const size_t room = lane->queue->limits.items;
        lane->batch.items = memory_array(room, sizeof *lane->batch.items);
        if (lane->batch.items == NULL) {
            return error_no_memory(error, room * sizeof *lane->batch.items, "a batch");
        }
        TRY(thread_open(&lane->thread, run_lane, lane, error));
        lane->is_running = 1;
    }
    return BERTH_OK;
}

size_t queue_length(struct queue *queue, size_t model) {
    pthread_mutex_lock(&queue->lock);
    const size_t length = queue->waiting[model];
    pthread_mutex_unlock(&queue->lock);
    return length;
}

// Ends the lanes in order: calls that the first one has read are put into the others, which end
// later.
void queue_end(struct queue *queue) {
    for (size_t i = 0; queue != NULL && i < QUEUE_LANES; i++) {
        struct lane *lane = &queue->lanes[i];
        pthread_mutex_lock(&queue->lock);
        lane->has_ended = 1;
        pthread_cond_signal(&lane->not_empty);
        pthread_mutex_unlock(&queue->lock);
        if (lane->is_running) {
            pthread_join(lane->thread, NULL);
        }
    }
}

void queue_close(struct queue *queue) {
    for (size_t i = 0; queue != NULL && i < QUEUE_LANES; i++) {
        pthread_cond_destroy(&queue->lanes[i].not_empty);
        memory_free(queue->lanes[i].batch.items);
    }
    if (queue != NULL) {
        pthread_mutex_destroy(&queue->lock);
        memory_free(queue->waiting);
        memory_free(queue);
    }
}
