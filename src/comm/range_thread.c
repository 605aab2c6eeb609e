// SPDX-License-Identifier: Apache-2.0
#include "comm/range_thread.h"

#include "core/clock.h"
#include "core/memory.h"
#include "core/thread.h"

struct queued_range {
    struct queued_range *next;
    const struct pipeline_kind *kind;
    struct comm_range range;
    int64_t ticket;
};

// --- the queue ----------------------------------------------------------------------------------

static void append(struct range_thread *thread, struct queued_range *range) {
    if (thread->last != NULL) {
        thread->last->next = range;
    } else {
        thread->first = range;
    }
    thread->last = range;
}

// Under the mutex. NULL: nothing is queued.
static struct queued_range *take(struct range_thread *thread) {
    struct queued_range *range = thread->first;
    if (range != NULL) {
        thread->first = range->next;
        thread->last = range->next != NULL ? thread->last : NULL;
    }
    return range;
}

// --- the thread ---------------------------------------------------------------------------------

static void give_next(struct range_thread *thread) {
    pthread_mutex_lock(&thread->mutex);
    struct queued_range *range = take(thread);
    pthread_mutex_unlock(&thread->mutex);
    if (range != NULL) {
        pipeline_give(thread->pipeline, range->kind, &range->range, range->ticket);
        memory_free(range);
    }
}

// Tells callers what is completed, and how long it took.
static void tell(struct range_thread *thread) {
    const double now = clock_now();
    pthread_mutex_lock(&thread->mutex);
    thread->completed = thread->pipeline->completed;
    thread->busy_seconds += now - thread->busy_since;
    pthread_cond_broadcast(&thread->moved);
    pthread_mutex_unlock(&thread->mutex);
    thread->busy_since = now;
}

// Where there is nothing to do but to wait.
static enum berth_status wait_for_others(struct range_thread *thread, struct patience *patience,
                                         uint32_t events, struct berth_error *error) {
    struct pipeline *pipeline = thread->pipeline;
    char what[RANGE_TEXT];
    const int microseconds = patience_next(patience);
    if (microseconds == 0) {
        return BERTH_OK;
    }
    const int rank = pipeline_awaited(pipeline, what);
    watch_wait(thread->watch, TRANSPORT_RANGES, rank);
    if (patience_is_over(patience, &pipeline->courier)) {
        TRY(patience_renew(patience, &pipeline->courier, rank, what, error));
    }
    host_window_sleep(&pipeline->window, events, microseconds);
    return BERTH_OK;
}

// Exchanges until nothing is queued or under way.
static enum berth_status exchange_queued(struct range_thread *thread, struct berth_error *error) {
    struct pipeline *pipeline = thread->pipeline;
    struct patience patience = patience_new();
    for (;;) {
        int moved = 0;
        if (pipeline_wants(pipeline)) {
            give_next(thread);
        }
        if (pipeline_is_idle(pipeline)) {
            return BERTH_OK;
        }
        const uint32_t events = host_window_events(&pipeline->window);
        TRY(fault_status(thread->fault, error));
        TRY(pipeline_progress(pipeline, &moved, error));
        if (pipeline->completed != thread->completed) { // only this thread writes it
            tell(thread);
        }
        if (moved) {
            patience = patience_new();
            watch_wait(thread->watch, TRANSPORT_RANGES, -1);
        } else {
            TRY(wait_for_others(thread, &patience, events, error));
        }
    }
}

// 0: the thread shall end.
static int wait_for_work(struct range_thread *thread) {
    pthread_mutex_lock(&thread->mutex);
    while (thread->first == NULL && !thread->shall_end) {
        pthread_cond_wait(&thread->queued, &thread->mutex);
    }
    const int is_work = thread->first != NULL;
    pthread_mutex_unlock(&thread->mutex);
    return is_work;
}

