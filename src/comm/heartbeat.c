// SPDX-License-Identifier: Apache-2.0
// Runs the work of a rank in the calling thread while another thread sums a few numbers with the
// other ranks, ten times a second, until all have finished. Stages of `berth prepare` and
// independent workers run so; what the numbers mean is theirs.
#include "comm/heartbeat.h"

#include "core/clock.h"
#include "core/thread.h"

#define INTERVAL_SECONDS 0.1 // between two heartbeats

struct heartbeat {
    const struct heartbeat_rules *rules;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int is_done; // the work of this rank
    enum berth_status status;
    struct berth_error error;
};

// Only the rank on which an error occurred first has its message; the others have its status.
static void note_failure(struct heartbeat *heartbeat, enum berth_status status) {
    const struct heartbeat_rules *rules = heartbeat->rules;
    if (heartbeat->error.message[0] == '\0') {
        (void)error_set(&heartbeat->error, status, "see the error of another process");
    }
    if (heartbeat->status == BERTH_OK && rules->fail != NULL) {
        rules->fail(rules->context, status, &heartbeat->error);
    }
    heartbeat->status = status;
}

// Returns whether another heartbeat follows.
static int beat(struct heartbeat *heartbeat, int is_done) {
    const struct heartbeat_rules *rules = heartbeat->rules;
    struct comm *comm = rules->comm;
    double numbers[HEARTBEAT_VALUES_MAX + 1] = {0};
    rules->report(rules->context, numbers);
    numbers[rules->count] = is_done;
    comm->sum(comm, numbers, rules->count + 1);
    const enum berth_status status = comm->status(comm, &heartbeat->error);
    if (status != BERTH_OK) {
        note_failure(heartbeat, status);
        return !is_done;
    }
    rules->receive(rules->context, numbers);
    return numbers[rules->count] < comm->size;
}

// Waits until the next heartbeat is due or this rank has finished its work.
static int wait_for_beat(struct heartbeat *heartbeat) {
    const double until = clock_now() + INTERVAL_SECONDS;
    pthread_mutex_lock(&heartbeat->lock);
    if (!heartbeat->is_done) {
        (void)thread_wait(&heartbeat->changed, &heartbeat->lock, until);
    }
    const int is_done = heartbeat->is_done;
    pthread_mutex_unlock(&heartbeat->lock);
    return is_done;
}

static void *run_heartbeats(void *context) {
    while (beat(context, wait_for_beat(context))) {
    }
    return NULL;
}

enum berth_status heartbeat_run(const struct heartbeat_rules *rules, void (*work)(void *context),
                                struct berth_error *error) {
    struct heartbeat heartbeat = {.rules = rules, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread;
    thread_condition_init(&heartbeat.changed);
    rules->comm->enter(rules->comm, COMM_HEARTBEAT, 0);
    const int failure = thread_start(&thread, run_heartbeats, &heartbeat);
    if (failure == 0) {
        work(rules->context);
    }
    pthread_mutex_lock(&heartbeat.lock);
    heartbeat.is_done = 1;
    pthread_cond_signal(&heartbeat.changed);
    pthread_mutex_unlock(&heartbeat.lock);
    if (failure == 0) {
        pthread_join(thread, NULL);
    } else {
        run_heartbeats(&heartbeat); // the other ranks expect this one
    }
    rules->comm->enter(rules->comm, COMM_BETWEEN, 0);
    pthread_cond_destroy(&heartbeat.changed);
    pthread_mutex_destroy(&heartbeat.lock);
    if (heartbeat.status != BERTH_OK) {
        return error_set(error, heartbeat.status, "%s", heartbeat.error.message);
    }
    return failure == 0 ? BERTH_OK
                        : error_set_errno(error, BERTH_UNAVAILABLE, failure,
                                          "cannot start the heartbeat thread");
}
