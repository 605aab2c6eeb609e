// SPDX-License-Identifier: Apache-2.0
#include "data/stages/stage_work.h"

#include <pthread.h>
#include <time.h>

#define MEETING_NANOSECONDS 100000000 // between two meetings of the ranks

static const char stopped[] = "stopped; finished files are kept, and the next run makes the rest";

int stage_rank(const struct comm *comm) {
    return comm != NULL ? comm->rank : 0;
}

int stage_ranks(const struct comm *comm) {
    return comm != NULL ? comm->size : 1;
}

enum berth_status stage_settle(struct comm *comm, enum berth_status own,
                               struct berth_error *error) {
    return comm != NULL ? comm_settle(comm, own, error) : own;
}

// --- by several threads --------------------------------------------------------------------------

static void report(const struct stage_work *work) {
    const int64_t done = work->done + work->done_elsewhere;
    if (work->in_bytes) {
        log_progress_bytes(work->log, work->phase, done, work->total);
    } else {
        log_progress(work->log, work->phase, done, work->total);
    }
}

void stage_advance(struct stage_work *work, int64_t more) {
#pragma omp critical(stage_work)
    {
        work->done += more;
        report(work);
    }
}

static void keep(struct stage_work *work, enum berth_status status, const char *message) {
#pragma omp critical(stage_work)
    if (work->status == BERTH_OK) {
        work->status = error_set(&work->error, status, "%s", message);
    }
}

void stage_fail(struct stage_work *work, enum berth_status status,
                const struct berth_error *error) {
    keep(work, status, error->message);
}

static int asks_to_stop(const struct stage_work *work) {
    return work->stop != NULL && *work->stop != 0;
}

int stage_must_end(struct stage_work *work) {
    int ends, others_end;
#pragma omp critical(stage_work)
    others_end = work->others_end;
    if (asks_to_stop(work) || others_end) {
        keep(work, BERTH_INTERRUPTED, stopped);
    }
#pragma omp critical(stage_work)
    ends = work->status != BERTH_OK;
    return ends;
}

enum berth_status stage_outcome(const struct stage_work *work, struct berth_error *error) {
    return work->status == BERTH_OK ? BERTH_OK
                                    : error_set(error, work->status, "%s", work->error.message);
}

static void make_own(struct stage_work *work, const struct stage_items *items) {
    const size_t first = (size_t)stage_rank(work->comm), step = (size_t)stage_ranks(work->comm);
#pragma omp parallel for schedule(dynamic, 1) num_threads(items->threads)
    for (size_t i = first; i < items->count; i += step) {
        struct berth_error own;
        if (stage_must_end(work)) {
            continue;
        }
        const enum berth_status status = items->make(items->context, i, &own);
        if (status != BERTH_OK) {
            stage_fail(work, status, &own);
        }
    }
}

// --- by several ranks ----------------------------------------------------------------------------

// A thread of each rank meets those of the others at short intervals, until all have made their
// items: a wait for a rank that has much to do would exceed the communicator's deadline.
struct meeting {
    struct stage_work *work;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int has_finished; // this rank's items
    int interrupted;  // some rank was
};

enum { DONE, FINISHED, FAILED, INTERRUPTED, COUNTS };

static void count_own(struct meeting *meeting, int finished, double counts[COUNTS]) {
    const struct stage_work *work = meeting->work;
#pragma omp critical(stage_work)
    {
        counts[DONE] = (double)work->done;
        counts[FINISHED] = finished;
        counts[FAILED] = work->status != BERTH_OK && work->status != BERTH_INTERRUPTED;
        counts[INTERRUPTED] =
            work->status == BERTH_INTERRUPTED || (!finished && asks_to_stop(work));
    }
}

// Returns whether there is another meeting.
static int meet(struct meeting *meeting, int finished) {
    struct stage_work *work = meeting->work;
    struct comm *comm = work->comm;
    struct berth_error error;
    double counts[COUNTS];
    count_own(meeting, finished, counts);
    const double own = counts[DONE];
    comm->sum(comm, counts, COUNTS);
    const enum berth_status status = comm->status(comm, &error);
    if (status != BERTH_OK) {
        stage_fail(work, status, &error);
        return 0;
    }
    meeting->interrupted = counts[INTERRUPTED] > 0;
#pragma omp critical(stage_work)
    {
        work->done_elsewhere = (int64_t)(counts[DONE] - own);
        work->others_end = counts[FAILED] > 0 || counts[INTERRUPTED] > 0;
        report(work);
    }
    return counts[FINISHED] < comm->size;
}

// Waits for the time of the next meeting, or until this rank has finished.
static int wait_for_meeting(struct meeting *meeting) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += MEETING_NANOSECONDS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&meeting->lock);
    if (!meeting->has_finished) {
        (void)pthread_cond_timedwait(&meeting->changed, &meeting->lock, &until);
    }
    const int finished = meeting->has_finished;
    pthread_mutex_unlock(&meeting->lock);
    return finished;
}

static void *run_meetings(void *context) {
    while (meet(context, wait_for_meeting(context))) {
    }
    return NULL;
}

static enum berth_status settle(const struct meeting *meeting, struct berth_error *error) {
    const struct stage_work *work = meeting->work;
    const enum berth_status own = stage_outcome(work, error);
    TRY(stage_settle(work->comm, own == BERTH_INTERRUPTED ? BERTH_OK : own, error));
    return meeting->interrupted ? error_set(error, BERTH_INTERRUPTED, "%s", stopped) : BERTH_OK;
}

static enum berth_status make_together(struct stage_work *work, const struct stage_items *items,
                                       struct berth_error *error) {
    struct meeting meeting = {
        .work = work, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    const int has_thread = pthread_create(&thread, NULL, run_meetings, &meeting) == 0;
    make_own(work, items);
    pthread_mutex_lock(&meeting.lock);
    meeting.has_finished = 1;
    pthread_cond_signal(&meeting.changed);
    pthread_mutex_unlock(&meeting.lock);
    if (has_thread) {
        pthread_join(thread, NULL);
    } else {
        run_meetings(&meeting);
    }
    pthread_cond_destroy(&meeting.changed);
    pthread_mutex_destroy(&meeting.lock);
    return settle(&meeting, error);
}

enum berth_status stage_make(struct stage_work *work, const struct stage_items *items,
                             struct berth_error *error) {
    work->done_elsewhere = 0;
    if (stage_ranks(work->comm) > 1) {
        return make_together(work, items, error);
    }
    make_own(work, items);
    return stage_outcome(work, error);
}
