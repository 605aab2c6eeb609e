// SPDX-License-Identifier: Apache-2.0
// Detects whether a launcher (mpirun, srun, torchrun, ...) started this process as one of several.
#ifndef BERTH_CORE_LAUNCHER_H
#define BERTH_CORE_LAUNCHER_H

#include <stdint.h>

// A launcher and the environment variables that it sets. A launcher without a variable for the
// number of processes sets their ranks only.
struct launcher {
    const char *name;     // "mpirun of Open MPI"
    const char *size;     // the variable with the number of processes; NULL: none
    const char *ranks[2]; // the variables with the rank: the first that is set counts; NULL: none
    int is_innermost;     // starts processes itself, even under another launcher
    const char *alone;    // how to start a single process
};

// The rank of this process among those started together.
struct launch {
    const struct launcher *launcher; // NULL: none
    const char *variable;            // the variable that says so
    int64_t size, rank;              // number of processes, and the rank of this one, from 0
};

// From the environment.
struct launch launch_find(void);

#endif
