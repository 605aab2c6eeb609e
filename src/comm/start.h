// SPDX-License-Identifier: Apache-2.0
// The deadline of a job's start. Until the communicator is open, a process waits in its MPI for
// processes that may never come: the launcher started them on a host that hangs, or they died. The
// monitor and the watchdog need the communicator, so until then a thread (watch.h) ends the process
// itself, with a line that says which processes of the host are missing.
//
// A process starts one communicator at a time, by one thread.
#ifndef BERTH_COMM_START_H
#define BERTH_COMM_START_H

#include "core/error.h"

// The communicator is about to be opened, within `seconds` from now, or from an earlier comm_expect
// (comm/comm.h); 0: there is no deadline.
enum berth_status start_connect(double seconds, struct berth_error *error);
// The communicator is open, or will not be opened.
void start_end(void);

#endif
