// SPDX-License-Identifier: Apache-2.0
// The communicator interface: the ranks of a job (the processes that compute its updates together)
// and the operations between them. src/comm/ has the implementations; comm_self is for a job of one
// process and transfers nothing.
//
// Rules that hold for every operation:
// - All ranks call the same operations in the same order with the same counts.
// - An operation returns no error. A communicator keeps the first error (a lost peer, a missed
//   deadline) and does nothing afterwards; `agree` and `status` return it.
// - Every sum is added in rank order, so all ranks get the same bits every time.
#ifndef BERTH_CORE_COMM_H
#define BERTH_CORE_COMM_H

#include "core/error.h"
#include "core/mat.h"

#include <stddef.h>
#include <stdint.h>

// A range of one of the flat buffers, by its position in the parameter table. All ranks pass the
// same name, first and count.
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
    // The first error since the last call, or BERTH_OK.
    enum berth_status (*status)(struct comm *comm, struct berth_error *error);

    // Returns the same status on every rank: BERTH_OK when `own` is BERTH_OK on all of them, else
    // the status of the lowest rank with an error, and that rank's message in *error (on entry:
    // this rank's message). *stop becomes the maximum over all ranks.
    enum berth_status (*agree)(struct comm *comm, enum berth_status own, int *stop,
                               struct berth_error *error);
    // Copies the data of rank `root` to all ranks.
    void (*broadcast)(struct comm *comm, void *data, size_t bytes, int root);
    // values[i] becomes the sum of all ranks' values[i], added in rank order.
    void (*sum)(struct comm *comm, double *values, size_t count);

    // Starts to sum the range over all ranks; the communicator owns the memory until the wait.
    // After the wait each rank holds the sums of the elements it owns (its partition); the others
    // are undefined.
    void (*reduce_begin)(struct comm *comm, const struct comm_range *range);
    void (*reduce_wait)(struct comm *comm); // for all that were started
    // Starts to collect the range: every rank gets each element from its owner.
    void (*gather_begin)(struct comm *comm, const struct comm_range *range);
    void (*gather_wait)(struct comm *comm);
};

// The communicator of one process: constant in all but type, shared, never closed.
struct comm *comm_self(void);

#endif
