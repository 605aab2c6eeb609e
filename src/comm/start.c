// SPDX-License-Identifier: Apache-2.0
// The deadline of a job's start: while the MPI connects the processes, a thread watches the clock,
// and when the time is over says which process is missing (peers.c) and ends this one. open.c
// begins and ends the watch; afterwards waits have deadlines of their own (courier.c).
#include "comm/start.h"

#include "comm/comm.h"
#include "comm/peers.h"
#include "comm/watch.h"
#include "core/launcher.h"
#include "core/number.h"

#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EARLY_SECONDS 1.0 // before the deadline it is decided which process of the host reports
#define REPORT_SECONDS 3  // for that one, before another one does
#define NAMED_MAX 8       // missing processes that are named
#define TEXT_SIZE 800

static struct start {
    struct watch watch;
    struct launch launch;
    _Atomic double seconds; // the deadline
    double elapsed;         // since the start; of the watch's thread, as is the next
    int64_t reporter;       // the process of this host that reports; 0: not decided
} start;

// --- who is missing -----------------------------------------------------------------------------

static void append(char text[TEXT_SIZE], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append(char text[TEXT_SIZE], const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    (void)number_format_list(text + used, TEXT_SIZE - used, format, arguments);
    va_end(arguments);
}

static const struct peer *find_local(const struct peers *peers, int64_t local_rank) {
    for (size_t i = 0; i < peers->count; i++) {
        if (peers->items[i].local_rank == local_rank) {
            return &peers->items[i];
        }
    }
    return NULL;
}

static void explain(const struct peer *peer, char text[TEXT_SIZE]) {
    if (peer == NULL) {
        append(text, " (no such process: it has ended, or was not started)");
    } else if (peer->is_stopped) {
        append(text, " (process %" PRId64 ", %s, is stopped)", peer->process, peer->program);
    } else {
        append(text, " (process %" PRId64 ", %s, runs, but %s)", peer->process, peer->program,
               peer->place == PEER_STARTED ? "has not begun to connect" : "is not Berth");
    }
}

static int has_come(const struct peer *peer) {
    return peer != NULL && peer->place == PEER_CONNECTING && !peer->is_stopped;
}

// Names the processes of this host that have not come; returns how many these are.
static int64_t name_missing(const struct launch *launch, const struct peers *peers,
                            char text[TEXT_SIZE]) {
    int64_t missing = 0;
    for (int64_t local = 0; local < launch->local_size; local++) {
        const struct peer *peer = find_local(peers, local);
        char name[32];
        if (has_come(peer)) {
            continue;
        }
        if (missing < NAMED_MAX) {
            // Where all processes are on this host, the numbers there are the ranks.
            if (peer == NULL && launch->local_size < launch->size) {
                (void)snprintf(name, 32, "local rank %" PRId64, local);
            } else {
                (void)snprintf(name, 32, "rank %" PRId64, peer != NULL ? peer->rank : local);
            }
            append(text, "%s%s", missing > 0 ? ", " : "", name);
            explain(peer, text);
        }
        missing++;
    }
    if (missing > NAMED_MAX) {
        append(text, " and %" PRId64 " more", missing - NAMED_MAX);
    }
    return missing;
}

static void describe_host(const struct launch *launch, const struct peers *peers,
                          char text[TEXT_SIZE]) {
    char missing[TEXT_SIZE] = "";
    if (launch->local_size == 0 || peers->count == 0) {
        append(text, "; which of them are on this host cannot be seen");
        return;
    }
    append(text, ", %" PRId64 " of them on this host", launch->local_size);
    if (name_missing(launch, peers, missing) > 0) {
        append(text, "; not come: %s", missing);
    } else if (launch->local_size == launch->size) {
        append(text, "; all have come, but the MPI does not connect them: see its messages, and "
                     "whether one of them has too little memory (ulimit -v)");
    } else {
        append(text, "; these have come: see the other hosts' messages, and whether the hosts "
                     "reach each other");
    }
}

static void describe(const struct launch *launch, const struct peers *peers, char text[TEXT_SIZE]) {
    if (launch->launcher == NULL) {
        append(text, "no launcher says how many processes there are");
        return;
    }
    if (launch->launcher->size == NULL) {
        append(text, "%s does not say how many processes there are", launch->launcher->name);
    } else {
        append(text, "%s announced %" PRId64 " processes (%s)", launch->launcher->name,
               launch->size, launch->variable);
    }
    describe_host(launch, peers, text);
}

// --- the end ------------------------------------------------------------------------------------

// The lowest rank of this host that waits reports for all of them. Decided before the deadline,
// because it has ended soon after.
static int64_t find_reporter(const struct launch *launch) {
    struct peers peers;
    const struct peer *first = NULL;
    peers_find(launch, &peers);
    for (size_t i = 0; i < peers.count; i++) {
        const struct peer *peer = &peers.items[i];
        first = has_come(peer) && (first == NULL || peer->rank < first->rank) ? peer : first;
    }
    const int64_t process = first != NULL ? first->process : getpid();
    peers_done(&peers);
    return process;
}

// Waits until that process has ended. Returns 0 if it does not.
static int has_ended(int64_t process) {
    const struct timespec pause = {.tv_nsec = 100000000};
    for (int i = 0; i < REPORT_SECONDS * 10; i++) {
        if (peer_place_of(process) == PEER_ELSEWHERE) {
            return 1;
        }
        nanosleep(&pause, NULL);
    }
    return 0;
}

static void report(const struct launch *launch, double seconds) {
    char host[HOST_NAME_MAX + 1] = "", text[TEXT_SIZE] = "";
    struct peers peers;
    struct berth_error error;
    gethostname(host, sizeof host - 1);
    peers_find(launch, &peers);
    describe(launch, &peers, text);
    peers_done(&peers);
    (void)error_set(&error, BERTH_UNAVAILABLE,
                    "rank %" PRId64 " on host %s: the job has not started within %g s "
                    "(start_timeout %g s): %s",
                    launch->rank, host, seconds, seconds, text);
    dprintf(STDERR_FILENO, "berth: error: %s\n", error.message);
}

static void beat(void *context) {
    struct start *own = context;
    const double seconds = atomic_load(&own->seconds);
    const double early = seconds / 2 < EARLY_SECONDS ? seconds / 2 : EARLY_SECONDS;
    own->elapsed += WATCH_BEAT_SECONDS;
    if (seconds > 0 && own->reporter == 0 && own->elapsed >= seconds - early) {
        own->reporter = find_reporter(&own->launch);
    }
    if (seconds > 0 && own->elapsed >= seconds) {
        // Nothing of the MPI can be called: another thread may be in it, or it was never
        // initialized. The launcher ends the other processes, or their own deadlines do.
        if (own->reporter == getpid() || !has_ended(own->reporter)) {
            report(&own->launch, seconds);
        }
        _exit(BERTH_UNAVAILABLE);
    }
}

// --- the start ----------------------------------------------------------------------------------

static enum berth_status begin(enum peer_place place, double seconds, struct berth_error *error) {
    atomic_store(&start.seconds, seconds);
    if (!start.watch.is_running) {
        start.launch = launch_find();
        start.elapsed = 0;
        start.reporter = 0;
        start.watch = (struct watch){.beat = beat, .context = &start};
        TRY(watch_start(&start.watch, error));
    }
    pthread_setname_np(start.watch.thread, peer_thread_names[place]);
    return BERTH_OK;
}

enum berth_status comm_expect(double seconds, struct berth_error *error) {
    return begin(PEER_STARTED, seconds, error);
}

enum berth_status start_connect(double seconds, struct berth_error *error) {
    return begin(PEER_CONNECTING, seconds, error);
}

void start_end(void) {
    watch_end(&start.watch);
}

void comm_expect_none(void) {
    start_end();
}
