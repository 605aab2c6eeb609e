// SPDX-License-Identifier: Apache-2.0
// The thread of a rank that answers other ranks' queries about its state, and the search for the
// rank that all wait for, which follows the waits from rank to rank. Other threads of the rank note
// here what they do and wait for; courier.c asks when a deadline is near.
#include "comm/monitor.h"

#include "core/clock.h"
#include "core/memory.h"
#include "core/thread.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define POLL_SECONDS 0.05      // between two polls for messages
#define STOPPED_SECONDS 1.0    // a longer time between two polls counts as this much
#define LAST_SECONDS 1.0       // to send the last messages
#define SAMPLE_SECONDS 1.0     // between two samples of the processor time, at most
#define WORKING_FRACTION 0.001 // of a processor; an idle MPI uses less

enum message_kind { QUERY, REPLY, FAILURE };

struct message {
    int64_t kind;
    int64_t query; // number
    struct rank_state state;
    int64_t status; // of a failure
};

struct pending_message {
    struct pending_message *next;
    struct transport_message transfer;
    struct message message;
};

// A long phase is work of any duration without exchanges.
static const struct phase {
    const char *where; // for messages; has a % if the update is named
    int is_long;
} phases[] = {[COMM_BETWEEN] = {"", 1}, // not all jobs have updates
              [COMM_UPDATE] = {" in update %" PRId64, 0},
              [COMM_EVALUATION] = {" in the evaluation after update %" PRId64, 1},
              [COMM_SAVING] = {" saving update %" PRId64, 1},
              [COMM_HEARTBEAT] = {" in a heartbeat", 0}};

// --- time ---------------------------------------------------------------------------------------

double monitor_time(const struct monitor *monitor) {
    return monitor->is_running ? atomic_load(&monitor->time) : clock_now();
}

static void advance_time(struct monitor *monitor) {
    const double now = clock_now(), elapsed = now - monitor->polled_at;
    monitor->polled_at = now;
    atomic_store(&monitor->time, atomic_load(&monitor->time) +
                                     (elapsed < STOPPED_SECONDS ? elapsed : STOPPED_SECONDS));
}

// --- where this rank is -------------------------------------------------------------------------

void monitor_enter(struct monitor *monitor, enum comm_phase phase, int64_t update) {
    atomic_store(&monitor->update, update);
    atomic_store(&monitor->phase, (int)phase);
    atomic_store(&monitor->since, monitor_time(monitor));
}

void monitor_wait(struct monitor *monitor, enum transport_channel channel, int rank) {
    if (atomic_exchange(&monitor->awaited[channel], rank + 1) != rank + 1) {
        atomic_store(channel == TRANSPORT_RANGES ? &monitor->range_since : &monitor->since,
                     monitor_time(monitor));
    }
}

void monitor_wait_range(struct monitor *monitor, int more) {
    atomic_fetch_add(&monitor->range_waiters, more);
    atomic_store(&monitor->since, monitor_time(monitor));
}

static struct rank_state current_state(const struct monitor *monitor) {
    const int in_call = atomic_load(&monitor->awaited[TRANSPORT_COLLECTIVES]);
    const int in_agreement = atomic_load(&monitor->awaited[TRANSPORT_AGREEMENTS]);
    const double now = monitor_time(monitor);
    struct rank_state state = {.awaited = (in_call > 0 ? in_call : in_agreement) - 1,
                               .range_awaited =
                                   atomic_load(&monitor->awaited[TRANSPORT_RANGES]) - 1,
                               .waits_for_range = atomic_load(&monitor->range_waiters) > 0,
                               .phase = atomic_load(&monitor->phase),
                               .update = atomic_load(&monitor->update),
                               .range_seconds = now - atomic_load(&monitor->range_since)};
    double last = atomic_load(&monitor->since);
    if (state.awaited < 0 && phases[state.phase].is_long &&
        atomic_load(&monitor->worked_at) > last) {
        last = atomic_load(&monitor->worked_at);
    }
    state.seconds = now - last;
    return state;
}

// Samples the processor time of the process, without that of the threads that wait for other ranks.
static void sample(struct monitor *monitor) {
    const double now = monitor_time(monitor), elapsed = now - monitor->sampled_at;
    if (elapsed < SAMPLE_SECONDS && elapsed < monitor->timeout_seconds / 4) {
        return;
    }
    const double used = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) -
                        clock_seconds(CLOCK_THREAD_CPUTIME_ID) -
                        clock_seconds(monitor->range_clock);
    if (used - monitor->sampled > WORKING_FRACTION * elapsed) {
        atomic_store(&monitor->worked_at, now);
    }
    monitor->sampled_at = now;
    monitor->sampled = used;
}

