// SPDX-License-Identifier: Apache-2.0
#include "train/job/paces.h"

#include "core/memory.h"

#include <stdlib.h>

// Ranks tell each other their times every few updates. A stretch is as many of these as take a
// second. A rank is slow when it is in so many stretches in a row: where an update takes a quarter
// of a second or more, within 20 updates after it has become so.
enum { UPDATES = 4, TIMES = 4 };
#define STRETCH_SECONDS 1.0
#define SLOW 1.5  // times as long as the others for as much work
#define DELAY 0.1 // of an update: less is not worth a warning

enum berth_status paces_init(struct paces *paces, struct comm *comm, struct berth_error *error) {
    const size_t size = (size_t)comm->size;
    *paces = (struct paces){.comm = comm, .slowest.rank = -1, .reported = -1};
    paces->sums = memory_array(size, sizeof *paces->sums);
    paces->stretch = memory_array_zeroed(size, sizeof *paces->stretch);
    paces->sorted = memory_array(size, sizeof *paces->sorted);
    return paces->sums != NULL && paces->stretch != NULL && paces->sorted != NULL
               ? BERTH_OK
               : error_no_memory(error, size * sizeof *paces->sums, "the ranks' speeds");
}

void paces_done(struct paces *paces) {
    memory_free(paces->sums);
    memory_free(paces->stretch);
    memory_free(paces->sorted);
}

static int by_value(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

// Seconds for a unit of work: the median of all ranks but one. 0: no other rank has done any.
static double median_without(const struct paces *paces, int left_out) {
    size_t known = 0;
    for (int rank = 0; rank < paces->comm->size; rank++) {
        const struct pace *pace = &paces->stretch[rank];
        if (rank != left_out && pace->work > 0) {
            paces->sorted[known++] = pace->seconds / pace->work;
        }
    }
    qsort(paces->sorted, known, sizeof *paces->sorted, by_value);
    return known > 0 ? paces->sorted[(known - 1) / 2] : 0;
}

static int longest_without(const struct paces *paces, int left_out) {
    int longest = -1;
    for (int rank = 0; rank < paces->comm->size; rank++) {
        if (rank != left_out &&
            (longest < 0 || paces->stretch[rank].seconds > paces->stretch[longest].seconds)) {
            longest = rank;
        }
    }
    return longest;
}

static struct slow_rank find_slowest(const struct paces *paces) {
    struct slow_rank slowest = {.rank = longest_without(paces, -1)};
    const struct pace *own = &paces->stretch[slowest.rank];
    const double usual = median_without(paces, slowest.rank) * own->work;
    const double next = paces->stretch[longest_without(paces, slowest.rank)].seconds;
    const double without = usual > next ? usual : next;
    if (usual > 0) {
        slowest.ratio = own->seconds / usual;
        slowest.delay = own->seconds / without - 1;
    }
    return slowest;
}

// 1: the stretch is long enough, which all ranks see alike.
static int exchange(struct paces *paces) {
    struct comm *comm = paces->comm;
    for (int rank = 0; rank < comm->size; rank++) {
        paces->sums[rank] = rank == comm->rank ? paces->own : (struct pace){0};
    }
    comm->sum(comm, &paces->sums->seconds, 2 * (size_t)comm->size);
    for (int rank = 0; rank < comm->size; rank++) {
        paces->stretch[rank].seconds += paces->sums[rank].seconds;
        paces->stretch[rank].work += paces->sums[rank].work;
    }
    paces->compared += paces->updates;
    paces->updates = 0;
    paces->own = (struct pace){0};
    return paces->stretch[longest_without(paces, -1)].seconds >= STRETCH_SECONDS;
}

static void compare(struct paces *paces) {
    const int before = paces->slowest.rank;
    paces->slowest = find_slowest(paces);
    const int is_slow = paces->slowest.ratio >= SLOW && paces->slowest.delay >= DELAY;
    const int goes_on = is_slow && paces->times > 0 && paces->slowest.rank == before;
    paces->times = is_slow + (goes_on ? paces->times : 0);
    paces->slow_updates = paces->compared + (goes_on ? paces->slow_updates : 0);
    paces->slowest.updates = paces->slow_updates;
    paces->compared = 0;
    for (int rank = 0; rank < paces->comm->size; rank++) {
        paces->stretch[rank] = (struct pace){0};
    }
}

void paces_begin(struct paces *paces) {
    paces->before = paces->comm->stats(paces->comm);
}

int paces_add(struct paces *paces, double seconds, double work, struct slow_rank *found) {
    struct comm *comm = paces->comm;
    const struct comm_stats now = comm->stats(comm);
    if (comm->size == 1) {
        return 0;
    }
    paces->own.seconds += seconds - (now.exposed_seconds - paces->before.exposed_seconds) -
                          (now.call_seconds - paces->before.call_seconds);
    paces->own.work += work;
    if (++paces->updates < UPDATES || !exchange(paces)) {
        return 0;
    }
    compare(paces);
    *found = paces->slowest;
    if (paces->times < TIMES || found->rank == paces->reported) {
        return 0;
    }
    paces->reported = found->rank;
    return 1;
}
