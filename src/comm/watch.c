// SPDX-License-Identifier: Apache-2.0
#include "comm/watch.h"

#include "core/clock.h"
#include "core/memory.h"
#include "core/thread.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PERIOD 0.05         // seconds between two looks for letters
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
} phases[] = {[COMM_BETWEEN] = {"", 1}, // not all jobs have updates
              [COMM_UPDATE] = {" in update %" PRId64, 0},
              [COMM_EVALUATION] = {" in the evaluation after update %" PRId64, 1},
              [COMM_SAVING] = {" saving update %" PRId64, 1},
              [COMM_HEARTBEAT] = {" in a heartbeat", 0}};

// --- where this rank is -------------------------------------------------------------------------

void watch_enter(struct watch *watch, enum comm_phase phase, int64_t update) {
    atomic_store(&watch->update, update);
    atomic_store(&watch->phase, (int)phase);
    atomic_store(&watch->since, clock_now());
}

void watch_wait(struct watch *watch, enum transport_channel channel, int rank) {
    if (atomic_exchange(&watch->awaited[channel], rank + 1) != rank + 1) {
        atomic_store(channel == TRANSPORT_RANGES ? &watch->range_since : &watch->since,
                     clock_now());
    }
}

void watch_wait_range(struct watch *watch, int more) {
    atomic_fetch_add(&watch->range_waiters, more);
    atomic_store(&watch->since, clock_now());
}

static struct standing standing_of(const struct watch *watch) {
    const int in_call = atomic_load(&watch->awaited[TRANSPORT_CALLS]);
    const int in_agreement = atomic_load(&watch->awaited[TRANSPORT_AGREEMENTS]);
    const double now = clock_now();
    struct standing standing = {.awaited = (in_call > 0 ? in_call : in_agreement) - 1,
                                .range_awaited = atomic_load(&watch->awaited[TRANSPORT_RANGES]) - 1,
                                .waits_for_range = atomic_load(&watch->range_waiters) > 0,
                                .phase = atomic_load(&watch->phase),
                                .update = atomic_load(&watch->update),
                                .range_seconds = now - atomic_load(&watch->range_since)};
    double last = atomic_load(&watch->since);
    if (standing.awaited < 0 && phases[standing.phase].is_long &&
        atomic_load(&watch->worked_at) > last) {
        last = atomic_load(&watch->worked_at);
    }
    standing.seconds = now - last;
    return standing;
}

