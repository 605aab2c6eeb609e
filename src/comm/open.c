// SPDX-License-Identifier: Apache-2.0
// Which communicator a process has: what the user named, what the program has loaded and what the
// launcher started must go together.
#include "comm/mpi.h"
#include "comm/ranks.h"
#include "core/comm.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// What is known before any MPI is opened.
struct situation {
    const char *asked; // by the user
    struct launch launch;
    const char *loaded; // MPI of the program; NULL: none
    int initialized;    // by the program
};

// "process 1 of 4 by srun of Slurm (SLURM_STEP_NUM_TASKS is set)"
static void describe_launch(const struct launch *launch, char text[256]) {
    int length = snprintf(text, 256, "process %" PRId64, launch->rank + 1);
    if (launch->launcher->size != NULL) {
        length += snprintf(text + length, (size_t)(256 - length), " of %" PRId64, launch->size);
    }
    snprintf(text + length, (size_t)(256 - length), " by %s (%s)", launch->launcher->name,
             launch->variable);
}

// No copy of the whole job in each process.
static enum berth_status choose_self(const struct situation *situation, struct berth_error *error) {
    char launch[256];
    if (!launch_is_parallel(&situation->launch)) {
        return BERTH_OK;
    }
    describe_launch(&situation->launch, launch);
    return error_set(error, BERTH_CONFIG,
                     "--comm self, but the process was started as %s, and each would do all of the "
                     "job: leave out --comm, or %s",
                     launch, situation->launch.launcher->alone);
}

// What started the processes, and the MPI of --comm or of the program.
static enum berth_status check_launcher(const struct situation *situation, const char *mpi,
                                        struct berth_error *error) {
    const struct launcher *launcher = situation->launch.launcher;
    char launch[256];
    if (!launch_is_parallel(&situation->launch) || situation->initialized) {
        return BERTH_OK;
    }
    describe_launch(&situation->launch, launch);
    if (launcher->mpi == NULL) {
        return error_set(error, BERTH_CONFIG,
                         "started as %s, which gives the processes nothing by which an MPI could "
                         "connect them: %s",
                         launch, launcher->instead);
    }
    return launcher->is_any_mpi || strcmp(mpi, launcher->mpi) == 0
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "started as %s, which is for %s and not for %s: use the launcher of %s, "
                           "or --comm %s",
                           launch, launcher->mpi, mpi, mpi, launcher->mpi);
}

// The name of a module, or "self".
static enum berth_status choose(const struct situation *situation, const char **name,
                                struct berth_error *error) {
    const struct launch *launch = &situation->launch;
    const char *launched = launch->launcher != NULL ? launch->launcher->mpi : NULL;
    const int is_automatic = strcmp(situation->asked, "auto") == 0;
    *name = situation->asked;
    if (strcmp(*name, "self") == 0 ||
        (is_automatic && !launch_is_parallel(launch) && !situation->initialized)) {
        *name = "self";
        return choose_self(situation, error);
    }
    if (is_automatic) {
        *name = situation->loaded != NULL ? situation->loaded : launched;
    } else if (situation->loaded != NULL && strcmp(*name, situation->loaded) != 0) {
        return error_set(error, BERTH_CONFIG,
                         "--comm %s, but this program has loaded %s, and a process can have but "
                         "one MPI: use --comm %s",
                         *name, situation->loaded, situation->loaded);
    }
    return check_launcher(situation, *name, error);
}

static int is_known(const char *name) {
    for (const char *const *known = mpi_modules; *known != NULL; known++) {
        if (strcmp(name, *known) == 0) {
            return 1;
        }
    }
    return strcmp(name, "auto") == 0 || strcmp(name, "self") == 0;
}

enum berth_status comm_open(const struct comm_options *options, struct comm **comm,
                            struct berth_error *error) {
    struct situation situation = {.asked = options->name, .launch = launch_find()};
    const struct comm_settings settings = {.timeout_seconds = options->timeout_seconds};
    struct transport *transport;
    const char *name;
    if (!is_known(options->name)) {
        return error_set(error, BERTH_USAGE,
                         "--comm: unknown communicator '%s'; known: auto, self, openmpi, mpich",
                         options->name);
    }
    situation.loaded = mpi_of_program(&situation.initialized);
    TRY(choose(&situation, &name, error));
    if (strcmp(name, "self") == 0) {
        *comm = comm_self();
        return BERTH_OK;
    }
    TRY(mpi_transport_open(name, &situation.launch, &transport, error));
    return comm_ranks_open(transport, &settings, comm, error);
}
