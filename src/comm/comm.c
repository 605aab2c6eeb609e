// SPDX-License-Identifier: Apache-2.0
#include "comm/comm.h"

enum berth_status comm_settle_stop(struct comm *comm, enum berth_status own, int *stop,
                                   struct berth_error *error) {
    const enum berth_status status = comm->agree(comm, own, stop, error);
    return status == BERTH_OK || comm->rank == 0 || comm->status(comm, NULL) != BERTH_OK
               ? status
               : error_set(error, status, "%s", "");
}

enum berth_status comm_settle(struct comm *comm, enum berth_status own, struct berth_error *error) {
    int stop = 0;
    return comm_settle_stop(comm, own, &stop, error);
}