// --- messages -----------------------------------------------------------------------------------

static void send_message(struct monitor *monitor, int rank, const struct message *message) {
    struct pending_message *sent = memory_new(sizeof *sent);
    if (sent == NULL) {
        return; // a query is repeated; without a reply, the deadline ends the job
    }
    *sent = (struct pending_message){.next = monitor->sent, .message = *message};
    sent->transfer = (struct transport_message){.peer = monitor->topology->processes[rank],
                                                .channel = TRANSPORT_MONITOR,
                                                .data = &sent->message,
                                                .bytes = sizeof sent->message};
    if (monitor->transport->send(monitor->transport, &sent->transfer, NULL) == BERTH_OK) {
        monitor->sent = sent;
    } else {
        memory_free(sent);
    }
}

// Frees the messages that have been sent. Those to a rank that is gone stay.
static void free_sent_messages(struct monitor *monitor) {
    struct pending_message **link = &monitor->sent;
    while (*link != NULL) {
        struct pending_message *message = *link;
        int done = 0;
        if (monitor->transport->test(monitor->transport, &message->transfer, &done, NULL) ==
                BERTH_OK &&
            done) {
            *link = message->next;
            memory_free(message);
        } else {
            link = &message->next;
        }
    }
}

static void handle_reply(struct monitor *monitor, const struct message *message) {
    pthread_mutex_lock(&monitor->mutex);
    if (message->query == monitor->query) {
        monitor->reply = message->state;
        monitor->has_reply = 1;
        pthread_cond_broadcast(&monitor->changed);
    }
    pthread_mutex_unlock(&monitor->mutex);
}

static void handle_message(struct monitor *monitor, int rank, const struct message *message) {
    switch ((enum message_kind)message->kind) {
    case QUERY:
        send_message(monitor, rank,
                     &(struct message){
                         .kind = REPLY, .query = message->query, .state = current_state(monitor)});
        break;
    case REPLY:
        handle_reply(monitor, message);
        break;
    case FAILURE:
        fault_set_remote(monitor->fault, (enum berth_status)message->status);
        break;
    }
}

static void receive_messages(struct monitor *monitor) {
    struct message message;
    int process;
    while (monitor->transport->receive_any(monitor->transport, TRANSPORT_MONITOR, &message,
                                           sizeof message, &process, NULL) == BERTH_OK &&
           process >= 0) {
        handle_message(monitor, monitor->topology->ranks[process], &message);
    }
}

// --- the thread ---------------------------------------------------------------------------------

static void announce(struct monitor *monitor) {
    struct berth_error error;
    if (monitor->is_announced || !fault_is_set(monitor->fault)) {
        return;
    }
    monitor->is_announced = 1;
    pthread_cond_broadcast(&monitor->changed); // ends a wait for a reply
    const struct message message = {.kind = FAILURE,
                                    .status = fault_status(monitor->fault, &error)};
    for (int rank = 0; rank < monitor->topology->size && !monitor->fault->is_remote; rank++) {
        if (rank != monitor->topology->rank && rank + 1 != monitor->silent) {
            send_message(monitor, rank, &message);
        }
    }
}

static void send_query(struct monitor *monitor) {
    if (monitor->query_target >= 0) {
        send_message(monitor, monitor->query_target,
                     &(struct message){.kind = QUERY, .query = monitor->query});
        monitor->query_target = -1;
    }
}

// Whether messages are in flight to ranks that may receive them.
static int has_pending_messages(const struct monitor *monitor) {
    for (const struct pending_message *message = monitor->sent; message != NULL;
         message = message->next) {
        if (monitor->topology->ranks[message->transfer.peer] + 1 != monitor->silent) {
            return 1;
        }
    }
    return 0;
}

// Returns 0 once the thread has been asked to stop, has announced this rank's error, and has sent
// its messages or run out of time.
static int should_continue(const struct monitor *monitor, double *end) {
    const double now = clock_now();
    if (!monitor->stop_requested) {
        *end = now + LAST_SECONDS;
    }
    const int is_unannounced = fault_is_set(monitor->fault) && !monitor->is_announced;
    return !monitor->stop_requested || is_unannounced ||
           (has_pending_messages(monitor) && now < *end);
}

