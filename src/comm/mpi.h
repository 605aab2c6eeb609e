// SPDX-License-Identifier: Apache-2.0
// The communication modules (module.h): where they are, and a transport from one of them.
#ifndef BERTH_COMM_MPI_H
#define BERTH_COMM_MPI_H

#include "comm/module.h"
#include "core/launcher.h"

// Names of modules, the last NULL: "openmpi", "mpich".
extern const char *const mpi_modules[];

// Whether there is a module of that name that opens; `text` then holds its MPI's version.
int mpi_module_version(const char *name, char text[COMM_VERSION_SIZE]);

// The name of the MPI that the program itself has loaded, and whether it has initialized it; NULL:
// none.
const char *mpi_of_program(int *initialized);

// Joins the processes that the launch tells of. BERTH_UNAVAILABLE: there is no such module, or it
// does not open; BERTH_CONFIG: MPI connects another number of processes than were started.
enum berth_status mpi_transport_open(const char *name, const struct launch *launch,
                                     struct transport **transport, struct berth_error *error);

#endif
