// SPDX-License-Identifier: Apache-2.0
#include "train/job/paces.h"

#include "core/memory.h"

#include <stdlib.h>

// A rank is slow when it is in two comparisons in a row: within 20 updates after it has become so.
enum { UPDATES = 6, TIMES = 2 };
#define SLOW 1.5
#define SECONDS 0.01 // of an update: less is noise

enum berth_status paces_init(struct paces *paces, struct comm *comm, struct berth_error *error) {
    const size_t numbers = 2 * (size_t)comm->size;
    *paces = (struct paces){
        .comm = comm, .slowest.rank = -1, .reported = -1, .before = comm->stats(comm)};
    paces->sums = memory_array(numbers, sizeof *paces->sums);
    return paces->sums != NULL
               ? BERTH_OK
               : error_no_memory(error, numbers * sizeof *paces->sums, "the ranks' speeds");
}

void paces_done(struct paces *paces) {
    memory_free(paces->sums);
}

static int by_value(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

// From the seconds for the same work of ranks [0, count), of which some have done none.
static struct slow_rank slowest_of(const double *values, int count, double *sorted) {
    struct slow_rank slowest = {.rank = -1};
    int known = 0;
    for (int rank = 0; rank < count; rank++) {
        if (values[rank] > 0) {
            sorted[known++] = values[rank];
            slowest.rank =
                slowest.rank < 0 || values[rank] > values[slowest.rank] ? rank : slowest.rank;
        }
    }
    if (known > 0) {
        qsort(sorted, (size_t)known, sizeof *sorted, by_value);
        const double median = sorted[(known - 1) / 2];
        slowest.ratio = values[slowest.rank] / median;
        slowest.seconds = values[slowest.rank] - median;
    }
    return slowest;
}

static struct slow_rank compare(struct paces *paces) {
    struct comm *comm = paces->comm;
    double *seconds = paces->sums, *work = paces->sums + comm->size;
    for (int rank = 0; rank < comm->size; rank++) {
        seconds[rank] = rank == comm->rank ? paces->seconds : 0;
        work[rank] = rank == comm->rank ? paces->work : 0;
    }
    comm->sum(comm, paces->sums, 2 * (size_t)comm->size);
    double all = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        all += work[rank];
        seconds[rank] = work[rank] > 0 ? seconds[rank] / work[rank] : 0;
    }
    struct slow_rank slowest = slowest_of(seconds, comm->size, work);
    slowest.seconds *= all / comm->size / UPDATES;
    return slowest;
}

int paces_add(struct paces *paces, double seconds, double work, struct slow_rank *found) {
    struct comm *comm = paces->comm;
    const struct comm_stats now = comm->stats(comm);
    if (comm->size == 1) {
        return 0;
    }
    paces->seconds += seconds - (now.exposed_seconds - paces->before.exposed_seconds) -
                      (now.call_seconds - paces->before.call_seconds);
    paces->work += work;
    paces->before = now;
    if (++paces->updates < UPDATES) {
        return 0;
    }
    const int before = paces->slowest.rank;
    paces->slowest = compare(paces);
    const int is_slow = paces->slowest.ratio >= SLOW && paces->slowest.seconds >= SECONDS;
    paces->times = !is_slow ? 0 : paces->slowest.rank == before ? paces->times + 1 : 1;
    paces->seconds = paces->work = 0;
    paces->updates = 0;
    *found = paces->slowest;
    found->updates = TIMES * UPDATES;
    if (paces->times < TIMES || found->rank == paces->reported) {
        return 0;
    }
    paces->reported = found->rank;
    return 1;
}
