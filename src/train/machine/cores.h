// SPDX-License-Identifier: Apache-2.0
// The processors that this process may use, and how ranks of a host that may all run on the same
// processors divide them.
#ifndef BERTH_TRAIN_CORES_H
#define BERTH_TRAIN_CORES_H

#include "comm/comm.h"
#include "core/log.h"

// Whether this process was forked from one that had called cores_threads. It has none of OpenMP's
// threads, so everything computes with one.
int cores_is_forked_child(void);

// With OMP_PROC_BIND or OMP_PLACES, OpenMP binds the program's first thread to the first place when
// the program starts. Lets the calling thread, and those that it starts, use all places; the
// threads that compute stay at theirs. cores_threads does so too.
void cores_leave_first_place(void);

// The number of threads to use: 1 in such a child, else `requested` if it is not 0, else
// OMP_NUM_THREADS, else the minimum of the processors that the calling thread may run on, the
// control groups' CPU limit, and srun's --cpus-per-task.
int cores_threads(int requested);

// Called by all ranks. If ranks of this host may run on the same processors, as after mpirun
// --bind-to none or MPICH's mpiexec, and neither `requested` nor OMP_NUM_THREADS sets the number of
// threads, binds the calling thread, and those that it starts, to processors of its own; processors
// of a core and of a socket stay together. Logs this, and warns if a launcher leaves processors
// idle.
enum berth_status cores_divide(struct comm *comm, int requested, const struct berth_log *log,
                               struct berth_error *error);

#endif
