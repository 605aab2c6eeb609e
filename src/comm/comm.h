// SPDX-License-Identifier: Apache-2.0
// The communicator interface: the ranks of a job (the processes that compute its updates together)
// and what they exchange. src/comm/ has the implementations; comm_self is the job of one process,
// which exchanges nothing.
//
// Rules that hold for every operation:
// - All ranks call the same operations in the same order with the same counts.
// - Operations return no error. A communicator keeps its first error (a peer is gone, a deadline
//   has passed) and does nothing from then on; `agree` and `status` return it. The other ranks then
//   get its status as well, without a message.
// - All ranks get the same bits of a sum. Its order is fixed by rank, so they are the same every
//   time, unless the range leaves the order to the library (`native`).
#ifndef BERTH_COMM_COMM_H
#define BERTH_COMM_COMM_H

#include "core/error.h"
#include "core/mat.h"

#include <stddef.h>
#include <stdint.h>

// A range of one of the flat buffers, whose elements are numbered as in the parameter table. All
// ranks begin an operation with the same name, first, count, types and starts.
struct comm_range {
    const char *name;      // "gradients", for messages
    void *data;            // element `first`, in the device's memory
    int64_t first, count;  // elements
    enum dtype dtype;      // of the elements in memory
    enum dtype wire;       // of the elements while they travel
    const int64_t *starts; // [size + 1] first element of each rank's part; ascending, from `first`
                           // to `first + count`
    int64_t bucket;        // maximum number of elements, of all parts together, to exchange at a
                           // time; 0: as many as the communicator's memory holds
    // 1: by the library's own collectives, if there are any (native_missing): they have an order of
    // their own, round each sum of two to `wire`, and send no checksums.
    int native;
    // 1, of a reduce: every rank gets all sums, rounded to `wire`, as if each range were then
    // gathered.
    int to_all;
};

struct comm_stats {
    uint64_t bytes;         // sent to other hosts by this rank
    int64_t ranges;         // whose exchange was begun
    double busy_seconds;    // spent exchanging ranges
    double exposed_seconds; // of these, while a caller waited
    double call_seconds;    // while a caller waited for other operations
};

// What a rank does between two operations, for messages. Except in an update and between heartbeats
// (comm/heartbeat.h), it may take longer than the deadline as long as its process uses the
// processor.
enum comm_phase { COMM_BETWEEN, COMM_UPDATE, COMM_EVALUATION, COMM_SAVING, COMM_HEARTBEAT };

// An opener fills the struct, and nobody changes it until it is closed, except a wrapper, which
// replaces functions and keeps the originals. One thread of a rank at a time calls the functions.
// What is true of every communicator is in comm_check.
struct comm {
    const char *name; // "self", "openmpi"
    void *state;
    void *wrapper;  // state of code that has replaced functions of this struct; NULL: none
    int rank, size; // among all processes; those of a host are consecutive
    int local_rank, local_size; // among those of this host
    int host, host_count;
    int rack_count;                // of those that hosts are in; 1 where none are known
    const char *const *host_names; // [size] of each rank's host; may be NULL if there is one rank
    double timeout_seconds;        // of each wait for other ranks; 0: there are none
    size_t bytes;                  // of this rank's own memory
    size_t host_bytes;             // of memory that the ranks of the host share
    // Of these, the bytes that this rank uses to reduce, and to gather, values sent as f32.
    size_t reduce_bytes, gather_bytes;
    const char *native_missing; // why ranges cannot be native; NULL: they can
    const char *library;        // that would add them: "Open MPI v4.1.4"; NULL: none
    // 1: its reductions take a number of rounds like the number of hosts, not like its logarithm.
    int library_is_linear;

