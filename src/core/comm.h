// SPDX-License-Identifier: Apache-2.0
// The communicator contract: the ranks of a job, that is, the processes that compute its updates
// together, and what they exchange. src/comm/ has the implementations; comm_self is the job of one
// process, which exchanges nothing.
//
// Rules that hold for every operation:
// - All ranks call the same operations in the same order with the same counts.
// - An operation does not fail in normal operation. A communicator that meets an error (a peer is
//   gone, a deadline has passed) keeps the first one and does nothing from then on; `agree` and
//   `status` return it. The other ranks then get its status too, without a message.
// - The order of every sum is fixed by rank, so all ranks get the same bits, each time.
#ifndef BERTH_CORE_COMM_H
#define BERTH_CORE_COMM_H

#include "core/error.h"
#include "core/mat.h"

#include <stddef.h>
#include <stdint.h>

// A range of one of the flat buffers, by its place in the parameter table. The ranks that begin an
// operation on it pass the same name, first, count, types and starts.
struct comm_range {
    const char *name;      // "gradients", for messages
    void *data;            // element `first`, in the device's memory
    int64_t first, count;  // elements
    enum dtype dtype;      // of the elements in memory
    enum dtype wire;       // of the elements while they travel
    const int64_t *starts; // [size + 1] element where each rank's part begins; ascending, from
                           // `first` to `first + count`
    int64_t bucket;        // most elements, of all parts together, to exchange at a time; 0: as
                           // many as the communicator's memory holds
};

struct comm_stats {
    uint64_t bytes;         // sent to other hosts by this rank
    double busy_seconds;    // in which ranges were exchanged
    double exposed_seconds; // of these, in which a caller waited
    double call_seconds;    // in which a caller waited for another operation
};

// What a rank does between two operations, for messages. In all but an update, and meetings at
// fixed times (core/meeting.h), it may take longer than the deadline as long as it works.
enum comm_phase { COMM_BETWEEN, COMM_UPDATE, COMM_EVALUATION, COMM_SAVING, COMM_MEETING };

struct comm {
    const char *name; // "self", "openmpi"
    void *state;
    void *observer; // of who put functions of its own in the place of these; NULL: nobody
    int rank, size; // among all processes; those of a host are consecutive
    int local_rank, local_size; // among those of this host
    int host, host_count;
    const char *const *host_names; // [size] of each rank's host; NULL where there is one rank
    double timeout_seconds;        // of each wait for other ranks; 0: there are none
    size_t bytes;                  // of memory that it takes alone
    size_t host_bytes;             // of memory that the ranks of the host share
    // Of these, what this rank uses when it reduces, and when it gathers, values that travel in
    // f32.
    size_t reduce_bytes, gather_bytes;

    void (*close)(struct comm *comm);
    // The first error ever met, which stays, or BERTH_OK.
    enum berth_status (*status)(struct comm *comm, struct berth_error *error);
    // Where the rank is from now on; `update` counts from 1.
    void (*enter)(struct comm *comm, enum comm_phase phase, int64_t update);

    // Returns, on every rank, BERTH_OK when all ranks passed it, else the status of the lowest rank
    // that did not, with its message in *error (given: this rank's own), which names the rank
    // unless all failed. *stop becomes the largest of all ranks'. A rank that did not pass does not
    // wait long: the others may never come here, because they wait for it. Then its error is the
    // communicator's; likewise if it meets others that agree on something else, at another place
    // of the job.
    enum berth_status (*agree)(struct comm *comm, enum berth_status own, int *stop,
                               struct berth_error *error);
    // Every rank gets what `root` holds.
    void (*broadcast)(struct comm *comm, void *data, size_t bytes, int root);
    // values[i] becomes the sum of all ranks' values[i], added along a fixed tree.
    void (*sum)(struct comm *comm, double *values, size_t count);

    // Both begin an exchange and return its ticket. The memory and `starts` belong to the
    // communicator until a wait for this ticket or a later one returns.
    //
    // Reduce: each rank gets the sums, over all ranks, of the elements of its own part; the rest of
    // its range is undefined. dtype is f32.
    int64_t (*reduce_begin)(struct comm *comm, const struct comm_range *range);
    // Gather: every rank gets each rank's own part of the range, rounded to `wire`; so does the
    // part's owner. It may be of sums that were begun before and that nobody has waited for.
    int64_t (*gather_begin)(struct comm *comm, const struct comm_range *range);
    void (*wait)(struct comm *comm, int64_t ticket);

    // Since it was opened.
    struct comm_stats (*stats)(struct comm *comm);
};

// All ranks continue, or none: each passes the status of what it did alone. Of ranks that fail
// together only the first has a message, so that an error is reported once; it names the rank that
// failed. A communicator that failed leaves each rank its own.
enum berth_status comm_settle(struct comm *comm, enum berth_status own, struct berth_error *error);
// The same; *stop becomes the largest of all ranks'.
enum berth_status comm_settle_stop(struct comm *comm, enum berth_status own, int *stop,
                                   struct berth_error *error);

// The job of one process. It is a constant in all but type: closing it does nothing, all share it.
struct comm *comm_self(void);

struct comm_options {
    const char *name;       // "self", or the MPI: "openmpi", "mpich"; "auto": as the launcher says
    double timeout_seconds; // of each wait for other ranks
};

// The communicator of the processes that were started together, all of which call it; that of the
// process alone where it is. Closed by the caller. BERTH_CONFIG: the launcher, `name` and the MPI
// do not go together; BERTH_UNAVAILABLE: the MPI or another process is not there. Never is a
// process of several made a job of its own.
enum berth_status comm_open(const struct comm_options *options, struct comm **comm,
                            struct berth_error *error);

#endif
