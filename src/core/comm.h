// SPDX-License-Identifier: Apache-2.0
// The communicator contract: the ranks of a job, that is, the processes that compute its updates
// together, and what they exchange. src/comm/ has the implementations; comm_self is the job of one
// process, for which nothing travels.
//
// Rules that hold for every operation:
// - All ranks call the same operations in the same order with the same counts.
// - An operation cannot fail in the ordinary course. A communicator that meets an error (a peer is
//   gone, a deadline has passed) keeps the first one and does nothing from then on; `agree` and
//   `status` hand it out.
// - The order of every sum is fixed by rank, so all ranks get the same bits, each time.
#ifndef BERTH_CORE_COMM_H
#define BERTH_CORE_COMM_H

#include "core/error.h"
#include "core/mat.h"

#include <stddef.h>
#include <stdint.h>

// A range of one of the flat buffers, by its place in the parameter table. The ranks that begin an
// operation on it pass the same name, first and count.
struct comm_range {
    const char *name;     // "gradients", for messages
    void *data;           // of element `first`, in the device's memory
    int64_t first, count; // elements
    enum dtype dtype;
};

struct comm {
    const char *name; // "self"
    void *state;
    int rank, size;             // among all processes
    int local_rank, local_size; // among those of this host

    void (*close)(struct comm *comm);
    // The first error met since the last call, or BERTH_OK.
    enum berth_status (*status)(struct comm *comm, struct berth_error *error);

    // Returns, on every rank, BERTH_OK when all ranks passed it, else the status of the lowest rank
    // that did not, with its message in *error (given: this rank's own). *stop becomes the largest
    // of all ranks'.
    enum berth_status (*agree)(struct comm *comm, enum berth_status own, int *stop,
                               struct berth_error *error);
    // Everybody gets what `root` holds.
    void (*broadcast)(struct comm *comm, void *data, size_t bytes, int root);
    // values[i] becomes the sum of all ranks' values[i], added in the order of the ranks.
    void (*sum)(struct comm *comm, double *values, size_t count);

    // Begins to add the range over all ranks; the memory is the communicator's until the wait.
    // After it each rank holds the sums of the elements that it owns (a partition); the rest is
    // undefined.
    void (*reduce_begin)(struct comm *comm, const struct comm_range *range);
    void (*reduce_wait)(struct comm *comm); // for all that were begun
    // Begins to collect the range: every rank gets the owners' elements.
    void (*gather_begin)(struct comm *comm, const struct comm_range *range);
    void (*gather_wait)(struct comm *comm);
};

// The job of one process. It is a constant in all but type: never closed, shared by all.
struct comm *comm_self(void);

#endif