    void (*close)(struct comm *comm);
    // The first error, which is sticky, or BERTH_OK.
    enum berth_status (*status)(struct comm *comm, struct berth_error *error);
    // After a wait of the caller's own for all other ranks: asks each of them, which has 2 seconds,
    // whether it is alive. If one does not answer, that is the communicator's error, and returned:
    // the rank "did not arrive at `what`".
    enum berth_status (*find_silent)(struct comm *comm, const char *what,
                                     struct berth_error *error);
    // Sets the phase that the rank is in from now on; `update` counts from 1.
    void (*enter)(struct comm *comm, enum comm_phase phase, int64_t update);

    // Returns, on every rank, BERTH_OK if all ranks passed BERTH_OK; otherwise the status of the
    // lowest rank that did not, with its message in *error (on entry: this rank's own), which names
    // the rank unless all failed. *stop becomes the maximum over all ranks. A rank with an error
    // does not wait long, because the others may be waiting for it elsewhere and never call this.
    // The others then fail with this rank's error at their next call, whatever it is. So they do if
    // they agree on something else, at another point of the job.
    enum berth_status (*agree)(struct comm *comm, enum berth_status own, int *stop,
                               struct berth_error *error);
    // Copies the data of `root` to all ranks. After an error a late message may still use the data,
    // until the communicator is closed.
    void (*broadcast)(struct comm *comm, void *data, size_t bytes, int root);
    // values[i] becomes the sum of values[i] over all ranks, added along a fixed tree.
    void (*sum)(struct comm *comm, double *values, size_t count);

    // Both begin an exchange and return its ticket. The memory and `starts` belong to the
    // communicator until a wait for this ticket or a later one returns.
    //
    // Reduce-scatter: each rank gets the sums over all ranks of the elements of its own part; the
    // rest of its range is undefined, unless the range is `to_all`. dtype is f32.
    int64_t (*reduce_begin)(struct comm *comm, const struct comm_range *range);
    // All-gather: every rank gets each rank's part of the range, rounded to `wire` (on the part's
    // owner as well). The range may be the result of a reduce that has not been waited for.
    int64_t (*gather_begin)(struct comm *comm, const struct comm_range *range);
    void (*wait)(struct comm *comm, int64_t ticket);

    // Totals since the communicator was opened.
    struct comm_stats (*stats)(struct comm *comm);
};

// Makes either all ranks continue or none: each passes the status of its own work. Afterwards all
// ranks have the status of `agree`, and rank 0 alone its message, which names the rank that failed;
// so an error is reported once. If the communicator has failed, each rank keeps its own message.
enum berth_status comm_settle(struct comm *comm, enum berth_status own, struct berth_error *error);
// The same; *stop becomes the maximum over all ranks.
enum berth_status comm_settle_stop(struct comm *comm, enum berth_status own, int *stop,
                                   struct berth_error *error);

// NULL, or what is not true of an open communicator (core/check.h).
const char *comm_check(const struct comm *comm);

// The job of one process: a shared constant, although its type is not const; closing it does
// nothing.
struct comm *comm_self(void);

struct comm_options {
    const char *topology;   // file that says which rack each host is in (rack_file.h); NULL: none
    const char *name;       // "self", or the MPI: "openmpi", "mpich"; "auto": that of the launcher
    double timeout_seconds; // of each wait for other ranks
    // Until it is open, from now or from an earlier comm_expect; 0: no deadline. Afterwards the
    // process ends with BERTH_UNAVAILABLE and a message that says who is missing.
    double start_timeout_seconds;
};

// For a program: it will open a communicator with the other processes, and has started. May be
// called again with another deadline; the time counts from the first call.
enum berth_status comm_expect(double seconds, struct berth_error *error);
// For a program: it will open none. Does nothing if none is expected.
void comm_expect_none(void);

// Opens the communicator of the processes that were started together, all of which call this; for a
// single process, comm_self. The caller closes it. BERTH_CONFIG: launcher, `name` and MPI do not
// match; BERTH_UNAVAILABLE: the MPI or another process is missing. One of several processes never
// becomes a job of its own.
enum berth_status comm_open(const struct comm_options *options, struct comm **comm,
                            struct berth_error *error);
// Whether this process has opened one with others, so that an error it ends with was agreed on.
int comm_was_opened(void);

#endif