static void *run(void *context) {
    struct monitor *monitor = context;
    double end = 0;
    pthread_mutex_lock(&monitor->mutex);
    do {
        (void)thread_wait(&monitor->changed, &monitor->mutex, clock_now() + POLL_SECONDS);
        advance_time(monitor);
        send_query(monitor);
        announce(monitor);
        pthread_mutex_unlock(&monitor->mutex);
        free_sent_messages(monitor);
        receive_messages(monitor);
        sample(monitor);
        pthread_mutex_lock(&monitor->mutex);
    } while (should_continue(monitor, &end));
    pthread_mutex_unlock(&monitor->mutex);
    return NULL;
}

enum berth_status monitor_start(struct monitor *monitor, struct berth_error *error) {
    thread_condition_init(&monitor->changed);
    pthread_mutex_init(&monitor->query_mutex, NULL);
    pthread_mutex_init(&monitor->mutex, NULL);
    monitor->query_target = -1;
    monitor->polled_at = monitor->sampled_at = clock_now();
    atomic_store(&monitor->time, monitor->polled_at);
    monitor->query =
        (int64_t)(monitor->polled_at * 1e6); // differs from those of the process's last job
    monitor_enter(monitor, COMM_BETWEEN, 0);
    monitor->is_running = 1; // before the thread, which reads it
    const int failure = thread_start(&monitor->thread, run, monitor);
    if (failure != 0) {
        monitor->is_running = 0;
    }
    return failure == 0 ? BERTH_OK
                        : error_set_errno(error, BERTH_UNAVAILABLE, failure,
                                          "cannot start the monitor thread");
}

void monitor_end(struct monitor *monitor) {
    if (!monitor->is_running) {
        return;
    }
    pthread_mutex_lock(&monitor->mutex);
    monitor->stop_requested = 1;
    pthread_cond_broadcast(&monitor->changed);
    pthread_mutex_unlock(&monitor->mutex);
    pthread_join(monitor->thread, NULL);
    monitor->is_running = 0;
    pthread_cond_destroy(&monitor->changed);
    pthread_mutex_destroy(&monitor->mutex);
    pthread_mutex_destroy(&monitor->query_mutex);
}

void monitor_done(struct monitor *monitor) {
    while (monitor->sent != NULL) {
        struct pending_message *message = monitor->sent;
        monitor->sent = message->next;
        memory_free(message);
    }
}

// --- who is late --------------------------------------------------------------------------------

// Returns 0 if there was no reply.
static int query_rank(struct monitor *monitor, int rank, struct rank_state *state) {
    const double until = clock_now() + MONITOR_REPLY_SECONDS;
    pthread_mutex_lock(&monitor->mutex);
    monitor->query_target = rank;
    monitor->query++;
    monitor->has_reply = 0;
    pthread_cond_broadcast(&monitor->changed);
    while (!monitor->has_reply && !monitor->is_announced && clock_now() < until) {
        (void)thread_wait(&monitor->changed, &monitor->mutex, until);
    }
    const int has_reply = monitor->has_reply;
    monitor->silent = has_reply ? 0 : rank + 1;
    *state = monitor->reply;
    pthread_mutex_unlock(&monitor->mutex);
    return has_reply;
}

static void format_phase(const struct rank_state *state, char *text, size_t size) {
    const char *where = phases[state->phase].where;
    const char *number = strchr(where, '%');
    if (number == NULL) {
        snprintf(text, size, "%s", where);
    } else {
        snprintf(text, size, "%.*s%" PRId64, (int)(number - where), where, state->update);
    }
}

// A rank on the chain from a wait to its cause.
struct suspect {
    int rank;
    enum transport_channel channel; // on which its predecessor waits for it
    int is_silent;
    struct rank_state state;
    int awaited;    // rank that it waits for; -1: it works
    double seconds; // for how long
};

// An exchange of ranges waits for other ranks only if it has been begun; otherwise it waits for the
// job's thread, which begins it.
static void find_awaited(struct suspect *suspect) {
    const struct rank_state *state = &suspect->state;
    const int is_begun =
        suspect->channel == TRANSPORT_RANGES || (state->awaited < 0 && state->waits_for_range);
    if (is_begun && state->range_awaited >= 0) {
        suspect->channel = TRANSPORT_RANGES;
        suspect->awaited = (int)state->range_awaited;
        suspect->seconds = state->range_seconds;
    } else {
        suspect->channel = TRANSPORT_COLLECTIVES;
        suspect->awaited = (int)state->awaited;
        suspect->seconds = state->seconds;
    }
}

