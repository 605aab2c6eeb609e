// SPDX-License-Identifier: Apache-2.0
// Finds the communication modules (module.h) and opens a transport of one of them. open.c chooses
// the module, and ranks.c makes a communicator of the transport.
#ifndef BERTH_COMM_MPI_H
#define BERTH_COMM_MPI_H

#include "comm/module.h"
#include "core/launcher.h"

// Names of modules, the last NULL: "openmpi", "mpich".
extern const char *const mpi_modules[];

// Whether the module of that name can be opened; if so, `text` is its MPI's version.
int mpi_module_version(const char *name, char text[COMM_VERSION_SIZE]);

// The name of the MPI that the program itself has loaded, or NULL, and whether it has initialized
// it.
const char *mpi_of_program(int *initialized);

// Connects the processes of the launch. BERTH_UNAVAILABLE: there is no such module, or it cannot be
// opened; BERTH_CONFIG: MPI connects another number of processes than were started.
enum berth_status mpi_transport_open(const char *name, const struct launch *launch,
                                     struct transport **transport, struct berth_error *error);

#endif