// The processor's time that the process has used, but for threads that wait for other ranks.
static void sample(struct watch *watch) {
    const double now = clock_now(), elapsed = now - watch->sampled_at;
    if (elapsed < SAMPLE_SECONDS && elapsed < watch->timeout_seconds / 4) {
        return;
    }
    const double used = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) -
                        clock_seconds(CLOCK_THREAD_CPUTIME_ID) - clock_seconds(watch->range_clock);
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
        if (rank != watch->topology->rank && rank + 1 != watch->silent) {
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

// Whether letters are under way to ranks that may receive them.
static int has_letters(const struct watch *watch) {
    for (const struct watch_letter *letter = watch->sent; letter != NULL; letter = letter->next) {
        if (watch->topology->ranks[letter->message.peer] + 1 != watch->silent) {
            return 1;
        }
    }
    return 0;
}

// 0: the thread shall end, has announced this rank's error, and has sent its letters or had the
// time to.
static int goes_on(const struct watch *watch, double *end) {
    const double now = clock_now();
    if (!watch->shall_end) {
        *end = now + LAST_SECONDS;
    }
    const int is_unannounced = fault_is_set(watch->fault) && !watch->is_announced;
    return !watch->shall_end || is_unannounced || (has_letters(watch) && now < *end);
}

static void *run(void *context) {
    struct watch *watch = context;
    double end = 0;
    pthread_mutex_lock(&watch->mutex);
    do {
        (void)thread_wait(&watch->changed, &watch->mutex, clock_now() + PERIOD);
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
    thread_condition_init(&watch->changed);
    pthread_mutex_init(&watch->inquiry, NULL);
    pthread_mutex_init(&watch->mutex, NULL);
}

enum berth_status watch_start(struct watch *watch, struct berth_error *error) {
    init_locks(watch);
    watch->asked = -1;
    watch->sampled_at = clock_now();
    watch->question =
        (int64_t)(watch->sampled_at * 1e6); // no letter to the process's last job fits
    watch_enter(watch, COMM_BETWEEN, 0);
    const int failure = thread_start(&watch->thread, run, watch);
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
    const double until = clock_now() + WATCH_ANSWER_SECONDS;
    pthread_mutex_lock(&watch->mutex);
    watch->asked = rank;
    watch->question++;
    watch->is_answered = 0;
    pthread_cond_broadcast(&watch->changed);
    while (!watch->is_answered && !watch->is_announced && clock_now() < until) {
        (void)thread_wait(&watch->changed, &watch->mutex, until);
    }
    const int is_answered = watch->is_answered;
    watch->silent = is_answered ? 0 : rank + 1;
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

// A rank on the way from a wait to its cause.
struct link {
    int rank;
    enum transport_channel channel; // on which the one before waits for it
    int is_silent;
    struct standing standing;
    int awaited;    // by it; -1: it works
    double seconds; // for so long
};

// Exchanges of ranges wait for those of other ranks, and only if these do not wait for the job's
// thread, which begins them.
static void find_awaited(struct link *link) {
    const struct standing *standing = &link->standing;
    const int is_begun =
        link->channel == TRANSPORT_RANGES || (standing->awaited < 0 && standing->waits_for_range);
    if (is_begun && standing->range_awaited >= 0) {
        link->channel = TRANSPORT_RANGES;
        link->awaited = (int)standing->range_awaited;
        link->seconds = standing->range_seconds;
    } else {
        link->channel = TRANSPORT_CALLS;
        link->awaited = (int)standing->awaited;
        link->seconds = standing->seconds;
    }
}

static enum berth_status fail(const struct watch *watch, const struct link *link, const char *what,
                              struct berth_error *error) {
    const struct standing own = standing_of(watch);
    char here[64], there[64], does[64], reason[192];
    write_phase(&own, here, sizeof here);
    if (link->is_silent) {
        snprintf(reason, sizeof reason, "it does not answer: stopped, cut off, or gone");
    } else {
        write_phase(&link->standing, there, sizeof there);
        const char *is = there[0] != '\0' ? " is" : "", *also = there[0] != '\0' ? " and" : "";
        snprintf(does, sizeof does, "%s",
                 phases[link->standing.phase].is_long ? "done nothing" : "not reached it");
        if (link->awaited >= 0) {
            snprintf(does, sizeof does, "been waiting for rank %d", link->awaited);
        }
        snprintf(reason, sizeof reason,
                 "it%s%s%s has %s for %.0f s; if it is only slow, raise --comm_timeout", is, there,
                 also, does, link->seconds);
    }
    return error_set(error, BERTH_UNAVAILABLE,
                     "rank %d on host %s did not arrive at %s%s (--comm_timeout %g s): %s",
                     link->rank, watch->topology->names[link->rank], what, here,
                     watch->timeout_seconds, reason);
}

// From one rank to the one that it waits for, up to one that works, is silent, or waits for a rank
// that was asked.
static enum berth_status follow(struct watch *watch, struct link *link, struct berth_error *error) {
    for (int asked = 0; asked < watch->topology->size; asked++) {
        link->is_silent = !ask(watch, link->rank, &link->standing);
        TRY(fault_status(watch->fault, error));
        if (link->is_silent) {
            return BERTH_OK;
        }
        find_awaited(link);
        if (link->awaited < 0 || link->awaited == watch->topology->rank ||
            link->awaited == link->rank) {
            return BERTH_OK;
        }
        link->rank = link->awaited;
    }
    return BERTH_OK;
}

static enum berth_status decide(struct watch *watch, struct link *link, const char *what,
                                double *seconds, struct berth_error *error) {
    TRY(fault_status(watch->fault, error));
    TRY(follow(watch, link, error));
    *seconds = link->is_silent ? 0 : watch->timeout_seconds - link->seconds;
    return *seconds > 0 ? BERTH_OK : fail(watch, link, what, error);
}

enum berth_status watch_judge(struct watch *watch, enum transport_channel channel, int rank,
                              const char *what, double *seconds, struct berth_error *error) {
    struct link link = {.rank = rank, .channel = channel};
    pthread_mutex_lock(&watch->inquiry);
    const enum berth_status status = decide(watch, &link, what, seconds, error);
    fault_keep(watch->fault, status, error);
    pthread_mutex_unlock(&watch->inquiry);
    return status;
}
