// SPDX-License-Identifier: Apache-2.0
// What a communication module (berth-comm-NAME.so) offers to the library that opens it: an object
// `berth_comm_module` of this type, and no other name.
#ifndef BERTH_COMM_MODULE_H
#define BERTH_COMM_MODULE_H

#include "comm/transport.h"

#define COMM_MODULE_SYMBOL "berth_comm_module"
#define COMM_VERSION_SIZE 128

struct comm_module {
    const char *berth;     // version of the library that it was built with
    size_t transport_size; // sizeof(struct transport)

    // The MPI's name and version: "Open MPI v4.1.4". Does not initialize it.
    void (*version)(char text[COMM_VERSION_SIZE]);

    // Connects the processes of the job, all of which call it; initializes MPI unless the program
    // has. BERTH_CONFIG: MPI was finalized in this process, or initialized without support for
    // threads. Most errors in MPI's own initialization end the process with MPI's message.
    enum berth_status (*open)(struct transport **transport, struct berth_error *error);
};

#endif
