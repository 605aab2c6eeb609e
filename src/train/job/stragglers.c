// SPDX-License-Identifier: Apache-2.0
// Compares the ranks' times after every few updates, with the time that they waited for each other
// taken out. The slowest rank's time is held against the median of the others for the same work.
// The training loop warns of the rank that is found; nothing else changes.
#include "train/job/stragglers.h"

#include "core/memory.h"

#include <stdlib.h>

// Ranks exchange their times every UPDATES updates. A stretch takes at least a second. A rank is
// reported after TIMES slow stretches in a row: if an update takes a quarter of a second or more,
// within 20 updates of becoming slow.
enum { UPDATES = 4, TIMES = 4 };
#define STRETCH_SECONDS 1.0
#define SLOW 1.5  // times the median of the others for the same work
#define DELAY 0.1 // fraction of an update; less is not worth a warning

enum berth_status stragglers_init(struct stragglers *stragglers, struct comm *comm,
                                  struct berth_error *error) {
    const size_t size = (size_t)comm->size;
    *stragglers = (struct stragglers){.comm = comm, .slowest.rank = -1, .reported = -1};
    stragglers->sums = memory_array(size, sizeof *stragglers->sums);
    stragglers->stretch = memory_array_zeroed(size, sizeof *stragglers->stretch);
    stragglers->sorted = memory_array(size, sizeof *stragglers->sorted);
    return stragglers->sums != NULL && stragglers->stretch != NULL && stragglers->sorted != NULL
               ? BERTH_OK
               : error_no_memory(error, size * sizeof *stragglers->sums, "the ranks' speeds");
}

void stragglers_done(struct stragglers *stragglers) {
    memory_free(stragglers->sums);
    memory_free(stragglers->stretch);
    memory_free(stragglers->sorted);
}

static int by_value(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

// Seconds per unit of work: the median of all ranks but one. 0: no other rank has done any work.
static double median_without(const struct stragglers *stragglers, int left_out) {
    size_t known = 0;
    for (int rank = 0; rank < stragglers->comm->size; rank++) {
        const struct pace *pace = &stragglers->stretch[rank];
        if (rank != left_out && pace->work > 0) {
            stragglers->sorted[known++] = pace->seconds / pace->work;
        }
    }
    qsort(stragglers->sorted, known, sizeof *stragglers->sorted, by_value);
    return known > 0 ? stragglers->sorted[(known - 1) / 2] : 0;
}

static int longest_without(const struct stragglers *stragglers, int left_out) {
    int longest = -1;
    for (int rank = 0; rank < stragglers->comm->size; rank++) {
        if (rank != left_out && (longest < 0 || stragglers->stretch[rank].seconds >
                                                    stragglers->stretch[longest].seconds)) {
            longest = rank;
        }
    }
    return longest;
}

// Returns 1 if the stretch is long enough; the same on all ranks.
static int exchange(struct stragglers *stragglers) {
    struct comm *comm = stragglers->comm;
    for (int rank = 0; rank < comm->size; rank++) {
        stragglers->sums[rank] = rank == comm->rank ? stragglers->own : (struct pace){0};
    }
    comm->sum(comm, &stragglers->sums->seconds, 2 * (size_t)comm->size);
    for (int rank = 0; rank < comm->size; rank++) {
        stragglers->stretch[rank].seconds += stragglers->sums[rank].seconds;
        stragglers->stretch[rank].work += stragglers->sums[rank].work;
    }
    stragglers->compared += stragglers->updates;
    stragglers->updates = 0;
    stragglers->own = (struct pace){0};
    return stragglers->stretch[longest_without(stragglers, -1)].seconds >= STRETCH_SECONDS;
}

void stragglers_begin(struct stragglers *stragglers) {
    stragglers->before = stragglers->comm->stats(stragglers->comm);
}

int stragglers_add(struct stragglers *stragglers, double seconds, double work,
                   struct slow_rank *found) {
    struct comm *comm = stragglers->comm;
    const struct comm_stats now = comm->stats(comm);
    if (comm->size == 1) {
        return 0;
    }
    stragglers->own.seconds += seconds -
                               (now.exposed_seconds - stragglers->before.exposed_seconds) -
                               (now.call_seconds - stragglers->before.call_seconds);
    stragglers->own.work += work;
    if (++stragglers->updates < UPDATES || !exchange(stragglers)) {
        return 0;
    }
    const int before = stragglers->slowest.rank;
    struct slow_rank slowest = {.rank = longest_without(stragglers, -1)};
    const struct pace *own = &stragglers->stretch[slowest.rank];
    const double usual = median_without(stragglers, slowest.rank) * own->work;
    const double next = stragglers->stretch[longest_without(stragglers, slowest.rank)].seconds;
    const double without = usual > next ? usual : next;
    if (usual > 0) {
        slowest.ratio = own->seconds / usual;
        slowest.delay = own->seconds / without - 1;
    }
    stragglers->slowest = slowest;
    const int is_slow = stragglers->slowest.ratio >= SLOW && stragglers->slowest.delay >= DELAY;
    const int goes_on = is_slow && stragglers->times > 0 && stragglers->slowest.rank == before;
    stragglers->times = is_slow + (goes_on ? stragglers->times : 0);
    stragglers->slow_updates = stragglers->compared + (goes_on ? stragglers->slow_updates : 0);
    stragglers->slowest.updates = stragglers->slow_updates;
    stragglers->compared = 0;
    for (int rank = 0; rank < stragglers->comm->size; rank++) {
        stragglers->stretch[rank] = (struct pace){0};
    }
    *found = stragglers->slowest;
    if (stragglers->times < TIMES || found->rank == stragglers->reported) {
        return 0;
    }
    stragglers->reported = found->rank;
    return 1;
}
