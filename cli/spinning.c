// SPDX-License-Identifier: Apache-2.0
// How long OpenMP's threads spin before they sleep when they wait for each other: by default some
// milliseconds with GCC, 200 with LLVM. On a machine with other programs, two threads of one
// operation are often on the same processor; then the one that spins keeps it from the one that it
// waits for. So main.c starts the program again with other variables, before any thread exists.
// doc/develop/performance.md, "A busy machine", has what that costs.
#include "cli.h"

#include <omp.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifdef __clang__
#define VARIABLE "KMP_BLOCKTIME"
#define VALUE "0" // milliseconds
#else
#define VARIABLE "GOMP_SPINCOUNT" // 300000 by default
#define VALUE "1000"              // about 25 us with AMD's processors
#endif

// More threads take longer to wake, and so many processors are probably a cluster's, which run
// nothing else.
#define THREADS_MAX 16

// Threads that are bound to places (OMP_PROC_BIND, OMP_PLACES) have a processor each.
static int has_few_free_threads(void) {
    const int threads = omp_get_max_threads();
    return threads > 1 && threads <= THREADS_MAX && omp_get_proc_bind() == omp_proc_bind_false;
}

// Whether the kernel started this program itself. If the dynamic loader was called by its own name,
// /proc/self/exe is the loader.
static int was_started_directly(void) {
    extern const char _DYNAMIC[]
        __attribute__((weak)); // not there: linked statically, without a loader
    return _DYNAMIC == NULL || getauxval(AT_BASE) != 0;
}

// OpenMP reads its variables before main.
void cli_spin_briefly(char **command) {
    char program[4096];
    if (getenv("OMP_WAIT_POLICY") != NULL || getenv(VARIABLE) != NULL || !has_few_free_threads() ||
        !was_started_directly()) {
        return;
    }
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0 || setenv(VARIABLE, VALUE, 1) != 0) {
        return;
    }
    program[length] = '\0';
    execv(program, command);
}
