// SPDX-License-Identifier: Apache-2.0
// The processors that this process may use, and those that the ranks of a host share by mistake.
#ifndef BERTH_TRAIN_CORES_H
#define BERTH_TRAIN_CORES_H

#include "core/comm.h"
#include "core/log.h"

// From now on a child that this process forks computes with one thread: it has none of the threads
// that OpenMP has started here. cores_threads calls it, so only parallel work whose number of
// threads does not come from there needs it.
void cores_watch_forks(void);
// Whether this process is such a child.
int cores_is_forked_child(void);

// The threads to work with: 1 in such a child, else `requested` if it is not 0, else
// OMP_NUM_THREADS, else as many as the least of these allows: the processors that the calling
// thread may run on, the control groups' share of time, srun's --cpus-per-task.
int cores_threads(int requested);

// Finds out whether ranks of this host may run on the same processors, as after mpirun --bind-to
// none or mpiexec of MPICH. If so, and neither `requested` nor OMP_NUM_THREADS says how many
// threads to use, the calling thread, and those that it starts, keep to a part of their own:
// processors of the same core and socket stay together. This is logged, and so is a launcher that
// leaves processors without a rank. Called by all ranks.
enum berth_status cores_divide(struct comm *comm, int requested, const struct berth_log *log,
                               struct berth_error *error);

#endif
