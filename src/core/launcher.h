// SPDX-License-Identifier: Apache-2.0
// Detects whether a launcher (mpirun, srun, torchrun, ...) started this process as one of several,
// by the variables that it sets. comm/open.c chooses the communicator by it.
#ifndef BERTH_CORE_LAUNCHER_H
#define BERTH_CORE_LAUNCHER_H

#include <stddef.h>
#include <stdint.h>

// A launcher and the environment variables that it sets. A launcher without a variable for the
// number of processes sets their ranks only.
struct launcher {
    const char *name;     // "mpirun of Open MPI"
    const char *size;     // the variable with the number of processes; NULL: none
    const char *ranks[2]; // the variables with the rank: the first that is set counts; NULL: none
    const char *with;     // another variable that must be set; NULL: none
    // The variables with the number of processes on this host and this one's number among them;
    // NULL: none. Slurm's lists the numbers of all hosts.
    const char *local_size, *local_rank;
    int is_innermost;    // starts the processes itself, even under another launcher
    const char *mpi;     // the MPI that connects the processes: "openmpi", "mpich"; NULL: none
    int is_any_mpi;      // `mpi` is only the usual one; the number of ranks shows if it is right
    const char *instead; // without an MPI: how to start the processes with one
    const char *alone;   // how to start a single process
};

// The rank of this process among those started together.
struct launch {
    const struct launcher *launcher; // NULL: none
    const char *variable;            // the variable that says so
    int64_t size, rank;              // number of processes, and the rank of this one, from 0
    int is_numbered;                 // `rank` is known; else it is 0
    int64_t local_size;              // number of processes on this host; 0: unknown
    int64_t local_rank;              // this one's number among them; -1: unknown
};

// Whether there are, or may be, other processes.
static inline int launch_is_parallel(const struct launch *launch) {
    return launch->size > 1 || (launch->launcher != NULL && launch->launcher->size == NULL);
}

// From the environment.
struct launch launch_find(void);

// The number in a text, as in the environment of another process; -1: none, or no such number.
int64_t launch_number(const char *text);

// The processors for each process that the job was started with (srun --cpus-per-task); 0: unknown.
int64_t launch_processors(void);

#endif
