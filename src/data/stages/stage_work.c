// SPDX-License-Identifier: Apache-2.0
// Divides the items of a stage among threads and ranks, each taken by whoever is free, reports
// progress, and ends all of them when one fails or a stop is requested. What an item is and what is
// made of it is the stage's own function.
#include "data/stages/stage_work.h"

#include "comm/heartbeat.h"

#include <stdatomic.h>

static const char stopped[] = "stopped; finished files are kept, and the next run makes the rest";

enum berth_status stage_settle_input(struct comm *comm, enum berth_status own,
                                     struct berth_error *error) {
    if (own == BERTH_NO_INPUT && error != NULL && comm->rank > 0) {
        const struct berth_error missing = *error;
        own = error_set(error, own,
                        "%s; if that was done, this rank does not see it: the folder must be on a "
                        "file system that all hosts share",
                        missing.message);
    }
    return comm_settle(comm, own, error);
}

// --- by several threads --------------------------------------------------------------------------

// Reports what all ranks have done. The caller has locked the job's mutex, so reports of one job do
// not overlap, and their numbers never fall. No critical section is held, which would be that of
// all jobs of the process: the caller's function may begin another job.
static void report(const struct stage_work *work) {
    const int64_t done = work->done + work->done_elsewhere;
    if (work->in_bytes) {
        log_progress_bytes(work->log, work->phase, done, work->total);
    } else {
        log_progress(work->log, work->phase, done, work->total);
    }
}

void stage_advance(struct stage_work *work, int64_t more) {
    pthread_mutex_lock(&work->reporting);
    work->done += more;
    report(work);
    pthread_mutex_unlock(&work->reporting);
}

static void record_failure(struct stage_work *work, enum berth_status status, const char *message) {
#pragma omp critical(stage_work)
    if (work->status == BERTH_OK) {
        work->status = error_set(&work->error, status, "%s", message);
    }
}

void stage_fail(struct stage_work *work, enum berth_status status,
                const struct berth_error *error) {
    record_failure(work, status, error->message);
}

static int is_stop_requested(const struct stage_work *work) {
    return work->stop != NULL && *work->stop != 0;
}

int stage_should_stop(struct stage_work *work) {
    int should_stop, others_stopped;
#pragma omp critical(stage_work)
    others_stopped = work->others_stopped;
    if (is_stop_requested(work) || others_stopped) {
        record_failure(work, BERTH_INTERRUPTED, stopped);
    }
#pragma omp critical(stage_work)
    should_stop = work->status != BERTH_OK;
    return should_stop;
}

const atomic_int *stage_stop_flag(const struct stage_work *work) {
    return work->comm->size > 1 ? &work->others_stopped : work->stop;
}

enum berth_status stage_outcome(const struct stage_work *work, struct berth_error *error) {
    return work->status == BERTH_OK ? BERTH_OK : error_copy(error, &work->error);
}

static void make_own_items(struct stage_work *work, const struct stage_items *items) {
    const size_t first = (size_t)work->comm->rank, step = (size_t)work->comm->size;
#pragma omp parallel for schedule(dynamic, 1) num_threads(items->threads)
    for (size_t i = first; i < items->count; i += step) {
        struct berth_error own;
        if (stage_should_stop(work)) {
            continue;
        }
        const enum berth_status status = items->make(items->context, i, &own);
        if (status != BERTH_OK) {
            stage_fail(work, status, &own);
        }
    }
}

// --- by several ranks ----------------------------------------------------------------------------

struct joint_work {
    struct stage_work *work;
    const struct stage_items *items;
    double own_done; // as this rank last reported
    int interrupted; // a rank was asked to stop
};

enum { DONE, FAILED, INTERRUPTED, COUNTS };

// A rank that has no item left, or never had one, passes a stop request on as well.
static void report_own(void *context, double *own) {
    struct joint_work *joint = context;
    struct stage_work *work = joint->work;
    pthread_mutex_lock(&work->reporting);
    own[DONE] = (double)work->done;
    pthread_mutex_unlock(&work->reporting);
#pragma omp critical(stage_work)
    {
        own[FAILED] = work->status != BERTH_OK && work->status != BERTH_INTERRUPTED;
        own[INTERRUPTED] = work->status == BERTH_INTERRUPTED || is_stop_requested(work);
    }
    joint->own_done = own[DONE];
}

static void receive_sums(void *context, const double *sums) {
    struct joint_work *joint = context;
    struct stage_work *work = joint->work;
    joint->interrupted = sums[INTERRUPTED] > 0;
#pragma omp critical(stage_work)
    work->others_stopped = sums[FAILED] > 0 || sums[INTERRUPTED] > 0;
    pthread_mutex_lock(&work->reporting);
    work->done_elsewhere = (int64_t)(sums[DONE] - joint->own_done);
    report(work);
    pthread_mutex_unlock(&work->reporting);
}

static void fail(void *context, enum berth_status status, const struct berth_error *error) {
    stage_fail(((struct joint_work *)context)->work, status, error);
}

static void make_in_background(void *context) {
    const struct joint_work *joint = context;
    make_own_items(joint->work, joint->items);
}

static enum berth_status agree_on_outcome(const struct joint_work *joint,
                                          struct berth_error *error) {
    const struct stage_work *work = joint->work;
    const enum berth_status own = stage_outcome(work, error);
    TRY(comm_settle(work->comm, own == BERTH_INTERRUPTED ? BERTH_OK : own, error));
    return joint->interrupted ? error_set(error, BERTH_INTERRUPTED, "%s", stopped) : BERTH_OK;
}

static enum berth_status make_jointly(struct stage_work *work, const struct stage_items *items,
                                      struct berth_error *error) {
    struct joint_work joint = {.work = work, .items = items};
    const struct heartbeat_rules rules = {.comm = work->comm,
                                          .count = COUNTS,
                                          .report = report_own,
                                          .receive = receive_sums,
                                          .fail = fail,
                                          .context = &joint};
    struct berth_error own;
    const enum berth_status status = heartbeat_run(&rules, make_in_background, &own);
    if (status != BERTH_OK) {
        stage_fail(work, status, &own);
    }
    return agree_on_outcome(&joint, error);
}

enum berth_status stage_make(struct stage_work *work, const struct stage_items *items,
                             struct berth_error *error) {
    work->done_elsewhere = 0;
    if (work->comm->size > 1) {
        return make_jointly(work, items, error);
    }
    make_own_items(work, items);
    return stage_outcome(work, error);
}
