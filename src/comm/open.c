// SPDX-License-Identifier: Apache-2.0
// Chooses and opens the communicator of a process, at the start of a job: the user's choice, the
// MPI that the program has loaded and the launcher must be compatible. What it opens is made by
// mpi.c and ranks.c, or is comm_self.
#include "comm/comm.h"
#include "comm/connections.h"
#include "comm/mpi.h"
#include "comm/rack_file.h"
#include "comm/ranks.h"
#include "comm/start.h"

#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// What is known before an MPI is opened.
struct launch_context {
    const char *requested; // --comm
    struct launch launch;
    const char *loaded; // the program's MPI; NULL: none
    int initialized;    // the program has initialized it
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

// Without a communicator, each of several processes would run the whole job.
static enum berth_status check_self(const struct launch_context *launch_context,
                                    struct berth_error *error) {
    char launch[256];
    if (!launch_is_parallel(&launch_context->launch)) {
        return BERTH_OK;
    }
    describe_launch(&launch_context->launch, launch);
    return error_set(
        error, BERTH_CONFIG,
        "comm is self, but the process was started as %s, and each process would run the "
        "whole job: omit comm, or %s",
        launch, launch_context->launch.launcher->alone);
}

// Whether the launcher supports the MPI of --comm or of the program.
static enum berth_status check_launcher(const struct launch_context *launch_context,
                                        const char *mpi, struct berth_error *error) {
    const struct launcher *launcher = launch_context->launch.launcher;
    char launch[256];
    if (!launch_is_parallel(&launch_context->launch) || launch_context->initialized) {
        return BERTH_OK;
    }
    describe_launch(&launch_context->launch, launch);
    if (launcher->mpi == NULL) {
        return error_set(error, BERTH_CONFIG,
                         "started as %s, which does not let an MPI connect the processes: %s",
                         launch, launcher->instead);
    }
    return launcher->is_any_mpi || strcmp(mpi, launcher->mpi) == 0
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "started as %s, which is for %s and not for %s: use the launcher of %s, "
                           "or set comm to %s",
                           launch, launcher->mpi, mpi, mpi, launcher->mpi);
}

// The name of a module, or "self".
static enum berth_status choose(const struct launch_context *launch_context, const char **name,
                                struct berth_error *error) {
    const struct launch *launch = &launch_context->launch;
    const char *launched = launch->launcher != NULL ? launch->launcher->mpi : NULL;
    const int is_automatic = strcmp(launch_context->requested, "auto") == 0;
    *name = launch_context->requested;
    if (strcmp(*name, "self") == 0 ||
        (is_automatic && !launch_is_parallel(launch) && !launch_context->initialized)) {
        *name = "self";
        return check_self(launch_context, error);
    }
    if (is_automatic) {
        *name = launch_context->loaded != NULL ? launch_context->loaded : launched;
    } else if (launch_context->loaded != NULL && strcmp(*name, launch_context->loaded) != 0) {
        return error_set(error, BERTH_CONFIG,
                         "comm is %s, but this program has loaded %s, and a process can use only "
                         "one MPI: use comm %s",
                         *name, launch_context->loaded, launch_context->loaded);
    }
    return check_launcher(launch_context, *name, error);
}

static int is_known(const char *name) {
    for (const char *const *known = mpi_modules; *known != NULL; known++) {
        if (strcmp(name, *known) == 0) {
            return 1;
        }
    }
    return strcmp(name, "auto") == 0 || strcmp(name, "self") == 0;
}

static atomic_int was_opened;
static atomic_flag is_starting = ATOMIC_FLAG_INIT;

// For an error that many processes meet before they are connected. The launcher ends all once one
// has ended. So where all meet it, only the first process of the job reports, else only the first
// one of a host that does.
static enum berth_status report_once(const struct launch *launch, enum berth_status status,
                                     struct berth_error *error) {
    const int is_first = launch->local_rank <= 0;
    const struct timespec pause = {.tv_sec = launch->rank == 0 ? 0 : is_first ? 3 : 6};
    nanosleep(&pause, NULL);
    return is_first ? status : error_set(error, status, "%s", "");
}

static enum berth_status prepare(const struct comm_options *options, const struct launch *launch,
                                 char rack[RACK_NAME], struct berth_error *error) {
    char host[HOST_NAME_MAX + 1] = "";
    if (options->topology != NULL) {
        gethostname(host, sizeof host - 1);
        TRY(rack_file_find(options->topology, host, rack, error));
    }
    return connections_reserve(launch, error);
}

static enum berth_status connect_all(const struct comm_options *options, const char *name,
                                     const struct launch *launch, struct comm **comm,
                                     struct berth_error *error) {
    char rack[RACK_NAME] = "";
    const struct comm_settings settings = {.timeout_seconds = options->timeout_seconds,
                                           .rack = rack};
    struct transport *transport;
    const enum berth_status status = prepare(options, launch, rack, error);
    if (status != BERTH_OK) {
        return report_once(launch, status, error);
    }
    TRY(mpi_transport_open(name, launch, &transport, error));
    return comm_ranks_open(transport, &settings, comm, error);
}

// Later communicators of the process wait only for messages, which have deadlines of their own.
static enum berth_status connect_in_time(const struct comm_options *options, const char *name,
                                         const struct launch *launch, struct comm **comm,
                                         struct berth_error *error) {
    if (atomic_load(&was_opened) || atomic_flag_test_and_set(&is_starting)) {
        return connect_all(options, name, launch, comm, error);
    }
    enum berth_status status = start_connect(options->start_timeout_seconds, error);
    status = status == BERTH_OK ? connect_all(options, name, launch, comm, error) : status;
    start_end();
    atomic_flag_clear(&is_starting);
    return status;
}

enum berth_status comm_open(const struct comm_options *options, struct comm **comm,
                            struct berth_error *error) {
    struct launch_context launch_context = {.requested = options->name, .launch = launch_find()};
    const char *name;
    if (!is_known(options->name)) {
        return error_set(error, BERTH_USAGE,
                         "comm: unknown communicator '%s'; known: auto, self, openmpi, mpich",
                         options->name);
    }
    launch_context.loaded = mpi_of_program(&launch_context.initialized);
    TRY(choose(&launch_context, &name, error));
    if (strcmp(name, "self") == 0) {
        *comm = comm_self();
        return BERTH_OK;
    }
    TRY(connect_in_time(options, name, &launch_context.launch, comm, error));
    atomic_store(&was_opened, 1);
    return BERTH_OK;
}

int comm_was_opened(void) {
    return atomic_load(&was_opened);
}
