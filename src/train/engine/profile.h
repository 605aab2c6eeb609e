// SPDX-License-Identifier: Apache-2.0
// Shows where the time of some updates goes (--profile a:b): spans of operations, copies,
// exchanges, data and saving of rank 0, in Chrome's trace event format, which Perfetto and
// chrome://tracing read.
//
// While it records, it wraps the functions of the device and of the communicator. Results do not
// change, and a run without a profile pays nothing.
//
// Leaves out what a GPU does after an operation was launched: only the host's time is recorded.
#ifndef BERTH_TRAIN_PROFILE_H
#define BERTH_TRAIN_PROFILE_H

#include "comm/comm.h"
#include "core/error.h"
#include "device/device.h"

struct profile_span {
    const char *category, *name; // static
    double begin, end;           // seconds of the monotonic clock
    int64_t update;
};

struct profile {
    int64_t first, last; // updates to record; 0: none
    int64_t update;      // the current one
    int is_on;
    struct profile_span *spans; // owned
    size_t count, capacity;
    size_t lost; // spans dropped because memory ran out
    struct device *device;
    struct device saved_device; // the device before its functions were replaced
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

// Call on rank 0 before update `update` (from 1): starts recording at the first update of the
// profile.
void profile_start_update(struct profile *profile, int64_t update, struct device *device,
                          struct comm *comm);
// Restores the functions of device and communicator. No effect if it is not recording.
void profile_stop(struct profile *profile);
// Adds a span from `begin` (clock_now) until now, if it is recording. `profile` may be NULL.
void profile_add(struct profile *profile, const char *category, const char *name, double begin);

// BERTH_CANT_CREATE if `path` is a file that is no profile.
enum berth_status profile_check_output(const char *path, struct berth_error *error);
// Errors as file_write.
enum berth_status profile_write(const struct profile *profile, const char *path,
                                struct berth_error *error);

#endif
