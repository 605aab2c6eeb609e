// SPDX-License-Identifier: Apache-2.0
// Opens the module of an MPI as the transport of a communicator, when a job starts with several
// processes, and finds an MPI that the program itself has loaded. Which MPI it shall be is decided
// in open.c; the calls of MPI are in mpi_module.c, inside the module.
#include "comm/mpi.h"

#include "core/modules.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VERSION_LIMIT 8192 // of any MPI (MPI_MAX_LIBRARY_VERSION_STRING)

const char *const mpi_modules[] = {"openmpi", "mpich", NULL};

// --- loading ------------------------------------------------------------------------------------

static enum berth_status load(const char *name, int is_global, const struct comm_module **module,
                              struct berth_error *error) {
    const struct module_request request = {
        .kind = "comm",
        .name = name,
        .symbol = COMM_MODULE_SYMBOL,
        .is_global = is_global,
        .if_missing = "build Berth with that MPI's mpicc in PATH, or set " MODULE_PATH_VARIABLE
                      " to the module's folder",
        .if_broken = "install the MPI that it was built with, or rebuild Berth with the "
                     "installed one",
    };
    const void *object;
    TRY(module_open(&request, &object, error));
    *module = object;
    return module_check(&request, (*module)->berth, (*module)->transport_size,
                        sizeof(struct transport), error);
}

int mpi_module_version(const char *name, char text[COMM_VERSION_SIZE]) {
    const struct comm_module *module;
    if (load(name, 0, &module, NULL) != BERTH_OK) { // not global: two MPIs define the same names
        return 0;
    }
    module->version(text);
    return 1;
}

const char *mpi_of_program(int *initialized) {
    int (*get_version)(char *, int *), (*is_initialized)(int *);
    *(void **)&get_version = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    *(void **)&is_initialized = dlsym(RTLD_DEFAULT, "MPI_Initialized");
    *initialized = 0;
    if (get_version == NULL || is_initialized == NULL) {
        return NULL;
    }
    char text[VERSION_LIMIT];
    int length;
    get_version(text, &length);
    is_initialized(initialized);
    return strncmp(text, "Open MPI", strlen("Open MPI")) == 0 ? "openmpi" : "mpich";
}

// --- opening ------------------------------------------------------------------------------------

// With a launcher that does not support this MPI, each process is alone. If no variable gives the
// number of processes, the launch's size counts those up to this one.
static enum berth_status check_size(const struct transport *transport, const struct launch *launch,
                                    struct berth_error *error) {
    const struct launcher *launcher = launch->launcher;
    if (launcher == NULL || launch->size == transport->size ||
        (launcher->size == NULL && launch->size < transport->size)) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_CONFIG,
                     "%s connects %d of the %s%" PRId64
                     " processes that %s started (%s is %s): the "
                     "launcher does not work with this MPI; use the mpirun of this MPI, or name "
                     "another MPI with the setting comm",
                     transport->version, transport->size, launcher->size == NULL ? "at least " : "",
                     launch->size, launcher->name, launch->variable, getenv(launch->variable));
}

enum berth_status mpi_transport_open(const char *name, const struct launch *launch,
                                     struct transport **transport, struct berth_error *error) {
    const struct comm_module *module;
    // Global: Open MPI's own components need the symbols of its library.
    enum berth_status status = load(name, 1, &module, error);
    status = status == BERTH_OK ? module->open(transport, error) : status;
    if (status != BERTH_OK) {
        // The error of one process, which the others may not meet.
        char host[HOST_NAME_MAX + 1] = "";
        gethostname(host, sizeof host - 1);
        return launch_is_parallel(launch)
                   ? error_prefix(error, status, "rank %" PRId64 " on host %s", launch->rank, host)
                   : status;
    }
    status = check_size(*transport, launch, error);
    if (status != BERTH_OK) {
        (*transport)->close(*transport, (*transport)->size > 1 ? TRANSPORT_FAILED : TRANSPORT_DONE);
        *transport = NULL;
    }
    return status;
}
