// SPDX-License-Identifier: Apache-2.0
#include "comm/watch.h"

#include "comm/courier.h"
#include "core/memory.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define PERIOD 0.05         // seconds between two looks for letters
#define ANSWER_SECONDS 2.0  // after which a rank that was asked is taken for silent
#define LAST_SECONDS 1.0    // to send the last letters
#define SAMPLE_SECONDS 1.0  // between two looks at the processor's time, at most
#define WORKING_SHARE 0.001 // of the processor's time; less is what an idle MPI takes

enum letter_kind { QUESTION, ANSWER, FAILURE };

struct letter {
    int64_t kind;
    int64_t question; // number
    struct standing standing;
    int64_t status; // of a failure
};

struct watch_letter {
    struct watch_letter *next;
    struct transport_message message;
    struct letter letter;
};

// Long: work without exchanges, of any length.
static const struct phase {
    const char *where; // before the number of the update; without %, there is none
    int is_long;
} phases[] = {[COMM_BETWEEN] = {"before or after its updates", 1},
              [COMM_UPDATE] = {"in update %" PRId64, 0},
              [COMM_EVALUATION] = {"in the evaluation after update %" PRId64, 1},
              [COMM_SAVING] = {"saving update %" PRId64, 1}};

// --- where this rank is -------------------------------------------------------------------------

void watch_enter(struct watch *watch, enum comm_phase phase, int64_t update) {
    atomic_store(&watch->update, update);
    atomic_store(&watch->phase, (int)phase);
    atomic_store(&watch->since, courier_clock());
}

void watch_wait(struct watch *watch, enum transport_channel channel, int rank) {
    if (atomic_exchange(&watch->awaited[channel], rank + 1) != rank + 1 &&
        channel != TRANSPORT_RANGES) {
        atomic_store(&watch->since, courier_clock());
    }
}

void watch_wait_range(struct watch *watch, int more) {
    atomic_fetch_add(&watch->range_waiters, more);
    atomic_store(&watch->since, courier_clock());
}

static int awaited_by(const struct watch *watch) {
    const int in_call = atomic_load(&watch->awaited[TRANSPORT_CALLS]);
    const int in_agreement = atomic_load(&watch->awaited[TRANSPORT_AGREEMENTS]);
    const int in_range =
        atomic_load(&watch->range_waiters) > 0 ? atomic_load(&watch->awaited[TRANSPORT_RANGES]) : 0;
    return (in_call > 0 ? in_call : in_agreement > 0 ? in_agreement : in_range) - 1;
}

static struct standing standing_of(const struct watch *watch) {
    struct standing standing = {.awaited = awaited_by(watch),
                                .phase = atomic_load(&watch->phase),
                                .update = atomic_load(&watch->update)};
    double last = atomic_load(&watch->since);
    if (standing.awaited < 0 && phases[standing.phase].is_long &&
        atomic_load(&watch->worked_at) > last) {
        last = atomic_load(&watch->worked_at);
    }
    standing.seconds = courier_clock() - last;
    return standing;
}

static double seconds_of(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// The processor's time that the process has used, but for threads that wait for other ranks.
static void sample(struct watch *watch) {
    const double now = courier_clock(), elapsed = now - watch->sampled_at;
    if (elapsed < SAMPLE_SECONDS && elapsed < watch->timeout_seconds / 4) {
        return;
    }
    const double used = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID) -
                        seconds_of(watch->range_clock);
    if (used - watch->sampled > WORKING_SHARE * elapsed) {
        atomic_store(&watch->worked_at, now);
    }
    watch->sampled_at = now;
    watch->sampled = used;
}

// --- letters ------------------------------------------------------------------------------------

static void send_letter(struct watch *watch, int rank, const struct letter *letter) {
    struct watch_letter *sent = memory_new(sizeof *sent);
    if (sent == NULL) {
        return; // a question is asked again, and without an answer the deadline ends the job
    }
    *sent = (struct watch_letter){.next = watch->sent, .letter = *letter};
    sent->message = (struct transport_message){.peer = watch->topology->processes[rank],
                                               .channel = TRANSPORT_WATCH,
                                               .data = &sent->letter,
                                               .bytes = sizeof sent->letter};
    if (watch->transport->send(watch->transport, &sent->message, NULL) == BERTH_OK) {
        watch->sent = sent;
    } else {
        memory_free(sent);
    }
}

