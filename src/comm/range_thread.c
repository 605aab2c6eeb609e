// SPDX-License-Identifier: Apache-2.0
// The thread that exchanges ranges beside the computation. The rank's own thread puts a range into
// the queue and gets a ticket; this thread runs the pipeline until the queue is empty, and wakes
// whoever waits for a ticket. An error ends the thread and is kept for all (fault.c).
#include "comm/range_thread.h"

#include "core/clock.h"
#include "core/memory.h"
#include "core/thread.h"

#include <math.h>

struct queued_range {
    struct queued_range *next;
    const struct pipeline_phases *phases;
    struct comm_range range;
    int64_t ticket;
    double begun_at;
};

// --- the queue ----------------------------------------------------------------------------------

// Under the mutex. NULL: nothing is queued.
static struct queued_range *pop(struct range_thread *thread) {
    struct queued_range *range = thread->first;
    if (range != NULL) {
        thread->first = range->next;
        thread->last = range->next != NULL ? thread->last : NULL;
    }
    return range;
}

// --- the thread ---------------------------------------------------------------------------------

// Publishes to callers what is complete and how long it took.
static void publish_progress(struct range_thread *thread) {
    pthread_mutex_lock(&thread->mutex);
    const double now = clock_now();
    thread->published_at = now;
    thread->completed = thread->pipeline->completed;
    thread->busy_seconds += now - thread->busy_since;
    pthread_cond_broadcast(&thread->progressed);
    pthread_mutex_unlock(&thread->mutex);
    thread->busy_since = now;
}

// For when there is nothing to do but wait.
static enum berth_status wait_for_others(struct range_thread *thread, struct backoff *backoff,
                                         uint32_t events, struct berth_error *error) {
    struct pipeline *pipeline = thread->pipeline;
    char what[RANGE_TEXT];
    const int microseconds = backoff_next(backoff);
    if (microseconds == 0) {
        return BERTH_OK;
    }
    const int rank = pipeline_awaited_rank(pipeline, what);
    monitor_wait(thread->monitor, TRANSPORT_RANGES, rank);
    if (backoff_is_expired(backoff, &pipeline->courier)) {
        TRY(backoff_extend(backoff, &pipeline->courier, rank, what, error));
    }
    host_window_sleep(&pipeline->window, events, microseconds);
    return BERTH_OK;
}

// Exchanges until nothing is queued or in flight.
static enum berth_status exchange_queued(struct range_thread *thread, struct berth_error *error) {
    struct pipeline *pipeline = thread->pipeline;
    struct backoff backoff = backoff_new(&pipeline->courier);
    for (;;) {
        int progressed = 0;
        if (pipeline_needs_operation(pipeline)) {
            pthread_mutex_lock(&thread->mutex);
            struct queued_range *range = pop(thread);
            pthread_mutex_unlock(&thread->mutex);
            if (range != NULL) {
                pipeline_start_operation(thread->pipeline, range->phases, &range->range,
                                         range->ticket);
                memory_free(range);
            }
        }
        if (pipeline_is_idle(pipeline)) {
            return BERTH_OK;
        }
        const uint32_t events = host_window_events(&pipeline->window);
        TRY(fault_status(thread->fault, error));
        TRY(pipeline_progress(pipeline, &progressed, error));
        if (pipeline->completed != thread->completed) { // only this thread writes it
            publish_progress(thread);
        }
        if (progressed) {
            backoff = backoff_new(&pipeline->courier);
            monitor_wait(thread->monitor, TRANSPORT_RANGES, -1);
        } else {
            TRY(wait_for_others(thread, &backoff, events, error));
        }
    }
}

// Returns 0 if the thread must end.
static int wait_for_work(struct range_thread *thread) {
    pthread_mutex_lock(&thread->mutex);
    while (thread->first == NULL && !thread->stop_requested) {
        pthread_cond_wait(&thread->queued, &thread->mutex);
    }
    const int is_work = thread->first != NULL;
    if (is_work) { // which may have been queued before the last progress was published
        thread->busy_since = fmax(thread->busy_since, thread->first->begun_at);
    }
    pthread_mutex_unlock(&thread->mutex);
    return is_work;
}

static void *run(void *context) {
    struct range_thread *thread = context;
    while (wait_for_work(thread)) {
        struct berth_error error;
        const enum berth_status status = exchange_queued(thread, &error);
        fault_set(thread->fault, status, &error);
        publish_progress(thread);
        if (status != BERTH_OK) {
            break;
        }
    }
    return NULL;
}

// --- what callers see ---------------------------------------------------------------------------

enum berth_status range_thread_start(struct range_thread *thread, struct pipeline *pipeline,
                                     struct berth_error *error) {
    *thread = (struct range_thread){.pipeline = pipeline,
                                    .fault = pipeline->courier.fault,
                                    .monitor = pipeline->courier.monitor};
    pthread_mutex_init(&thread->mutex, NULL);
    pthread_cond_init(&thread->queued, NULL);
    pthread_cond_init(&thread->progressed, NULL);
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
    thread->stop_requested = 1;
    pthread_cond_signal(&thread->queued);
    pthread_mutex_unlock(&thread->mutex);
    pthread_join(thread->thread, NULL);
    while ((range = pop(thread)) != NULL) {
        memory_free(range);
    }
    pthread_cond_destroy(&thread->progressed);
    pthread_cond_destroy(&thread->queued);
    pthread_mutex_destroy(&thread->mutex);
    thread->is_running = 0;
}

static struct queued_range *queued_new(struct range_thread *thread) {
    struct queued_range *range = memory_new(sizeof *range);
    struct berth_error error;
    if (range == NULL) {
        fault_set(thread->fault,
                  error_no_memory(&error, sizeof *range, "the list of ranges that are exchanged"),
                  &error);
    }
    return range;
}

int64_t range_thread_begin(struct range_thread *thread, const struct pipeline_phases *phases,
                           const struct comm_range *range) {
    struct queued_range *queued;
    if (fault_is_set(thread->fault) || (queued = queued_new(thread)) == NULL) {
        return 0;
    }
    *queued = (struct queued_range){.phases = phases, .range = *range};
    pthread_mutex_lock(&thread->mutex);
    queued->begun_at = clock_now();
    const int64_t ticket = ++thread->begun;
    queued->ticket = ticket;
    if (thread->last != NULL) {
        thread->last->next = queued;
    } else {
        thread->first = queued;
    }
    thread->last = queued;
    pthread_cond_signal(&thread->queued);
    pthread_mutex_unlock(&thread->mutex);
    return ticket;
}

// Errors are met by the exchanging thread, which then wakes the waiters, or by the caller of this
// function.
void range_thread_wait(struct range_thread *thread, int64_t ticket) {
    pthread_mutex_lock(&thread->mutex);
    if (thread->completed < ticket) {
        const double start = clock_now();
        monitor_wait_range(thread->monitor, 1);
        while (thread->completed < ticket && !fault_is_set(thread->fault)) {
            pthread_cond_wait(&thread->progressed, &thread->mutex);
        }
        monitor_wait_range(thread->monitor, -1);
        thread->exposed_seconds +=
            (thread->completed < ticket ? clock_now() : thread->published_at) - start;
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
    stats->ranges += thread->begun;
    stats->busy_seconds += thread->busy_seconds;
    stats->exposed_seconds += thread->exposed_seconds;
    pthread_mutex_unlock(&thread->mutex);
    stats->bytes +=
        atomic_load(&thread->pipeline->courier.sent) + atomic_load(&thread->pipeline->relays.sent);
}
