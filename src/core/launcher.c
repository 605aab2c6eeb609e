// SPDX-License-Identifier: Apache-2.0
// The table of launchers, and the only code that reads their variables.
//
// Slurm's SLURM_NTASKS is left out: it is also set in programs that sbatch or salloc run as one
// process.
#include "core/launcher.h"

#include "core/number.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SRUN "srun of Slurm"
#define SRUN_ALONE "run it without srun, or with srun --ntasks=1"
#define LOCAL_OF_SRUN .local_size = "SLURM_STEP_TASKS_PER_NODE", .local_rank = "SLURM_LOCALID"

// The first row with several processes wins, else the first row whose variables are set. The search
// ends at the first innermost launcher whose variables are set.
enum { TORCHRUN };
static const struct launcher launchers[] = {
    [TORCHRUN] = {.name = "torchrun or deepspeed",
                  .size = "WORLD_SIZE",
                  .ranks = {"RANK", "LOCAL_RANK"},
                  .instead = "start the processes with mpirun, mpiexec or srun",
                  .alone = "run it without the launcher and without WORLD_SIZE"},
    {.name = "mpirun of Open MPI",
     .size = "OMPI_COMM_WORLD_SIZE",
     .ranks = {"OMPI_COMM_WORLD_RANK"},
     .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
     .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
     .is_innermost = 1,
     .mpi = "openmpi",
     .alone = "run it without mpirun, or with mpirun -n 1"},
    {.name = "mpirun of MVAPICH2",
     .size = "MV2_COMM_WORLD_SIZE",
     .ranks = {"MV2_COMM_WORLD_RANK"},
     .local_size = "MV2_COMM_WORLD_LOCAL_SIZE",
     .local_rank = "MV2_COMM_WORLD_LOCAL_RANK",
     .is_innermost = 1,
     .mpi = "mpich",
     .alone = "run it without mpirun, or with mpirun -n 1"},
    {.name = SRUN,
     .size = "PMI_SIZE",
     .ranks = {"PMI_RANK"},
     .with = "PMI_JOBID",
     LOCAL_OF_SRUN,
     .is_innermost = 1,
     .mpi = "mpich",
     .alone = SRUN_ALONE},
    {.name = "mpiexec of MPICH, Intel MPI or MVAPICH",
     .size = "PMI_SIZE",
     .ranks = {"PMI_RANK"},
     .local_size = "MPI_LOCALNRANKS",
     .local_rank = "MPI_LOCALRANKID",
     .is_innermost = 1,
     .mpi = "mpich",
     .alone = "run it without mpiexec, or with mpiexec -n 1"},
    {.name = SRUN,
     .size = "SLURM_STEP_NUM_TASKS",
     .ranks = {"SLURM_PROCID"},
     .with = "PMIX_RANK",
     LOCAL_OF_SRUN,
     .mpi = "openmpi",
     .is_any_mpi = 1,
     .alone = SRUN_ALONE},
    {.name = SRUN,
     .size = "SLURM_STEP_NUM_TASKS",
     .ranks = {"SLURM_PROCID"},
     .instead =
         "use srun --mpi=pmix for Open MPI, srun --mpi=pmi2 for MPICH (srun --mpi=list names "
         "what this Slurm has), or mpirun within salloc or sbatch",
     .alone = SRUN_ALONE},
    {.name = "a launcher with PMIx",
     .ranks = {"PMIX_RANK"},
     .mpi = "openmpi",
     .is_any_mpi = 1,
     .alone = "start one process"},
};

int64_t launch_number(const char *text) {
    int64_t value;
    return text != NULL && number_parse_integer(text, &value) && value >= 0 ? value : -1;
}

static int64_t number_of(const char *variable, int64_t otherwise) {
    const int64_t value = launch_number(variable != NULL ? getenv(variable) : NULL);
    return value >= 0 ? value : otherwise;
}

// The number of this host in a list such as "4(x2),3": four on each of two hosts, then three.
static int64_t number_in_list(const char *list, int64_t host) {
    int64_t number = 0, hosts = 0;
    char *end;
    for (const char *at = list; hosts <= host && *at != '\0'; at = end + (*end == ',')) {
        number = strtoll(at, &end, 10);
        int64_t times = 1;
        if (strncmp(end, "(x", 2) == 0) {
            times = strtoll(end + 2, &end, 10);
            end += *end == ')';
        }
        if (end == at || (*end != ',' && *end != '\0')) {
            return 0;
        }
        hosts += times;
    }
    return hosts > host && number > 0 ? number : 0;
}

static int64_t local_size_of(const struct launcher *launcher) {
    const char *text = launcher->local_size != NULL ? getenv(launcher->local_size) : NULL;
    if (text == NULL || launch_number(text) >= 0) {
        return number_of(launcher->local_size, 0);
    }
    return number_in_list(text, number_of("SLURM_NODEID", 0));
}

static int is_here(const struct launcher *launcher, struct launch *launch) {
    int64_t rank = -1;
    if (launcher->with != NULL && getenv(launcher->with) == NULL) {
        return 0;
    }
    for (size_t i = 0; i < 2 && rank < 0; i++) {
        rank = number_of(launcher->ranks[i], -1);
    }
    int64_t size = number_of(launcher->size, launcher->size == NULL && rank >= 0 ? rank + 1 : 0);
    if (size <= 0) {
        return 0;
    }
    *launch =
        (struct launch){.launcher = launcher,
                        .variable = launcher->size != NULL ? launcher->size : launcher->ranks[0],
                        .size = size,
                        .rank = rank > 0 ? rank : 0,
                        .is_numbered = rank >= 0,
                        .local_size = local_size_of(launcher),
                        .local_rank = number_of(launcher->local_rank, -1)};
    return 1;
}

static struct launch search(size_t first) {
    struct launch found = {.size = 1}, launch;
    for (size_t i = first; i < sizeof launchers / sizeof *launchers; i++) {
        if (!is_here(&launchers[i], &launch)) {
            continue;
        }
        const int decides = launch.size > 1 || launchers[i].is_innermost;
        found = decides || found.launcher == NULL ? launch : found;
        if (decides) {
            break;
        }
    }
    return found;
}

// Scripts that start PyTorch with an MPI's launcher or srun also set torchrun's variables. Then
// both give the same number of processes.
struct launch launch_find(void) {
    const struct launch found = search(TORCHRUN), other = search(TORCHRUN + 1);
    const int is_copied = found.launcher == &launchers[TORCHRUN] && other.launcher != NULL &&
                          other.size == found.size;
    return is_copied ? other : found;
}

int64_t launch_processors(void) {
    return getenv("SLURM_STEP_NUM_TASKS") != NULL ? number_of("SLURM_CPUS_PER_TASK", 0) : 0;
}