// Frees the letters that have gone. Those to a rank that is gone stay.
static void sweep(struct watch *watch) {
    struct watch_letter **link = &watch->sent;
    while (*link != NULL) {
        struct watch_letter *letter = *link;
        int done = 0;
        if (watch->transport->test(watch->transport, &letter->message, &done, NULL) == BERTH_OK &&
            done) {
            *link = letter->next;
            memory_free(letter);
        } else {
            link = &letter->next;
        }
    }
}

static void take_answer(struct watch *watch, const struct letter *letter) {
    pthread_mutex_lock(&watch->mutex);
    if (letter->question == watch->question) {
        watch->answer = letter->standing;
        watch->is_answered = 1;
        pthread_cond_broadcast(&watch->changed);
    }
    pthread_mutex_unlock(&watch->mutex);
}

static void take_letter(struct watch *watch, int rank, const struct letter *letter) {
    switch ((enum letter_kind)letter->kind) {
    case QUESTION:
        send_letter(watch, rank,
                    &(struct letter){.kind = ANSWER,
                                     .question = letter->question,
                                     .standing = standing_of(watch)});
        break;
    case ANSWER:
        take_answer(watch, letter);
        break;
    case FAILURE:
        fault_keep_foreign(watch->fault, (enum berth_status)letter->status);
        break;
    }
}

static void receive_letters(struct watch *watch) {
    struct letter letter;
    int process;
    while (watch->transport->look(watch->transport, TRANSPORT_WATCH, &letter, sizeof letter,
                                  &process, NULL) == BERTH_OK &&
           process >= 0) {
        take_letter(watch, watch->topology->ranks[process], &letter);
    }
}

// --- the thread ---------------------------------------------------------------------------------

static void announce(struct watch *watch) {
    struct berth_error error;
    if (watch->is_announced || !fault_is_set(watch->fault)) {
        return;
    }
    watch->is_announced = 1;
    pthread_cond_broadcast(&watch->changed); // who waits for an answer need not
    const struct letter letter = {.kind = FAILURE, .status = fault_status(watch->fault, &error)};
    for (int rank = 0; rank < watch->topology->size && !watch->fault->is_foreign; rank++) {
        if (rank != watch->topology->rank) {
            send_letter(watch, rank, &letter);
        }
    }
}

static void send_question(struct watch *watch) {
    if (watch->asked >= 0) {
        send_letter(watch, watch->asked,
                    &(struct letter){.kind = QUESTION, .question = watch->question});
        watch->asked = -1;
    }
}

// Under the mutex, which it gives up while it waits.
static void wait_until(struct watch *watch, double time) {
    const struct timespec until = {.tv_sec = (time_t)time,
                                   .tv_nsec = (long)((time - (double)(time_t)time) * 1e9)};
    (void)pthread_cond_timedwait(&watch->changed, &watch->mutex, &until);
}

// 0: the thread shall end, and has sent its letters or had the time to.
static int goes_on(const struct watch *watch, double *end) {
    const double now = courier_clock();
    if (!watch->shall_end) {
        *end = now + LAST_SECONDS;
    }
    return !watch->shall_end || (watch->sent != NULL && now < *end);
}

static void *run(void *context) {
    struct watch *watch = context;
    double end = 0;
    pthread_mutex_lock(&watch->mutex);
    do {
        wait_until(watch, courier_clock() + PERIOD);
        send_question(watch);
        announce(watch);
        pthread_mutex_unlock(&watch->mutex);
        sweep(watch);
        receive_letters(watch);
        sample(watch);
        pthread_mutex_lock(&watch->mutex);
    } while (goes_on(watch, &end));
    pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

static void init_locks(struct watch *watch) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&watch->inquiry, NULL);
    pthread_mutex_init(&watch->mutex, NULL);
}