static enum berth_status fail(const struct monitor *monitor, const struct suspect *suspect,
                              const char *what, struct berth_error *error) {
    const struct rank_state own = current_state(monitor);
    char here[64], there[64], does[64], reason[192];
    format_phase(&own, here, sizeof here);
    if (suspect->is_silent) {
        snprintf(reason, sizeof reason, "it does not answer: stopped, cut off, or gone");
    } else {
        format_phase(&suspect->state, there, sizeof there);
        const char *is = there[0] != '\0' ? " is" : "", *also = there[0] != '\0' ? " and" : "";
        snprintf(does, sizeof does, "%s",
                 phases[suspect->state.phase].is_long ? "done nothing" : "not reached it");
        if (suspect->awaited >= 0) {
            snprintf(does, sizeof does, "been waiting for rank %d", suspect->awaited);
        }
        snprintf(reason, sizeof reason,
                 "it%s%s%s has %s for %.0f s; if it is only slow, raise comm_timeout", is, there,
                 also, does, suspect->seconds);
    }
    return error_set(error, BERTH_UNAVAILABLE,
                     "rank %d on host %s did not arrive at %s%s (comm_timeout %g s): %s",
                     suspect->rank, monitor->topology->names[suspect->rank], what, here,
                     monitor->timeout_seconds, reason);
}

// Goes from each rank to the one that it waits for, up to one that works, is silent, or closes a
// cycle.
static enum berth_status follow_waits(struct monitor *monitor, struct suspect *suspect,
                                      struct berth_error *error) {
    for (int hops = 0; hops < monitor->topology->size; hops++) {
        suspect->is_silent = !query_rank(monitor, suspect->rank, &suspect->state);
        TRY(fault_status(monitor->fault, error));
        if (suspect->is_silent) {
            return BERTH_OK;
        }
        find_awaited(suspect);
        if (suspect->awaited < 0 || suspect->awaited == monitor->topology->rank ||
            suspect->awaited == suspect->rank) {
            return BERTH_OK;
        }
        suspect->rank = suspect->awaited;
    }
    return BERTH_OK;
}

// A rank that waits for a collective of the library names only one of those that take part, so
// waits may close a cycle although another rank keeps them all waiting. Then that one is silent, if
// any is.
static enum berth_status find_silent(struct monitor *monitor, struct suspect *suspect,
                                     struct berth_error *error) {
    struct rank_state ignored;
    for (int rank = 0; rank < monitor->topology->size && !suspect->is_silent; rank++) {
        if (rank != monitor->topology->rank && !query_rank(monitor, rank, &ignored)) {
            suspect->rank = rank;
            suspect->is_silent = 1;
        }
        TRY(fault_status(monitor->fault, error));
    }
    return BERTH_OK;
}

enum berth_status monitor_find_silent(struct monitor *monitor, const char *what,
                                      struct berth_error *error) {
    struct suspect suspect = {.awaited = -1};
    pthread_mutex_lock(&monitor->query_mutex);
    enum berth_status status = find_silent(monitor, &suspect, error);
    if (status == BERTH_OK && suspect.is_silent) {
        status = fail(monitor, &suspect, what, error);
    }
    fault_set(monitor->fault, status, error);
    pthread_mutex_unlock(&monitor->query_mutex);
    return status;
}

static enum berth_status check_wait(struct monitor *monitor, struct suspect *suspect,
                                    const char *what, double *seconds, struct berth_error *error) {
    TRY(fault_status(monitor->fault, error));
    TRY(follow_waits(monitor, suspect, error));
    *seconds = suspect->is_silent ? 0 : monitor->timeout_seconds - suspect->seconds;
    if (*seconds <= 0 && suspect->awaited >= 0) {
        TRY(find_silent(monitor, suspect, error));
    }
    return *seconds > 0 ? BERTH_OK : fail(monitor, suspect, what, error);
}

enum berth_status monitor_extend_wait(struct monitor *monitor, enum transport_channel channel,
                                      int rank, const char *what, double *seconds,
                                      struct berth_error *error) {
    struct suspect suspect = {.rank = rank, .channel = channel};
    pthread_mutex_lock(&monitor->query_mutex);
    const enum berth_status status = check_wait(monitor, &suspect, what, seconds, error);
    fault_set(monitor->fault, status, error);
    pthread_mutex_unlock(&monitor->query_mutex);
    return status;
}
