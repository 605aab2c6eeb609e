// SPDX-License-Identifier: Apache-2.0
// Who started this process: alone, or as one of several by mpirun, srun, torchrun and their like.
#ifndef BERTH_CORE_LAUNCHER_H
#define BERTH_CORE_LAUNCHER_H

#include <stdint.h>

// A launcher by the variables that it gives to its processes. A launcher without a variable for
// their number gives their ranks alone.
struct launcher {
    const char *name;     // "mpirun of Open MPI"
    const char *size;     // the variable of the number of processes; NULL: there is none
    const char *ranks[2]; // of the process's own number: the first that is set; NULL: none
    int is_innermost;     // starts processes itself, whatever started it
    const char *alone;    // how one process is started with it
};

// The place of this process among those that were started together.
struct launch {
    const struct launcher *launcher; // NULL: started by itself
    const char *variable;            // that tells so
    int64_t size, rank;              // processes, and which one this is, from 0
};

// From the environment.
struct launch launch_find(void);

#endif
