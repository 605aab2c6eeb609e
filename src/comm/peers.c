// SPDX-License-Identifier: Apache-2.0
// Reads /proc to find the other processes of a job on this host, before they are connected, so that
// a job that does not start can say which process is missing or has ended (start.c). It is not used
// once a communicator is open.
#include "comm/peers.h"

#include "core/file.h"
#include "core/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROC_FILE_LIMIT (1 << 22)
#define PATH_SIZE 128

const char *const peer_thread_names[] = {
    [PEER_STARTED] = "berth-start", [PEER_CONNECTING] = "berth-connect"};

// --- files of /proc -----------------------------------------------------------------------------

// A file of a process with a NUL at its end; NULL: it is gone, or another user's.
static char *read_proc(int64_t process, const char *name, size_t *length) {
    char path[PATH_SIZE], *text;
    (void)snprintf(path, sizeof path, "/proc/%" PRId64 "/%s", process, name);
    return file_read(path, PROC_FILE_LIMIT, &text, length, NULL) == BERTH_OK ? text : NULL;
}

// The value of a variable in the text of an environment; NULL: there is none.
static const char *value_of(const char *environment, size_t length, const char *variable) {
    const size_t name = variable != NULL ? strlen(variable) : 0;
    for (const char *at = environment; name > 0 && at < environment + length;
         at += strlen(at) + 1) {
        if (strncmp(at, variable, name) == 0 && at[name] == '=') {
            return at + name + 1;
        }
    }
    return NULL;
}

// The rank of a process, and its number on the host; -1: unknown.
static int64_t rank_of(int64_t process, const struct launcher *launcher, int64_t *local_rank) {
    size_t length;
    int64_t rank = -1;
    char *environment = read_proc(process, "environ", &length);
    for (size_t i = 0; environment != NULL && i < 2 && rank < 0; i++) {
        rank = launch_number(value_of(environment, length, launcher->ranks[i]));
    }
    *local_rank = environment != NULL
                      ? launch_number(value_of(environment, length, launcher->local_rank))
                      : -1;
    memory_free(environment);
    return rank;
}

// Fills in the program's name and whether the process is stopped; returns its parent, or 0.
static int64_t read_state(int64_t process, struct peer *peer) {
    size_t length;
    int64_t parent = 0;
    char *text = read_proc(process, "stat", &length);
    const char *name = text != NULL ? strchr(text, '(') : NULL;
    const char *end = text != NULL ? strrchr(text, ')') : NULL;
    if (name != NULL && end > name && strlen(end) > 4) {
        (void)snprintf(peer->program, sizeof peer->program, "%.*s", (int)(end - name - 1),
                       name + 1);
        peer->is_stopped = end[2] == 'T' || end[2] == 't';
        parent = strtoll(end + 4, NULL, 10);
    }
    memory_free(text);
    return parent;
}

static enum peer_place thread_place(const char *name) {
    for (enum peer_place place = PEER_CONNECTING; place > PEER_ELSEWHERE; place--) {
        const size_t length = strlen(peer_thread_names[place]);
        if (strncmp(name, peer_thread_names[place], length) == 0 && name[length] == '\n') {
            return place;
        }
    }
    return PEER_ELSEWHERE;
}

enum peer_place peer_place_of(int64_t process) {
    char path[PATH_SIZE / 2], **threads;
    enum peer_place place = PEER_ELSEWHERE;
    (void)snprintf(path, sizeof path, "/proc/%" PRId64 "/task", process);
    if (dir_list(path, &threads, NULL) != BERTH_OK) {
        return place;
    }
    for (size_t i = 0; threads[i] != NULL && place == PEER_ELSEWHERE; i++) {
        size_t length;
        (void)snprintf(path, sizeof path, "task/%.20s/comm", threads[i]);
        char *name = read_proc(process, path, &length);
        place = name != NULL ? thread_place(name) : PEER_ELSEWHERE;
        memory_free(name);
    }
    memory_free(threads);
    return place;
}

// --- the processes of the launcher --------------------------------------------------------------

// The nearest ancestor without a rank, because the processes may run in shells and scripts that the
// launcher started; 0: it is not to be seen.
static int64_t starter_of(int64_t process, const struct launcher *launcher) {
    struct peer unused;
    int64_t local_rank;
    while (process > 0 && rank_of(process, launcher, &local_rank) >= 0) {
        process = read_state(process, &unused);
    }
    return process;
}

// A shell and the program that it runs have the same rank: the one that has come further counts,
// then one that is stopped.
static void add(struct peers *peers, const struct peer *peer) {
    for (size_t i = 0; i < peers->count; i++) {
        struct peer *same = &peers->items[i];
        if (same->rank == peer->rank) {
            const int is_further = peer->place > same->place;
            const int is_as_far = peer->place == same->place;
            *same = is_further || (is_as_far && peer->is_stopped) ? *peer : *same;
            return;
        }
    }
    peers->items[peers->count++] = *peer;
}

static void add_if_peer(struct peers *peers, int64_t process, const struct launch *launch,
                        int64_t starter) {
    struct peer peer = {.process = process};
    peer.rank = rank_of(process, launch->launcher, &peer.local_rank);
    if (peer.rank < 0 || starter_of(process, launch->launcher) != starter) {
        return;
    }
    (void)read_state(process, &peer);
    peer.place = peer_place_of(process);
    add(peers, &peer);
}

void peers_find(const struct launch *launch, struct peers *peers) {
    char **names;
    *peers = (struct peers){0};
    const int64_t starter = launch->launcher != NULL ? starter_of(getpid(), launch->launcher) : 0;
    if (starter <= 0 || dir_list("/proc", &names, NULL) != BERTH_OK) {
        return;
    }
    size_t count = 0;
    while (names[count] != NULL) {
        count++;
    }
    peers->items = memory_array_zeroed(count + 1, sizeof *peers->items);
    for (size_t i = 0; peers->items != NULL && i < count; i++) {
        const int64_t process = launch_number(names[i]);
        if (process > 0) {
            add_if_peer(peers, process, launch, starter);
        }
    }
    memory_free(names);
}

void peers_done(struct peers *peers) {
    memory_free(peers->items);
    *peers = (struct peers){0};
}
