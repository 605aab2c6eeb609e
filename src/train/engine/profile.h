// SPDX-License-Identifier: Apache-2.0
// Where the time of some updates goes (--profile a:b): spans of the operations, copies, exchanges,
// data and savings of one process, written in the JSON of Chrome's tracing, which Perfetto and
// chrome://tracing show.
//
// While it records, it takes the place of the device's operations and of the communicator's: a run
// without it is as fast as if there were none. It changes nothing that they compute.
//
// Leaves out what a GPU does after an operation is started: the host's time is recorded.
#ifndef BERTH_TRAIN_PROFILE_H
#define BERTH_TRAIN_PROFILE_H

#include "core/comm.h"
#include "core/device.h"
#include "core/error.h"

struct profile_span {
    const char *category, *name; // static
    double begin, end;           // seconds of the monotonic clock
    int64_t update;
};

struct profile {
    int64_t first, last; // updates to record; 0: none
    int64_t update;      // the one under way
    int is_on;
    struct profile_span *spans; // owned
    size_t count, capacity;
    size_t lost; // spans that no memory was left for
    struct device *device;
    struct device saved_device; // before its operations were replaced
    struct comm *comm;          // NULL: one process
    struct comm saved_comm;
    enum device_phase phase; // of the device
    double phase_began;
};

// Reads "a:b" or "a"; "true", for a profile of updates 2 to 4; "false" or NULL: none. BERTH_USAGE
// for anything else.
enum berth_status profile_init(struct profile *profile, const char *updates,
                               struct berth_error *error);
void profile_done(struct profile *profile);

// Before update `update` (from 1): begins to record where it is the first of them.
void profile_start_update(struct profile *profile, int64_t update, struct device *device,
                          struct comm *comm);
// Gives device and communicator their operations back. Without effect where nothing is recorded.
void profile_stop(struct profile *profile);
// The time to pass to profile_add.
double profile_now(void);
// A span from `begin` until now, while it records. `profile` may be NULL.
void profile_add(struct profile *profile, const char *category, const char *name, double begin);

// BERTH_IO as file_write. `rank` is the process in the file.
enum berth_status profile_write(const struct profile *profile, const char *path, int rank,
                                struct berth_error *error);

#endif
