// SPDX-License-Identifier: Apache-2.0
#include "core/meeting.h"

#include "core/clock.h"
#include "core/thread.h"

#define INTERVAL_SECONDS 0.1 // between two meetings

struct meeting {
    const struct meeting_rules *rules;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int is_done; // the work of this rank
    enum berth_status status;
    struct berth_error error;
};

// The rank that met an error first says what it is; the others have its status alone.
static void note_failure(struct meeting *meeting, enum berth_status status) {
    const struct meeting_rules *rules = meeting->rules;
    if (meeting->error.message[0] == '\0') {
        (void)error_set(&meeting->error, status, "another process says why");
    }
    if (meeting->status == BERTH_OK && rules->fail != NULL) {
        rules->fail(rules->context, status, &meeting->error);
    }
    meeting->status = status;
}

// Returns whether there is another meeting.
static int meet(struct meeting *meeting, int is_done) {
    const struct meeting_rules *rules = meeting->rules;
    struct comm *comm = rules->comm;
    double numbers[MEETING_MOST + 1] = {0};
    rules->tell(rules->context, is_done, numbers);
    numbers[rules->count] = is_done;
    comm->sum(comm, numbers, rules->count + 1);
    const enum berth_status status = comm->status(comm, &meeting->error);
    if (status != BERTH_OK) {
        note_failure(meeting, status);
        return !is_done;
    }
    rules->hear(rules->context, numbers);
    return numbers[rules->count] < comm->size;
}

// Waits for the time of the next meeting, or until this rank has done its work.
static int wait_for_meeting(struct meeting *meeting) {
    const double until = clock_now() + INTERVAL_SECONDS;
    pthread_mutex_lock(&meeting->lock);
    if (!meeting->is_done) {
        (void)thread_wait(&meeting->changed, &meeting->lock, until);
    }
    const int is_done = meeting->is_done;
    pthread_mutex_unlock(&meeting->lock);
    return is_done;
}

static void *run_meetings(void *context) {
    while (meet(context, wait_for_meeting(context))) {
    }
    return NULL;
}

static void finish(struct meeting *meeting) {
    pthread_mutex_lock(&meeting->lock);
    meeting->is_done = 1;
    pthread_cond_signal(&meeting->changed);
    pthread_mutex_unlock(&meeting->lock);
}

enum berth_status meeting_work(const struct meeting_rules *rules, void (*work)(void *context),
                               struct berth_error *error) {
    struct meeting meeting = {.rules = rules, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread;
    thread_condition_init(&meeting.changed);
    rules->comm->enter(rules->comm, COMM_MEETING, 0);
    const int failure = thread_start(&thread, run_meetings, &meeting);
    if (failure == 0) {
        work(rules->context);
    }
    finish(&meeting);
    if (failure == 0) {
        pthread_join(thread, NULL);
    } else {
        run_meetings(&meeting); // the other ranks meet this one, too
    }
    rules->comm->enter(rules->comm, COMM_BETWEEN, 0);
    pthread_cond_destroy(&meeting.changed);
    pthread_mutex_destroy(&meeting.lock);
    if (meeting.status != BERTH_OK) {
        return error_set(error, meeting.status, "%s", meeting.error.message);
    }
    return failure == 0 ? BERTH_OK
                        : error_set_errno(error, BERTH_UNAVAILABLE, failure,
                                          "cannot start the thread that meets other processes");
}