enum berth_status watch_start(struct watch *watch, struct berth_error *error) {
    sigset_t all, before;
    init_locks(watch);
    watch->asked = -1;
    watch->sampled_at = courier_clock();
    watch->question =
        (int64_t)(watch->sampled_at * 1e6); // no letter to the process's last job fits
    watch_enter(watch, COMM_BETWEEN, 0);
    sigfillset(&all); // signals are for the program's own threads
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failure = pthread_create(&watch->thread, NULL, run, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    watch->is_running = failure == 0;
    return failure == 0 ? BERTH_OK
                        : error_set_errno(error, BERTH_UNAVAILABLE, failure,
                                          "cannot start the thread that watches other ranks");
}

void watch_end(struct watch *watch) {
    if (!watch->is_running) {
        return;
    }
    pthread_mutex_lock(&watch->mutex);
    watch->shall_end = 1;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
    pthread_join(watch->thread, NULL);
    watch->is_running = 0;
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->mutex);
    pthread_mutex_destroy(&watch->inquiry);
}

void watch_done(struct watch *watch) {
    while (watch->sent != NULL) {
        struct watch_letter *letter = watch->sent;
        watch->sent = letter->next;
        memory_free(letter);
    }
}

// --- who is late --------------------------------------------------------------------------------

// 0: there was no answer.
static int ask(struct watch *watch, int rank, struct standing *standing) {
    const double until = courier_clock() + ANSWER_SECONDS;
    pthread_mutex_lock(&watch->mutex);
    watch->asked = rank;
    watch->question++;
    watch->is_answered = 0;
    pthread_cond_broadcast(&watch->changed);
    while (!watch->is_answered && !watch->is_announced && courier_clock() < until) {
        wait_until(watch, until);
    }
    const int is_answered = watch->is_answered;
    *standing = watch->answer;
    pthread_mutex_unlock(&watch->mutex);
    return is_answered;
}

static void write_phase(const struct standing *standing, char *text, size_t size) {
    const char *where = phases[standing->phase].where;
    const char *number = strchr(where, '%');
    if (number == NULL) {
        snprintf(text, size, "%s", where);
    } else {
        snprintf(text, size, "%.*s%" PRId64, (int)(number - where), where, standing->update);
    }
}

// What a rank that is late was found to do; NULL: it did not answer.
static enum berth_status fail(const struct watch *watch, int rank, const char *what,
                              const struct standing *found, struct berth_error *error) {
    const struct standing own = standing_of(watch);
    char here[64], there[64], reason[192];
    write_phase(&own, here, sizeof here);
    if (found == NULL) {
        snprintf(reason, sizeof reason, "it does not answer: stopped, cut off, or gone");
    } else {
        write_phase(found, there, sizeof there);
        snprintf(reason, sizeof reason, "it is %s and has %s for %.0f s%s", there,
                 found->awaited >= 0            ? "been waiting for ranks that wait"
                 : phases[found->phase].is_long ? "done nothing"
                                                : "not reached it",
                 found->seconds, "; if it is only slow, raise --comm_timeout");
    }
    return error_set(error, BERTH_UNAVAILABLE,
                     "rank %d on host %s did not arrive at %s %s (--comm_timeout %g s): %s", rank,
                     watch->topology->names[rank], what, here, watch->timeout_seconds, reason);
}

// From one rank to the one that it waits for, up to one that works, is silent, or closes a circle.
static enum berth_status follow(struct watch *watch, int rank, const char *what, double *seconds,
                                struct berth_error *error) {
    struct standing standing = {0};
    for (int asked = 0; asked < watch->topology->size; asked++) {
        const int is_answered = ask(watch, rank, &standing);
        TRY(fault_status(watch->fault, error));
        if (!is_answered) {
            return fail(watch, rank, what, NULL, error);
        }
        if (standing.awaited < 0 || standing.awaited == watch->topology->rank) {
            break;
        }
        rank = (int)standing.awaited;
    }
    *seconds = watch->timeout_seconds - standing.seconds;
    return *seconds > 0 ? BERTH_OK : fail(watch, rank, what, &standing, error);
}

enum berth_status watch_judge(struct watch *watch, int rank, const char *what, double *seconds,
                              struct berth_error *error) {
    pthread_mutex_lock(&watch->inquiry);
    enum berth_status status = fault_status(watch->fault, error);
    if (status == BERTH_OK) {
        status = follow(watch, rank, what, seconds, error);
        fault_keep(watch->fault, status, error);
    }
    pthread_mutex_unlock(&watch->inquiry);
    return status;
}