static void *run(void *context) {
    struct range_thread *thread = context;
    while (wait_for_work(thread)) {
        struct berth_error error;
        thread->busy_since = clock_now();
        const enum berth_status status = exchange_queued(thread, &error);
        fault_keep(thread->fault, status, &error);
        tell(thread);
        if (status != BERTH_OK) {
            break;
        }
    }
    return NULL;
}

// --- what callers see ---------------------------------------------------------------------------

enum berth_status range_thread_start(struct range_thread *thread, struct pipeline *pipeline,
                                     struct berth_error *error) {
    *thread = (struct range_thread){
        .pipeline = pipeline, .fault = pipeline->courier.fault, .watch = pipeline->courier.watch};
    pthread_mutex_init(&thread->mutex, NULL);
    pthread_cond_init(&thread->queued, NULL);
    pthread_cond_init(&thread->moved, NULL);
    thread->is_running = 1;
    const int failure = thread_start(&thread->thread, run, thread);
    if (failure != 0) {
        thread->is_running = 0;
        return error_set_errno(error, BERTH_UNAVAILABLE, failure,
                               "cannot start the thread that exchanges ranges");
    }
    return BERTH_OK;
}

void range_thread_end(struct range_thread *thread) {
    struct queued_range *range;
    if (!thread->is_running) {
        return;
    }
    pthread_mutex_lock(&thread->mutex);
    thread->shall_end = 1;
    pthread_cond_signal(&thread->queued);
    pthread_mutex_unlock(&thread->mutex);
    pthread_join(thread->thread, NULL);
    while ((range = take(thread)) != NULL) {
        memory_free(range);
    }
    pthread_cond_destroy(&thread->moved);
    pthread_cond_destroy(&thread->queued);
    pthread_mutex_destroy(&thread->mutex);
    thread->is_running = 0;
}

static struct queued_range *queued_new(struct range_thread *thread) {
    struct queued_range *range = memory_new(sizeof *range);
    struct berth_error error;
    if (range == NULL) {
        fault_keep(thread->fault,
                   error_no_memory(&error, sizeof *range, "the list of ranges that are exchanged"),
                   &error);
    }
    return range;
}

int64_t range_thread_begin(struct range_thread *thread, const struct pipeline_kind *kind,
                           const struct comm_range *range) {
    struct queued_range *queued;
    if (fault_is_set(thread->fault) || (queued = queued_new(thread)) == NULL) {
        return 0;
    }
    *queued = (struct queued_range){.kind = kind, .range = *range};
    pthread_mutex_lock(&thread->mutex);
    const int64_t ticket = ++thread->begun;
    queued->ticket = ticket;
    append(thread, queued);
    pthread_cond_signal(&thread->queued);
    pthread_mutex_unlock(&thread->mutex);
    return ticket;
}

// An error is met by the thread, which then tells so, or by the caller of this.
void range_thread_wait(struct range_thread *thread, int64_t ticket) {
    const double start = clock_now();
    pthread_mutex_lock(&thread->mutex);
    if (thread->completed < ticket) {
        watch_wait_range(thread->watch, 1);
        while (thread->completed < ticket && !fault_is_set(thread->fault)) {
            pthread_cond_wait(&thread->moved, &thread->mutex);
        }
        watch_wait_range(thread->watch, -1);
        thread->exposed_seconds += clock_now() - start;
    }
    pthread_mutex_unlock(&thread->mutex);
}

int64_t range_thread_begun(struct range_thread *thread) {
    pthread_mutex_lock(&thread->mutex);
    const int64_t begun = thread->begun;
    pthread_mutex_unlock(&thread->mutex);
    return begun;
}

void range_thread_stats(struct range_thread *thread, struct comm_stats *stats) {
    pthread_mutex_lock(&thread->mutex);
    stats->busy_seconds += thread->busy_seconds;
    stats->exposed_seconds += thread->exposed_seconds;
    pthread_mutex_unlock(&thread->mutex);
    stats->bytes += atomic_load(&thread->pipeline->courier.sent);
}
