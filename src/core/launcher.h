// SPDX-License-Identifier: Apache-2.0
// Detects whether a launcher (mpirun, srun, torchrun, ...) started this process as one of several.
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
    int is_innermost;     // starts the processes itself, even under another launcher
    const char *mpi;      // the MPI that connects the processes: "openmpi", "mpich"; NULL: none
    int is_any_mpi;       // `mpi` is only the usual one; the number of ranks shows if it is right
    const char *instead;  // without an MPI: how to start the processes with one
    const char *alone;    // how to start a single process
};

// The rank of this process among those started together.
struct launch {
    const struct launcher *launcher; // NULL: none
    const char *variable;            // the variable that says so
    int64_t size, rank;              // number of processes, and the rank of this one, from 0
    int is_numbered;                 // `rank` is known; else it is 0
};

// Whether there are, or may be, other processes.
static inline int launch_is_parallel(const struct launch *launch) {
    return launch->size > 1 || (launch->launcher != NULL && launch->launcher->size == NULL);
}

// From the environment.
struct launch launch_find(void);

// The processors for each process that the job was started with (srun --cpus-per-task); 0: unknown.
int64_t launch_processors(void);

#endif
