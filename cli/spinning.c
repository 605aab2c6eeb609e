// SPDX-License-Identifier: Apache-2.0
// How long OpenMP's threads spin before they sleep when they wait for each other. By default GCC's
// runtime has them spin for some milliseconds (GOMP_SPINCOUNT 300000). On a machine with other
// programs, two threads of one operation are often on the same processor; then the one that spins
// keeps it from the one that it waits for. doc/performance.md, "A busy machine", has what that
// costs.
#include "cli.h"

#ifdef __clang__ // whose runtime gives up the processor while it spins

void cli_spin_briefly(char **command) {
    (void)command;
}

#else

#include <omp.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#define SPINS "1000" // about 20 us

// More threads take longer to wake, and so many processors are probably a cluster's, which run
// nothing else.
#define THREADS_MAX 16

static int has_few_threads(void) {
    const int threads = omp_get_max_threads();
    return threads > 1 && threads <= THREADS_MAX;
}

// Whether the kernel started this program itself. If the dynamic loader was called by its own name,
// /proc/self/exe is the loader.
static int was_started_directly(void) {
    return getauxval(AT_BASE) != 0;
}

// The runtime reads its variables before main.
void cli_spin_briefly(char **command) {
    char program[4096];
    if (getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL ||
        !has_few_threads() || !was_started_directly()) {
        return;
    }
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0 || setenv("GOMP_SPINCOUNT", SPINS, 1) != 0) {
        return;
    }
    program[length] = '\0';
    execv(program, command);
}

#endif
